"""How rows of many inputs come into one order: as they arrive, or by event time (ScaleJoin's ready tuples, section 3).

Both push rows onto an OrderedQueue; both recover from the last frame's source positions and checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from spojoin.protocol.answered import Answered, before
from spojoin.roles.router.ledger import NEVER, InputLedger, Place
from spojoin.roles.router.queue import OrderedQueue, Places, StreamColumns, concat, concat_places
from spojoin.wire.records import I64, DeadLetter, Rows, SourcePosition

#: (time, stream, partition, offset, row): the total order by event time
Key = tuple[int, int, int, int, int]
Flags = NDArray[np.bool_]
FIRST_KEY: Key = (NEVER, 0, 0, 0, 0)
NOTHING_ANSWERED = Answered()


@dataclass(slots=True)
class PhysicalInput:
    """One physical input (a Kafka partition of a stream's topic)."""

    stream: int
    partition: int
    ledger: InputLedger
    index: int
    heartbeat_us: int = NEVER
    ended_ms: int | None = None
    pieces: list[StreamColumns] = field(default_factory=list)
    places: list[Places] = field(default_factory=list)
    read_before: Place = (-1, 0)
    late_before: frozenset[Place] = frozenset()

    def pending(self) -> int:
        """Rows held for the merge."""
        return sum(len(p) for p in self.places)

    def late_ahead(self) -> list[Place]:
        """Late rows from before a restart that are still to be read again."""
        return [place for place in self.late_before if place >= self.ledger.read_end()]


#: Rows of one input on their way into the order.
Taken = tuple[PhysicalInput, Places, StreamColumns]


class Ordering(Protocol):
    """Turns rows of single inputs into rows in the total order."""

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        ...

    def advance(self, now_ms: int) -> None:
        """Push on what has become ready."""
        ...

    def wants(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read."""
        ...

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """The input's row with this ledger number is the last of the frame in the making."""
        ...

    def checkpoint(self) -> bytes:
        """What a successor needs besides the inputs' positions."""
        ...


class ArrivalOrder:
    """Rows count as they come."""

    def __init__(self, queue: OrderedQueue, streams: int) -> None:
        self._queue = queue
        self._streams = streams

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        places, columns = columns_of(source, rows)
        source.ledger.enter(rows, rows.dead)
        by_stream: list[StreamColumns | None] = [None] * self._streams
        by_stream[source.stream] = columns
        self._queue.push(places, by_stream)

    def advance(self, now_ms: int) -> None:
        """Nothing waits."""

    def wants(self, source: PhysicalInput) -> bool:
        """Always: the queue's length is the router's concern."""
        return True

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Rows go out in their input's order, so positions say all."""

    def checkpoint(self) -> bytes:
        """Nothing."""
        return b""


class EventTimeOrder:
    """Rows count in the order of (time, stream, partition, offset, row), once no active input can bring an earlier one.

    An input's own times may run back by `lateness_us`; what comes later than that is refused as "late", and so is a
    row of an input that was taken for idle when the merge had passed the row's place.
    """

    def __init__(
        self,
        queue: OrderedQueue,
        inputs: list[PhysicalInput],
        streams: int,
        lateness_us: int,
        idle_timeout_ms: int,
        pending_max: int,
        checkpoint: bytes,
        answered: Answered = NOTHING_ANSWERED,
    ) -> None:
        self._answered = answered
        self._spared: dict[tuple[int, int], set[Place]] = {}
        self._queue = queue
        self._inputs = inputs
        self._streams = streams
        self._lateness_us = lateness_us
        self._idle_timeout_ms = idle_timeout_ms
        self._pending_max = pending_max
        self._restored = self._frontier = self._merged = FIRST_KEY
        self._now_ms = 0
        self._reads: dict[tuple[int, int], Place] = {}
        self._late: set[tuple[int, int, int, int]] = set()
        if checkpoint:
            self._restore(orjson.loads(checkpoint))

    def _restore(self, saved: dict[str, list[list[int]]]) -> None:
        time_us, stream, partition, offset, row = saved["frontier"][0]
        self._restored = self._frontier = self._merged = (time_us, stream, partition, offset, row)
        self._reads = {(s, p): (o, r) for s, p, o, r in saved["read"]}
        self._late = {(s, p, o, r) for s, p, o, r in saved["late"]}
        for source in self._inputs:
            self.adopt(source)

    def adopt(self, source: PhysicalInput) -> None:
        """Give an input what the checkpoint knows of it."""
        source.read_before = self._reads.get((source.stream, source.partition), (-1, 0))
        source.late_before = frozenset(
            (o, r) for s, p, o, r in self._late if (s, p) == (source.stream, source.partition)
        )

    @property
    def reads(self) -> dict[tuple[int, int], Place]:
        """How far the router that wrote the checkpoint had read each input."""
        return self._reads

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input; refuse late ones."""
        if rows.heartbeat_us is not None:
            source.heartbeat_us = max(source.heartbeat_us, rows.heartbeat_us)
        times = _times(rows)
        seen = self._seen(source, rows, times)
        # NEVER minus the lateness would wrap around
        late = (seen != NEVER) & (times < np.where(seen == NEVER, 0, seen) - self._lateness_us)
        self._spare(source, rows, times, seen)
        done, passed = self._passed(source, rows, times, ~late)
        dead = self._refuse(source, rows, times, late, passed)
        kept = ~(late | passed)
        first_id = source.ledger.next_id
        entered = rows if kept.all() else only(rows, kept)
        source.ledger.enter(entered, dead)
        ids = np.arange(first_id, first_id + len(entered), dtype=np.int64)
        done = done[kept]
        if done.any():
            source.ledger.mark(ids[done])
        if not done.all():
            places, columns = columns_of(source, entered, ids)
            source.pieces.append(columns if not done.any() else columns.take(~done))
            source.places.append(places if not done.any() else _pick(places, np.flatnonzero(~done)))

    def _seen(self, source: PhysicalInput, rows: Rows, times: I64) -> I64:
        """The largest event time before each row of its partition; what lay before the cut counts though not read."""
        seen = np.maximum.accumulate(np.concatenate((np.array([source.ledger.high_time_us]), times)))[:-1]
        high = self._answered.high_of(source.stream, source.partition)
        if high == NEVER:
            return seen
        is_behind = ~before(rows.offsets, rows.rows, self._answered.cut_of(source.stream, source.partition))
        if is_behind.any():
            source.ledger.high_time_us = max(source.ledger.high_time_us, high)
        return np.where(is_behind, np.maximum(seen, high), seen)

    def _spare(self, source: PhysicalInput, rows: Rows, times: I64, seen: I64) -> None:
        """Remember rows that were late for an earlier generation: that it had gone past them answers nothing."""
        answered, place = self._answered, (source.stream, source.partition)
        if answered.frontier is None or answered.lateness_us >= self._lateness_us:
            return
        was_late = (seen != NEVER) & (times < np.where(seen == NEVER, 0, seen) - answered.lateness_us)
        was_late &= ~before(rows.offsets, rows.rows, answered.cut_of(*place))
        places = zip(rows.offsets[was_late].tolist(), rows.rows[was_late].tolist(), strict=True)
        self._spared.setdefault(place, set()).update(places)

    def is_spared(self, source: PhysicalInput, offsets: I64, rows: I64) -> Flags:
        """Which rows of an input an earlier generation had not answered though they come before its frontier."""
        spared = self._spared.get((source.stream, source.partition), set())
        return np.array([place in spared for place in zip(offsets.tolist(), rows.tolist(), strict=True)], np.bool_)

    def _passed(self, source: PhysicalInput, rows: Rows, times: I64, candidates: Flags) -> tuple[Flags, Flags]:
        """Rows that are out already (before a restart), and rows that the merge has passed without them."""
        done = np.zeros(len(rows), np.bool_)
        passed = np.zeros(len(rows), np.bool_)
        for i in np.flatnonzero(candidates & (times <= self._merged[0])):
            place = (int(rows.offsets[i]), int(rows.rows[i]))
            key = (int(times[i]), source.stream, source.partition, *place)
            if place in source.late_before:
                passed[i] = True
            elif place < source.read_before and key <= self._restored:
                done[i] = True
            elif key <= self._merged:
                passed[i] = True
        return done, passed

    def _refuse(self, source: PhysicalInput, rows: Rows, times: I64, late: Flags, passed: Flags) -> list[DeadLetter]:
        refused = [
            DeadLetter(
                source.stream,
                source.partition,
                int(rows.offsets[i]),
                int(rows.rows[i]),
                "late",
                self._why_late(source, times, int(i), in_partition=bool(late[i])),
                b"",
            )
            for i in np.flatnonzero(late | passed)
        ]
        for i in np.flatnonzero(passed):
            source.ledger.note_late((int(rows.offsets[i]), int(rows.rows[i])))
        return sorted(rows.dead + refused, key=lambda letter: (letter.offset, letter.row))

    def _why_late(self, source: PhysicalInput, times: I64, row: int, *, in_partition: bool) -> str:
        if not in_partition:
            return (
                f"event time {times[row]} us: the input was idle, and all inputs were merged up to {self._merged[0]} us"
            )
        high = max(source.ledger.high_time_us, int(times[:row].max(initial=NEVER)))
        return f"event time {times[row]} us came after {high} us; the stated lateness is {self._lateness_us} us"

    def wants(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read: it holds the merge back, or has room."""
        return source.pending() < self._pending_max or source is self._slowest(self._now_ms)

    def advance(self, now_ms: int) -> None:
        """Merge what is ready and push it on."""
        self._now_ms = now_ms
        slowest = self._slowest(now_ms)
        if slowest is None:
            bound = (2**63 - 1, self._streams, 0)
        else:
            bound = (self._watermark(slowest), slowest.stream, slowest.partition)
        taken = [part for source in self._inputs if (part := take_ready(source, _ready(source, bound))) is not None]
        if taken:
            self._merge(taken)

    def _slowest(self, now_ms: int) -> PhysicalInput | None:
        active = [source for source in self._inputs if not self._idle(source, now_ms)]
        return min(active, key=lambda s: (self._watermark(s), s.stream, s.partition), default=None)

    def _idle(self, source: PhysicalInput, now_ms: int) -> bool:
        ended = source.ended_ms
        return ended is not None and now_ms - ended >= self._idle_timeout_ms

    def _watermark(self, source: PhysicalInput) -> int:
        high = source.ledger.high_time_us
        return max(NEVER if high == NEVER else high - self._lateness_us, source.heartbeat_us)

    def _merge(self, taken: list[Taken]) -> None:
        times = [_given(columns) for _, _, columns in taken]
        places, columns = merged(taken, times, self._streams)
        self._queue.push(places, columns)
        last = self._inputs[int(places.inputs[-1])]
        place = last.ledger.place(int(places.ids[-1]))
        self._merged = (max(int(each.max()) for each in times), last.stream, last.partition, *place)

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Move the frontier to this row."""
        if time_us is None:
            raise ValueError("event-time order needs event times")
        self._frontier = (time_us, source.stream, source.partition, *source.ledger.place(row_id))

    def checkpoint(self) -> bytes:
        """The frontier, how far each input was read, and late rows that positions have not passed.

        What was read before a restart still counts where it has not been read again.
        """
        read = dict(self._reads)
        known = {(source.stream, source.partition) for source in self._inputs}
        late = {place for place in self._late if place[:2] not in known}
        for source in self._inputs:
            name = source.stream, source.partition
            read[name] = max(source.ledger.read_end(), source.read_before)
            late |= {(*name, *place) for place in source.ledger.late() + source.late_ahead()}
        return orjson.dumps(
            {
                "frontier": [self._frontier],
                "read": [[*name, *place] for name, place in sorted(read.items())],
                "late": [list(place) for place in sorted(late)],
            }
        )


def merged(taken: list[Taken], times: list[I64], streams: int) -> tuple[Places, list[StreamColumns | None]]:
    """Rows of several inputs in one order: by their `times`, ties by stream, partition and place."""
    places = _pick(concat_places([p for _, p, _ in taken]), _order(taken, np.concatenate(times)))
    return places, [_stream_columns(taken, times, stream) for stream in range(streams)]


def _stream_columns(taken: list[Taken], times: list[I64], stream: int) -> StreamColumns | None:
    own = [number for number, part in enumerate(taken) if part[0].stream == stream]
    if not own:
        return None
    columns = concat([taken[number][2] for number in own])
    order = _order([taken[number] for number in own], np.concatenate([times[number] for number in own]))
    return columns if (order[:-1] < order[1:]).all() else columns.take(order)


def _order(taken: list[Taken], times: I64) -> I64:
    ids = np.concatenate([p.ids for _, p, _ in taken])
    streams = np.concatenate([np.full(len(p), s.stream) for s, p, _ in taken])
    partitions = np.concatenate([np.full(len(p), s.partition) for s, p, _ in taken])
    return np.lexsort((ids, partitions, streams, times)).astype(np.int64)


def _ready(source: PhysicalInput, bound: tuple[int, int, int]) -> Flags:
    """Which of the rows held of an input come before a bound, (time, stream, partition)."""
    if not source.pieces:
        return np.zeros(0, np.bool_)
    columns = concat(source.pieces)
    source.pieces = [columns]
    ties = (source.stream, source.partition) <= bound[1:]
    return _given(columns) <= bound[0] if ties else _given(columns) < bound[0]


def take_ready(source: PhysicalInput, ready: Flags) -> Taken | None:
    """Take those of an input's held rows that a mask picks; None where it picks none."""
    if not source.pieces:
        return None
    columns, places = concat(source.pieces), concat_places(source.places)
    source.pieces, source.places = [columns], [places]
    if not ready.any():
        return None
    if ready.all():
        source.pieces, source.places = [], []
        return source, places, columns
    source.pieces, source.places = [columns.take(~ready)], [_pick(places, np.flatnonzero(~ready))]
    return source, _pick(places, np.flatnonzero(ready)), columns.take(ready)


def columns_of(source: PhysicalInput, rows: Rows, ids: I64 | None = None) -> tuple[Places, StreamColumns]:
    """Rows as they wait in order, numbered by their input's ledger."""
    count = len(rows)
    if ids is None:
        ids = np.arange(source.ledger.next_id, source.ledger.next_id + count, dtype=np.int64)
    places = Places(
        np.full(count, source.index, np.int64), ids, np.full(count, source.stream, np.uint8), rows.produced_ms
    )
    return places, StreamColumns(rows.codes, rows.times_us, rows.keys)


def only(rows: Rows, kept: Flags) -> Rows:
    """The rows that a mask keeps; dead letters stay."""
    columns = StreamColumns(rows.codes, rows.times_us, rows.keys).take(kept)
    return Rows(
        rows.offsets[kept],
        rows.rows[kept],
        rows.next_offset,
        columns.codes,
        columns.times_us,
        columns.keys,
        rows.produced_ms[kept],
        rows.dead,
        rows.heartbeat_us,
    )


def _pick(places: Places, rows: I64) -> Places:
    return Places(places.inputs[rows], places.ids[rows], places.streams[rows], places.produced_ms[rows])


def _given(columns: StreamColumns) -> I64:
    if columns.times_us is None:
        raise ValueError("event-time order needs event times")
    return columns.times_us


def _times(rows: Rows) -> I64:
    if rows.times_us is None:
        raise ValueError("event-time order needs event times")
    return rows.times_us


def start_of(positions: dict[tuple[int, int], SourcePosition], stream: int, partition: int) -> SourcePosition:
    """Where an input is read on; one that no frame has seen starts at its beginning."""
    return positions.get((stream, partition), SourcePosition(0, 0, NEVER))
