"""Ends of inputs, for `spojoin send --end`: heartbeats that close what is open, as far as any input has come."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spojoin.model import EmitOn, Order, Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord
from spojoin.ports.reading import records_between
from spojoin.protocol.topology import ENDED, HEARTBEAT
from spojoin.roles.router.parse import Reading, parse
from spojoin.runtime.topics import Topics

FLUSH_TIMEOUT_S = 60.0
#: The last offsets of a partition that are looked at first; where they hold no record, FURTHER times as many.
TAIL, FURTHER = 4, 16


@dataclass(frozen=True, slots=True)
class Ended:
    """topics: whose inputs have ended; until_us: nothing before that event time may follow in them."""

    topics: tuple[str, ...]
    until_us: int


@dataclass(frozen=True, slots=True)
class _Tail:
    """A partition's last records: the greatest event time of rows and promises, and whether it was ended."""

    source: LogPartition
    time_us: int | None
    promised_us: int | None
    is_ended: bool

    @property
    def reached(self) -> tuple[int, ...]:
        """How far its event time has come; nothing comes before all else."""
        known = [at for at in (self.time_us, self.promised_us) if at is not None]
        return (max(known),) if known else ()


def end_inputs(log: Log[bytes], query: Query, topics: Topics, named: Collection[str], reading: Reading) -> Ended | None:
    """End the inputs of the topics `named`, and move on the ends of those that were ended before.

    None where event time plays no part, or nothing is there yet that could be closed. Raises LogUnavailable.
    """
    if query.order is not Order.EVENT_TIME:
        return None
    tails = [*_tails(log, query, topics, reading)]
    times = [tail.time_us for tail in tails if tail.time_us is not None]
    promised = [tail.promised_us for tail in tails if tail.promised_us is not None]
    if not times and not promised:
        return None
    reached = [max(times) + query.lateness_us + open_us(query) + 1] if times else []
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


def not_ended(log: Log[bytes], query: Query, topics: Topics, reading: Reading) -> list[str]:
    """The topics of inputs that nobody has ended. Raises LogUnavailable."""
    if query.order is not Order.EVENT_TIME:
        return []
    return list(dict.fromkeys(tail.source.topic for tail in _tails(log, query, topics, reading) if not tail.is_ended))


def furthest_back(log: Log[bytes], query: Query, topics: Topics, reading: Reading) -> list[str]:
    """The topics of the inputs that have come least far in event time. Raises LogUnavailable."""
    if query.order is not Order.EVENT_TIME:
        return []
    tails = [*_tails(log, query, topics, reading)]
    least = min((tail.reached for tail in tails), default=())
    return list(dict.fromkeys(tail.source.topic for tail in tails if tail.reached == least))


def open_us(query: Query) -> int:
    """For how long after its event time a row may be open: the longest window over the other side, and a slide."""
    if query.emit is not EmitOn.CLOSE or not query.window.is_time:
        return 0
    windows = [query.window_over(number) for number, stream in enumerate(query.streams) if stream.asks]
    return max((window.length + window.slide for window in windows), default=0)


def stays_open(query: Query) -> str | None:
    """Which rows no end answers, and what does: those in a window of rows, which rows alone move on."""
    if query.emit is not EmitOn.CLOSE or query.window.is_time or query.has_table:
        return None
    asking = {stream.name: query.window_over(k).length for k, stream in enumerate(query.streams) if stream.asks}
    rows = " and ".join(f"up to {length:,} of {name}" for name, length in asking.items())
    return (
        f"the last rows stay open, {rows}: the window counts rows, so each is answered when as many further ones have "
        "come; a WINDOW of time or an interval of event times is what an end closes"
    )


def _tails(log: Log[bytes], query: Query, topics: Topics, reading: Reading) -> Iterator[_Tail]:
    for number, topic in enumerate(topics.flowing):
        if topic in topics.fed:
            for partition in range(log.partitions(topic)):
                source = LogPartition(topic, partition)
                yield _tail(query, number, source, _last(log, source), reading)


def _tail(query: Query, number: int, source: LogPartition, last: list[LogRecord[bytes]], reading: Reading) -> _Tail:
    if not last:
        return _Tail(source, None, None, is_ended=False)
    rows = parse(query.inputs[number], True, number, source.partition, last, reading)
    assert rows.times_us is not None, "event times were asked for"
    time_us = int(rows.times_us.max()) if len(rows) else None
    return _Tail(source, time_us, rows.heartbeat_us, ENDED in dict(last[-1].headers))


def _last(log: Log[bytes], source: LogPartition) -> list[LogRecord[bytes]]:
    """The last records of a partition; none where it holds none."""
    bounds, back = log.bounds(source), TAIL
    found: list[LogRecord[bytes]] = []
    while not found and bounds.earliest < bounds.end and back // FURTHER < bounds.end - bounds.earliest:
        found += records_between(log, source, max(bounds.earliest, bounds.end - back), bounds.end)
        back *= FURTHER
    return found
