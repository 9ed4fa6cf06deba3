"""A backfill beside the stream: the query over all rows as a history, by Spark, against what services gave."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.demo.jobs import Job, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns that decide between flights of one hour as the stream does: in the order of the file.
TIES = ("flight_id",)


@dataclass(frozen=True, slots=True)
class BackfillOutcome:
    """rows: of Spark's results; streamed: of the services'; plan: Spark's.

    first_difference: in words, None where both are one list
    """

    query: str
    rows: int
    streamed: int
    first_difference: str | None
    plan: str

    @property
    def is_same(self) -> bool:
        """Whether both are one list."""
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


def backfilled(job: Job, tables: Tables, spark: SparkSession, bootstrap: str) -> BackfillOutcome:
    """Answer a job's query of one stream over its rows as a history, and compare with the results in its topic."""
    from pyspark.sql import functions  # noqa: PLC0415  (Spark is an extra)

    import spojoin.spark  # noqa: PLC0415
    from loadgen.check.history import history_batches  # noqa: PLC0415
    from loadgen.check.ordered_rows import RowComparison  # noqa: PLC0415
    from spojoin.spark.asked import of_query  # noqa: PLC0415
    from spojoin.spark.explained import explained  # noqa: PLC0415
    from spojoin.spark.planned import planned  # noqa: PLC0415
    from spojoin.spark.settings import settings_of  # noqa: PLC0415

    query = job.query()
    (stream,) = query.inputs
    time = stream.time or ""
    frame = spark.createDataFrame(tables[stream.name])
    history = frame.withColumn(time, functions.to_timestamp(time))
    plan = planned(spark, of_query(query, (history,)), [time, *TIES], None, settings_of(spark))
    spojoin.spark.register(spark)
    streamed = _streamed(spark, query.name, bootstrap).toArrow()
    with tempfile.TemporaryDirectory(prefix="spojoin-backfill-") as folder:
        found = RowComparison().compare(history_batches(plan, Path(folder) / "history"), streamed.to_batches())
    return BackfillOutcome(query.name, found.expected, found.found, found.first, explained(plan))


def _streamed(spark: SparkSession, query: str, bootstrap: str) -> DataFrame:
    source = spark.read.format("spojoin").option("query", query)
    return source.option("kafka.bootstrap.servers", bootstrap).load()
