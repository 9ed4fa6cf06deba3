"""Counts of the last minute, in slices that are forgotten as they grow old."""

from __future__ import annotations

from collections import deque

import numpy as np

from spojoin.wire.records import I64

SPAN_MS = 60_000
#: a slice is forgotten as a whole, so the span is kept to within one
SLICE_MS = 2_000


class RecentCounts:
    """Sums arrays of `size` counts, each added at a time in ms that never runs backwards, over the last minute."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._slices: deque[tuple[int, I64]] = deque()

    def add(self, counts: I64, now_ms: float) -> None:
        """Count int64 (size,) more."""
        number = int(now_ms // SLICE_MS)
        if not self._slices or self._slices[-1][0] != number:
            self._forget(now_ms)
            self._slices.append((number, np.zeros(self._size, np.int64)))
        self._slices[-1][1][:] += counts

    def total(self, now_ms: float) -> I64:
        """All that was counted within the last minute, int64 (size,)."""
        self._forget(now_ms)
        return sum((counts for _, counts in self._slices), np.zeros(self._size, np.int64))

    def _forget(self, now_ms: float) -> None:
        while self._slices and (self._slices[0][0] + 1) * SLICE_MS <= now_ms - SPAN_MS:
            self._slices.popleft()
