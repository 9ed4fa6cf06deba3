"""Where a new generation starts to read its inputs again, so that its windows are full when it begins to answer (P12).

It looks back from the cut in growing steps, and stops where no earlier row can be in a window of a row that it
answers. A row's rank decides: its event time where tuples are ordered by it, else the time it was produced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.model import Order, Query, Window
from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogRecord
from spojoin.protocol.answered import NEVER, Answered, Place, before
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.runtime.inputs import Parse
from spojoin.wire.records import I64, Rows, SourcePosition

#: records of the first look back, and the factor by which each further look grows
LOOK_RECORDS, LOOK_GROWTH = 1_024, 2
POLL_RECORDS, POLL_S = 10_000, 0.5
PARSE_RECORDS = 4_096
ALWAYS = 2**63 - 1
_NO_KEY = (-1, -1)
_NOTHING = np.empty(0, np.int64)


class Stand(NamedTuple):
    """Where a row stands in the order: by rank, then by `key` (stream, partition), then as its partition has it."""

    rank: int
    key: tuple[int, int]


@dataclass(slots=True)
class Past:
    """What has been seen of one partition before its cut: rows from offset `first` on, and their ranks."""

    source: LogPartition
    stream: int
    cut: Place
    earliest: int
    first: int
    ranks: I64 = field(default_factory=lambda: _NOTHING)

    @property
    def key(self) -> tuple[int, int]:
        """Stream and partition; it decides between rows of equal rank."""
        return self.stream, self.source.partition

    @property
    def end(self) -> int:
        """The offset behind the last record with rows before the cut."""
        return self.cut[0] + (self.cut[1] > 0)

    @property
    def is_whole(self) -> bool:
        """Whether nothing lies before what was seen."""
        return self.first <= self.earliest


@dataclass(frozen=True, slots=True)
class InputHistory:
    """What the inputs hold of the past, and how it is read.

    topics: the input topic of each stream; pulse: called while reading goes on, so that the service counts as alive
    """

    log: Log[bytes]
    topics: Sequence[str]
    parse: Parse
    pulse: Callable[[], None] = lambda: None


def fill(history: InputHistory, query: Query, beginning: Beginning, backfill: str) -> Beginning:
    """The beginning with positions to read from, and the first index of each stream.

    Rows that are read again take the last of the numbers that earlier generations gave, so that the numbers continue.
    Raises LogUnavailable.
    """
    pasts = _pasts(history, beginning.cut)
    beyond = _answered_beyond(history, pasts, beginning.answered())
    if backfill == Backfill.WINDOW:
        _look_back(history, query, pasts)
    elif backfill == Backfill.EARLIEST:
        for past in pasts:
            past.first = past.earliest
    starts = {past.key: _start(past, beginning.highs) for past in pasts}
    return replace(beginning, starts=starts, first_indexes=_first_indexes(query, pasts, beginning, beyond, backfill))


def _pasts(history: InputHistory, cut: Mapping[tuple[int, int], Place]) -> list[Past]:
    """Every partition as if nothing before its cut had been seen."""
    found, log = [], history.log
    for stream, topic in enumerate(history.topics):
        for partition in range(log.partitions(topic)):
            source = LogPartition(topic, partition)
            past = Past(source, stream, cut.get((stream, partition), (0, 0)), 0, 0)
            past.first, past.earliest = past.end, min(log.bounds(source).earliest, past.end)
            found.append(past)
    return found


def _start(past: Past, highs: Mapping[tuple[int, int], int]) -> SourcePosition:
    """The first row seen, or the cut itself where none was."""
    if past.first < past.end:
        return SourcePosition(past.first, 0, NEVER)
    return SourcePosition(*past.cut, highs.get(past.key, NEVER))


def _answered_beyond(history: InputHistory, pasts: Sequence[Past], answered: Answered) -> dict[int, int]:
    """How many rows of each stream were answered although they lie behind the cut; only event-time order has any."""
    found: dict[int, int] = {}
    reader = history.log.reader()
    try:
        for past in pasts:
            end = answered.end_of(*past.key)[0]
            for rows in _rows(reader, history.parse, past, past.cut[0], end):
                is_answered = answered.rows(*past.key, rows.offsets, rows.rows, rows.times_us)
                behind = ~before(rows.offsets, rows.rows, past.cut)
                found[past.stream] = found.get(past.stream, 0) + int(np.count_nonzero(is_answered & behind))
    finally:
        reader.close()
    return found


def _first_indexes(
    query: Query, pasts: Sequence[Past], beginning: Beginning, beyond: Mapping[int, int], backfill: str
) -> tuple[int, ...]:
    """Where everything is read again, numbers begin at 0, as before; else rows before the cut keep their numbers."""
    streams = range(len(query.streams))
    if backfill == Backfill.EARLIEST:
        return tuple(0 for _ in streams)
    again = [sum(_in_time(query, past.ranks) for past in pasts if past.stream == stream) for stream in streams]
    return tuple(max(0, beginning.count(stream) - again[stream] - beyond.get(stream, 0)) for stream in streams)


def _in_time(query: Query, ranks: I64) -> int:
    """How many of a partition's rows are not late."""
    return int(np.count_nonzero(_are_in_time(query, ranks)))


