"""Polars, whose `join_where` answers inequalities with IEJoin."""

from __future__ import annotations

import os

# Read when Polars is imported.
os.environ.setdefault("POLARS_MAX_THREADS", str(len(os.sched_getaffinity(0))))

import polars as pl
import pyarrow as pa

from loadgen.engines.adapters.micro_batches import MicroBatches
from loadgen.engines.workloads import Gathered
from spojoin.arrays import I64

#: The most pairs of a batch, since Polars holds all of them in memory.
PAIRS_MAX = 40_000_000
STATES = {Gathered.COUNT: pl.len(), Gathered.SUM: pl.col("s_c").sum(), Gathered.LATEST: pl.col("s_seq").max() + 1}


class Polars(MicroBatches):
    """Lazy frames, collected once a batch."""

    @property
    def version(self) -> str:
        return str(pl.__version__)

    @property
    def batch(self) -> int:
        """Probes of a batch: fewer for a large window, so that the pairs fit into memory."""
        return max(16, min(super().batch, PAIRS_MAX // self.workload.window))

    def count(self, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> int:
        """Count by `join_where`; p.a is named p_a, and so on."""
        return int(_joined(conditions, probes, stored).select(pl.len()).collect().item())

    def gather(
        self, gathered: Gathered, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table
    ) -> tuple[I64, I64]:
        """Group by the probe, or list a row for each pair, with both numbers."""
        joined = _joined(conditions, probes, stored)
        if gathered is Gathered.LIST:
            found = joined.select("p_seq", "s_seq", pl.col("s_c").alias("state")).collect()
        else:
            found = joined.group_by("p_seq").agg(STATES[gathered].cast(pl.Int64).alias("state")).collect()
        return found["p_seq"].to_numpy(), found["state"].to_numpy()


def _joined(conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> pl.LazyFrame:
    left, right = (_named(table, prefix) for table, prefix in ((probes, "p_"), (stored, "s_")))
    asked = [pl.sql_expr(condition.replace("p.", "p_").replace("s.", "s_")) for condition in conditions]
    return left.join_where(right, *asked)


def _named(table: pa.Table, prefix: str) -> pl.LazyFrame:
    return pl.from_arrow(table.rename_columns([prefix + name for name in table.column_names])).lazy()  # type: ignore[union-attr]
