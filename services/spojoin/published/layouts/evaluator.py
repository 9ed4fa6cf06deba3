"""A worker's evaluation of frames, however they reach it."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.model import Direction, Query
from spojoin.protocol.parts import Chunks
from spojoin.published.layouts.layout import FrameShare, Layout
from spojoin.published.layouts.load import WorkDone
from spojoin.published.layouts.share_side import ShareSide
from spojoin.published.methods.side import summed
from spojoin.wire.records import Frame, Matches, Part


class Evaluator:
    """What worker `worker` of `workers` stores, and what it reports on a frame: part 1 + worker.

    It counts the tuples that its share needs, unless `is_fed`: then its caller counts them.
    """

    def __init__(self, query: Query, layout: Layout, worker: int, workers: int, *, is_fed: bool = False) -> None:
        self.load = WorkDone()
        self._query = query
        self._layout = layout
        self._worker = worker
        self._workers = workers
        self._is_fed = is_fed
        self._sides = [ShareSide(query, stream, layout, workers) for stream in range(len(query.streams))]

    def evaluate(self, frame: Frame) -> Iterator[Part]:
        """Store this worker's share of a frame, and report on it."""
        shares = self._shares(frame)
        chunks = Chunks(frame.count, lists_pairs=self._query.lists_pairs)
        for first, last in chunks:
            directions = self._matches(frame, first, last, shares)
            chunks.note(directions)
            yield Part(frame.epoch, frame.frame_id, 1 + self._worker, first, last, directions)
        self._note()

    def store(self, frame: Frame) -> None:
        """Store this worker's share of a frame whose results are out."""
        self._store(frame, frame.count, self._shares(frame))
        self._note()

    def _shares(self, frame: Frame) -> list[FrameShare]:
        shares = [self._layout.share(frame, s, self._worker, self._workers) for s in range(len(frame.slices))]
        for stream, share in enumerate(shares):
            self.load.note_received(self._query, stream, 0 if self._is_fed else share.received)
            self.load.stored += int(share.stored.sum())
            self.load.asked += int(share.asked.sum())
        return shares

    def _store(self, frame: Frame, end: int, shares: list[FrameShare]) -> None:
        for side, share in zip(self._sides, shares, strict=True):
            side.store(frame, 0, end, share)

    def _matches(self, frame: Frame, begin: int, end: int, shares: list[FrameShare]) -> tuple[Matches, ...]:
        by_role: dict[Direction, Matches] = {}
        for stream, side in enumerate(self._sides):
            by_role |= side.take(frame, begin, end, shares[stream], shares[side.directions[0].probe])
        return tuple(by_role[direction] for direction in self._query.directions)

    def _note(self) -> None:
        self.load.bytes_max = max(self.load.bytes_max, self.nbytes)
        self.load.comparisons = sum(share.pairs for share in self._sides)
        self.load.examined = sum(share.side.counters.comparisons for share in self._sides)

    def search_counters(self) -> dict[str, float]:
        """The method's counters, of all streams together."""
        return summed(share.side.counters.as_dict() for share in self._sides)

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return sum(share.side.tuples for share in self._sides)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(share.nbytes for share in self._sides)
