"""Where a new generation starts to read its inputs again, so that its windows are full when it begins to answer (P12).

It looks back from the cut in growing steps until no earlier row can be in a window of a row that it answers, and starts
at the first row that can. A row's rank decides: its event time if tuples are ordered by it, otherwise the time at which
it was produced. Rows that were seen before the takeover, while the earlier generation answered, aren't read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U8
from spojoin.model import Order, Query
from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogRecord
from spojoin.protocol.answered import Answered, before
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.runtime.feeds import Parse
from spojoin.wire.records import NEVER, Place, Rows, SourcePosition

#: records of the first look back, and the factor by which each further look grows
LOOK_RECORDS, LOOK_GROWTH = 1_024, 2
POLL_RECORDS, POLL_S = 10_000, 0.5
PARSE_RECORDS = 4_096
ALWAYS = 2**63 - 1
_NO_KEY = (-1, -1)
_NOTHING = np.empty(0, np.int64)
_NO_BITS = np.empty(0, np.uint8)
#: The bits of all streams.
ANY = 0xFF


class Stand(NamedTuple):
    """A row's position in the order: by rank, then by `key` (stream, partition), then by its partition's order."""

    rank: int
    key: tuple[int, int]


@dataclass(slots=True)
class Past:
    """The rows of one partition that were seen before its cut, from offset `first` on.

    stream: the number of the query's input; ranks, offsets: int64 (n,); members: uint8 (n,), as in `Rows`
    refused: the offsets of seen rows that the query refuses, int64 (m,); why: a sentence about one of them
    promised_us: the event time before which no further row comes, as the last heartbeat says
    may_begin: whether its first row, if none was seen, may come from any time that no heartbeat excludes
    """

    source: LogPartition
    stream: int
    cut: Place
    earliest: int
    first: int
    ranks: I64 = field(default_factory=lambda: _NOTHING)
    members: U8 = field(default_factory=lambda: _NO_BITS)
    offsets: I64 = field(default_factory=lambda: _NOTHING)
    refused: I64 = field(default_factory=lambda: _NOTHING)
    why: str = ""
    promised_us: int = NEVER
    may_begin: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Input and partition, which order rows of equal rank."""
        return self.stream, self.source.partition

    @property
    def end(self) -> int:
        """The offset after the last record with rows before the cut."""
        return self.cut[0] + (self.cut[1] > 0)

    @property
    def is_whole(self) -> bool:
        """Whether all rows before the cut were seen."""
        return self.first <= self.earliest

    def append_rows(self, after: Past) -> None:
        """Add the following rows of the same partition."""
        self.ranks = np.concatenate([self.ranks, after.ranks])
        self.members = np.concatenate([self.members, after.members])
        self.offsets = np.concatenate([self.offsets, after.offsets])
        self.refused = np.concatenate([self.refused, after.refused])
        self.why = self.why or after.why
        self.promised_us = max(self.promised_us, after.promised_us)

    def between(self, first: int, end: int) -> Past:
        """The seen rows in the records from offset `first` to `end`."""
        part = slice(*np.searchsorted(self.offsets, (first, end)))
        return replace(
            self,
            first=first,
            ranks=self.ranks[part],
            members=self.members[part],
            offsets=self.offsets[part],
            refused=self.refused[slice(*np.searchsorted(self.refused, (first, end)))],
            promised_us=self.promised_us if end >= self.end else NEVER,
        )


@dataclass(frozen=True, slots=True)
class InputHistory:
    """The inputs' past rows, and how to read them.

    topics: the topic of each input; pulse: called while reading continues, so that the service counts as alive
    report: called if rows that are read again are refused, with their number by partition, and why one of them is
    """

    log: Log[bytes]
    topics: Sequence[str]
    parse: Parse
    pulse: Callable[[], None] = lambda: None
    report: Callable[[Mapping[str, int], str], None] = lambda _refused, _why: None


