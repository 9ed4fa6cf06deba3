"""DuckDB, whose planner answers two inequalities with IEJoin."""

from __future__ import annotations

import os

import duckdb
import pyarrow as pa

from loadgen.engines.adapters.micro_batches import MicroBatches
from loadgen.engines.workloads import EngineWorkload, Gathered
from spojoin.arrays import I64


class DuckDB(MicroBatches):
    """An in-memory connection, with one thread per available processor."""

    def __init__(self, workload: EngineWorkload) -> None:
        super().__init__(workload)
        self._connection = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})

    @property
    def version(self) -> str:
        return str(duckdb.__version__)

    def count(self, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> int:
        """Count by SQL over the Arrow tables."""
        found = self._run(f"SELECT count(*) FROM p JOIN s ON {' AND '.join(conditions)}", probes, stored)
        return sum(count for (count,) in found.fetchall())

    def gather(
        self, gathered: Gathered, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table
    ) -> tuple[I64, I64]:
        """Group by the probe, or list a row for each pair, with both numbers."""
        on = f"FROM p JOIN s ON {' AND '.join(conditions)}"
        sql = f"SELECT p.seq AS probe, CAST({gathered.value} AS BIGINT) AS state {on} GROUP BY p.seq"
        if gathered is Gathered.LIST:
            sql = f"SELECT p.seq AS probe, s.seq AS other, {gathered.value} AS state {on}"
        found = self._run(sql, probes, stored).fetchnumpy()
        return found["probe"], found["state"]

    def _run(self, sql: str, probes: pa.Table, stored: pa.Table) -> duckdb.DuckDBPyConnection:
        self._connection.register("p", probes)
        self._connection.register("s", stored)
        return self._connection.execute(sql)
