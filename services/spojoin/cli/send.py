"""`spojoin send`: rows of files into a query's inputs, their ends, and what became of them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spojoin.cli.ends import Ended, end_inputs, furthest_back, not_ended, stays_open
from spojoin.cli.taken import Outcome, Passage, SentPart
from spojoin.cli.topics import kafka_of, partitions_of
from spojoin.embedded.inputs import InputFile, balanced, open_inputs
from spojoin.embedded.kafka_only import check_no_envelope, check_no_results
from spojoin.embedded.patterns import is_pattern
from spojoin.errors import ConfigurationError, Retryable
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord, LogWriter
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.topology import Topic
from spojoin.roles.router.parse import Reading, parse
from spojoin.roles.router.registered_rows import RegisteredSchemas
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.registry import registry_of
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics
from spojoin.suggest import moment, unknown
from spojoin.wire.results import ARROW_STREAM, CONTENT_TYPE

MESSAGE_ROWS = 4_096
FLUSH_TIMEOUT_S = 60.0
HEADERS = ((CONTENT_TYPE, ARROW_STREAM),)
#: How long to wait for a router that doesn't move: where all inputs have ended, and where rows may follow.
ENDED_PATIENCE_S, OPEN_PATIENCE_S = 30.0, 5.0


@dataclass(slots=True)
class Sent:
    """What became of files' lines: rows by topic, and those left out because they are no rows.

    first: a sentence about the first of these; ended: the inputs that have ended; outcome: what the query did with the
    rows, or `unknown`, why nobody can tell; held_by: the topics of the inputs that rows wait for, where any do
    left_open: a sentence about rows that no end answers
    """

    rows: dict[str, int]
    parts: list[SentPart] = field(default_factory=list)
    malformed: int = 0
    first: str = ""
    ended: Ended | None = None
    outcome: Outcome | None = None
    unknown: str = ""
    held_by: list[str] = field(default_factory=list)
    left_open: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether any line or row was."""
        return self.malformed > 0 or (self.outcome is not None and bool(self.outcome.refused))

    def leave_out(self, file: InputFile, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch that `file` gave last, without what is no row."""
        if not file.refused:
            return batch
        row, why = next(iter(file.refused.items()))
        self.first = self.first or f"{file.stream.name}, position {file.rows - batch.num_rows + row}: {why}"
        self.malformed += len(file.refused)
        return batch.take(pa.array([at for at in range(batch.num_rows) if at not in file.refused], pa.int64()))


def send_files(
    query: Query,
    paths: Mapping[str, Path],
    settings: Settings,
    *,
    ends: bool = True,
    say: Callable[[str], None] = print,
) -> Sent:
    """Append the files' rows to the input topics, end them if it is wanted, and wait until the router has passed them.

    Without files all inputs end. `say` is told what is waited for.
    """
    check_files(query, paths)
    log = KafkaLog(kafka_of(settings))
    try:
        topics, passage = _passage(query, settings, log)
        sent = _sent(query, paths, topics, log)
        try:
            _end_and_follow(sent, query, topics, passage, SendEnd(log, _reading(settings), ends, say))
        except Retryable as error:
            sent.unknown = str(error)
    finally:
        log.close()
    return sent


@dataclass(frozen=True, slots=True)
class SendEnd:
    """How a send ends: by which log and reading, whether inputs end with it, and who is told what is waited for."""

    log: Log[bytes]
    reading: Reading
    ends: bool
    say: Callable[[str], None]


def _reading(settings: Settings) -> Reading:
    registry = registry_of(settings)
    return Reading(schemas=RegisteredSchemas(None if registry is None else registry.find))


def _passage(query: Query, settings: Settings, log: Log[bytes]) -> tuple[Topics, Passage | str]:
    """The query's topics, and what follows rows through them; or why this user can't."""
    topics = Topics.of(query, settings.workers_max, settings.input_topics)
    try:
        if log.partitions(topics.name(Topic.GENERATIONS)):
            topics = replace(topics, generation=GenerationsTopic(log, query.name).read().current_number)
        return topics, Passage(log, topics)
    except Retryable as error:
        return topics, str(error)


def check_files(query: Query, paths: Mapping[str, Path]) -> None:
    """Raise ConfigurationError where files don't fit the query's streams, or OSError where there is no such file."""
    names = [stream.name for stream in query.inputs]
    for name in paths:
        if name not in names:
            raise ConfigurationError(f"--input {name}={paths[name]}: {unknown('stream', name, names)}")
    if query.has_table and query.streams[-1].name in paths:
        raise ConfigurationError(
            f"{query.streams[-1].name} is a table, and the keys of its messages count: "
            "write them with your own producer"
        )
    check_no_envelope(query)
    check_no_results(query, paths)
    for path in paths.values():
        if not (path.exists() or is_pattern(path) or str(path) == "-"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _end_and_follow(sent: Sent, query: Query, topics: Topics, passage: Passage | str, closing: SendEnd) -> None:
    """End inputs, those that got rows or else all, and note what became of the rows. Raises LogUnavailable."""
    held_by = []
    if closing.ends:
        sent.ended = end_inputs(closing.log, query, topics, sent.rows or topics.fed, closing.reading)
        held_by = not_ended(closing.log, query, topics, closing.reading)
        sent.left_open = stays_open(query)
    if isinstance(passage, str):
        sent.unknown = passage
    elif sent.parts:
        patience_s = OPEN_PATIENCE_S if held_by or not closing.ends else ENDED_PATIENCE_S
        sent.outcome = passage.outcome(sent.parts, patience_s, closing.say)
        if sent.outcome.waiting and not closing.ends:
            held_by = furthest_back(closing.log, query, topics, closing.reading)
        sent.held_by = held_by if sent.outcome.waiting else []


# --- rows -------------------------------------------------------------------------------------------------------------


def _sent(query: Query, paths: Mapping[str, Path], topics: Topics, log: Log[bytes]) -> Sent:
    """Append the rows of files, partitions of an input in turn."""
    named = replace(query, streams=tuple(stream for stream in query.streams if stream.name in paths))
    numbers = {stream.name: number for number, stream in enumerate(query.inputs)}
    lanes = {
        name: _InputLane(query, number, topics.inputs[number], log) for name, number in numbers.items() if name in paths
    }
    sent = Sent({lane.topic: 0 for lane in lanes.values()})
    if not paths:
        return sent
    writer = log.writer()
    try:
        for file, batch in balanced(open_inputs(named, paths)):
            if batch is not None:
                lane, rows = lanes[file.stream.name], sent.leave_out(file, batch)
                lane.append(writer, rows)
                sent.rows[lane.topic] += rows.num_rows
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()
    sent.parts = [part for lane in lanes.values() for part in lane.parts if part.rows]
    return sent


class _InputLane:
    """One input's partitions, which take messages in turn."""

    def __init__(self, query: Query, number: int, topic: str, log: Log[bytes]) -> None:
        self.topic = topic
        self._query = query
        self._number = number
        self._has_filters = all(member.filter is not None for member in query.inputs[number].fed(number))
        self.parts = [
            SentPart(source, number, log.end(source))
            for source in (LogPartition(topic, partition) for partition in range(partitions_of(log, topic)))
        ]
        self._next = 0

    def append(self, writer: LogWriter[bytes], batch: pa.RecordBatch) -> None:
        """Write rows as messages."""
        for start in range(0, batch.num_rows, MESSAGE_ROWS):
            rows = batch.slice(start, MESSAGE_ROWS)
            part = self.parts[self._next % len(self.parts)]
            self._next += 1
            message = _message(rows)
            writer.append(part.source, message, HEADERS)
            if self._has_filters:
                part.filtered[len(part.rows)] = self._filtered(part.source, message)
            part.rows.append(rows.num_rows)

    def _filtered(self, source: LogPartition, message: bytes) -> frozenset[int]:
        """The rows of a message that pass no filter."""
        record = LogRecord(source, 0, time.time_ns() // 1_000_000, message, HEADERS)
        found = parse(self._query.inputs[self._number], self._query.needs_time, self._number, 0, [record])
        return frozenset() if found.members is None else frozenset(found.rows[found.members == 0].tolist())


def _message(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


# --- in words ---------------------------------------------------------------------------------------------------------


def sentences(sent: Sent, query: str) -> Iterator[str]:
    """What to say of rows that were sent; query: its file, and where its Kafka is, as a command names them."""
    if sent.rows:
        yield ", ".join(f"{rows:,} rows to {topic}" for topic, rows in sent.rows.items())
    if sent.outcome is not None:
        yield from _what_became(sent, sent.outcome, query)
    elif sent.unknown:
        yield f"the rows are in Kafka; whether they were taken, or their inputs ended, isn't known: {sent.unknown}"
    if sent.ended is not None:
        until = moment(sent.ended.until_us)
        yield f"ended: {', '.join(sent.ended.topics)}; only rows from {until} on may follow"
    if sent.left_open:
        yield sent.left_open


def _what_became(sent: Sent, outcome: Outcome, query: str) -> Iterator[str]:
    if not outcome.is_served:
        yield f"nobody has taken them yet: no service runs this query; start it with `spojoin up {query}`"
        return
    filtered = f", {outcome.filtered:,} filtered out" if outcome.filtered else ""
    refused = sum(outcome.refused.values())
    yield f"{outcome.taken:,} rows taken{filtered}, {refused:,} refused{_reasons(outcome)}"
    if outcome.waiting:
        wait = "1 row waits" if outcome.waiting == 1 else f"{outcome.waiting:,} rows wait"
        yield f"{wait}: {_why(sent, query)}"


def _reasons(outcome: Outcome) -> str:
    named = ", ".join(f"{count:,} {reason}" for reason, count in outcome.refused.items())
    return f": {named} (first: {outcome.first})" if named else ""


def _why(sent: Sent, query: str) -> str:
    if sent.held_by and not set(sent.held_by) & set(sent.rows):
        held_by = " and ".join(sent.held_by)
        return f"event time waits for {held_by}; send its rows, or end it with `spojoin send {query} --end`"
    if sent.ended is None:
        return f"they wait for later rows; `spojoin send {query} --end` promises that none come"
    return "nothing has moved for a while; `spojoin status` shows whether the services run, and what they wait for"
