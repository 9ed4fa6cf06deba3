"""Left rows that ask: held until each gets its one answer, and in which frame that is (rule P16).

Where rows answer when they come, each closes in its own frame. Else a row stays open while the window of a right row to
come may reach it. Windows only move on, so rows close in their order, and what a row finds is a range of right tuples.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spojoin.kernels.bounds import bounds
from spojoin.kernels.segments import one_each
from spojoin.kernels.tail import Tail
from spojoin.model import Direction, EmitOn, Op, Query
from spojoin.roles.router.book import Reach, StreamBook, continued
from spojoin.roles.router.cutting import Cut, of_stream
from spojoin.roles.router.names import batch_codes
from spojoin.roles.router.queue import OrderedQueue, Origins
from spojoin.wire.records import I64, NO_OWN, OWN_VOID, Batch, Closing, Frame, StreamSlice

LEFT, RIGHT = 0, 1
_SEQ, _LOWER, _OWN, _CODES = range(4)
_NOTHING = np.empty(0, np.int64)
#: The buffer of open rows has this many times the room of what it holds.
_GROWTH = 1.2


class OpenRows:
    """What searches of left rows need, of indexes [first, end): seqs, lower bounds, own tuples and codes."""

    def __init__(self, slots: int) -> None:
        self._columns = _CODES + slots
        self._rows = self._empty(0)
        self._restored: list[tuple[int, I64]] = []
        self._is_begun = False

    def _empty(self, first: int) -> Tail:
        return Tail(first, columns=self._columns, growth=_GROWTH)

    @property
    def first(self) -> int:
        """The index of the first row that is open."""
        return self._rows.first

    @property
    def end(self) -> int:
        """One past the index of the last row."""
        return self._rows.end

    def begin_at(self, first: int) -> None:
        """Number the first row `first`."""
        self._rows = self._empty(first)
        self._is_begun = True

    def append(self, first_seq: int, piece: StreamSlice) -> None:
        """Hold a frame's rows."""
        if not self._is_begun:
            self.begin_at(piece.first_index)
        if len(piece):
            self._rows.append(_table(first_seq + piece.positions.astype(np.int64), piece.codes, piece.lower, piece.own))

    def restore(self, batch: Batch) -> None:
        """Hold the rows of a batch that the log may no longer have."""
        codes = batch_codes(batch)
        ordered = tuple(codes[slot] for slot in sorted(codes))
        assert batch.lower is not None, "batches of rows that ask say what these may find"
        self._restored.append((batch.first, _table(batch.seqs, ordered, batch.lower, batch.own)))

    def finish_restore(self, first: int) -> None:
        """Put the rows of restored batches before those of the log's tail; rows below `first` are answered."""
        self._rows = continued(self._restored, self._rows, self._empty)
        self._restored.clear()
        self.drop_below(first)

    def drop_below(self, index: int) -> None:
        """Forget rows that are answered."""
        self._rows.drop_below(index)

    def reached(self, otherwise: int) -> int:
        """The first right index that an open row may find; `otherwise` where none is open."""
        return int(self._rows.held[_LOWER, 0]) if len(self._rows) else otherwise

    def closing(self, end: int, after: I64, reached: int, *, has_own: bool) -> Closing:
        """The rows from the first open one to `end`; after: int64 (n,), how many rows of the frame precede each."""
        rows: I64 = self._rows.view(self.first, end).copy()
        searches = np.flatnonzero(rows[_OWN] != OWN_VOID)
        asking = rows if len(searches) == rows.shape[1] else rows[:, searches]
        lower, own = asking[_LOWER], asking[_OWN]
        return Closing(
            first=self.first,
            seqs=rows[_SEQ],
            positions=searches.astype(np.uint16),
            after=after[searches].astype(np.uint32),
            codes=tuple(asking[_CODES:]),
            lower=lower[:1] if len(lower) and lower[0] == lower[-1] else lower,
            own=own if has_own and len(own) and own.max() > NO_OWN else None,
            reached=reached,
        )

    def __len__(self) -> int:
        return len(self._rows)


def _table(seqs: I64, codes: tuple[I64, ...], lower: I64, own: I64 | None) -> I64:
    none = np.full(len(seqs), NO_OWN, np.int64) if own is None else own
    return np.stack([seqs, one_each(lower, len(seqs)), none, *codes])


