"""A worker's evaluation of frames: the tuples of each stream that it holds, and its searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from loadgen.papers.layouts.costs import WorkDone
from loadgen.papers.layouts.layout import FrameShare, Layout, indexes, seqs
from loadgen.papers.methods.machine import SIDES, cut, searches_of, side_spec, stored_slots, windows
from loadgen.papers.methods.side import Check, Found, Searches, Side, offsets_of
from spojoin.arrays import I64
from spojoin.evaluation.choices import method
from spojoin.evaluation.interface import summed
from spojoin.kernels.tail import Tail
from spojoin.model import DEFAULT_METHOD, Direction, Method, Query
from spojoin.protocol.frame_evaluation import Chunks, first_reached, probe_range
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Frame, Matches, Part


class Held:
    """Indexes and seqs of the tuples held, by local number: the k-th tuple that the worker ever stored has number k.

    has_seqs: whether seqs are needed at all
    """

    def __init__(self, has_seqs: bool) -> None:
        self._indexes = Tail()
        self._seqs = Tail() if has_seqs else None

    def append(self, indexes: I64, seqs: I64) -> None:
        """Store tuples, int64 (n,) each, ascending and after all others."""
        self._indexes.append(indexes)
        if self._seqs is not None:
            self._seqs.append(seqs)

    @property
    def end(self) -> int:
        """One past the last local number."""
        return self._indexes.end

    def local(self, bounds: I64) -> I64:
        """The number of tuples ever stored below each index of the stream, int64 (m,): a bound in a side's numbers.

        Indexes below the dropped ones map to the first number held.
        """
        held = self._indexes.view(self._indexes.first, self._indexes.end)
        return self._indexes.first + np.searchsorted(held, bounds).astype(np.int64)

    def seqs(self, numbers: I64) -> I64:
        """Seqs of tuples by local number, int64 (k,)."""
        assert self._seqs is not None, "no seqs are kept"
        return self._seqs.view(self._seqs.first, self._seqs.end)[numbers - self._seqs.first]

    def drop_below(self, number: int) -> None:
        """Forget tuples of smaller local numbers."""
        self._indexes.drop_below(number)
        if self._seqs is not None:
            self._seqs.drop_below(number)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 8 * (len(self._indexes) + (0 if self._seqs is None else len(self._seqs)))


_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ShareSide:
    """One stream's window as one of `workers` holds it: a side of any method, in local numbers."""

    def __init__(self, query: Query, stream: int, layout: Layout, workers: int) -> None:
        self._query = query
        self._stream = stream
        self.directions = [direction for direction in query.directions if direction.target == stream]
        self._slots = stored_slots(query, stream)
        self._plan = SearchPlan(query)
        self._lists = self._plan.lists_pairs
        self._held = Held(self._lists)
        self.side = _side(query, stream, layout, workers)
        #: pairs of a probe and a tuple in its window that the worker has answered for
        self.pairs = 0

    def take(
        self, frame: Frame, begin: int, end: int, stored: FrameShare, asked: FrameShare
    ) -> dict[Direction, Matches]:
        """Store the worker's share of frame positions [begin, end), and search for the tuples that it is asked about.

        stored: the share in this stream; asked: that in the stream of the probes. Returns the matches of all probes at
        these positions; probes that other workers are asked about have none.
        """
        own, probes = frame.slices[self._stream], frame.slices[self.directions[0].probe]
        codes = self._store(frame, begin, end, stored)
        first, last = probe_range(probes.positions, begin, end)
        chosen = np.flatnonzero(asked.asked[first:last])
        if not len(chosen):
            self._move_on(frame, codes)
            return {direction: _nothing(last - first, self._lists) for direction in self.directions}
        lower, upper = windows(self._query, own, probes, first, last)
        probe_codes = [column[first:last][chosen] for column in probes.codes]
        searches = [searches_of(direction, probe_codes) for direction in self.directions]
        lower, upper = self._held.local(lower[chosen]), self._held.local(upper[chosen])
        self.pairs += int((upper - lower).sum())
        found = self.side.take(codes, searches, lower, upper)
        both = zip(self.directions, found, strict=True)
        return {direction: self._matches(each, chosen, last - first) for direction, each in both}

    def store(self, frame: Frame, begin: int, end: int, share: FrameShare) -> None:
        """Store only: the results of frame positions [begin, end) are out."""
        self._move_on(frame, self._store(frame, begin, end, share))

    def _store(self, frame: Frame, begin: int, end: int, share: FrameShare) -> I64:
        own = frame.slices[self._stream]
        first, last = probe_range(own.positions, begin, end)
        kept = np.flatnonzero(share.stored[first:last])
        self._held.append(indexes(frame, self._stream)[first:last][kept], seqs(frame, self._stream)[first:last][kept])
        self._held.drop_below(int(self._reached(frame)[0]))
        return np.stack([own.codes[slot][first:last][kept] for slot in self._slots])

    def _reached(self, frame: Frame) -> I64:
        return self._held.local(np.array([first_reached(frame, self._stream)], np.int64))

    def _move_on(self, frame: Frame, codes: I64) -> None:
        """Store tuples without a search. A probe that finds nothing makes the side drop expired tuples."""
        searches = [_finds_nothing(checks) for checks in self.side.spec.directions]
        self.side.take(codes, searches, self._reached(frame), np.array([self._held.end], np.int64))

    def _matches(self, found: Found, chosen: I64, probes: int) -> Matches:
        counts = np.zeros(probes, np.int64)
        counts[chosen] = found.counts
        if not self._lists:
            return Matches(counts)
        assert found.partners is not None, "a search for partners lists them"
        return cut(Matches(counts, offsets_of(counts), self._held.seqs(found.partners)), self._plan.part_limit)

    @property
    def nbytes(self) -> int:
        """Bytes of the side and of its local numbers."""
        return self.side.nbytes + self._held.nbytes