def seen_now(history: InputHistory, query: Query) -> list[Past]:
    """The rows that windows need now: most of the rows that `fill` would read later. Raises LogUnavailable."""
    ends = {past.key: (history.log.bounds(past.source).end, 0) for past in pasts_of(history, {})}
    pasts = pasts_of(history, ends)
    _look_back(history, query, query.order.lateness_us, pasts)
    return pasts


def fill(
    history: InputHistory, query: Query, beginning: Beginning, backfill: str, seen: Sequence[Past] = ()
) -> Beginning:
    """The beginning with positions to read from, and the first index of each stream.

    seen: an earlier result of `seen_now` for the same query and topics

    Rows that are read again get the last of the numbers that earlier generations gave, so that the numbers continue.
    Only rows that pass a stream's filter have a number in it. Raises LogUnavailable.
    """
    pasts = pasts_of(history, beginning.cut)
    beyond = _answered_beyond(history, query, pasts, beginning.answered())
    if backfill == Backfill.WINDOW:
        lateness_us = max(query.order.lateness_us, beginning.lateness_us)
        for past in pasts:  # an input without rows counts as having reached what an order that is continued has merged
            past.may_begin = not beginning.continues_order
        _recall(history, query, pasts, seen)
        _look_back(history, query, lateness_us, pasts)
        _let_go(query, lateness_us, pasts)
        _report_refused(history, pasts)
    elif backfill == Backfill.EARLIEST:
        for past in pasts:
            past.first = past.earliest
    starts = {past.key: _start(past, beginning.highs) for past in pasts}
    if backfill == Backfill.EARLIEST:  # everything is read again, and numbers begin at 0, as before
        return replace(beginning, starts=starts, first_indexes=tuple(0 for _ in query.streams), first_seq=0)

    def first(count: int, bits: int) -> int:
        again = sum(_in_time(query, past, bits) for past in pasts)
        return max(0, count - again - int(np.count_nonzero(beyond & bits)))

    indexes = tuple(first(beginning.count(stream), 1 << stream) for stream in range(len(query.streams)))
    first_seq = first(beginning.numbered, ANY) if query.shares_input else 0
    return replace(beginning, starts=starts, first_indexes=indexes, first_seq=first_seq)


def _report_refused(history: InputHistory, pasts: Sequence[Past]) -> None:
    """Report rows that windows will lack: producers may have left out columns that an earlier query did not read."""
    refused = {f"{past.source.topic}/{past.source.partition}": len(past.refused) for past in pasts if len(past.refused)}
    if refused:
        history.report(refused, next(past.why for past in pasts if len(past.refused)))


def pasts_of(history: InputHistory, cut: Mapping[tuple[int, int], Place]) -> list[Past]:
    """Every partition, with no rows seen before its cut."""
    found, log = [], history.log
    for stream, topic in enumerate(history.topics):
        for partition in range(log.partitions(topic)):
            source = LogPartition(topic, partition)
            past = Past(source, stream, cut.get((stream, partition), (0, 0)), 0, 0)
            past.first, past.earliest = past.end, min(log.bounds(source).earliest, past.end)
            found.append(past)
    return found


def _start(past: Past, highs: Mapping[tuple[int, int], int]) -> SourcePosition:
    """The position of the first seen row, or of the cut if none was seen."""
    if past.first < past.end:
        return SourcePosition(past.first, 0, NEVER)
    return SourcePosition(*past.cut, highs.get(past.key, NEVER))


def _answered_beyond(history: InputHistory, query: Query, pasts: Sequence[Past], answered: Answered) -> U8:
    """The stream bits of rows that were answered although they are behind the cut, as happens in event-time order."""
    found = [_NO_BITS]
    reader = history.log.reader()
    try:
        for past in pasts:
            end = answered.end_of(*past.key)[0]
            for rows in rows_between(reader, history.parse, past, past.cut[0], end):
                is_answered = answered.rows(*past.key, rows.offsets, rows.rows, rows.times_us)
                behind = ~before(rows.offsets, rows.rows, past.cut)
                found.append(_members(query, past.stream, rows)[is_answered & behind])
    finally:
        reader.close()
    return np.concatenate(found)


