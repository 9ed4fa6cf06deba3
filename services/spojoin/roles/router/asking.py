"""Rows that ask: held until each gets its one answer, and in which frame that is (rule P16).

Where rows answer when they come, each closes in its own frame. Else a row stays open while the window of a row to come
of the other side may reach it. Windows only move on, so a side's rows close in their order, and what a row finds is a
range of tuples of the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spojoin.model import EmitOn, Query
from spojoin.roles.router.asking_side import AskingSide
from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.cutting import Cut
from spojoin.roles.router.queue import OrderedQueue, Origins
from spojoin.wire.records import I64, NONE_SILENT, U8, Batch, Closing, Frame, StreamSlice

#: Rows that a frame answers on close, for each that it may bring: a window that moves on closes many at once, and
#: frames without rows cost as much as others.
CLOSED_A_ROW = 4
#: Rows that a frame answers on close, if it may not bring more: positions have 16 bits.
CLOSED_MAX = 1 << 15


class Asking:
    """Decides which rows each frame answers: for each side that asks, at most `frame_tuples`, or more on close."""

    def __init__(self, query: Query, queue: OrderedQueue, books: Sequence[StreamBook], frame_tuples: int) -> None:
        self._queue = queue
        self._answers_at_once = query.emit is EmitOn.ARRIVAL
        self._is_time = query.window.is_time
        self.sides = [AskingSide(query, direction, books) for direction in query.directions]
        brought = frame_tuples * len(self.sides)
        self._answers_max = brought if self._answers_at_once else max(brought, min(CLOSED_A_ROW * brought, CLOSED_MAX))

    # -- what the log says

    def begin(self) -> None:
        """Nothing is in the log yet."""
        for side in self.sides:
            side.begin()

    def restore(self, batch: Batch) -> None:
        """Hold the rows of a batch that the log may no longer have."""
        for side in self.sides:
            if side.stream == batch.stream:
                side.open.restore(batch)

    def note(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        for side in self.sides:
            side.note(frame, is_written_here=is_written_here)

    def finish_restore(self) -> None:
        """All batches from before the log's first frame are here."""
        for side in self.sides:
            side.finish_restore()

    # -- what closes

    @property
    def wait_for_time(self) -> bool:
        """Whether rows are open until event time has gone on."""
        return self._is_time and any(len(side.open) for side in self.sides)

    def end(self, *, ended: bool) -> None:
        """Say whether the inputs have ended, so that all that is open closes."""
        for side in self.sides:
            side.is_ended = ended

    def has_due(self, watermark_us: int | None) -> bool:
        """Whether rows close though no further row comes, if event times below the watermark don't."""
        return any(side.due(watermark_us) > side.open.first for side in self.sides)

    def without_rows(self, watermark_us: int | None) -> Cut:
        """A frame without rows, that answers what is due."""
        return self._empty([side.due(watermark_us) for side in self.sides])

    def _empty(self, ends: list[int]) -> Cut:
        return Cut(0, [False, False], self._limited(ends), [np.empty(0, np.int64) for _ in self.sides])

    def fitted(self, cut: Cut) -> Cut:
        """As many of the rows of a frame as close no more than one answers; what is due before them comes first."""
        if self.has_due(None):
            return self.without_rows(None)
        head = self._queue.head(cut.count)
        until = self._until(head)
        closed = sum((each - side.open.first for each, side in zip(until, self.sides, strict=True)), np.int64(0))
        fits = int(np.searchsorted(closed, self._answers_max, "right"))
        if fits == len(head):
            return replace(cut, ends=[int(each[-1]) for each in until], until=until)
        if self._is_time and fits == 0:  # the next row closes more: those before it
            return self._empty([int(each[0]) for each in until])
        count = max(fits, 1)
        ends = self._limited([int(each[count - 1]) for each in until])
        return Cut(count, [False, False], ends, [each[:count] for each in until])

    def _until(self, origins: Origins) -> list[I64]:
        """By side, and by row of those next in order, the first index that stays open with it, int64 (n,)."""
        times = self._times(origins) if self._is_time and not self._answers_at_once else np.empty(0, np.int64)
        return [side.until(origins, times) for side in self.sides]

    def _limited(self, ends: list[int]) -> list[int]:
        """No more rows than a frame answers: those that close first, of rows that close together those of the left."""
        firsts = [side.open.first for side in self.sides]
        if sum(ends) - sum(firsts) <= self._answers_max:
            return ends
        ends = [min(end, first + self._answers_max) for end, first in zip(ends, firsts, strict=True)]
        moments = [side.moments(end, np.zeros(end - side.open.first, np.int64)) for side, end in self._each(ends)]
        first = np.argsort(np.concatenate(moments), kind="stable")[: self._answers_max]
        of_left = int(np.count_nonzero(first < len(moments[0])))
        return [begin + kept for begin, kept in zip(firsts, (of_left, len(first) - of_left), strict=False)]

    def _each(self, ends: list[int]) -> list[tuple[AskingSide, int]]:
        return list(zip(self.sides, ends, strict=True))

    def _times(self, origins: Origins) -> I64:
        """The event times of rows next in order."""
        times = np.empty(len(origins), np.int64)
        for number, queue in enumerate(self._queue.inputs):
            own = origins.streams == number
            times[own] = queue.times(int(np.count_nonzero(own)))
        return times

    # -- a frame's answers

    def closings(self, cut: Cut, positions: I64) -> tuple[Closing, ...]:
        """The rows that close with a frame whose own rows are open already, in the order in which they close.

        positions: int64 (n,), how many of the frame's numbered rows precede each of its n rows
        """
        found, moments = [], []
        for (side, end), until in zip(self._each(cut.ends), cut.until, strict=True):
            by = np.searchsorted(until, np.arange(side.open.first, end, dtype=np.int64), "right").astype(np.int64)
            found.append(side.closing(end, by, positions))
            moments.append(side.moments(end, by))
        if len(found) > 1:
            _place(found, moments)
        return tuple(found)