def _are_in_time(query: Query, ranks: I64) -> NDArray[np.bool_]:
    if query.order is Order.ARRIVAL:
        return np.ones(len(ranks), np.bool_)
    in_time: NDArray[np.bool_] = ranks >= np.maximum.accumulate(ranks) - query.lateness_us
    return in_time


# -- looking back


def _look_back(history: InputHistory, query: Query, pasts: list[Past]) -> None:
    reader, size = history.log.reader(), LOOK_RECORDS
    try:
        while not _suffices(query, pasts):
            for past in pasts:
                if not past.is_whole:
                    _see_more(reader, history, query, past, size)
            size *= LOOK_GROWTH
    finally:
        reader.close()


def _see_more(reader: LogReader[bytes], history: InputHistory, query: Query, past: Past, records: int) -> None:
    first = max(past.earliest, past.first - records)
    ranks = []
    for rows in _rows(reader, history.parse, past, first, past.first):
        ranks.append(_ranks(query, rows, past.cut))
        history.pulse()
    past.ranks = np.concatenate([*ranks, past.ranks]) if ranks else past.ranks
    past.first = first


def _rows(reader: LogReader[bytes], parse: Parse, past: Past, first: int, end: int) -> Iterator[Rows]:
    """Rows of records from offset `first` to `end`."""
    if first >= end:
        return
    waiting: list[LogRecord[bytes]] = []
    reader.open(past.source, first)
    while reader.position(past.source) < end and not reader.at_end(past.source):
        waiting += [record for record in reader.poll(POLL_RECORDS, POLL_S) if record.offset < end]
        while len(waiting) >= PARSE_RECORDS:
            yield _parsed(parse, past, waiting[:PARSE_RECORDS])
            del waiting[:PARSE_RECORDS]
    if waiting:
        yield _parsed(parse, past, waiting)
    reader.drop(past.source)


def _parsed(parse: Parse, past: Past, records: list[LogRecord[bytes]]) -> Rows:
    return parse(past.stream, past.source.partition, records)


def _ranks(query: Query, rows: Rows, cut: Place) -> I64:
    ranks = rows.produced_ms if query.order is Order.ARRIVAL else rows.times_us
    if ranks is None:
        raise ValueError("event-time order needs event times")
    return ranks[before(rows.offsets, rows.rows, cut)]


# -- enough


def _suffices(query: Query, pasts: Sequence[Past]) -> bool:
    if all(past.is_whole for past in pasts):
        return True
    if any(not past.is_whole and not len(past.ranks) for past in pasts):
        return False
    return all(_reaches(query, pasts, stream) for stream in range(len(query.streams)))


def _reaches(query: Query, pasts: Sequence[Past], stream: int) -> bool:
    """Whether no row of the stream before those seen can be in a window of a row behind the cut."""
    window = query.window_over(stream)
    own = [past for past in pasts if past.stream == stream]
    known, newest = _known_from(query, own), _newest(query, pasts)
    if window.is_time:  # a row that was not seen may have the rank of `known` itself
        return known.rank < newest.rank - window.length
    return sum(_count_between(query, past, known, newest) for past in own) >= _reach_tuples(window)


def _reach_tuples(window: Window) -> int:
    return window.length + window.slide


def _known_from(query: Query, pasts: Sequence[Past]) -> Stand:
    """From here on every row of these partitions was seen: those before may run back by the lateness."""
    return max(
        (
            Stand(int(past.ranks[: max(1, len(past.ranks) // 2)].max()) + query.lateness_us, past.key)
            for past in pasts
            if not past.is_whole
        ),
        default=Stand(NEVER, _NO_KEY),
    )


def _newest(query: Query, pasts: Sequence[Past]) -> Stand:
    """The least that a row behind the cut can be: less by the lateness than its partition's largest before it.

    In arrival order, everything that is read again comes before it.
    """
    if query.order is Order.ARRIVAL:
        return Stand(ALWAYS, _NO_KEY)
    highest = (Stand(int(past.ranks.max()) - query.lateness_us, past.key) for past in pasts if len(past.ranks))
    return min(highest, default=Stand(NEVER, _NO_KEY))


def _count_between(query: Query, past: Past, known: Stand, newest: Stand) -> int:
    """Rows from one position in the order to another; of equal rank, partitions before `known` may hold unseen ones."""
    least, most = known.rank + (past.key < known.key), newest.rank - (past.key > newest.key)
    return int(np.count_nonzero(_are_in_time(query, past.ranks) & (past.ranks >= least) & (past.ranks <= most)))
