"""The most recent rows of several columns, read and dropped at the front: held in chunks, so that none is moved."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from spojoin.arrays import I64

#: Rows of a chunk: few, so that little room stands empty, and enough for rows that come one by one.
CHUNK_ROWS = 8_192


class Chunked:
    """Rows of indexes [first, end): appended at the end, dropped at the front, copied out from the front.

    A row is copied once, where a `Tail` moves all that it holds to make room.

    columns: int64 values of a row
    """

    __slots__ = ("_begin", "_chunks", "_columns", "end", "first")

    def __init__(self, first: int, columns: int) -> None:
        self.first = self.end = first
        self._columns = columns
        #: each (columns, CHUNK_ROWS); index `first` stands at `_begin` of the first one
        self._chunks: deque[I64] = deque()
        self._begin = 0

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, rows: Sequence[I64]) -> None:
        """Append rows, by column, int64 (n,) each."""
        n, done = len(rows[0]), 0
        while done < n:
            at = (self._begin + len(self)) % CHUNK_ROWS
            if self._begin + len(self) == CHUNK_ROWS * len(self._chunks):
                self._chunks.append(np.empty((self._columns, CHUNK_ROWS), np.int64))
            count = min(n - done, CHUNK_ROWS - at)
            for kept, values in zip(self._chunks[-1], rows, strict=True):
                kept[at : at + count] = values[done : done + count]
            self.end += count
            done += count

    def drop_below(self, index: int) -> None:
        """Forget rows of indexes below `index`."""
        count = min(max(index - self.first, 0), len(self))
        self.first += count
        gone, self._begin = divmod(self._begin + count, CHUNK_ROWS)
        for _ in range(gone):
            self._chunks.popleft()

    def value(self, column: int) -> int:
        """A column's value of the first row. Raises IndexError if no row is held."""
        if not len(self):
            raise IndexError("no row is held")
        return int(self._chunks[0][column, self._begin])

    def column(self, column: int, end: int) -> I64:
        """A copy of a column of the rows from the first one to `end`, int64 (n,). Raises IndexError as `rows` does."""
        found: I64 = self._copied(slice(column, column + 1), end)[0]
        return found

    def rows(self, end: int) -> I64:
        """A copy of the rows from the first one to `end`, int64 (columns, n). Raises IndexError if not all are held."""
        return self._copied(slice(None), end)

    def _copied(self, columns: slice, end: int) -> I64:
        if not self.first <= end <= self.end:
            raise IndexError(f"rows up to {end} asked of some that hold [{self.first}, {self.end})")
        found = np.empty((len(range(self._columns)[columns]), end - self.first), np.int64)
        done, begin = 0, self._begin
        for chunk in self._chunks:
            if done == found.shape[1]:
                break
            count = min(found.shape[1] - done, CHUNK_ROWS - begin)
            found[:, done : done + count] = chunk[columns, begin : begin + count]
            done, begin = done + count, 0
        return found
