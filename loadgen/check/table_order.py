"""The order of a query with a table, and the table version for each row of the stream, both from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check import rows
from loadgen.check.ordering import NOBODY, Ordered, Place, StreamRows
from loadgen.check.reading import READ_TASKS, CheckedTopics, dead_letters, read_rows, read_topic
from loadgen.check.results import BEGIN, END, FRAME
from loadgen.check.table_log import LOG_MESSAGE, LOG_SCHEMA, FrameHead, NamedVersion, accepted, read_log
from loadgen.check.table_versions import TOPIC_SCHEMA, FileVersions, TopicVersions, VersionSource, files_of, messages_of
from loadgen.check.verdict import Verdict
from spojoin.arrays import I64
from spojoin.errors import ConfigurationError
from spojoin.model import Query, Stream
from spojoin.protocol.topology import Topic, topic_name

LEFT, RIGHT = 0, 1


class TableLog(NamedTuple):
    """Information about a query's table.

    heads: the log's accepted frames, at least one; source: the source of the table's rows
    answers: for each frame, how many rows its results answer
    """

    heads: Sequence[FrameHead]
    source: VersionSource
    answers: Mapping[int, int]


class Stretch(NamedTuple):
    """Rows of a version among all right rows: [first, end)."""

    first: int
    end: int


_NOTHING = Stretch(0, 0)


def ordered_by_log(query: Query, log: TableLog, lefts: int, verdict: Verdict) -> tuple[Ordered, StreamRows]:
    """The order of the stream's `lefts` numbered rows and of all versions, and the versions' rows in sequence.

    Contradictions between the log and the versions' source go to the verdict. Raises ConfigurationError if the log or
    the source no longer shows each answer's version.
    """
    return _Replay(query, log, lefts, verdict).run()


class _Replay:
    """Follows the log frame by frame. right: the rows of the versions so far, by their number in the source."""

    def __init__(self, query: Query, log: TableLog, lefts: int, verdict: Verdict) -> None:
        self._query, self._log, self._verdict = query, log, verdict
        self._passes = log.source.rows.passing(query.inputs[RIGHT])[0]
        self._lefts = lefts
        first = log.heads[0]
        beyond = max(0, lefts - first.answered - sum(head.answers for head in log.heads))
        count = log.heads[-1].end + beyond
        self._stream = np.full(count, NOBODY, np.int8)
        self._index = np.zeros(count, np.int64)
        self._windows = np.zeros((2, lefts), np.int64)
        self._right: list[I64] = []
        self._rights = self._taken = 0
        self._named: NamedVersion | None = None
        self._current = _NOTHING
        self._starts: set[int] = set()

    def run(self) -> tuple[Ordered, StreamRows]:
        self._begin(self._log.heads[0])
        for head in self._log.heads:
            if head.answers:
                self._take_lefts(head.first_seq, head.count)
            elif head.count:
                self._starts.add(head.first_seq)
            if head.named is not None and head.named != self._named:
                self._take_version(head.named, head.end)
        self._take_lefts(self._log.heads[-1].end, len(self._stream) - self._log.heads[-1].end)
        self._check_end()
        rights = np.concatenate([np.empty(0, np.int64), *self._right])
        windows = self._windows[0], self._windows[1]
        return Ordered(self._stream, self._index, windows), self._log.source.rows.at(rights)

    def _begin(self, head: FrameHead) -> None:
        """Place rows before the first frame that the log still has, with the first version if the log identifies it."""
        named = head.named if head.named is not None and _was_current(head.named, head) else None
        if head.answered == 0:
            if named is not None and named.end == head.right_first:
                self._take_version(named, head.first_seq)
            return
        if named is None or named.first > 0 or not self._is_steady(head.frame_id):
            raise ConfigurationError(
                f"the log of query {self._query.name} begins at frame {head.frame_id}, and no longer tells which "
                f"versions of the table the {head.answered} rows answered before it were about: check sooner after the "
                "start, or with a larger SPOJOIN_BATCH_TUPLES, since the log reaches back over a batch at least"
            )
        rows = self._rows_of(named)
        self._place(rows, 0)
        self._named = named
        self._take_lefts(len(rows), head.answered)

    def _is_steady(self, end: int) -> bool:
        """Whether no frame without answers, which could hold a version's rows, follows a frame with answers."""
        answers = [self._log.answers.get(frame, 0) for frame in range(end)]
        with_answers = [count > 0 for count in answers]
        return with_answers == sorted(with_answers)

    def _take_lefts(self, first: int, count: int) -> None:
        """Place the next rows of the stream at these seqs."""
        if count and self._named is None:
            self._verdict.differs(f"seq {first} is answered before the table's first version")
        own = np.arange(first, first + min(count, self._lefts - self._taken))
        if len(own) < count:
            self._verdict.differs(f"the log holds rows from seq {first + len(own)} on that the input lacks")
        self._stream[own], self._index[own] = LEFT, self._taken + np.arange(len(own))
        self._windows[:, self._taken : self._taken + len(own)] = np.array(self._current)[:, None]
        self._taken += len(own)

    def _take_version(self, named: NamedVersion, end: int) -> None:
        """Place the version whose last row has the seq before `end`."""
        rows = self._rows_of(named)
        first = end - len(rows)
        begins_frame = first in self._starts or first < self._log.heads[0].first_seq
        if len(rows) and (first < 0 or not begins_frame or (self._stream[first:end] != NOBODY).any()):
            self._verdict.differs(
                f"version {named.content:016x} of the table has {len(rows)} rows, which isn't what the log holds "
                f"before seq {end}"
            )
            rows = rows[len(rows) - self._free_before(end) :]
        self._place(rows, end - len(rows))
        self._named = named

    def _free_before(self, end: int) -> int:
        """The number of seqs before `end` without a row."""
        taken = np.flatnonzero(self._stream[:end] != NOBODY)
        return end - (int(taken[-1]) + 1 if len(taken) else 0)

    def _rows_of(self, named: NamedVersion) -> I64:
        found = self._log.source.version(named)
        if found.fault is not None:
            self._verdict.differs(found.fault)
        return found.rows[self._passes[found.rows]]

    def _place(self, rows: I64, first: int) -> None:
        """Place the rows of a version from seq `first` on, and make it the current version."""
        own = slice(first, first + len(rows))
        self._stream[own], self._index[own] = RIGHT, self._rights + np.arange(len(rows))
        self._right.append(rows)
        self._current = Stretch(self._rights, self._rights + len(rows))
        self._rights += len(rows)

    def _check_end(self) -> None:
        unread = None if self._named is None else self._log.source.unread(self._named)
        if unread is not None:
            self._verdict.differs(unread)