class Asking:
    """Decides which left rows each frame answers; `frame_tuples`: how many at most."""

    def __init__(self, query: Query, queue: OrderedQueue, books: list[StreamBook], frame_tuples: int) -> None:
        self._queue = queue
        self._left, self._right = books
        self._frame_tuples = frame_tuples
        self._answers_at_once = query.emit is EmitOn.ARRIVAL
        self._is_time = query.window.is_time
        self._is_of_one_input = query.shares_input
        self._direction = query.directions[0]
        self._fed_by = query.fed_by[LEFT]
        self.open = OpenRows(len(query.streams[LEFT].keys))
        self._closed = 0
        self.is_ended = False

    # -- what the log says

    def note(self, frame: Frame, *, is_written_here: bool) -> None:
        """Move on by one frame of the log."""
        if not is_written_here:
            self.open.append(frame.first_seq, frame.slices[LEFT])
        if frame.closing is not None:
            self._closed = frame.closing.end
            self.open.drop_below(self._closed)

    def finish_restore(self) -> None:
        """All batches from before the log's first frame are here."""
        self.open.finish_restore(self._closed)

    # -- what closes

    def due(self, watermark_us: int | None) -> int:
        """The first left row that stays open though no further row comes, if event times below the watermark don't."""
        if self.is_ended or self._answers_at_once:
            return self.open.end
        if not self._is_time:
            return int(self._clipped(self._left.windows_from(np.array([self._left.place], np.int64)))[0])
        if watermark_us is None:
            return self.open.first
        return int(self._clipped(self._begin_of_windows(np.array([watermark_us], np.int64), _NOTHING))[0])

    def without_rows(self, watermark_us: int | None) -> Cut:
        """A frame without rows, that answers what is due."""
        end = min(self.due(watermark_us), self.open.first + self._frame_tuples)
        return Cut(0, [False, False], end, _NOTHING)

    def fitted(self, cut: Cut) -> Cut:
        """As many of the rows of a frame as close no more than one answers; what is due before them comes first."""
        if self.due(None) > self.open.first:
            return self.without_rows(None)
        until = self._until(self._queue.head(cut.count))
        most = self.open.first + self._frame_tuples
        fits = int(np.searchsorted(until, most, "right"))
        if fits == len(until):
            return replace(cut, end=int(until[-1]), until=until)
        if self._is_time and fits == 0:  # the next row closes more: those before it
            return Cut(0, [False, False], most, _NOTHING)
        count = max(fits, 1)
        return Cut(count, [False, False], min(int(until[count - 1]), most), until[:count])

    def _until(self, origins: Origins) -> I64:
        """By row of those next in order, the first left index that stays open with it, int64 (n,)."""
        own = of_stream(origins.members, LEFT)
        if self._answers_at_once:
            return self._left.count + np.cumsum(own, dtype=np.int64)
        if not self._is_time:
            return self._clipped(self._left.windows_from(self._left.place + np.cumsum(own, dtype=np.int64)))
        times = self._times(origins)
        return self._clipped(self._begin_of_windows(times, times[own]))

    def _begin_of_windows(self, times_us: I64, own: I64) -> I64:
        return self._left.bounds(Reach(times_us, np.zeros(len(times_us), np.int64), False), Reach(own, own, False))

    def _clipped(self, until: I64) -> I64:
        return np.maximum(until, self.open.first)

    def _times(self, origins: Origins) -> I64:
        """The event times of rows next in order."""
        times = np.empty(len(origins), np.int64)
        for number, queue in enumerate(self._queue.inputs):
            own = origins.streams == number
            times[own] = queue.times(int(np.count_nonzero(own)))
        return times

    # -- a frame's answers

    def closing(self, cut: Cut, positions: I64) -> Closing:
        """The rows that close with a frame whose own left rows are open already.

        positions: int64 (n,), how many of the frame's numbered rows precede each of its n rows
        """
        first = self.open.first
        by = np.searchsorted(cut.until, np.arange(first, cut.end, dtype=np.int64), "right")
        counts_itself = not (self._is_time or self._answers_at_once)
        after = positions[by] + counts_itself if len(positions) else np.zeros(cut.end - first, np.int64)
        has_own = self._is_of_one_input and not self._answers_at_once
        reached = self.open.reached(self._right.next_lower())
        return self.open.closing(cut.end, after, reached, has_own=has_own)

    def own(self, left: StreamSlice, right: StreamSlice, void: np.ndarray | None) -> I64 | None:
        """Of each left row of a frame its own right tuple where they would match, as in `StreamSlice`; int64 (n,).

        void: of which rows an index condition is NULL
        """
        found = np.full(len(left), NO_OWN, np.int64)
        if self._is_of_one_input and len(right):
            at = np.minimum(np.searchsorted(right.positions, left.positions), len(right) - 1)
            meets = (right.positions[at] == left.positions) & _matches(self._direction, left, right, at)
            found[meets] = right.first_index + at[meets]
        if void is not None:
            found[void] = OWN_VOID
        return found if (found != NO_OWN).any() else None


def _matches(direction: Direction, left: StreamSlice, right: StreamSlice, at: I64) -> np.ndarray:
    """Of which left rows (n,) the right tuples at `at` (n,) satisfy all index conditions."""
    holds = np.ones(len(left), np.bool_)
    for p in direction.predicates:
        low, high = bounds(p.op, p.domain, p.width, left.codes[p.probe_slot])
        stored = right.codes[p.target_slot][at]
        within = (low <= stored) & (stored <= high)
        holds &= ~within if p.op is Op.NE else within
    return holds
