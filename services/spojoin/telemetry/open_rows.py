"""Left rows that are still open (rule P16), as the log has them: how many, and since when the oldest waits."""

from __future__ import annotations

from collections import deque

from spojoin.wire.records import Frame


class OpenRowsTrail:
    """Follows the accepted frames of the log; of rows from before the first of them, the times aren't known."""

    def __init__(self) -> None:
        #: the end of each frame's left rows, and when the oldest row of the frame was produced
        self._came: deque[tuple[int, int]] = deque()
        self._end = self._closed = 0
        self._is_asked = False

    def saw(self, frame: Frame) -> None:
        """Take an accepted frame."""
        if frame.closing is None:
            return
        left = frame.slices[0]
        self._is_asked, self._closed, self._end = True, frame.closing.end, left.first_index + len(left)
        if len(left):
            self._came.append((self._end, int(frame.produced_ms.min())))
        while self._came and self._came[0][0] <= self._closed:
            self._came.popleft()

    @property
    def rows(self) -> int | None:
        """How many rows are open; None where left rows don't ask."""
        return self._end - self._closed if self._is_asked else None

    @property
    def since_ms(self) -> int | None:
        """When the oldest of them was produced, ms since 1970; None where none is open, or as far as is known."""
        return self._came[0][1] if self._came else None
