"""Each stream's part of a frame: its columns, window bounds, batch and handover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.model import Query
from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.cutting import Cut
from spojoin.roles.router.queue import OrderedQueue, Origins, StreamColumns, concat
from spojoin.wire.keys import NO_KEYS
from spojoin.wire.records import I64, NO_GROUP, U16, StreamSlice


class Slicer:
    """Makes the slices of frames from the queue's columns and the streams' books."""

    def __init__(self, query: Query, queue: OrderedQueue, books: Sequence[StreamBook]) -> None:
        self._query = query
        self._queue = queue
        self._books = books

    def opposite(self, stream: int) -> int:
        """The stream that a stream's tuples search; in a self join, itself."""
        return stream if self._query.is_self else 1 - stream

    def slices(self, origins: Origins, cut: Cut, frame_id: int) -> tuple[StreamSlice, ...]:
        """Take the columns of `origins`, the queue's head, out of the queue, as the slices of a frame."""
        positions = [np.flatnonzero(origins.streams == s).astype(np.uint16) for s in range(len(self._books))]
        columns = [self._take(stream, len(own)) for stream, own in enumerate(positions)]
        lowers = [self._lower(stream, positions, columns) for stream in range(len(self._books))]
        return tuple(
            self._slice(stream, positions[stream], columns[stream], lowers, frame_id, ends_slide=ends_slide)
            for stream, ends_slide in enumerate(cut.ends_slide)
        )

    def _take(self, stream: int, count: int) -> StreamColumns | None:
        return concat(self._queue.streams[stream].take(count)) if count else None

    def _lower(self, probe: int, positions: list[U16], columns: list[StreamColumns | None]) -> I64:
        target = self.opposite(probe)
        before = _before(positions[probe], positions[target], same=probe == target)
        probes, stored = columns[probe], columns[target]
        return self._books[target].lower(
            self._books[target].count + before,
            None if probes is None else probes.times_us,
            None if stored is None else stored.times_us,
        )

    def _slice(
        self,
        stream: int,
        positions: U16,
        columns: StreamColumns | None,
        lowers: list[I64],
        frame_id: int,
        *,
        ends_slide: bool,
    ) -> StreamSlice:
        book, query = self._books[stream], self._query
        columns = columns or _no_columns(len(query.streams[stream].keys), query.needs_time)
        seals = book.seals_after(frame_id, len(positions), ends_slide=ends_slide)
        batch, index = book.handover(frame_id)
        return StreamSlice(
            first_index=book.count,
            positions=positions,
            codes=columns.codes,
            lower=lowers[stream],
            times_us=columns.times_us,
            keys=columns.keys,
            batch_id=book.batch_id,
            batch_first=book.batch_first,
            seals=seals,
            group=book.group(columns.times_us, len(positions)) if seals else NO_GROUP,
            handover_batch=batch,
            handover_index=index,
            live_batch=book.live(int(lowers[self.opposite(stream)][0])),
        )


def _before(probes: U16, stored: U16, *, same: bool) -> I64:
    if same:
        return np.arange(len(probes), dtype=np.int64)
    return np.searchsorted(stored, probes).astype(np.int64)


def _no_columns(slots: int, needs_time: bool) -> StreamColumns:
    nothing = np.empty(0, np.int64)
    return StreamColumns(tuple(nothing for _ in range(slots)), nothing if needs_time else None, NO_KEYS)
