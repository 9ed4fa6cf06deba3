"""A check's reads from Kafka: messages, by Spark, and the rows of the inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check import rows
from loadgen.check.judging import place_of, reason_of
from loadgen.check.ordering import Place, StreamRows
from loadgen.check.results import ResultRecord
from loadgen.check.spark_sql import spark_sql
from loadgen.load.spark import Kafka
from spojoin.model import Column, Computed, Query, Stream
from spojoin.protocol.topology import Topic, dead_letter_topic, source_topic, topic_name

#: Offset ranges that a topic is split into for parsing.
READ_TASKS = 8


@dataclass(frozen=True, slots=True)
class CheckedTopics:
    """The place of a query's messages; by default the services' topics.

    csv_columns: by stream, the fields of a CSV line in order; default the schema's, then time, then key
    folder: the query file's folder, in which the file of a table is; table_files: earlier files of the table
    """

    kafka: Kafka
    inputs: Mapping[str, str] = field(default_factory=dict)
    results: str | None = None
    csv_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: Path = Path()
    table_files: Sequence[Path] = ()

    def input_of(self, stream: Stream) -> str:
        return self.inputs.get(stream.name, source_topic(stream))

    def results_of(self, query: Query) -> str:
        return self.results or topic_name(query.name, Topic.RESULTS)

    def columns_of(self, stream: Stream) -> list[str]:
        """The fields of a CSV line of a stream."""
        named = [*stream.schema, *(name for name in (stream.time, stream.key) if name is not None)]
        return list(self.csv_columns.get(stream.name, dict.fromkeys(named)))


def read_topic(spark: SparkSession, kafka: Kafka, topic: str, tasks: int = 1) -> DataFrame:
    """All committed records of a topic; empty if there is no such topic."""
    options = kafka.options() | {
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "minPartitions": str(tasks),
        # A pattern makes a missing topic empty; Spark looks for a match anywhere in a name.
        "subscribePattern": f"^{re.escape(topic)}$",
    }
    return spark.read.format("kafka").options(**options).load()


def stream_rows(
    spark: SparkSession, query: Query, stream: Stream, topics: CheckedTopics, *, for_history: bool = False
) -> StreamRows:
    """The rows of an input topic; for_history: with all columns that a history needs."""
    messages = read_topic(spark, topics.kafka, topics.input_of(stream), READ_TASKS)
    messages = messages.where("NOT coalesce(exists(headers, h -> h.key = 'spojoin-heartbeat'), false)")
    selected, columns = messages.select(*rows.MESSAGE), topics.columns_of(stream)
    return read_rows(selected, stream, columns, needs_time=query.needs_time, for_history=for_history)


def read_rows(
    messages: DataFrame, stream: Stream, columns: list[str], *, needs_time: bool, for_history: bool = False
) -> StreamRows:
    """The rows of an input's messages (rows.MESSAGE), with Spark's expressions; `columns`: fields of CSV lines."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return rows.parse(batches, stream, columns, needs_time, for_history=for_history)

    schema = from_arrow_schema(rows.parsed_schema(stream, for_history=for_history), prefer_timestamp_ntz=True)
    return StreamRows.of(with_expressions(messages.mapInArrow(parse, schema), stream).toArrow(), needs_time)


def with_expressions(parsed: DataFrame, stream: Stream) -> DataFrame:
    """Parsed rows with Spark's expressions: f<i>, whether a row passes filter i; k<slot>, computed key columns."""
    names = {name: f"c{i}" for i, name in enumerate(rows.kept_columns(stream))}
    found = {
        f"f{number}": f"coalesce({spark_sql(member.filter.condition.sql, names)}, false)"
        for number, member in enumerate(stream.fed(0))
        if member.filter is not None
    }
    for slot, key in enumerate(stream.keys):
        if isinstance(key.expression, Computed):
            found[f"k{slot}"] = spark_sql(key.expression.sql, names)
        elif isinstance(key.expression, Column) and not rows.is_read_here(key):
            found[f"k{slot}"] = names[key.expression.name]
    # A refused row has no values, so no expression can fail on it.
    return parsed.select("*", *(F.expr(sql).alias(name) for name, sql in found.items()))


def messages_of(spark: SparkSession, kafka: Kafka, topic: str) -> Iterator[ResultRecord]:
    """The records of a topic in their order, with their headers."""
    table = read_topic(spark, kafka, topic).select("partition", "offset", "value", "headers").toArrow()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    for value, headers in zip(table["value"], table["headers"].to_pylist(), strict=True):
        yield ResultRecord({each["key"]: each["value"] for each in headers or ()}, value.as_py() or b"")


def dead_letters(spark: SparkSession, stream: Stream, topics: CheckedTopics) -> dict[Place, str]:
    """Reasons by place; a restart may write the same letter again."""
    letters = messages_of(spark, topics.kafka, dead_letter_topic(topics.input_of(stream)))
    return {place_of(m.headers): reason_of(m.headers) for m in letters}
