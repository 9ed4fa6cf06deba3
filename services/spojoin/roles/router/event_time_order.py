"""Rows merged by event time (ScaleJoin's ready tuples, section 3), once no input can bring an earlier one (P18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from spojoin.arrays import I64, Flags
from spojoin.protocol.answered import (
    Answered,
    Key,
    Promises,
    before,
    promises_of,
    saved_promises,
)
from spojoin.protocol.machine import Holder
from spojoin.roles.router.physical_input import (
    PhysicalInput,
    ReadyRows,
    merge_inputs,
    queued_rows,
    rows_where,
    take_ready,
)
from spojoin.roles.router.queue import OrderedQueue, StreamColumns, concat_columns
from spojoin.suggest import moment, span
from spojoin.wire.records import NEVER, DeadLetter, Place, Rows

FIRST_KEY: Key = (NEVER, 0, 0, 0, 0)
NOTHING_ANSWERED = Answered()


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """The limits of the merge.

    lateness_us: how far event times may run back within an input
    idle_timeout_us: how long the merge waits for an input without records; None: without limit
    pending_max: an input that holds this many rows is read only if the merge waits for it
    """

    lateness_us: int
    idle_timeout_us: int | None
    pending_max: int


class EventTimeOrder:
    """Rows pass in the order (time, stream, partition, offset, row) once no active input can bring an earlier one.

    Within an input, times may run back by `lateness_us`; a row that runs back further is refused as "late". The merge
    waits for every input, even one without any row yet. Only if the query has an idle timeout can an input be idle: the
    merge doesn't wait for it if it was at its end after a record of another input was read whose timestamp is later
    than its own last record's by that timeout. A row is also late if the merge had passed its place without it.
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
        self._idle_timeout_us = limits.idle_timeout_us
        self._pending_max = limits.pending_max
        self._restored = self._frontier = self._merged = FIRST_KEY
        self._first_ms: int | None = None
        self._reads: dict[tuple[int, int], Place] = {}
        self._late: set[tuple[int, int, int, int]] = set()
        self._promised: Promises = answered.promised
        if checkpoint:
            self._restore(orjson.loads(checkpoint))

    def _restore(self, saved: dict[str, Any]) -> None:
        time_us, stream, partition, offset, row = saved["frontier"][0]
        self._restored = self._frontier = self._merged = (time_us, stream, partition, offset, row)
        self._reads = {(s, p): (o, r) for s, p, o, r in saved["read"]}
        self._late = {(s, p, o, r) for s, p, o, r in saved["late"]}
        self._promised = {**self._promised, **promises_of(saved)}
        for source in self._inputs:
            self.adopt_checkpoint(source)

    def adopt_checkpoint(self, source: PhysicalInput) -> None:
        """Give an input its state from the checkpoint."""
        source.read_before = self._reads.get(source.key, (-1, 0))
        source.late_before = frozenset((o, r) for s, p, o, r in self._late if (s, p) == source.key)
        place, promised_us = self._promised.get(source.key, ((0, 0), NEVER))
        if source.ledger.start >= place:  # otherwise the heartbeat is read again, after rows that may be earlier
            source.promised_at, source.heartbeat_us = place, promised_us

    @property
    def reads(self) -> dict[tuple[int, int], Place]:
        """How far the router that wrote the checkpoint had read each input."""
        return self._reads

    def enter_rows(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input; refuse late ones."""
        self._note_record(source, rows)
        times = _times(rows)
        late = self.are_late(source, rows)
        done, passed = self._passed(source, rows, times, ~late)
        dead = self._refuse(source, rows, times, late, passed)
        kept = ~(late | passed)
        first_id = source.ledger.next_id
        entered = rows if kept.all() else rows_where(rows, kept)
        source.ledger.enter_rows(entered, dead)
        ids = np.arange(first_id, first_id + len(entered), dtype=np.int64)
        done = done[kept]
        if done.any():
            source.ledger.mark_out(ids[done])
        if not done.all():
            origins, columns = queued_rows(source, entered, ids)
            source.pieces.append(columns if not done.any() else columns.rows_at(~done))
            source.origins.append(origins if not done.any() else origins.rows_at(np.flatnonzero(~done)))

    def _note_record(self, source: PhysicalInput, rows: Rows) -> None:
        if rows.heartbeat_us is not None and rows.heartbeat_us > source.heartbeat_us:
            source.promised_at, source.heartbeat_us = rows.end, rows.heartbeat_us
        if rows.latest_ms is not None:
            source.latest_ms = rows.latest_ms
            self._first_ms = rows.latest_ms if self._first_ms is None else self._first_ms

    def are_late(self, source: PhysicalInput, rows: Rows) -> Flags:
        """Which rows of an input run back by more than the lateness."""
        times = _times(rows)
        seen = self._seen(source, rows, times)
        # NEVER minus the lateness would wrap around
        late: Flags = (seen != NEVER) & (times < np.where(seen == NEVER, 0, seen) - self._lateness_us)
        return late

    def _seen(self, source: PhysicalInput, rows: Rows, times: I64) -> I64:
        """The largest event time before each row in its partition, rows before the cut included, though not read."""
        seen = np.maximum.accumulate(np.concatenate((np.array([source.ledger.high_time_us]), times)))[:-1]
        high = self._answered.high_of(*source.key)
        if high == NEVER:
            return seen
        is_behind = ~before(rows.offsets, rows.rows, self._answered.cut_of(*source.key))
        if is_behind.any():
            source.ledger.high_time_us = max(source.ledger.high_time_us, high)
        return np.where(is_behind, np.maximum(seen, high), seen)

    def _passed(self, source: PhysicalInput, rows: Rows, times: I64, candidates: Flags) -> tuple[Flags, Flags]:
        """Which rows are out already (before a restart), and which the merge has passed without them."""
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
                *rows.as_it_came(int(rows.offsets[i]), int(rows.rows[i])),
            )
            for i in np.flatnonzero(late | passed)
        ]
        for i in np.flatnonzero(passed):
            source.ledger.note_late((int(rows.offsets[i]), int(rows.rows[i])))
        return sorted(rows.dead + refused, key=lambda letter: (letter.offset, letter.row))

    def _why_late(self, source: PhysicalInput, times: I64, row: int, *, in_partition: bool) -> str:
        time = moment(int(times[row]))
        if in_partition:
            high = max(source.ledger.high_time_us, int(times[:row].max(initial=NEVER)))
            lateness = f"the stated lateness is {span(self._lateness_us)}"
            if high == self._answered.merged_us:
                return (
                    f"event time {time}: its input had no row when others were merged up to {moment(high)}; {lateness}"
                )
            return f"event time {time} came after {moment(high)} in its input; {lateness}"
        if times[row] < source.heartbeat_us:
            why = f"a heartbeat of its input had promised nothing before {moment(source.heartbeat_us)}"
        elif self._idle_timeout_us is not None:
            why = f"the input was idle for {span(self._idle_timeout_us)} (idle_timeout)"
        else:
            why = "its input had ended, or wasn't there yet"
        return f"event time {time}: {why}, and all inputs were merged up to {moment(self._merged[0])}"

    def wants_rows(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read: the merge waits for it, or it has room."""
        return source.held_rows() < self._pending_max or source is self._slowest()

    def push_ready_rows(self) -> None:
        """Merge the rows that are ready, and push them onto the queue."""
        if not self._is_complete():
            return
        slowest = self._slowest()
        if slowest is None:
            bound = (2**63 - 1, self._streams, 0)
        else:
            bound = (self._watermark(slowest), slowest.stream, slowest.partition)
        taken = [part for source in self._inputs if (part := take_ready(source, _ready(source, bound))) is not None]
        if taken:
            self._merge(taken)

    def _is_complete(self) -> bool:
        """Whether each of the query's inputs has a partition: an input that doesn't exist yet may bring any row."""
        return len({source.stream for source in self._inputs}) == self._streams

    def _slowest(self) -> PhysicalInput | None:
        latest_ms = NEVER if self._idle_timeout_us is None else self._latest_ms()
        waited_for = [source for source in self._inputs if not (source.is_over or self._is_idle(source, latest_ms))]
        return min(waited_for, key=lambda s: (self._watermark(s), s.stream, s.partition), default=None)

    def holder(self, *, are_open: bool) -> Holder | None:
        """The input that others wait for, if rows wait; are_open: whether rows that were taken already wait as well."""
        rows = sum(source.held_rows() for source in self._inputs)
        if not (rows or are_open):
            return None
        if not self._is_complete():
            missing = min({*range(self._streams)} - {source.stream for source in self._inputs})
            return Holder(missing, None, 0, None, rows)
        slowest = self._slowest()
        if slowest is None:
            return None
        reached_us, stream = self._watermark(slowest), slowest.stream
        partitions = sum(source.stream == stream for source in self._inputs)
        return Holder(stream, slowest.partition, partitions, None if reached_us == NEVER else reached_us, rows)

    # -- idle inputs

    def _is_idle(self, source: PhysicalInput, latest_ms: int) -> bool:  # P18.3
        return source.is_ended and source.ended_at_ms >= latest_ms and self._is_overdue(source, latest_ms)

    def _is_overdue(self, source: PhysicalInput, latest_ms: int) -> bool:
        """Whether other inputs' records are later by the idle timeout than its last record, or the very first one."""
        if self._idle_timeout_us is None or self._first_ms is None:
            return False
        last_ms = self._first_ms if source.latest_ms is None else source.latest_ms
        return (latest_ms - last_ms) * 1_000 >= self._idle_timeout_us

    def _latest_ms(self) -> int:  # P18.4
        """The latest timestamp of all inputs' records."""
        return max((source.latest_ms for source in self._inputs if source.latest_ms is not None), default=NEVER)

    def note_end(self, source: PhysicalInput) -> None:
        """Note that the input was at its end after all records of other inputs that were read."""
        source.ended_at_ms = self._latest_ms()

    def doubts_end(self, source: PhysicalInput) -> bool:
        """Whether the input is idle if it is still at its end."""
        if self._idle_timeout_us is None:
            return False
        latest_ms = self._latest_ms()
        return source.ended_at_ms < latest_ms and self._is_overdue(source, latest_ms)

    def _watermark(self, source: PhysicalInput) -> int:  # P18.1
        high = source.ledger.high_time_us
        return max(NEVER if high == NEVER else high - self._lateness_us, source.heartbeat_us)

    def watermark_us(self) -> int | None:
        """The event time that the slowest active input has reached; if all are over, event time stands still."""
        slowest = self._slowest()
        reached = self._merged[0] if slowest is None else self._watermark(slowest)
        return None if reached == NEVER else reached

    def _merge(self, taken: list[ReadyRows]) -> None:
        times = [_given(columns) for _, _, columns in taken]
        origins, columns = merge_inputs(taken, times, self._streams)
        self._queue.push(origins, columns)
        last = self._inputs[int(origins.inputs[-1])]
        place = last.ledger.place_of(int(origins.ids[-1]))
        self._merged = (max(int(each.max()) for each in times), last.stream, last.partition, *place)

    def note_last_row(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Move the frontier to an input's row."""
        if time_us is None:
            raise ValueError("event-time order needs event times")
        self._frontier = (time_us, source.stream, source.partition, *source.ledger.place_of(row_id))

    def checkpoint(self) -> bytes:  # P4.2
        """The frontier, how far each input was read, late rows after the inputs' positions, and promises after them.

        Rows that were read before a restart, and not yet again, still count.
        """
        read = dict(self._reads)
        known = {source.key for source in self._inputs}
        late = {row for row in self._late if row[:2] not in known}
        for source in self._inputs:
            read[source.key] = max(source.ledger.read_end(), source.read_before)
            late |= {(*source.key, *place) for place in source.ledger.late_places() + source.late_ahead()}
        return orjson.dumps(
            {
                "frontier": [self._frontier],
                "read": [[*key, *place] for key, place in sorted(read.items())],
                "late": [list(row) for row in sorted(late)],
                "promised": saved_promises(self._promises()),
            }
        )

    def _promises(self) -> Promises:  # P18.2
        passed = {
            source.key: (source.promised_at, source.heartbeat_us)
            for source in self._inputs
            if source.heartbeat_us != NEVER and source.ledger.position_place >= source.promised_at
        }
        self._promised = {**self._promised, **passed}
        return self._promised


def _ready(source: PhysicalInput, bound: tuple[int, int, int]) -> Flags:
    """Which of an input's held rows come before a bound (time, stream, partition)."""
    if not source.pieces:
        return np.zeros(0, np.bool_)
    columns = concat_columns(source.pieces)
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