def _was_current(named: NamedVersion, head: FrameHead) -> bool:
    """Whether the version that a frame names was the current one before it."""
    return not head.holds_table_rows or named.end <= head.right_first


_ROWS = "partition int, offset long, value binary"


def table_log(spark: SparkSession, query: Query, topics: CheckedTopics) -> TableLog:
    """The information about the query's table. Raises ConfigurationError if it can't be read."""
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
    """The accepted frames among a log's messages (LOG_MESSAGE), in order."""
    found = messages.select(*LOG_MESSAGE).mapInArrow(read_log, from_arrow_schema(LOG_SCHEMA)).toArrow()
    return accepted(found.sort_by("offset").to_pylist())


def answers_of(results: DataFrame) -> Counter[int]:
    """For each frame, the number of rows that the result records answer; repeated records count once."""
    spans = results.select(*(_number(name).alias(alias) for alias, name in (("f", FRAME), ("b", BEGIN), ("e", END))))
    found: Counter[int] = Counter()
    for row in spans.distinct().where("e IS NOT NULL").toArrow().to_pylist():
        found[row["f"]] += row["e"] - row["b"]
    return found


def _number(header: str) -> Column:
    return F.expr(f"CAST(CAST(filter(headers, h -> h.key = '{header}')[0].value AS STRING) AS BIGINT)")


def table_source(spark: SparkSession, stream: Stream, topics: CheckedTopics) -> VersionSource:
    """The source of the table's rows, with all its rows."""
    assert stream.table is not None, "only a table has a source"
    if stream.table.file is not None:
        return file_table(spark, stream, [topics.folder / stream.table.file, *topics.table_files])
    topic = topics.input_of(stream)
    messages = read_topic(spark, topics.kafka, topic, READ_TASKS)
    return topic_table(messages, topic, stream, topics.columns_of(stream), dead_letters(spark, stream, topics))


def topic_table(
    messages: DataFrame, topic: str, stream: Stream, columns: list[str], letters: Mapping[Place, str]
) -> TopicVersions:
    """The table that a topic's messages form; `columns` are the fields of CSV lines."""
    # A message without a value removes its key's rows and has no rows.
    with_values = messages.where("length(value) > 0").select(*rows.MESSAGE)
    parsed = read_rows(with_values, stream, columns, needs_time=False)
    crc = F.crc32(F.coalesce("value", F.lit(b""))).alias("crc")
    read = messages.select("partition", "offset", "key", crc).toArrow().cast(TOPIC_SCHEMA)
    return TopicVersions(topic, read, parsed, letters)


def file_table(spark: SparkSession, stream: Stream, paths: list[Path]) -> FileVersions:
    """The table whose versions are these files or patterns."""
    versions = [files_of(path) for path in paths]
    read = [
        (number, offset, message)
        for number, files in enumerate(versions)
        for offset, message in enumerate(each for file in files for each in messages_of(file, stream))
    ]
    messages = spark.createDataFrame(read, _ROWS)
    return FileVersions(versions, read_rows(messages, stream, list(stream.schema), needs_time=False))
