"""A backfill beside the stream: the query over all rows as a history, by Spark, against what services gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadgen.demo.jobs import Job, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Columns that decide between flights of one hour as the stream does: in the order of the file.
TIES = ("flight_id",)


@dataclass(frozen=True, slots=True)
class BackfillOutcome:
    """rows: of Spark's results; streamed: of the services'; is_same: whether both are one list; plan: Spark's."""

    query: str
    rows: int
    streamed: int
    is_same: bool
    plan: str

    def report(self) -> dict[str, Any]:
        """The entry in report.json."""
        names = ("query", "rows", "streamed", "is_same", "plan")
        return {name: getattr(self, name) for name in names}

    def sentence(self) -> str:
        """The outcome for people."""
        if self.is_same:
            return f"backfill of {self.query} by Spark: the same {self.rows:,} rows as the stream, in the same order"
        return f"backfill of {self.query} by Spark: {self.rows:,} rows, the stream gave {self.streamed:,}; they differ"


def backfilled(job: Job, tables: Tables, spark: SparkSession, bootstrap: str) -> BackfillOutcome:
    """Answer a job's query of one stream over its rows as a history, and compare with the results in its topic."""
    from pyspark.sql import functions  # noqa: PLC0415  (Spark is an extra)

    import spojoin.spark  # noqa: PLC0415
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
    found = plan.results().collect()
    spojoin.spark.register(spark)
    streamed = _streamed(spark, query.name, bootstrap).collect()
    return BackfillOutcome(query.name, len(found), len(streamed), found == streamed, explained(plan))


def _streamed(spark: SparkSession, query: str, bootstrap: str) -> DataFrame:
    source = spark.read.format("spojoin").option("query", query)
    return source.option("kafka.bootstrap.servers", bootstrap).load()
