"""A worker's share of one stream's window: what it stores of each frame, and what it searches for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spojoin.model import DEFAULT_METHOD, Direction, Method, Query
from spojoin.protocol.parts import first_reached, probe_range
from spojoin.published.layouts.held import Held
from spojoin.published.layouts.layout import I64, FrameShare, Layout, indexes, seqs
from spojoin.published.methods.catalog import method
from spojoin.published.methods.machine import cut, searches_of, side_spec, stored_slots, windows
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import Check, Found, Searches, Side, offsets_of
from spojoin.wire.records import Frame, Matches

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ShareSide:
    """One stream's window as one of `workers` holds it: a side of any method, in local numbers."""

    def __init__(self, query: Query, stream: int, layout: Layout, workers: int) -> None:
        self._query = query
        self._stream = stream
        self.directions = [direction for direction in query.directions if direction.target == stream]
        self._slots = stored_slots(query, stream)
        self._lists = query.lists_pairs
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
        """Store tuples without a search. A side drops what lies behind its probes: one that finds nothing makes it."""
        searches = [_finds_nothing(checks) for checks in self.side.spec.directions]
        self.side.take(codes, searches, self._reached(frame), np.array([self._held.end], np.int64))

    def _matches(self, found: Found, chosen: I64, probes: int) -> Matches:
        counts = np.zeros(probes, np.int64)
        counts[chosen] = found.counts
        if not self._lists:
            return Matches(counts)
        assert found.partners is not None, "a search for partners lists them"
        return cut(Matches(counts, offsets_of(counts), self._held.seqs(found.partners)), self._query.part_limit)

    @property
    def nbytes(self) -> int:
        """Bytes of the side and of its local numbers."""
        return self.side.nbytes + self._held.nbytes


def _side(query: Query, stream: int, layout: Layout, workers: int) -> Side:
    chosen = method_of(query)
    spec = side_spec(query, stream, chosen)
    if not (layout.is_replicated or spec.is_time):
        # Sides size their structures by the window, and about one tuple of it in n comes here.
        spec = replace(spec, length=max(spec.length // workers, 1), slide=max(spec.slide // workers, 1))
    return SIDES[chosen.name](spec)


def method_of(query: Query) -> Method:
    """The method of a layout's workers: the query's, or the one that suits its predicates.

    If every search has an equality, a hash table is best; else nothing beats the scan on predicates of any width.
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
