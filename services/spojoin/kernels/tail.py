"""The most recent values of one column or several, addressed by their index in the stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from spojoin.arrays import I64


class Tail:
    """Values of indexes [first, end): appended at the end, dropped at the front, read as views.

    They are int64 unless `dtype` says otherwise. One column gives arrays (n,); several, if `columns` says how many,
    give (columns, n). Appending costs amortised O(1) per value: the buffer doubles, or moves its content to the front
    if half of it was dropped. With another `growth` than 2, it has so many times the room of its content: 1.2 costs 5
    copies a value in place of 1.
    """

    __slots__ = ("_begin", "_end", "_growth", "buffer", "first")

    def __init__(
        self,
        first: int = 0,
        capacity: int = 1024,
        columns: int | None = None,
        dtype: DTypeLike = np.int64,
        growth: float = 2,
    ) -> None:
        self.first = first
        self._growth = growth
        #: (room,) or (columns, room), contiguous: index i is at i - origin; valid until the next append.
        self.buffer: I64 = np.empty(capacity if columns is None else (columns, capacity), dtype)
        self._begin = 0
        self._end = 0

    @property
    def end(self) -> int:
        """One past the last index."""
        return self.first + self._end - self._begin

    @property
    def origin(self) -> int:
        """The index at the buffer's first place."""
        return self.first - self._begin

    @property
    def nbytes(self) -> int:
        """Bytes of the values held."""
        return self.held.nbytes

    @property
    def held(self) -> I64:
        """All values held, valid until the next append.

        Several columns are not contiguous, so a kernel that takes them whole is compiled without vector instructions:
        hot kernels take `buffer` and `origin`.
        """
        return self.buffer[..., self._begin : self._end]

    def __len__(self) -> int:
        return self._end - self._begin

    def append(self, values: I64) -> None:
        """Append values, (n,) or (columns, n)."""
        end = self._end + values.shape[-1]
        if end > self.buffer.shape[-1]:
            end = self._make_room(values.shape[-1])
        self.buffer[..., self._end : end] = values
        self._end = end

    def drop_below(self, index: int) -> None:
        """Forget values of indexes below `index`."""
        count = min(max(index - self.first, 0), len(self))
        self.first += count
        self._begin += count

    def view(self, first: int, end: int) -> I64:
        """Values of indexes [first, end), valid until the next append. Raises IndexError if some are not held."""
        if first < self.first or end > self.end:
            raise IndexError(f"indexes [{first}, {end}) asked of a tail that holds [{self.first}, {self.end})")
        return self.buffer[..., self._begin + first - self.first : self._begin + end - self.first]

    def _make_room(self, count: int) -> int:
        """Make room for `count` more values; returns their end."""
        kept, needed = self.held, len(self) + count
        whole, room = self.buffer, int(self._growth * needed)
        target = whole if room <= whole.shape[-1] else np.empty((*whole.shape[:-1], room), whole.dtype)
        target[..., : len(self)] = kept
        self.buffer, self._begin, self._end = target, 0, len(self)
        return needed