def _members(query: Query, number: int, rows: Rows) -> U8:
    """The bits of the streams that each row of an input is in, uint8 (n,)."""
    if rows.members is not None:
        return rows.members
    everywhere = sum(1 << member.stream for member in query.inputs[number].fed(number))
    return np.full(len(rows), everywhere, np.uint8)


def _in_time(query: Query, past: Past, bits: int) -> int:
    """How many of a partition's rows are in time, and in a stream whose bit is in `bits`."""
    return int(np.count_nonzero(_are_in_time(query, past.ranks) & (past.members & bits != 0)))


def _are_in_time(query: Query, ranks: I64) -> NDArray[np.bool_]:
    if query.order.by is Order.ARRIVAL:
        return np.ones(len(ranks), np.bool_)
    in_time: NDArray[np.bool_] = ranks >= np.maximum.accumulate(ranks) - query.order.lateness_us
    return in_time


# -- looking back


def _look_back(history: InputHistory, query: Query, lateness_us: int, pasts: list[Past]) -> None:
    """Look back in growing steps; lateness_us: the largest of all generations, by which event times may run back."""
    reader, size = history.log.reader(), LOOK_RECORDS
    try:
        while not _suffices(query, lateness_us, pasts):
            for number, past in enumerate(pasts):
                if not past.is_whole:
                    first = max(past.earliest, past.first - size)
                    pasts[number] = _see(reader, history, query, replace(past, first=first), past.first)
                    pasts[number].append_rows(past)
            size *= LOOK_GROWTH
    finally:
        reader.close()


def _recall(history: InputHistory, query: Query, pasts: list[Past], seen: Sequence[Past]) -> None:
    """Begin with the rows seen before, and read the rows that came since then, up to the cut."""
    before_now, reader = {each.source: each for each in seen}, history.log.reader()
    try:
        for past in pasts:
            known = before_now.get(past.source)
            if known is None or not past.earliest <= known.first < min(known.end, past.cut[0]):
                continue
            until = min(known.end, past.cut[0])
            past.first = known.first
            past.append_rows(known.between(known.first, until))
            past.append_rows(_see(reader, history, query, replace(past, first=until), past.end))
    finally:
        reader.close()


def _see(reader: LogReader[bytes], history: InputHistory, query: Query, past: Past, end: int) -> Past:
    """Only the rows before the cut in the records from a partition's offset `past.first` to `end`."""
    ranks, members, offsets, refused, why, promised = [_NOTHING], [_NO_BITS], [_NOTHING], [], "", [NEVER]
    for rows in rows_between(reader, history.parse, past, past.first, end):
        is_before = before(rows.offsets, rows.rows, past.cut)
        ranks.append(_ranks(query, rows)[is_before])
        members.append(_members(query, past.stream, rows)[is_before])
        offsets.append(rows.offsets[is_before])
        dead = [letter for letter in rows.dead if (letter.offset, letter.row) < past.cut]
        refused += [letter.offset for letter in dead]
        why = why or next((letter.detail for letter in dead), "")
        promised.append(NEVER if rows.heartbeat_us is None else rows.heartbeat_us)
        history.pulse()
    return replace(
        past,
        ranks=np.concatenate(ranks),
        members=np.concatenate(members),
        offsets=np.concatenate(offsets),
        refused=np.array(refused, np.int64),
        why=why,
        promised_us=max(promised),
    )


def rows_between(reader: LogReader[bytes], parse: Parse, past: Past, first: int, end: int) -> Iterator[Rows]:
    """The rows in a partition's records from offset `first` to `end`, in its order."""
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


