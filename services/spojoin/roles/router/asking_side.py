"""The rows of one side that ask: which are open, until when, and what each may find (rule P16)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.kernels.bounds import bounds
from spojoin.model import Direction, EmitOn, Op, Query
from spojoin.roles.router.book import Reach, StreamBook
from spojoin.roles.router.cutting import of_stream
from spojoin.roles.router.open_rows import OpenRows
from spojoin.roles.router.queue import Origins
from spojoin.wire.records import I64, NO_OWN, OWN_VOID, Closing, Frame, StreamSlice

_NOTHING = np.empty(0, np.int64)


class AskingSide:
    """Rows of the stream that `direction` searches for: left ones, or in a FULL JOIN right ones as well."""

    def __init__(self, query: Query, direction: Direction, books: Sequence[StreamBook]) -> None:
        self.stream = direction.probe
        self._direction = direction
        self._book, self._other = books[direction.probe], books[direction.target]
        self._window = query.window_over(direction.probe)
        self._answers_at_once = query.emit is EmitOn.ARRIVAL
        self._is_of_one_input = query.shares_input
        self._closes_by_time = self._window.is_time and not self._answers_at_once
        self.open = OpenRows(len(query.streams[direction.probe].keys))
        self._closed = 0
        self.is_ended = False

    # -- what the log says

    def begin(self) -> None:
        """Nothing is in the log yet."""
        self.open.begin_at(self._book.count)

    def note(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        if not is_written_here:
            self.open.append(frame.first_seq, frame.slices[self.stream])
        if frame.closings:
            self._closed = frame.closings[self.stream].end
            self.open.drop_below(self._closed)

    def finish_restore(self) -> None:
        """All batches from before the log's first frame are here."""
        self.open.finish_restore(self._closed)

    # -- what closes

    def due(self, watermark_us: int | None) -> int:
        """The first row that stays open though no further row comes, if event times below the watermark don't."""
        if self.is_ended or self._answers_at_once:
            return self.open.end
        if not self._window.is_time:
            return int(self._clipped(self._book.windows_from(np.array([self._book.place], np.int64)))[0])
        if watermark_us is None:
            return self.open.first
        return int(self._clipped(self._begin_of_windows(np.array([watermark_us], np.int64), _NOTHING))[0])

    def until(self, origins: Origins, times_us: I64) -> I64:
        """By row of those next in order, the first index that stays open with it, int64 (n,).

        times_us: the rows' event times, int64 (n,), where rows close by them
        """
        own = of_stream(origins.members, self.stream)
        if self._answers_at_once:
            return self._book.count + np.cumsum(own, dtype=np.int64)
        if not self._closes_by_time:
            return self._clipped(self._book.windows_from(self._book.place + np.cumsum(own, dtype=np.int64)))
        return self._clipped(self._begin_of_windows(times_us, times_us[own]))

    def _begin_of_windows(self, times_us: I64, own: I64) -> I64:
        return self._book.bounds(Reach(times_us, np.zeros(len(times_us), np.int64), False), Reach(own, own, False))

    def _clipped(self, until: I64) -> I64:
        return np.maximum(until, self.open.first)

    def moments(self, end: int, by: I64) -> I64:
        """When rows from the first open one to `end` close, ascending, int64 (n,): the last event time before it.

        by: int64 (n,), with which row of a frame each closes, which is when, where it isn't time that closes it
        """
        if not self._closes_by_time:
            return by
        slide = self._window.slide
        return (self.open.times_us(end) + self._window.length) // slide * slide

    # -- a frame's answers

    def closing(self, end: int, by: I64, positions: I64) -> Closing:
        """The rows from the first open one to `end`.

        by: as in `moments`; positions: int64 (k,), how many of the frame's numbered rows precede each of its k rows
        """
        counts_itself = not (self._window.is_time or self._answers_at_once)
        after = positions[by] + counts_itself if len(positions) else np.zeros(len(by), np.int64)
        has_own = self._is_of_one_input and not self._answers_at_once
        return self.open.closing(end, after, self.open.reached(self._other.next_lower()), has_own=has_own)

    def own(self, slices: Sequence[StreamSlice], void: np.ndarray | None) -> I64 | None:
        """Of each row of a frame its own tuple of the other side where they would match, as in `StreamSlice`.

        void: (n,), of which rows an index condition is NULL
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
    """Of which probes (n,) the tuples at `at` (n,) of the target satisfy all index conditions."""
    holds = np.ones(len(probes), np.bool_)
    for p in direction.predicates:
        low, high = bounds(p.op, p.domain, p.width, probes.codes[p.probe_slot])
        stored = target.codes[p.target_slot][at]
        within = (low <= stored) & (stored <= high)
        holds &= ~within if p.op is Op.NE else within
    return holds
