"""The latest records of a topic, however long it is and however fast it grows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from spojoin.ports.interfaces import Bounds, Log, LogPartition, LogReader, LogRecord, LogUnavailable

T = TypeVar("T")

#: how many offsets before the end are read at first, and at most; some hold no record (transaction markers)
DEPTH_MIN, DEPTH_MAX = 4, 1_024
DEPTH_STEP = 4
#: how long a look may read; what was found by then is taken
READ_S_MAX = 2.0
POLL_S = 0.1
RECORDS_MAX = 64


class TopicTail(Generic[T]):
    """Keeps the latest `wanted` items that `items_of` makes of one partition's records, the oldest first.

    Only the topic's end is read, not all that passes: a look costs the same at any rate.
    """

    def __init__(
        self,
        log: Log[bytes],
        source: LogPartition,
        wanted: int,
        items_of: Callable[[LogRecord[bytes]], Sequence[T]],
    ) -> None:
        self.items: list[T] = []
        #: the offset behind the last record; None while there is no such topic
        self.end: int | None = None
        self._log = log
        self._source = source
        self._wanted = wanted
        self._items_of = items_of
        self._depth = DEPTH_MIN

    def look(self, reader: LogReader[bytes]) -> None:
        """Read what is new; nothing else may be open in `reader`. Raises LogUnavailable, and what `items_of` raises."""
        bounds = self._bounds()
        if bounds is None:
            self.end, self.items = None, []
            return
        deadline = time.monotonic() + READ_S_MAX
        while bounds.end != self.end:
            start = max(bounds.earliest, bounds.end - self._depth)
            found = self._read(reader, start, bounds.end, deadline)
            is_enough = len(found) >= self._wanted or start == bounds.earliest or self._depth >= DEPTH_MAX
            if is_enough or time.monotonic() > deadline:
                self.end, self.items = bounds.end, found
            else:
                self._depth *= DEPTH_STEP

    def _bounds(self) -> Bounds | None:
        try:
            return self._log.bounds(self._source)
        except LogUnavailable:
            if self._log.partitions(self._source.topic):
                raise
            return None

    def _read(self, reader: LogReader[bytes], start: int, end: int, deadline: float) -> list[T]:
        found: deque[T] = deque(maxlen=self._wanted)
        if start == end:
            return []
        reader.open(self._source, start)
        try:
            while reader.position(self._source) < end and not reader.at_end(self._source):
                for record in reader.poll(RECORDS_MAX, POLL_S):
                    found.extend(self._items_of(record))
                if time.monotonic() > deadline:
                    break
        finally:
            reader.drop(self._source)
        return list(found)