def _ranks(query: Query, rows: Rows) -> I64:
    ranks = rows.produced_ms if query.order.by is Order.ARRIVAL else rows.times_us
    if ranks is None:
        raise ValueError("event-time order needs event times")
    return ranks


# -- enough


def _suffices(query: Query, lateness_us: int, pasts: Sequence[Past]) -> bool:
    if all(past.is_whole for past in pasts):
        return True
    if any(not past.is_whole and not len(past.ranks) for past in pasts):
        return False
    return all(_reaches(query, lateness_us, pasts, stream) for stream in range(len(query.streams)))


def _reaches(query: Query, lateness_us: int, pasts: Sequence[Past], stream: int) -> bool:
    """Whether no unseen row of the stream can be in a window of a row behind the cut."""
    return _needed_from(query, lateness_us, pasts, stream) is not None


def _let_go(query: Query, lateness_us: int, pasts: list[Past]) -> None:
    """Start each partition at the first row that a window can need, since the growing steps saw more rows."""
    found = [_needed_from(query, lateness_us, pasts, stream) for stream in range(len(query.streams))]
    needed = [NEVER if each is None else max(NEVER, each) for each in found]
    for at, past in enumerate(pasts):
        least = min(needed[stream] for stream, number in enumerate(query.fed_by) if number == past.stream)
        inside = np.flatnonzero(past.ranks >= least)
        if len(inside):
            pasts[at] = past.between(int(past.offsets[inside[0]]), past.end)


def _needed_from(query: Query, lateness_us: int, pasts: Sequence[Past], stream: int) -> int | None:  # P12.12
    """The least rank of a row of the stream in a window of a row behind the cut; None if that row may be unseen yet."""
    known, newest = _known_from(query, lateness_us, pasts, stream), _newest(query, lateness_us, pasts)
    ranks = _countable(query, lateness_us, pasts, stream)
    return query.window_over(stream).needed_from(newest.rank, known.rank, ranks)


def _known_from(query: Query, lateness_us: int, pasts: Sequence[Past], stream: int) -> Stand:
    """From this stand on every row of the stream was seen; event times of earlier rows may run back by the lateness."""
    return max(
        (
            Stand(int(past.ranks[: max(1, len(past.ranks) // 2)].max()) + lateness_us, past.key)
            for past in pasts
            if past.stream == query.fed_by[stream] and not past.is_whole
        ),
        default=Stand(NEVER, _NO_KEY),
    )


def _newest(query: Query, lateness_us: int, pasts: Sequence[Past]) -> Stand:
    """The least stand of a row behind the cut: by the lateness below the largest before the cut in its partition.

    The first row of a partition may come from any time that no heartbeat excludes. In arrival order, all rows that are
    read again come before it.
    """
    if query.order.by is Order.ARRIVAL:
        return Stand(ALWAYS, _NO_KEY)
    seen = [Stand(int(past.ranks.max()) - lateness_us, past.key) for past in pasts if len(past.ranks)]
    begin = [Stand(past.promised_us, past.key) for past in pasts if past.may_begin and not len(past.ranks)]
    return min([*seen, *begin], default=Stand(NEVER, _NO_KEY))


def _countable(query: Query, lateness_us: int, pasts: Sequence[Past], stream: int) -> I64:
    """The ranks (n,) of a stream's rows that certainly come before all rows behind the cut and after all unseen rows.

    For equal ranks, partitions before the one that is known last may hold unseen rows.
    """
    known, newest = _known_from(query, lateness_us, pasts, stream), _newest(query, lateness_us, pasts)
    found = [_NOTHING]
    for past in pasts:
        if past.stream == query.fed_by[stream]:
            least, most = known.rank + (past.key < known.key), newest.rank - (past.key > newest.key)
            is_between = (past.ranks >= least) & (past.ranks <= most)
            is_members = past.members >> stream & 1 == 1
            found.append(past.ranks[_are_in_time(query, past.ranks) & is_between & is_members])
    return np.concatenate(found)