def _place(closings: Sequence[Closing], moments: Sequence[I64]) -> None:
    """Give each row its position: by the moment at which it closes, the left side's first, then by number."""
    order = np.argsort(np.concatenate(moments), kind="stable")
    places = np.empty(len(order), np.uint16)
    places[order] = np.arange(len(order), dtype=np.uint16)
    for closing, own in zip(closings, np.split(places, [len(moments[0])]), strict=True):
        closing.places, closing.positions = own, own[closing.positions]


def silent_answers(silent: U8, slices: Sequence[StreamSlice], closings: Sequence[Closing]) -> U8:
    """Which answers an earlier generation has given, where rows answer when they come: uint8 (answers,).

    silent: uint8 (n,), which of the frame's rows it has answered; empty where none
    """
    if not len(silent):
        return silent
    found = np.zeros(sum(len(closing.seqs) for closing in closings), np.uint8)
    for piece, closing in zip(slices, closings, strict=False):
        found[closing.all_places] = silent[piece.positions]
    return found


def outside(own: range, numbers: range, closings: Sequence[Closing]) -> U8:
    """Which answers are not of rows with numbers in `own`: uint8 (answers,), or empty if all are.

    numbers: of the frame's rows, which answer where none close
    """
    if not closings:
        return _others(own, np.arange(numbers.start, numbers.stop, dtype=np.int64))
    found = np.zeros(sum(len(closing.seqs) for closing in closings), np.uint8)
    for closing in closings:
        found[closing.all_places] = (closing.seqs < own.start) | (closing.seqs >= own.stop)
    return found if found.any() else NONE_SILENT


def _others(own: range, seqs: I64) -> U8:
    found: U8 = ((seqs < own.start) | (seqs >= own.stop)).astype(np.uint8)
    return found if found.any() else NONE_SILENT
