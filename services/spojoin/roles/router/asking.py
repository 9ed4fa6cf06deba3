"""Rows that ask: this module holds them until each gets its one answer, and decides in which frame (rule P16).

If rows answer on arrival, each closes in its own frame. Otherwise a row stays open while the window of a later row of
the other side may reach it. Windows only move on, so a side's rows close in order, and each row finds a contiguous
range of the other side's tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from spojoin.arrays import I64, U8
from spojoin.kernels.bounds import bounds
from spojoin.kernels.chunked import Chunked
from spojoin.kernels.segments import one_each, one_if_equal
from spojoin.kernels.tail import Tail
from spojoin.model import Direction, EmitOn, Op, Query
from spojoin.roles.router.queue import Cut, OrderedQueue, Origins, has_stream_bit
from spojoin.roles.router.stream_book import Reach, StreamBook, batches_then_tail
from spojoin.roles.router.value_numbers import batch_codes
from spojoin.wire.records import NO_OWN, NONE_SILENT, OWN_VOID, Batch, Closing, Frame, StreamSlice

#: How many rows a frame answers on close for each row that it may contain: a window that moves on closes many rows at
#: once, and frames without rows cost as much as others.
CLOSED_A_ROW = 4
#: How many rows a frame answers on close, unless it may contain more itself: positions have 16 bits.
CLOSED_MAX = 1 << 15


class Asking:
    """Decides which rows each frame answers: at most `frame_tuples` for each side that asks, or more on close."""

    def __init__(self, query: Query, queue: OrderedQueue, books: Sequence[StreamBook], frame_tuples: int) -> None:
        self._queue = queue
        self._answers_at_once = query.answers.emit is EmitOn.ARRIVAL
        self._is_time = query.window.needs_time
        self.sides = [AskingSide(query, direction, books) for direction in query.directions]
        brought = frame_tuples * len(self.sides)
        self._answers_max = brought if self._answers_at_once else max(brought, min(CLOSED_A_ROW * brought, CLOSED_MAX))

    # -- following the log

    def begin_log(self) -> None:
        """Start with an empty log."""
        for side in self.sides:
            side.begin_log()

    def restore_batch(self, batch: Batch) -> None:  # P16.6
        """Hold the rows of a batch that the log may no longer contain."""
        for side in self.sides:
            if side.stream == batch.stream:
                side.open.restore_batch(batch)

    def apply_frame(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        for side in self.sides:
            side.apply_frame(frame, is_written_here=is_written_here)

    def finish_restore(self) -> None:
        """End restoring: all batches from before the log's first frame were read."""
        for side in self.sides:
            side.finish_restore()

    # -- what closes

    @property
    def wait_for_time(self) -> bool:
        """Whether rows are open until event time moves on."""
        return self._is_time and any(len(side.open) for side in self.sides)

    def set_ended(self, *, ended: bool) -> None:
        """Note whether the inputs have ended, so that all open rows close."""
        for side in self.sides:
            side.is_ended = ended

    def has_answers_due(self, watermark_us: int | None) -> bool:
        """Whether rows close even without further rows, if no event time below the watermark comes."""
        return any(side.first_open_when_idle(watermark_us) > side.open.first for side in self.sides)

    def cut_without_rows(self, watermark_us: int | None) -> Cut:
        """A frame without rows, which gives the due answers."""
        return self._empty([side.first_open_when_idle(watermark_us) for side in self.sides])

    def _empty(self, ends: list[int]) -> Cut:
        return Cut(0, [False, False], self._limited(ends), [np.empty(0, np.int64) for _ in self.sides])

    def fit_cut(self, cut: Cut) -> Cut:  # P16.5
        """Shorten a frame so that its rows close no more rows than a frame answers; answers already due come first."""
        if self.has_answers_due(None):
            return self.cut_without_rows(None)
        head = self._queue.head(cut.count)
        until = self._until(head)
        closed = sum((each - side.open.first for each, side in zip(until, self.sides, strict=True)), np.int64(0))
        fits = int(np.searchsorted(closed, self._answers_max, "right"))
        if fits == len(head):
            return replace(cut, ends=[int(each[-1]) for each in until], until=until)
        if self._is_time and fits == 0:  # the next row closes more: first a frame with the answers before it
            return self._empty([int(each[0]) for each in until])
        count = max(fits, 1)
        ends = self._limited([int(each[count - 1]) for each in until])
        return Cut(count, [False, False], ends, [each[:count] for each in until])

    def _until(self, origins: Origins) -> list[I64]:
        """For each side, and each of the next rows in order, the first index that stays open with it, int64 (n,)."""
        times = self._times(origins) if self._is_time and not self._answers_at_once else np.empty(0, np.int64)
        return [side.first_open_with(origins, times) for side in self.sides]

    def _limited(self, ends: list[int]) -> list[int]:
        """Limit the rows to those that a frame answers: the first to close; of rows that close together, left ones."""
        firsts = [side.open.first for side in self.sides]
        if sum(ends) - sum(firsts) <= self._answers_max:
            return ends
        ends = [min(end, first + self._answers_max) for end, first in zip(ends, firsts, strict=True)]
        moments = [
            side.closing_moments(end, np.zeros(end - side.open.first, np.int64)) for side, end in self._each(ends)
        ]
        first = np.argsort(np.concatenate(moments), kind="stable")[: self._answers_max]
        of_left = int(np.count_nonzero(first < len(moments[0])))
        return [begin + kept for begin, kept in zip(firsts, (of_left, len(first) - of_left), strict=False)]

    def _each(self, ends: list[int]) -> list[tuple[AskingSide, int]]:
        return list(zip(self.sides, ends, strict=True))

    def _times(self, origins: Origins) -> I64:
        """The event times of the next rows in order."""
        times = np.empty(len(origins), np.int64)
        for number, queue in enumerate(self._queue.inputs):
            own = origins.streams == number
            times[own] = queue.times_of_first(int(np.count_nonzero(own)))
        return times

    # -- a frame's answers

    def closing_rows(self, cut: Cut, positions: I64) -> tuple[Closing, ...]:
        """The rows that close with a frame, in the order in which they close; the frame's own rows are open already.

        positions: int64 (n,), how many of the frame's numbered rows precede each of its n rows
        """
        found, moments = [], []
        for (side, end), until in zip(self._each(cut.ends), cut.until, strict=True):
            by = np.searchsorted(until, np.arange(side.open.first, end, dtype=np.int64), "right").astype(np.int64)
            found.append(side.closing_rows(end, by, positions))
            moments.append(side.closing_moments(end, by))
        if len(found) > 1:
            _place(found, moments)
        return tuple(found)


