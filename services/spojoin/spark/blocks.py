"""The counts of a history's blocks, from which it is divided into shares.

A history is a sequence of blocks of rows, in the order in which a stream would number them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spojoin.arrays import I64
from spojoin.windows import Window

#: An event time that no row has.
NO_TIME = 2**63 - 1


@dataclass(frozen=True)  # without slots, since it caches its sums
class HistoryBlocks:
    """The counts of n blocks, in order.

    rows: int64 (n, inputs), rows of each input; members: int64 (n, streams), rows that each stream takes
    numbered: int64 (n,), rows that take a number; size: int64 (n,), bytes of a block's rows
    first_us, last_us: int64 (n,), the least and the greatest event time, ascending; zeros if none is read
    own: how many of the numbered rows, from the first on, are answered
    """

    rows: I64
    members: I64
    numbered: I64
    size: I64
    first_us: I64
    last_us: I64
    own: int

    def __len__(self) -> int:
        return len(self.numbered)

    @cached_property
    def answering(self) -> int:
        """How many blocks, from the first on, have rows that are answered."""
        return int(np.searchsorted(self.numbered_before[:-1], self.own, "left"))

    @cached_property
    def rows_before(self) -> I64:
        """int64 (n + 1, inputs): rows of each input before each block, and before the end."""
        return _before(self.rows)

    @cached_property
    def members_before(self) -> I64:
        """int64 (n + 1, streams): rows of each stream before each block, and before the end."""
        return _before(self.members)

    def bounds(self, stream: int, window: Window) -> tuple[I64, I64]:
        """The first and last position of each block, in the unit in which a window over a stream is measured."""
        if window.needs_time:
            return self.first_us, self.last_us
        before = self.members_before[:, stream]
        return before[:-1], before[1:] - 1

    @cached_property
    def numbered_before(self) -> I64:
        """int64 (n + 1,): numbered rows before each block, and before the end."""
        return _before(self.numbered)

    @cached_property
    def total_before(self) -> I64:
        """int64 (n + 1,): rows before each block, and before the end."""
        found: I64 = self.rows_before.sum(axis=1)
        return found

    @cached_property
    def _size_before(self) -> I64:
        return _before(self.size)

    def rows_of(self, first: int, end: int) -> int:
        """Rows of blocks [first, end), of all inputs."""
        return int(self.total_before[end] - self.total_before[first])

    def bytes_of(self, first: int, end: int) -> int:
        """Bytes of the rows of blocks [first, end)."""
        return int(self._size_before[end] - self._size_before[first])


def _before(counts: I64) -> I64:
    return np.concatenate((np.zeros((1, *counts.shape[1:]), np.int64), np.cumsum(counts, axis=0)))
