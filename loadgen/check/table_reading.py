"""What a check reads of a query's table: its log, and the topic or the files that its rows come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check import rows
from loadgen.check.ordering import Place
from loadgen.check.reading import READ_TASKS, CheckedTopics, dead_letters, read_rows, read_topic
from loadgen.check.results import BEGIN, END, FRAME
from loadgen.check.table_files import files_of, messages_of
from loadgen.check.table_log import LOG_MESSAGE, LOG_SCHEMA, FrameHead, accepted, read_log
from loadgen.check.table_order import TableLog
from loadgen.check.table_versions import TOPIC_SCHEMA, FileVersions, TopicVersions, VersionSource
from spojoin.errors import ConfigurationError
from spojoin.model import Query, Stream
from spojoin.protocol.topology import Topic, topic_name

_ROWS = "partition int, offset long, value binary"


def table_log(spark: SparkSession, query: Query, topics: CheckedTopics) -> TableLog:
    """All that tells of the query's table. Raises ConfigurationError where it can't be read."""
    topic = topic_name(query.name, Topic.FRAMES)
    heads = log_heads(read_topic(spark, topics.kafka, topic))
    if not heads:
        raise ConfigurationError(
            f"the topic {topic} has no frames, which tell what version of the table each row was answered about: "
            "expected the topic of the services that answered"
        )
    results = read_topic(spark, topics.kafka, topics.results_of(query), READ_TASKS)
    return TableLog(heads, table_source(spark, query.inputs[-1], topics), answers_of(results))


def log_heads(messages: DataFrame) -> list[FrameHead]:
    """The frames that count of a log's messages (LOG_MESSAGE), in order."""
    found = messages.select(*LOG_MESSAGE).mapInArrow(read_log, from_arrow_schema(LOG_SCHEMA)).toArrow()
    return accepted(found.sort_by("offset").to_pylist())


def answers_of(results: DataFrame) -> Counter[int]:
    """By frame, how many rows the records of the results answer; one that was sent again doesn't count twice."""
    spans = results.select(*(_number(name).alias(alias) for alias, name in (("f", FRAME), ("b", BEGIN), ("e", END))))
    found: Counter[int] = Counter()
    for row in spans.distinct().where("e IS NOT NULL").toArrow().to_pylist():
        found[row["f"]] += row["e"] - row["b"]
    return found


def _number(header: str) -> Column:
    return F.expr(f"CAST(CAST(filter(headers, h -> h.key = '{header}')[0].value AS STRING) AS BIGINT)")


def table_source(spark: SparkSession, stream: Stream, topics: CheckedTopics) -> VersionSource:
    """Where the table's rows come from, with all its rows."""
    assert stream.table is not None, "only a table has a source"
    if stream.table.file is not None:
        return file_table(spark, stream, [topics.folder / stream.table.file, *topics.table_files])
    topic = topics.input_of(stream)
    messages = read_topic(spark, topics.kafka, topic, READ_TASKS)
    return topic_table(messages, topic, stream, topics.columns_of(stream), dead_letters(spark, stream, topics))


def topic_table(
    messages: DataFrame, topic: str, stream: Stream, columns: list[str], letters: Mapping[Place, str]
) -> TopicVersions:
    """The table that a topic's messages make; `columns` are those of CSV lines."""
    # A message without a value takes its key's rows away, and has none.
    with_values = messages.where("length(value) > 0").select(*rows.MESSAGE)
    parsed = read_rows(with_values, stream, columns, needs_time=False)
    crc = F.crc32(F.coalesce("value", F.lit(b""))).alias("crc")
    read = messages.select("partition", "offset", "key", crc).toArrow().cast(TOPIC_SCHEMA)
    return TopicVersions(topic, read, parsed, letters)


def file_table(spark: SparkSession, stream: Stream, paths: list[Path]) -> FileVersions:
    """The table that was one of these files, or of these patterns."""
    versions = [files_of(path) for path in paths]
    read = [
        (number, offset, message)
        for number, files in enumerate(versions)
        for offset, message in enumerate(each for file in files for each in messages_of(file, stream))
    ]
    messages = spark.createDataFrame(read, _ROWS)
    return FileVersions(versions, read_rows(messages, stream, list(stream.schema), needs_time=False))