def _place(closings: Sequence[Closing], moments: Sequence[I64]) -> None:  # P16.9
    """Give each row its position: by the moment at which it closes, left rows first, then by number."""
    order = np.argsort(np.concatenate(moments), kind="stable")
    places = np.empty(len(order), np.uint16)
    places[order] = np.arange(len(order), dtype=np.uint16)
    for closing, own in zip(closings, np.split(places, [len(moments[0])]), strict=True):
        closing.places, closing.positions = own, own[closing.positions]


def silent_answers(silent: U8, slices: Sequence[StreamSlice], closings: Sequence[Closing]) -> U8:
    """Which answers an earlier generation has given, if rows answer on arrival: uint8 (answers,).

    silent: uint8 (n,), which of the frame's rows it has answered; empty if none
    """
    if not len(silent):
        return silent
    found = np.zeros(sum(len(closing.seqs) for closing in closings), np.uint8)
    for piece, closing in zip(slices, closings, strict=False):
        found[closing.all_places] = silent[piece.positions]
    return found


def answers_outside(own: range, numbers: range, closings: Sequence[Closing]) -> U8:
    """Which answers belong to rows with numbers outside `own`: uint8 (answers,), or empty if none do.

    numbers: the numbers of the frame's rows, which answer if no rows close
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


_NOTHING = np.empty(0, np.int64)


class AskingSide:
    """The rows of one side that asks, the probes of `direction`: left rows, and in a FULL JOIN also right rows."""

    def __init__(self, query: Query, direction: Direction, books: Sequence[StreamBook]) -> None:
        self.stream = direction.probe
        self._direction = direction
        self._book, self._other = books[direction.probe], books[direction.target]
        self._window = query.window_over(direction.probe)
        self._answers_at_once = query.answers.emit is EmitOn.ARRIVAL
        self._is_of_one_input = query.shares_input
        self._closes_by_time = self._window.needs_time and not self._answers_at_once
        self.open = OpenRows(len(query.streams[direction.probe].keys))
        self._closed = 0
        self.is_ended = False

    # -- following the log

    def begin_log(self) -> None:
        """Start with an empty log."""
        self.open.begin_at(self._book.count)

    def apply_frame(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        if not is_written_here:
            self.open.append_rows(frame.first_seq, frame.slices[self.stream])
        if frame.closings:
            self._closed = frame.closings[self.stream].end
            self.open.drop_below(self._closed)

    def finish_restore(self) -> None:
        """End restoring: all batches from before the log's first frame were read."""
        self.open.finish_restore(self._closed)

    # -- what closes

    def first_open_when_idle(self, watermark_us: int | None) -> int:
        """The first row that stays open without further rows, if no event time below the watermark comes."""
        if self.is_ended or self._answers_at_once:
            return self.open.end
        if not self._window.needs_time:
            return int(self._clipped(self._window.begins(np.array([self._book.next_place], np.int64)))[0])
        if watermark_us is None:
            return self.open.first
        return int(self._clipped(self._begin_of_windows(np.array([watermark_us], np.int64), _NOTHING))[0])

    def first_open_with(self, origins: Origins, times_us: I64) -> I64:  # P16.3
        """For each of the next rows in order, the first index that stays open with it, int64 (n,).

        times_us: the rows' event times, int64 (n,), if rows close by them
        """
        own = has_stream_bit(origins.members, self.stream)
        if self._answers_at_once:
            return self._book.count + np.cumsum(own, dtype=np.int64)
        if not self._closes_by_time:
            return self._clipped(self._window.begins(self._book.next_place + np.cumsum(own, dtype=np.int64)))
        return self._clipped(self._begin_of_windows(times_us, times_us[own]))

    def _begin_of_windows(self, times_us: I64, own: I64) -> I64:
        return self._book.window_begins(
            Reach(times_us, np.zeros(len(times_us), np.int64), False), Reach(own, own, False)
        )

    def _clipped(self, until: I64) -> I64:
        return np.maximum(until, self.open.first)

    def closing_moments(self, end: int, by: I64) -> I64:
        """When the rows from the first open one to `end` close, int64 (n,), ascending: the last event time before that.

        by: int64 (n,), the row of the frame with which each closes; this is the moment if event time doesn't close rows
        """
        if not self._closes_by_time:
            return by
        return self._window.closes(self.open.times_us(end))

    # -- a frame's answers

    def closing_rows(self, end: int, by: I64, positions: I64) -> Closing:  # P16.2
        """The rows from the first open one to `end`.

        by: as in `closing_moments`
        positions: int64 (k,), how many of the frame's numbered rows precede each of its k rows
        """
        counts_itself = not (self._window.needs_time or self._answers_at_once)
        after = positions[by] + counts_itself if len(positions) else np.zeros(len(by), np.int64)
        has_own = self._is_of_one_input and not self._answers_at_once
        return self.open.closing_rows(end, after, self.open.first_reached(self._other.next_lower()), has_own=has_own)

    def own_partners(self, slices: Sequence[StreamSlice], void: np.ndarray | None) -> I64 | None:
        """For each row of a frame, the tuple of the other side that is the same row, if they match (see `StreamSlice`).

        void: (n,), which rows are void
        """
        piece, other = slices[self.stream], slices[self._direction.target]
        found = np.full(len(piece), NO_OWN, np.int64)
        if self._is_of_one_input and len(other):
            at = np.minimum(np.searchsorted(other.positions, piece.positions), len(other) - 1)
            meets = (other.positions[at] == piece.positions) & _matches(self._direction, piece, other, at)
            found[meets] = other.first_index + at[meets]
        if void is not None:
            found[void] = OWN_VOID
        return found if (found != NO_OWN).any() else None


