"""Compares results of two packings, and results of services with Spark's over all rows as a history.

The oracle has already proved each result; the comparison shows that all ways give the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from loadgen.demo.jobs import Job, Tables
from spojoin.client.connect import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Columns that order flights of the same hour as the stream does, by their place in the file.
TIES = ("flight_id",)


@dataclass(frozen=True, slots=True)
class BackfillOutcome:
    """rows: Spark's result rows; streamed: the services' result rows; plan: Spark's.

    first_difference: in words, None if the lists are equal
    """

    query: str
    rows: int
    streamed: int
    first_difference: str | None
    plan: str

    @property
    def is_same(self) -> bool:
        """Whether the lists are equal."""
        return self.first_difference is None

    def report(self) -> dict[str, Any]:
        """The entry in report.json."""
        names = ("query", "rows", "streamed", "is_same", "first_difference", "plan")
        return {name: getattr(self, name) for name in names}

    def sentence(self) -> str:
        """The outcome for people."""
        if self.is_same:
            return f"backfill of {self.query} by Spark: the same {self.rows:,} rows as the stream, in the same order"
        counts = f"{self.rows:,} rows, the stream gave {self.streamed:,}"
        return f"backfill of {self.query} by Spark: {counts}; of the stream {self.first_difference}"


def compare_backfill(job: Job, tables: Tables, spark: SparkSession, bootstrap: str) -> BackfillOutcome:
    """Answer a job's query of one stream over its rows as a history, and compare with the results in its topic."""
    from pyspark.sql import functions  # noqa: PLC0415  (Spark is an extra)

    import spojoin.spark  # noqa: PLC0415
    from loadgen.check.history import history_batches  # noqa: PLC0415
    from loadgen.check.ordered_rows import RowComparison  # noqa: PLC0415
    from spojoin.spark.api import explain_history, plan_history  # noqa: PLC0415
    from spojoin.spark.history_query import frame_query  # noqa: PLC0415
    from spojoin.spark.session import settings_of  # noqa: PLC0415

    query = job.query()
    (stream,) = query.inputs
    time = stream.time or ""
    frame = spark.createDataFrame(tables[stream.name])
    history = frame.withColumn(time, functions.to_timestamp(time))
    plan = plan_history(spark, frame_query(query, (history,)), [time, *TIES], None, settings_of(spark))
    spojoin.spark.register(spark)
    source = spark.read.format("spojoin").option("query", query.name)
    streamed = source.option("kafka.bootstrap.servers", bootstrap).load().toArrow()
    with tempfile.TemporaryDirectory(prefix="spojoin-backfill-") as folder:
        found = RowComparison().compare(history_batches(plan, Path(folder) / "history"), streamed.to_batches())
    return BackfillOutcome(query.name, found.expected, found.found, found.first, explain_history(plan))


@dataclass(frozen=True, slots=True)
class PackingsOutcome:
    """plays: a query's plays by name, one per packing; rows: of their results; digests: of the rows in any order."""

    plays: Sequence[str]
    rows: Sequence[int]
    digests: Sequence[str]

    @property
    def is_same(self) -> bool:
        """Whether all plays gave the same rows."""
        return len({*zip(self.rows, self.digests, strict=True)}) == 1

    def report(self) -> dict[str, Any]:
        """The entry in report.json."""
        names = ("plays", "rows", "digests", "is_same")
        return {name: getattr(self, name) for name in names}

    def sentence(self) -> str:
        """The outcome for people."""
        plays = " and ".join(self.plays)
        if self.is_same:
            return f"{plays}: the same {self.rows[0]:,} rows in every packing, by a digest of all columns"
        return f"{plays}: other rows in each packing, {' and '.join(f'{rows:,}' for rows in self.rows)} of them"


def compare_packings(jobs: Sequence[Job], bootstrap: str) -> PackingsOutcome:
    """Compare the results of one query's jobs as sets with repetitions, read as a Python program reads them.

    Rows with the same time are in the order of their messages, which differs between plays.
    """
    served, rows, digests = connect(bootstrap), [], []
    for job in jobs:
        with served.results(job.name, follow=False) as batches:
            first = next(batches)
            results = duckdb.from_arrow(pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))
            ((count, digest),) = results.set_alias("r").aggregate("count(*), sum(hash(r))").fetchall()
        rows.append(count)
        digests.append(str(digest))
    return PackingsOutcome([job.name for job in jobs], rows, digests)
