"""Rows merged by event time (ScaleJoin's ready tuples, section 3), once no active input can bring an earlier one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import orjson

from spojoin.protocol.answered import NEVER, Answered, Key, Place, before
from spojoin.roles.router.merging import merged
from spojoin.roles.router.physical_input import Flags, PhysicalInput, Taken, columns_of, only, take_ready
from spojoin.roles.router.queue import OrderedQueue, StreamColumns, concat
from spojoin.wire.records import I64, DeadLetter, Rows

FIRST_KEY: Key = (NEVER, 0, 0, 0, 0)
NOTHING_ANSWERED = Answered()


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """What bounds the merge.

    lateness_us: how far event times may run backwards within an input
    idle_timeout_ms: an input at its end for this long no longer holds the merge
    pending_max: rows that an input may hold before it is read only when the merge waits for it
    """

    lateness_us: int
    idle_timeout_ms: int
    pending_max: int


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
        limits: MergeLimits,
        checkpoint: bytes,
        answered: Answered = NOTHING_ANSWERED,
    ) -> None:
        self._answered = answered
        self._queue = queue
        self._inputs = inputs
        self._streams = streams
        self._lateness_us = limits.lateness_us
        self._idle_timeout_ms = limits.idle_timeout_ms
        self._pending_max = limits.pending_max
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
        source.read_before = self._reads.get(source.key, (-1, 0))
        source.late_before = frozenset((o, r) for s, p, o, r in self._late if (s, p) == source.key)

    @property
    def reads(self) -> dict[tuple[int, int], Place]:
        """How far the router that wrote the checkpoint had read each input."""
        return self._reads

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input; refuse late ones."""
        if rows.heartbeat_us is not None:
            source.heartbeat_us = max(source.heartbeat_us, rows.heartbeat_us)
        times = _times(rows)
        late = self.are_late(source, rows)
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
            origins, columns = columns_of(source, entered, ids)
            source.pieces.append(columns if not done.any() else columns.take(~done))
            source.origins.append(origins if not done.any() else origins.take(np.flatnonzero(~done)))

    def are_late(self, source: PhysicalInput, rows: Rows) -> Flags:
        """Which rows of an input run back by more than the lateness."""
        times = _times(rows)
        seen = self._seen(source, rows, times)
        # NEVER minus the lateness would wrap around
        late: Flags = (seen != NEVER) & (times < np.where(seen == NEVER, 0, seen) - self._lateness_us)
        return late

    def _seen(self, source: PhysicalInput, rows: Rows, times: I64) -> I64:
        """The largest event time before each row of its partition; what lay before the cut counts though not read."""
        seen = np.maximum.accumulate(np.concatenate((np.array([source.ledger.high_time_us]), times)))[:-1]
        high = self._answered.high_of(*source.key)
        if high == NEVER:
            return seen
        is_behind = ~before(rows.offsets, rows.rows, self._answered.cut_of(*source.key))
        if is_behind.any():
            source.ledger.high_time_us = max(source.ledger.high_time_us, high)
        return np.where(is_behind, np.maximum(seen, high), seen)

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

    def watermark_us(self, now_ms: int) -> int | None:
        """What the slowest active input has reached; where all are idle, event time stands still."""
        slowest = self._slowest(now_ms)
        reached = self._merged[0] if slowest is None else self._watermark(slowest)
        return None if reached == NEVER else reached

    def _merge(self, taken: list[Taken]) -> None:
        times = [_given(columns) for _, _, columns in taken]
        origins, columns = merged(taken, times, self._streams)
        self._queue.push(origins, columns)
        last = self._inputs[int(origins.inputs[-1])]
        place = last.ledger.place(int(origins.ids[-1]))
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
        known = {source.key for source in self._inputs}
        late = {row for row in self._late if row[:2] not in known}
        for source in self._inputs:
            read[source.key] = max(source.ledger.read_end(), source.read_before)
            late |= {(*source.key, *place) for place in source.ledger.late() + source.late_ahead()}
        return orjson.dumps(
            {
                "frontier": [self._frontier],
                "read": [[*key, *place] for key, place in sorted(read.items())],
                "late": [list(row) for row in sorted(late)],
            }
        )


def _ready(source: PhysicalInput, bound: tuple[int, int, int]) -> Flags:
    """Which of the rows held of an input come before a bound, (time, stream, partition)."""
    if not source.pieces:
        return np.zeros(0, np.bool_)
    columns = concat(source.pieces)
    source.pieces = [columns]
    ties = source.key <= bound[1:]
    return _given(columns) <= bound[0] if ties else _given(columns) < bound[0]


def _given(columns: StreamColumns) -> I64:
    if columns.times_us is None:
        raise ValueError("event-time order needs event times")
    return columns.times_us


def _times(rows: Rows) -> I64:
    if rows.times_us is None:
        raise ValueError("event-time order needs event times")
    return rows.times_us