def _matches(direction: Direction, probes: StreamSlice, target: StreamSlice, at: I64) -> np.ndarray:
    """Which probes (n,) satisfy all index conditions with the target's tuples at `at` (n,)."""
    holds = np.ones(len(probes), np.bool_)
    for p in direction.predicates:
        low, high = bounds(p.op, p.domain, p.width, probes.codes[p.probe_slot])
        stored = target.codes[p.target_slot][at]
        within = (low <= stored) & (stored <= high)
        holds &= ~within if p.op is Op.NE else within
    return holds


_SEQ, _LOWER, _OWN, _TIME, _CODES = range(5)


class OpenRows:
    """The open rows, indexes [first, end), as searches need them: seqs, lower bounds, own tuples, times and codes."""

    def __init__(self, slots: int) -> None:
        self._columns = _CODES + slots
        self._rows = self._empty(0)
        self._restored: list[tuple[int, I64]] = []
        self._is_begun = False

    def _empty(self, first: int) -> Chunked:
        return Chunked(first, self._columns)

    @property
    def first(self) -> int:
        """The index of the first open row."""
        return self._rows.first

    @property
    def end(self) -> int:
        """One past the index of the last row."""
        return self._rows.end

    def begin_at(self, first: int) -> None:
        """Give the first row index `first`."""
        self._rows = self._empty(first)
        self._is_begun = True

    def append_rows(self, first_seq: int, piece: StreamSlice) -> None:
        """Hold a frame's rows."""
        if not self._is_begun:
            self.begin_at(piece.first_index)
        if len(piece):
            seqs = first_seq + piece.positions.astype(np.int64)
            self._rows.append(_columns(piece, seqs, piece.codes, piece.lower))

    def restore_batch(self, batch: Batch) -> None:
        """Hold the rows of a batch that the log may no longer contain."""
        codes = batch_codes(batch)
        ordered = tuple(codes[slot] for slot in sorted(codes))
        assert batch.lower is not None, "batches of rows that ask say what these may find"
        self._restored.append((batch.first, np.stack(_columns(batch, batch.seqs, ordered, batch.lower))))

    def finish_restore(self, first: int) -> None:
        """Put the rows of restored batches before those of the log's tail; rows below `first` are answered."""
        if self._restored:
            empty = partial(Tail, columns=self._columns)
            tail = empty(self.first)
            tail.append(self._rows.rows(self.end))
            whole = batches_then_tail(self._restored, tail, empty)
            self._rows = self._empty(whole.first)
            self._rows.append(list(whole.held))
            self._restored.clear()
        self.drop_below(first)

    def drop_below(self, index: int) -> None:
        """Forget answered rows."""
        self._rows.drop_below(index)

    def first_reached(self, otherwise: int) -> int:
        """The first index of the other side that an open row may find; `otherwise` if none is open."""
        return self._rows.value(_LOWER) if len(self._rows) else otherwise

    def times_us(self, end: int) -> I64:
        """The event times of the rows from the first open one to `end`; 0 if rows have none."""
        return self._rows.column(_TIME, end)

    def closing_rows(self, end: int, after: I64, reached: int, *, has_own: bool) -> Closing:
        """The rows from the first open one to `end`; after: int64 (n,), how many rows of the frame precede each."""
        rows = self._rows.rows(end)
        searches = np.flatnonzero(rows[_OWN] != OWN_VOID)
        asking = rows if len(searches) == rows.shape[1] else rows[:, searches]
        own = asking[_OWN]
        return Closing(
            first=self.first,
            seqs=rows[_SEQ],
            positions=searches.astype(np.uint16),
            after=after[searches].astype(np.uint32),
            codes=tuple(asking[_CODES:]),
            lower=one_if_equal(asking[_LOWER]),
            own=own if has_own and len(own) and own.max() > NO_OWN else None,
            reached=reached,
        )

    def __len__(self) -> int:
        return len(self._rows)


def _columns(carrier: StreamSlice | Batch, seqs: I64, codes: tuple[I64, ...], lower: I64) -> list[I64]:
    n = len(seqs)
    own = np.full(n, NO_OWN, np.int64) if carrier.own is None else carrier.own
    times = np.zeros(n, np.int64) if carrier.times_us is None else carrier.times_us
    return [seqs, one_each(lower, n), own, times, *codes]
