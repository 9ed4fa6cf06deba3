"""The completeness checker: recomputes a join from its input topics and compares the results topic with it.

It shares nothing with the product but the query's parser and model: messages are read by `rows`, the order is derived
by `ordering`, the join is a nested loop in NumPy (`nested_loop`), and results are read as plain Arrow (`results`).
Spark reads the topics, parses rows, evaluates expressions and runs blocks of probes under `mapInArrow` on all cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check import rows
from loadgen.check.judging import (
    ALL,
    ProbeSample,
    Reported,
    Runner,
    compare,
    judge,
    place_of,
    reason_of,
    settle_rejects,
)
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.ordering import Place, StreamRows
from loadgen.check.results import ResultRecord, accept
from loadgen.check.row_check import RESULT_MESSAGE, RowCheck
from loadgen.check.spark_sql import spark_sql
from loadgen.check.verdict import Tally, Verdict
from loadgen.load.spark import Kafka
from spojoin.errors import ConfigurationError
from spojoin.model import Column, Computed, Output, Query, Stream
from spojoin.protocol.topology import Topic, dead_letter_topic, source_topic, topic_name

I64 = NDArray[np.int64]

#: Offset ranges that a topic is split into for parsing.
READ_TASKS = 8

_TALLY = "matches long, rows_expected long, rows_right long, false_positives long, first long, words string"
_TALLY_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("matches", "rows_expected", "rows_right", "false_positives", "first")]
    + [("words", pa.string())]
)


@dataclass(frozen=True, slots=True)
class CheckedTopics:
    """Where a query's messages are; by default where the services keep them.

    csv_columns: by stream, the fields of a CSV line in order; default the schema's, then time, then key
    """

    kafka: Kafka
    inputs: Mapping[str, str] = field(default_factory=dict)
    results: str | None = None
    csv_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def input_of(self, stream: Stream) -> str:
        """The input topic of a stream."""
        return self.inputs.get(stream.name, source_topic(stream))

    def results_of(self, query: Query) -> str:
        """The topic of a query's results."""
        return self.results or topic_name(query.name, Topic.RESULTS)

    def columns_of(self, stream: Stream) -> list[str]:
        """The fields of a CSV line of a stream."""
        named = [*stream.schema, *(name for name in (stream.time, stream.key) if name is not None)]
        return list(self.csv_columns.get(stream.name, dict.fromkeys(named)))


def check(spark: SparkSession, query: Query, topics: CheckedTopics, sample: ProbeSample = ALL) -> Verdict:
    """Check all that is in the topics: every probe, or a sample of them.

    The services must be at rest: what they have not yet answered counts as missing. Raises ConfigurationError for a
    query with a table: which of its versions a row was answered about, its topic doesn't tell.
    """
    if query.has_table:
        raise ConfigurationError(
            f"query {query.name!r} joins with a table, and its topic doesn't tell which version of it each row was "
            "answered about: expected a query of streams"
        )
    verdict = Verdict(query.name)
    streams = [_stream_rows(spark, query, stream, topics) for stream in query.inputs]
    streams = settle_rejects(streams, [_dead_letters(spark, stream, topics) for stream in query.inputs], query, verdict)
    if query.output is Output.ROWS:
        messages = _read(spark, topics.kafka, topics.results_of(query), READ_TASKS).select(*RESULT_MESSAGE)
        return RowCheck(spark, query, messages, verdict).run(streams, sample)
    accepted = accept(_messages(spark, topics.kafka, topics.results_of(query)))
    verdict.resent = accepted.resent
    if accepted.gap is not None:
        verdict.differs(accepted.gap)
    return judge(query, streams, accepted.rows, verdict, _spark_runner(spark), sample)


def _read(spark: SparkSession, kafka: Kafka, topic: str, tasks: int = 1) -> DataFrame:
    """All committed records of a topic, if there is such a topic."""
    options = kafka.options() | {
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "minPartitions": str(tasks),
        # By pattern, so that a topic that is not there is empty; Spark looks for a match anywhere in a name.
        "subscribePattern": f"^{re.escape(topic)}$",
    }
    return spark.read.format("kafka").options(**options).load()


def _stream_rows(spark: SparkSession, query: Query, stream: Stream, topics: CheckedTopics) -> StreamRows:
    messages = _read(spark, topics.kafka, topics.input_of(stream), READ_TASKS)
    messages = messages.where("NOT coalesce(exists(headers, h -> h.key = 'spojoin-heartbeat'), false)")
    return read_rows(messages.select(*rows.MESSAGE), stream, topics.columns_of(stream), needs_time=query.needs_time)


def read_rows(messages: DataFrame, stream: Stream, columns: list[str], *, needs_time: bool) -> StreamRows:
    """The rows of an input's messages (rows.MESSAGE), with what Spark evaluates; `columns` are those of CSV lines."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return rows.parse(batches, stream, columns, needs_time)

    schema = from_arrow_schema(rows.parsed_schema(stream), prefer_timestamp_ntz=True)
    return StreamRows.of(with_expressions(messages.mapInArrow(parse, schema), stream).toArrow(), needs_time)


def with_expressions(parsed: DataFrame, stream: Stream) -> DataFrame:
    """Parsed rows with what Spark evaluates: f<i>, whether a row passes filter i; k<slot>, computed key columns."""
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
    # A refused row has no values, so that nothing of it can fail.
    return parsed.select("*", *(F.expr(sql).alias(name) for name, sql in found.items()))


def _messages(spark: SparkSession, kafka: Kafka, topic: str) -> Iterator[ResultRecord]:
    table = _read(spark, kafka, topic).select("partition", "offset", "value", "headers").toArrow()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    for value, headers in zip(table["value"], table["headers"].to_pylist(), strict=True):
        yield ResultRecord(_headers(headers), value.as_py() or b"")


def _headers(headers: list[dict[str, Any]] | None) -> dict[str, bytes]:
    return {h["key"]: h["value"] for h in headers or ()}


def _dead_letters(spark: SparkSession, stream: Stream, topics: CheckedTopics) -> dict[Place, str]:
    """Reasons by place; a letter that a restart wrote again says the same."""
    letters = _messages(spark, topics.kafka, dead_letter_topic(topics.input_of(stream)))
    return {place_of(m.headers): reason_of(m.headers) for m in letters}


def _spark_runner(spark: SparkSession) -> Runner:
    def run(query: Query, tuples: Tuples, reported: Reported, blocks: list[I64]) -> Iterator[Tally]:
        if not blocks:
            return
        shared = spark.sparkContext.broadcast((query, tuples, reported, blocks))

        def tally(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            query, tuples, reported, blocks = shared.value
            loop = NestedLoop(query, tuples)
            for batch in numbers:
                tallies = [compare(query, loop, reported, blocks[i]) for i in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_pylist([_as_row(each) for each in tallies], _TALLY_SCHEMA)

        tasks = min(len(blocks), 4 * spark.sparkContext.defaultParallelism)
        found = spark.range(0, len(blocks), 1, tasks).mapInArrow(tally, _TALLY).toArrow()
        shared.destroy()
        yield from (Tally(**row) for row in found.to_pylist())

    return run


def _as_row(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in _TALLY_SCHEMA.names}
