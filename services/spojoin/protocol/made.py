"""Which tuples of a stream are in batches, so that the log need not keep them."""

from __future__ import annotations

from bisect import bisect_right, insort


class MadeBatches:
    """Batches of one stream that were seen in their topic, in whatever order and number they came."""

    def __init__(self) -> None:
        self._batches: list[tuple[int, int]] = []
        self._end = 0

    def add(self, first: int, end: int) -> None:
        """A batch holds tuples [first, end)."""
        if end > self._end and (first, end) not in self._batches[-1:]:
            insort(self._batches, (first, end))

    def end(self, reached: int) -> int:
        """All tuples before this index are in batches, or no window reaches them: `reached` is the first it does."""
        self._end = max(self._end, reached)
        while (batch := self._holding(self._end)) is not None:
            self._end = batch[1]
        self._batches = [batch for batch in self._batches if batch[1] > self._end]
        return self._end

    def _holding(self, index: int) -> tuple[int, int] | None:
        at = bisect_right(self._batches, index, key=lambda batch: batch[0]) - 1
        return self._batches[at] if at >= 0 and self._batches[at][1] > index else None
