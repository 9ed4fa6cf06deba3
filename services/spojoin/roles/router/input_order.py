"""How rows of many inputs come into one order: the interface, the order of arrival, and the open inputs.

Every order pushes rows onto an OrderedQueue and recovers from the last frame's source positions and checkpoint. The
order by event time is in `event_time_order`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from spojoin.arrays import I64
from spojoin.model import Order, Query
from spojoin.protocol.answered import Answered
from spojoin.protocol.generations import Beginning
from spojoin.roles.router.event_time_order import EventTimeOrder, MergeLimits
from spojoin.roles.router.physical_input import (
    InputLedger,
    PhysicalInput,
    merge_inputs,
    queued_rows,
    rows_before,
    rows_behind,
    take_ready,
)
from spojoin.roles.router.queue import OrderedQueue, StreamColumns
from spojoin.wire.records import NEVER, Frame, Place, Rows, SourceState, resume_position


class Ordering(Protocol):
    """Turns rows of single inputs into rows in the total order."""

    def enter_rows(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        ...

    def push_ready_rows(self) -> None:
        """Push the rows that are ready onto the queue."""
        ...

    def wants_rows(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read."""
        ...

    def note_last_row(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Note that the input's row with this ledger number is the last of the next frame."""
        ...

    def watermark_us(self) -> int | None:
        """The event time before which no more rows come; None if it is unknown."""
        ...

    def checkpoint(self) -> bytes:
        """The state that a successor needs besides the inputs' positions."""
        ...


class ArrivalOrder:
    """Rows in the order in which they come."""

    def __init__(self, queue: OrderedQueue, inputs: int) -> None:
        self._queue = queue
        self._count = inputs

    def enter_rows(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        origins, columns = queued_rows(source, rows)
        source.ledger.enter_rows(rows, rows.dead)
        by_input: list[StreamColumns | None] = [None] * self._count
        by_input[source.stream] = columns
        self._queue.push(origins, by_input)

    def push_ready_rows(self) -> None:
        pass

    def wants_rows(self, source: PhysicalInput) -> bool:
        """Always; the router limits the queue's length."""
        return True

    def note_last_row(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Rows go out in their input's order, so positions say all."""

    def watermark_us(self) -> int | None:
        """None: rows may have any event times."""
        return None

    def checkpoint(self) -> bytes:
        return b""


_ALWAYS = 2**63 - 1


class BackfillOrder:  # P12.13
    """Rows before the cut in the order of production; later rows in the order of `after`."""

    def __init__(
        self,
        after: Ordering,
        queue: OrderedQueue,
        inputs: list[PhysicalInput],
        streams: int,
        pending_max: int,
        answered: Answered,
    ) -> None:
        self._after = after
        self._queue = queue
        self._inputs = inputs
        self._streams = streams
        self._pending_max = pending_max
        self._answered = answered
        self._produced: dict[int, I64] = {}
        self._high: dict[int, int] = {}
        self._held: list[tuple[PhysicalInput, Rows]] = []
        self._is_over = False

    def enter_rows(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        if self._is_over:
            self._after.enter_rows(source, rows)
            return
        cut = self._cut_of(source)
        self._enter(source, rows_before(rows, cut))
        if rows.end > cut:  # even without rows: then the place moves on
            self._held.append((source, rows_behind(rows, cut)))

    def _enter(self, source: PhysicalInput, rows: Rows) -> None:
        origins, columns = queued_rows(source, rows)
        source.ledger.enter_rows(rows, rows.dead)
        if not len(rows):
            return
        high = self._high.get(source.index, NEVER)
        produced = np.maximum.accumulate(np.maximum(rows.produced_ms, high))
        self._high[source.index] = int(produced[-1])
        self._produced[source.index] = np.concatenate((self._produced_of(source), produced))
        source.pieces.append(columns)
        source.origins.append(origins)

    def _produced_of(self, source: PhysicalInput) -> I64:
        return self._produced.get(source.index, np.empty(0, np.int64))

    def _cut_of(self, source: PhysicalInput) -> Place:
        return self._answered.cut_of(*source.key)

    def push_ready_rows(self) -> None:
        """Push rows that no earlier row can precede; once no input is before its cut, push all waiting rows."""
        if self._is_over:
            return
        slowest = self._slowest()
        self._push(_ALWAYS if slowest is None else self._high.get(slowest.index, NEVER))
        if slowest is None:
            self._is_over = True
            for source, rows in self._held:
                self._after.enter_rows(source, rows)
            self._held.clear()

    def _slowest(self) -> PhysicalInput | None:
        behind = [source for source in self._inputs if self._is_before_cut(source)]
        return min(behind, key=lambda source: self._high.get(source.index, NEVER), default=None)

    def _is_before_cut(self, source: PhysicalInput) -> bool:
        """Whether rows before the cut may follow: at an input's end, only gaps may remain before the cut."""
        return not source.is_ended and source.ledger.read_end() < self._cut_of(source)

    def _push(self, bound_ms: int) -> None:
        taken, times = [], []
        for source in self._inputs:
            produced = self._produced_of(source)
            part = take_ready(source, produced < bound_ms if bound_ms != _ALWAYS else np.ones(len(produced), np.bool_))
            if part is not None:
                count = len(part[1])
                taken.append(part)
                times.append(produced[:count])
                self._produced[source.index] = produced[count:]
        if taken:
            self._queue.push(*merge_inputs(taken, times, self._streams))

    def wants_rows(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read."""
        if self._is_over:
            return self._after.wants_rows(source)
        if any(held is source for held, _ in self._held):
            return False
        return source.held_rows() < self._pending_max or source is self._slowest()

    def note_last_row(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Rows go out in their input's order, so positions say all."""

    def watermark_us(self) -> int | None:
        """None while rows are read again."""
        return self._after.watermark_us() if self._is_over else None

    def checkpoint(self) -> bytes:
        """Empty: rows that were read but aren't out are read again."""
        return b""


#: How many frames' worth of rows may wait in order; more would only add latency.
QUEUE_FRAMES = 4


class RouterInputs:
    """The open inputs, and how their rows get into the queue.

    mask: returns the streams that an input of the query feeds, a bit for each
    answered: what earlier generations have answered
    """

    def __init__(
        self, query: Query, queue: OrderedQueue, frame_tuples: int, beginning: Beginning, mask: Callable[[int], int]
    ) -> None:
        self.opened: list[PhysicalInput] = []
        self.ordering: Ordering = ArrivalOrder(queue, len(query.inputs))
        self.answered = beginning.answered()
        self.pending_max = QUEUE_FRAMES * frame_tuples
        self.declared: list[tuple[int, int]] = []
        self._query = query
        self._queue = queue
        self._is_cut = bool(beginning.cut)
        self._mask = mask

    def choose_order(self, last: Frame | None) -> None:
        """Choose the order of rows after the log's last frame, before any input is open."""
        inputs = len(self._query.inputs)
        if self._query.order.by is Order.EVENT_TIME:
            limits = MergeLimits(self._query.order.lateness_us, self._query.order.idle_timeout_us, self.pending_max)
            checkpoint = b"" if last is None else last.checkpoint
            self.ordering = EventTimeOrder(self._queue, self.opened, inputs, limits, checkpoint, self.answered)
        elif self._is_cut:
            self.ordering = BackfillOrder(
                self.ordering, self._queue, self.opened, inputs, self.pending_max, self.answered
            )

    def open_declared(self, sources: SourceState) -> None:
        """Open the declared inputs that aren't open yet, each at its position in the log's sources."""
        known = {source.key for source in self.opened}
        for stream, partition in self.declared:
            if (stream, partition) in known:
                continue
            ledger = InputLedger(resume_position(sources, (stream, partition)))
            is_of_only = len(self._query.inputs) == 1
            source = PhysicalInput(stream, partition, ledger, len(self.opened), self._mask(stream), is_of_only)
            self.opened.append(source)
            if isinstance(self.ordering, EventTimeOrder):
                self.ordering.adopt_checkpoint(source)

    def input(self, stream: int, partition: int) -> PhysicalInput:
        return next(source for source in self.opened if source.key == (stream, partition))

    @property
    def has_passable(self) -> bool:
        """Whether the log could note an input's progress without rows."""
        return any(source.ledger.passable for source in self.opened)
