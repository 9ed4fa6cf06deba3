"""`spojoin send`: sends rows of files to a query's inputs, ends these inputs, and reports what happened to the rows."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spojoin.cli.sent_rows import Outcome, SentPart, SentRowsFollower
from spojoin.cli.topics import kafka_config, partitions_of
from spojoin.embedded.file_paths import is_pattern
from spojoin.embedded.input_options import check_no_envelope, check_no_results
from spojoin.embedded.inputs import InputFile, open_inputs, read_balanced
from spojoin.errors import ConfigurationError, Retryable
from spojoin.model import EmitOn, Order, Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord, LogWriter, records_between
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.topology import ENDED, HEARTBEAT, Topic
from spojoin.reading.parse import parse_messages
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.registry import registry_of
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics
from spojoin.suggest import moment, unknown
from spojoin.wire.result_forms import FRAMES
from spojoin.wire.results import CONTENT_TYPE

FLUSH_TIMEOUT_S = 60.0
#: How long to wait for a router that makes no progress: if all inputs have ended, and if rows may follow.
ENDED_PATIENCE_S, OPEN_PATIENCE_S = 30.0, 5.0
#: How many of a partition's last offsets are read first; if they hold no record, FURTHER times as many.
TAIL, FURTHER = 4, 16

MESSAGE_ROWS = 4_096
HEADERS = ((CONTENT_TYPE, FRAMES.content_type),)


@dataclass(slots=True)
class Sent:
    """What happened to the files' lines.

    rows: the number sent, by topic; malformed: how many lines were left out because they are not rows
    first: a sentence about the first such line; ended: the inputs that have ended
    outcome: what the query did with the rows; unknown: why this is unknown
    held_by: the topics of the inputs that rows wait for; left_open: a sentence about rows that stay open
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
        """Whether any line or row was refused."""
        return self.malformed > 0 or (self.outcome is not None and bool(self.outcome.refused))

    def leave_out(self, file: InputFile, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The last batch of `file` without the lines that are not rows."""
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
    """Append the files' rows to the input topics, and wait until the router has passed them.

    ends: whether the inputs end with these rows; without files, all inputs end
    say: called with sentences about what the command waits for
    """
    check_files(query, paths)
    log = KafkaLog(kafka_config(settings))
    try:
        topics, passage = _topics_and_follower(query, settings, log)
        sent = append_rows(query, paths, topics, log)
        try:
            _end_and_follow(sent, query, topics, passage, SendEnd(log, _schemas(settings), ends, say))
        except Retryable as error:
            sent.unknown = str(error)
    finally:
        log.close()
    return sent


@dataclass(frozen=True, slots=True)
class SendEnd:
    """How a send ends. ends: whether inputs end with it; say: called with what the command waits for."""

    log: Log[bytes]
    schemas: RegisteredSchemas
    ends: bool
    say: Callable[[str], None]


def _schemas(settings: Settings) -> RegisteredSchemas:
    registry = registry_of(settings)
    return RegisteredSchemas(None if registry is None else registry.find)


def _topics_and_follower(query: Query, settings: Settings, log: Log[bytes]) -> tuple[Topics, SentRowsFollower | str]:
    """The query's topics, and a follower of rows, or the reason why this user may not follow them."""
    topics = Topics.for_query(query, settings.workers_max, settings.input_topics)
    try:
        if log.partitions(topics.name(Topic.GENERATIONS)):
            topics = replace(topics, generation=GenerationsTopic(log, query.name).read().current_number)
        return topics, SentRowsFollower(log, topics)
    except Retryable as error:
        return topics, str(error)


def check_files(query: Query, paths: Mapping[str, Path]) -> None:
    """Raise ConfigurationError if files don't fit the query's streams, or OSError if there is no such file."""
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


def append_rows(query: Query, paths: Mapping[str, Path], topics: Topics, log: Log[bytes]) -> Sent:
    """Append the rows of files; the partitions of an input take them in turn.

    Rows keep all columns of the schema: other queries, or this one's next generation, may read more of them.
    """
    named = replace(query, streams=tuple(stream for stream in query.streams if stream.name in paths))
    numbers = {stream.name: number for number, stream in enumerate(query.inputs)}
    lanes = {
        name: _InputPartitions(query, number, topics.inputs[number], log)
        for name, number in numbers.items()
        if name in paths
    }
    sent = Sent({lane.topic: 0 for lane in lanes.values()})
    if not paths:
        return sent
    writer = log.writer()
    try:
        for file, batch in read_balanced(open_inputs(named, paths, whole=True)):
            if batch is not None:
                lane, rows = lanes[file.stream.name], sent.leave_out(file, batch)
                lane.append(writer, rows)
                sent.rows[lane.topic] += rows.num_rows
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()
    sent.parts = [part for lane in lanes.values() for part in lane.parts if part.rows]
    return sent


class _InputPartitions:
    """The partitions of one input, which take messages in turn."""

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
        found = parse_messages(self._query.inputs[self._number], self._query.needs_time, self._number, 0, [record])
        return frozenset() if found.members is None else frozenset(found.rows[found.members == 0].tolist())


def _message(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _end_and_follow(
    sent: Sent, query: Query, topics: Topics, passage: SentRowsFollower | str, closing: SendEnd
) -> None:
    """End the inputs that got rows, or all if none did, and record what happened to the rows. Raises LogUnavailable."""
    held_by = []
    if closing.ends:
        sent.ended = end_inputs(closing.log, query, topics, sent.rows or topics.fed, closing.schemas)
        held_by = not_ended(closing.log, query, topics, closing.schemas)
        sent.left_open = rows_left_open(query)
    if isinstance(passage, str):
        sent.unknown = passage
    elif sent.parts:
        patience_s = OPEN_PATIENCE_S if held_by or not closing.ends else ENDED_PATIENCE_S
        sent.outcome = passage.outcome(sent.parts, patience_s, closing.say)
        if sent.outcome.waiting and not closing.ends:
            held_by = furthest_back(closing.log, query, topics, closing.schemas)
        sent.held_by = held_by if sent.outcome.waiting else []


@dataclass(frozen=True, slots=True)
class Ended:
    """Inputs that have ended, by their topics. until_us: no row before this event time may follow in them."""

    topics: tuple[str, ...]
    until_us: int


@dataclass(frozen=True, slots=True)
class _Tail:
    """A partition's state by its last records: its latest event time, its latest promise, and whether it has ended."""

    source: LogPartition
    time_us: int | None
    promised_us: int | None
    is_ended: bool

    @property
    def reached(self) -> tuple[int, ...]:
        """The event time that the partition has reached; empty without records, so that it sorts first."""
        known = [at for at in (self.time_us, self.promised_us) if at is not None]
        return (max(known),) if known else ()


def end_inputs(
    log: Log[bytes], query: Query, topics: Topics, named: Collection[str], schemas: RegisteredSchemas
) -> Ended | None:
    """End the inputs of the topics `named`, and move the ends of inputs that were ended before.

    None if the query doesn't use event time, or if there is nothing to close yet. Raises LogUnavailable.
    """
    if query.order.by is not Order.EVENT_TIME:
        return None
    tails = [*_tails(log, query, topics, schemas)]
    times = [tail.time_us for tail in tails if tail.time_us is not None]
    promised = [tail.promised_us for tail in tails if tail.promised_us is not None]
    if not times and not promised:
        return None
    reached = [max(times) + query.order.lateness_us + longest_open_us(query) + 1] if times else []
    until_ms = -(-max([*reached, *promised]) // 1_000)
    due = [tail.source for tail in tails if tail.is_ended or tail.source.topic in named]
    writer = log.writer()
    try:
        for source in due:
            writer.append(source, b"", ((HEARTBEAT, str(until_ms).encode()), (ENDED, b"1")))
        writer.flush(FLUSH_TIMEOUT_S)
    finally:
        writer.close()
    return Ended(tuple(dict.fromkeys(source.topic for source in due)), until_ms * 1_000)


def not_ended(log: Log[bytes], query: Query, topics: Topics, schemas: RegisteredSchemas) -> list[str]:
    """The topics of the inputs that have not ended. Raises LogUnavailable."""
    if query.order.by is not Order.EVENT_TIME:
        return []
    return list(dict.fromkeys(tail.source.topic for tail in _tails(log, query, topics, schemas) if not tail.is_ended))


def furthest_back(log: Log[bytes], query: Query, topics: Topics, schemas: RegisteredSchemas) -> list[str]:
    """The topics of the inputs whose event time is furthest behind. Raises LogUnavailable."""
    if query.order.by is not Order.EVENT_TIME:
        return []
    tails = [*_tails(log, query, topics, schemas)]
    least = min((tail.reached for tail in tails), default=())
    return list(dict.fromkeys(tail.source.topic for tail in tails if tail.reached == least))


def longest_open_us(query: Query) -> int:
    """How long a row may stay open after its event time: the longest window over the other side plus a slide."""
    if query.answers.emit is not EmitOn.CLOSE:
        return 0
    return max((query.window_over(number).open_us for number, one in enumerate(query.streams) if one.asks), default=0)


def rows_left_open(query: Query) -> str | None:
    """A sentence about rows that stay open although inputs have ended, since only further rows move a count window."""
    if query.answers.emit is not EmitOn.CLOSE or query.window.rows is None:
        return None
    asking = {stream.name: query.window_over(k).length for k, stream in enumerate(query.streams) if stream.asks}
    rows = " and ".join(f"up to {length:,} of {name}" for name, length in asking.items())
    return (
        f"the last rows stay open, {rows}: the window counts rows, so each is answered when as many further ones have "
        "come; a WINDOW of time or an interval of event times is what an end closes"
    )


def _tails(log: Log[bytes], query: Query, topics: Topics, schemas: RegisteredSchemas) -> Iterator[_Tail]:
    for number, topic in enumerate(topics.flowing):
        if topic in topics.fed:
            for partition in range(log.partitions(topic)):
                source = LogPartition(topic, partition)
                yield _tail_of(query, number, source, _last_records(log, source), schemas)


def _tail_of(
    query: Query, number: int, source: LogPartition, last: list[LogRecord[bytes]], schemas: RegisteredSchemas
) -> _Tail:
    if not last:
        return _Tail(source, None, None, is_ended=False)
    rows = parse_messages(query.inputs[number], True, number, source.partition, last, schemas)
    assert rows.times_us is not None, "event times were asked for"
    time_us = int(rows.times_us.max()) if len(rows) else None
    return _Tail(source, time_us, rows.heartbeat_us, ENDED in dict(last[-1].headers))


def _last_records(log: Log[bytes], source: LogPartition) -> list[LogRecord[bytes]]:
    """Some of the last records of a partition; none if it is empty."""
    bounds, back = log.bounds(source), TAIL
    found: list[LogRecord[bytes]] = []
    while not found and bounds.earliest < bounds.end and back // FURTHER < bounds.end - bounds.earliest:
        found += records_between(log, source, max(bounds.earliest, bounds.end - back), bounds.end)
        back *= FURTHER
    return found


def sentences(sent: Sent, query: str) -> Iterator[str]:
    """What to say about the sent rows; query: its file and the address of its Kafka, as in a command."""
    if sent.rows:
        yield ", ".join(f"{rows:,} rows to {topic}" for topic, rows in sent.rows.items())
    if sent.outcome is not None:
        yield from _outcome_sentences(sent, sent.outcome, query)
    elif sent.unknown:
        yield f"the rows are in Kafka; whether they were taken, or their inputs ended, is unknown: {sent.unknown}"
    if sent.ended is not None:
        until = moment(sent.ended.until_us)
        yield f"ended: {', '.join(sent.ended.topics)}; only rows from {until} on may follow"
    if sent.left_open:
        yield sent.left_open


def _outcome_sentences(sent: Sent, outcome: Outcome, query: str) -> Iterator[str]:
    if not outcome.is_served:
        yield f"not processed yet: no service runs this query; start it with `spojoin up {query}`"
        return
    filtered = f", {outcome.filtered:,} filtered out" if outcome.filtered else ""
    refused = sum(outcome.refused.values())
    yield f"{outcome.taken:,} rows taken{filtered}, {refused:,} refused{_reasons(outcome)}"
    if outcome.waiting:
        wait = "1 row waits" if outcome.waiting == 1 else f"{outcome.waiting:,} rows wait"
        yield f"{wait}: {_why_rows_wait(sent, query)}"


def _reasons(outcome: Outcome) -> str:
    named = ", ".join(f"{count:,} {reason}" for reason, count in outcome.refused.items())
    return f": {named} (first: {outcome.first})" if named else ""


def _why_rows_wait(sent: Sent, query: str) -> str:
    if sent.held_by and not set(sent.held_by) & set(sent.rows):
        held_by = " and ".join(sent.held_by)
        return f"event time waits for {held_by}; send its rows, or end it with `spojoin send {query} --end`"
    if sent.ended is None:
        return f"they wait for later rows; `spojoin send {query} --end` promises that none come"
    return "nothing has moved for a while; `spojoin status` shows whether the services run, and what they wait for"
