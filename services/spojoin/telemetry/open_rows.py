"""Rows that are still open (rule P16), as the log has them: how many, and since when the oldest waits."""

from __future__ import annotations

from collections import deque

from spojoin.wire.records import Closing, Frame, StreamSlice


class OpenRowsTrail:
    """Follows the accepted frames of the log; of rows from before the first of them, the times aren't known."""

    def __init__(self) -> None:
        self._sides: list[_OpenSide] = []

    def saw(self, frame: Frame) -> None:
        """Take an accepted frame."""
        while len(self._sides) < len(frame.closings):
            self._sides.append(_OpenSide())
        for side, closing, piece in zip(self._sides, frame.closings, frame.slices, strict=False):
            side.saw(frame, closing, piece)

    @property
    def rows(self) -> int | None:
        """How many rows are open; None where no rows ask."""
        return sum(side.rows for side in self._sides) if self._sides else None

    @property
    def since_ms(self) -> int | None:
        """When the oldest of them was produced, ms since 1970; None where none is open, or as far as is known."""
        return min((side.came[0][1] for side in self._sides if side.came), default=None)


class _OpenSide:
    """Those of one stream."""

    def __init__(self) -> None:
        #: the end of each frame's rows, and when the oldest row of the frame was produced
        self.came: deque[tuple[int, int]] = deque()
        self.rows = 0

    def saw(self, frame: Frame, closing: Closing, piece: StreamSlice) -> None:
        end = piece.first_index + len(piece)
        self.rows = end - closing.end
        if len(piece):
            self.came.append((end, int(frame.produced_ms.min())))
        while self.came and self.came[0][0] <= closing.end:
            self.came.popleft()
