"""The codes of a window in arrival order, addressed by index."""

from __future__ import annotations

import numpy as np

from spojoin.published.methods.side import I64

CAPACITY = 1_024


class Window:
    """Columns of the tuples [first, end): appended at the end, dropped at the front, read as one view.

    Appending costs amortised O(1) a tuple: the buffer doubles, or slides its content back where half of it is dropped.
    """

    __slots__ = ("_begin", "_buffer", "_end", "first")

    def __init__(self, columns: int) -> None:
        self.first = 0
        self._buffer = np.empty((columns, CAPACITY), np.int64)
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def end(self) -> int:
        """One past the last index."""
        return self.first + len(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the tuples held."""
        return len(self) * 8 * len(self._buffer)

    @property
    def codes(self) -> I64:
        """int64 (columns, n), the tuples held; valid until the next append.

        Its rows lie apart, so that a kernel which takes it whole is compiled without vector instructions: hot kernels
        take `buffer` and `origin`.
        """
        return self._buffer[:, self._begin : self._end]

    @property
    def buffer(self) -> I64:
        """int64 (columns, room), contiguous: the tuple of index i stands at i - origin; valid until the next append."""
        return self._buffer

    @property
    def origin(self) -> int:
        """The index that would stand first in the buffer."""
        return self.first - self._begin

    def append(self, stored: I64) -> None:
        """Add tuples: int64 (columns, n)."""
        count = stored.shape[1]
        if self._end + count > self._buffer.shape[1]:
            self._make_room(count)
        self._buffer[:, self._end : self._end + count] = stored
        self._end += count

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        count = min(max(index - self.first, 0), len(self))
        self.first += count
        self._begin += count

    def _make_room(self, count: int) -> None:
        kept = self.codes
        needed = kept.shape[1] + count
        whole = self._buffer
        target = whole if 2 * needed <= whole.shape[1] else np.empty((len(whole), 2 * needed), np.int64)
        target[:, : kept.shape[1]] = kept
        self._buffer, self._begin, self._end = target, 0, kept.shape[1]
