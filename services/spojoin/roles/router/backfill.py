"""Arrival order where a generation begins behind another (rule P12): what is read again goes first.

Several partitions are read again as fast as they come, which says nothing of how they arrived. So rows before the cut
are merged by the time at which they were produced, ties by stream, partition and offset; a partition keeps its order.
Rows behind the cut wait until all before it are in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spojoin.protocol.answered import NEVER, Answered, Place, before
from spojoin.roles.router.merging import merged
from spojoin.roles.router.ordering import Ordering
from spojoin.roles.router.physical_input import PhysicalInput, columns_of, only, take_ready
from spojoin.roles.router.queue import OrderedQueue
from spojoin.wire.records import I64, Rows

_ALWAYS = 2**63 - 1


class BackfillOrder:
    """Rows before the cut by production time; then whatever comes, in the order that `after` gives it."""

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

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        if self._is_over:
            self._after.take(source, rows)
            return
        cut = self._cut_of(source)
        ahead, behind = _split(rows, cut)
        self._enter(source, ahead, min(cut, (rows.next_offset, 0)))
        if len(behind) or behind.dead:
            self._held.append((source, behind))

    def _enter(self, source: PhysicalInput, rows: Rows, end: Place) -> None:
        origins, columns = columns_of(source, rows)
        source.ledger.enter(rows, rows.dead, end)
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

    def advance(self) -> None:
        """Push on what nothing before it can come to; all, and what waited, once no input is before its cut."""
        if self._is_over:
            return
        slowest = self._slowest()
        self._push(_ALWAYS if slowest is None else self._high.get(slowest.index, NEVER))
        if slowest is None:
            self._is_over = True
            for source, rows in self._held:
                self._after.take(source, rows)
            self._held.clear()

    def _slowest(self) -> PhysicalInput | None:
        behind = [source for source in self._inputs if self._is_before_cut(source)]
        return min(behind, key=lambda source: self._high.get(source.index, NEVER), default=None)

    def _is_before_cut(self, source: PhysicalInput) -> bool:
        """An input at its end is not: gaps may be all that lies between its last row and the cut."""
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
            self._queue.push(*merged(taken, times, self._streams))

    def wants(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read."""
        if self._is_over:
            return self._after.wants(source)
        if any(held is source for held, _ in self._held):
            return False
        return source.pending() < self._pending_max or source is self._slowest()

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Rows go out in their input's order, so positions say all."""

    def watermark_us(self) -> int | None:
        """Nothing is known while rows are read again."""
        return self._after.watermark_us() if self._is_over else None

    def checkpoint(self) -> bytes:
        """Nothing: what was read but is not out is read again."""
        return b""


def _split(rows: Rows, place: Place) -> tuple[Rows, Rows]:
    """Rows and dead letters before a place, and those from it on."""
    is_first = before(rows.offsets, rows.rows, place)
    dead = [letter for letter in rows.dead if (letter.offset, letter.row) < place]
    behind = [letter for letter in rows.dead if (letter.offset, letter.row) >= place]
    return replace(only(rows, is_first), dead=dead), replace(only(rows, ~is_first), dead=behind)
