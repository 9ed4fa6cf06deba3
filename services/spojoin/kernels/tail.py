"""A column's most recent values, addressed by their index in the stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Tail:
    """int64 values of indexes [first, end): appended at the end, dropped at the front, read as views.

    Appending costs amortised O(1) a value: the buffer doubles, or slides its content back where half of it is dropped.
    """

    __slots__ = ("_begin", "_buffer", "_end", "first")

    def __init__(self, first: int = 0, capacity: int = 1024) -> None:
        self.first = first
        self._buffer = np.empty(capacity, np.int64)
        self._begin = 0
        self._end = 0

    @property
    def end(self) -> int:
        """One past the last index."""
        return self.first + self._end - self._begin

    def __len__(self) -> int:
        return self._end - self._begin

    def append(self, values: NDArray[np.int64]) -> None:
        """Add values behind the last one."""
        self._reserve(len(values))
        self._buffer[self._end : self._end + len(values)] = values
        self._end += len(values)

    def drop_below(self, index: int) -> None:
        """Forget values of indexes below `index`."""
        count = min(max(index - self.first, 0), len(self))
        self.first += count
        self._begin += count

    def view(self, first: int, end: int) -> NDArray[np.int64]:
        """Values of indexes [first, end), valid until the next append. Raises IndexError where some are not here."""
        if first < self.first or end > self.end:
            raise IndexError(f"indexes [{first}, {end}) asked of a tail that holds [{self.first}, {self.end})")
        return self._buffer[self._begin + first - self.first : self._begin + end - self.first]

    def _reserve(self, count: int) -> None:
        if self._end + count <= len(self._buffer):
            return
        kept = self._buffer[self._begin : self._end]
        needed = len(kept) + count
        target = self._buffer if 2 * needed <= len(self._buffer) else np.empty(2 * needed, np.int64)
        target[: len(kept)] = kept
        self._buffer, self._begin, self._end = target, 0, len(kept)
