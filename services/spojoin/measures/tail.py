"""The weights of a stream's recent tuples, by index."""

from __future__ import annotations

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.wire.records import I64
from spojoin.wire.sums import Sums


class WeightTail:
    """The weights of indexes [first, end): appended at the end, dropped at the front."""

    def __init__(self) -> None:
        self._first = self._end = 0
        self._tails: dict[int, Tail] = {}

    def append(self, first: int, weights: Sums) -> None:
        """Add the weights of tuples from an index on, where those held end."""
        if self._end == 0:
            self._first = self._end = first
        for key in weights.keys.tolist():
            if key not in self._tails:
                self._tails[key] = Tail(self._first)
                self._tails[key].append(np.zeros(self._end - self._first, np.int64))
        rows = dict(zip(weights.keys.tolist(), weights.rows, strict=True))
        for key, tail in self._tails.items():
            tail.append(rows[key] if key in rows else np.zeros(len(weights), np.int64))
        self._end += len(weights)

    def since(self, first: int) -> Sums:
        """The weights of all indexes from one on that is held, as it stands until the next append."""
        keys = sorted(self._tails)
        rows = [self._tails[key].view(first, self._end) for key in keys]
        return Sums(np.array(keys, np.int64), np.stack(rows) if rows else _nothing(self._end - first))

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._first = max(self._first, min(index, self._end))
        for key, tail in [*self._tails.items()]:
            tail.drop_below(index)
            if not tail.held.any():
                del self._tails[key]


def _nothing(n: int) -> I64:
    return np.empty((0, n), np.int64)
