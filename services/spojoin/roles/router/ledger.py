"""One physical input: what was read, what is out, and where a restart resumes (rule P4)."""

from __future__ import annotations

from collections import deque

import numpy as np

from spojoin.protocol.answered import Place
from spojoin.wire.records import I64, DeadLetter, Rows, SourcePosition

_NOTHING = np.empty(0, np.int64)


class InputLedger:
    """Rows of one input in its order, each out or not yet.

    The input is read again from its first row that is not out; dead letters are counted when that place passes them,
    so each counts in exactly one frame.
    """

    def __init__(self, start: SourcePosition) -> None:
        self.high_time_us = start.high_time_us
        self.start: Place = (start.offset, start.row)
        self._low = self.start
        self._low_high_us = start.high_time_us
        self._offsets = self._rows = self._times = _NOTHING
        self._out = np.empty(0, np.bool_)
        self._base = 0
        self._end: Place = self._low
        self._dead: deque[DeadLetter] = deque()
        self._late: deque[Place] = deque()

    @property
    def position_place(self) -> Place:
        """Where a restart resumes, without the largest event time before it."""
        return self._low

    @property
    def next_id(self) -> int:
        """The ledger's number for the next row entered."""
        return self._base + len(self._offsets)

    @property
    def passable(self) -> bool:
        """Whether `release` would move on though no row goes out: dead letters or gaps wait for a frame."""
        return self._low < self._first_inside()

    def _first_inside(self) -> Place:
        return (int(self._offsets[0]), int(self._rows[0])) if len(self._offsets) else self._end

    def place(self, row_id: int) -> Place:
        """Offset and row of a row that has not been passed."""
        return int(self._offsets[row_id - self._base]), int(self._rows[row_id - self._base])

    def places(self, ids: I64) -> tuple[I64, I64]:
        """Offsets and rows of rows (int64 ledger numbers) that are not passed."""
        return self._offsets[ids - self._base], self._rows[ids - self._base]

    def enter(self, rows: Rows, dead: list[DeadLetter], end: Place | None = None) -> None:
        """Take rows that may go out later, and the refused ones among them; `end` is the place behind them."""
        self._offsets = np.concatenate((self._offsets, rows.offsets))
        self._rows = np.concatenate((self._rows, rows.rows))
        self._out = np.concatenate((self._out, np.zeros(len(rows), np.bool_)))
        if rows.times_us is not None:
            self._times = np.concatenate((self._times, rows.times_us))
        self.have_seen(rows)
        self._dead.extend(dead)
        self._end = max(self._end, end or (rows.next_offset, 0))

    def have_seen(self, rows: Rows) -> None:
        """Count rows' event times, where they have them, for the lateness of those that follow."""
        if rows.times_us is not None and len(rows):
            self.high_time_us = max(self.high_time_us, int(rows.times_us.max()))

    def note_late(self, place: Place) -> None:
        """Remember a row that the merge had passed: by its key alone a restart would take it for one that is out."""
        self._late.append(place)

    def mark(self, ids: I64) -> None:
        """Mark rows as out (int64 ledger numbers)."""
        self._out[ids - self._base] = True

    def release(self, ids: I64) -> list[DeadLetter]:
        """Mark rows as out (int64 ledger numbers, or none) and return the dead letters that are passed now."""
        self.mark(ids)
        passed = len(self._out) if self._out.all() else int(np.argmin(self._out))
        self._forget(passed)
        return self._take_dead()

    def _forget(self, passed: int) -> None:
        if passed and len(self._times):
            self._low_high_us = max(self._low_high_us, int(self._times[:passed].max()))
            self._times = self._times[passed:]
        self._offsets, self._rows, self._out = self._offsets[passed:], self._rows[passed:], self._out[passed:]
        self._base += passed
        self._low = self._first_inside()

    def _take_dead(self) -> list[DeadLetter]:
        taken = []
        while self._dead and (self._dead[0].offset, self._dead[0].row) < self._low:
            taken.append(self._dead.popleft())
        while self._late and self._late[0] < self._low:
            self._late.popleft()
        return taken

    def position(self) -> SourcePosition:
        """Where a restart resumes."""
        return SourcePosition(*self._low, self._low_high_us)

    def read_end(self) -> Place:
        """The place from which on no row has been read."""
        return self._end

    def late(self) -> list[Place]:
        """Late rows at or after `position`."""
        return list(self._late)
