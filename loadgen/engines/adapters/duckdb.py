"""DuckDB, whose planner answers two inequalities with IEJoin."""

from __future__ import annotations

import os

import duckdb
import pyarrow as pa

from loadgen.engines.adapters.micro_batches import MicroBatches
from loadgen.engines.workloads import EngineWorkload


class DuckDB(MicroBatches):
    """A connection in memory, with as many threads as there are processors for it."""

    def __init__(self, workload: EngineWorkload) -> None:
        super().__init__(workload)
        self._connection = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})

    @property
    def version(self) -> str:
        """Of the package."""
        return str(duckdb.__version__)

    def count(self, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> int:
        """By SQL over the Arrow tables."""
        self._connection.register("p", probes)
        self._connection.register("s", stored)
        sql = f"SELECT count(*) FROM p JOIN s ON {' AND '.join(conditions)}"
        return sum(count for (count,) in self._connection.execute(sql).fetchall())