def _side(query: Query, stream: int, layout: Layout, workers: int) -> Side:
    chosen = method_of(query)
    spec = side_spec(query, stream, chosen)
    if not layout.is_replicated:
        # Sides size their structures by the window, and about one tuple of it in n comes here.
        spec = replace(spec, window=spec.window.share(workers))
    return SIDES[chosen.name](spec)


def method_of(query: Query) -> Method:
    """The method of a layout's workers: the query's, or the one that suits its predicates.

    If every search has an equality, a hash table is best. Otherwise the scan is best on predicates of any width.
    """
    if query.method.name != DEFAULT_METHOD:
        return query.method
    has_equality = all(any(p.op.name == "EQ" for p in direction.predicates) for direction in query.directions)
    return method("hash" if has_equality else "scan", {})


def _finds_nothing(checks: tuple[Check, ...]) -> Searches:
    """One probe that no tuple passes: an empty interval, or for a negated check everything."""
    lo = np.array([[_LEAST if check.negated else 1] for check in checks], np.int64)
    hi = np.array([[_MOST if check.negated else 0] for check in checks], np.int64)
    return Searches(lo, hi)


def _nothing(probes: int, lists: bool) -> Matches:
    counts = np.zeros(probes, np.int64)
    return Matches(counts, offsets_of(counts), np.empty(0, np.int64)) if lists else Matches(counts)


class Evaluator:
    """Worker `worker` of `workers`: stores its share, and reports on a frame as part 1 + worker.

    It counts the tuples that its share needs, unless `is_fed`: then its caller counts them.
    """

    def __init__(self, query: Query, layout: Layout, worker: int, workers: int, *, is_fed: bool = False) -> None:
        self.load = WorkDone()
        self._query = query
        self._plan = SearchPlan(query)
        self._layout = layout
        self._worker = worker
        self._workers = workers
        self._is_fed = is_fed
        self._sides = [ShareSide(query, stream, layout, workers) for stream in range(len(query.streams))]

    def evaluate(self, frame: Frame) -> Iterator[Part]:
        """Store this worker's share of a frame, and report on it."""
        shares = self._shares(frame)
        chunks = Chunks(frame.count, lists_pairs=self._plan.lists_pairs)
        for first, last in chunks:
            directions = self._matches(frame, first, last, shares)
            chunks.learn_from(directions)
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
        return sum(share.side.tuples for share in self._sides)

    @property
    def nbytes(self) -> int:
        return sum(share.nbytes for share in self._sides)
