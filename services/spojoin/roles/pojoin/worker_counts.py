"""The worker counts of the frames under way, and the worker numbers that a smaller count abandons (rule P11)."""

from __future__ import annotations

from collections import deque

from spojoin.wire.records import Frame


class WorkerCounts:
    """Follows the accepted frames: their worker counts from the first frame whose results are not all out."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, int]] = deque()

    @property
    def first(self) -> int:
        """The worker count of the oldest frame under way; 0 before the first frame."""
        return self._changes[0][1] if self._changes else 0

    @property
    def largest(self) -> int:
        """The most workers that a frame under way, or the next frame, waits for."""
        return max((workers for _, workers in self._changes), default=0)

    def note(self, frame: Frame) -> range:
        """Take a frame. Where its worker count is new: the numbers that earlier frames wait for and it does not."""
        if self._changes and self._changes[-1][1] == frame.workers:
            return range(0)
        self._changes.append((frame.frame_id, frame.workers))
        return range(frame.workers, self.largest)

    def forget_before(self, frame_id: int) -> None:
        """Results are out for all frames before this one."""
        while len(self._changes) > 1 and self._changes[1][0] <= frame_id:
            self._changes.popleft()
