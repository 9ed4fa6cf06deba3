"""A method in place of mutable joiners, permutation, PO-Join workers and logical AND: frames in, parts out.

The router before it and the sink after it are the services' own, so order, windows, refused rows, limits and the form
of results don't depend on the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from loadgen.papers.methods.bplus import BPlusBits, BPlusSets
from loadgen.papers.methods.chain import ChainB, ChainIB
from loadgen.papers.methods.css import CssBits, CssSets
from loadgen.papers.methods.hash_side import Hash
from loadgen.papers.methods.merge_tree import ImTree, PimTree
from loadgen.papers.methods.scan import Scan
from loadgen.papers.methods.side import Check, Found, Searches, Side, SideSpec, offsets_of
from loadgen.papers.methods.spo_paper import SpoPaper
from loadgen.papers.methods.sta import Sta
from spojoin.arrays import I64
from spojoin.evaluation.interface import summed
from spojoin.kernels.bounds import bounds
from spojoin.model import Direction, Method, Op, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.frame_evaluation import Chunks, SeqTrail, expected_parts, first_reached, lower_bounds, probe_range
from spojoin.protocol.machine import Action, Emit, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Barrier, Frame, Matches, Part, Record, StreamSlice

#: All except the product's own, which is the services' machines themselves.
SIDES: Mapping[str, Callable[[SideSpec], Side]] = {
    "scan": Scan,
    "chain_b": ChainB,
    "chain_ib": ChainIB,
    "im_tree": ImTree,
    "pim_tree": PimTree,
    "bplus_bits": BPlusBits,
    "bplus_sets": BPlusSets,
    "css_bits": CssBits,
    "css_sets": CssSets,
    "hash": Hash,
    "spo_paper": SpoPaper,
    "sta": Sta,
}


Make = Callable[[SideSpec], Side]


class MethodMachine(WindowMachine):
    """Evaluates every frame whole; reports as all of its parts."""

    def __init__(self, query: Query, make: Make) -> None:
        self._query = query
        self._plan = SearchPlan(query)
        self._reader = LogFollower()
        self._sides = [StreamSide(query, stream, make) for stream in range(len(query.streams))]

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame of the log, and report its matches."""
        if isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            yield from self._evaluate(record)

    def _evaluate(self, frame: Frame) -> Iterator[Action]:
        chunks = Chunks(frame.count, lists_pairs=self._plan.lists_pairs)
        for begin, end in chunks:
            by_role: dict[Direction, Matches] = {}
            for side in self._sides:
                by_role |= side.take(frame, begin, end)
            directions = tuple(by_role[direction] for direction in self._query.directions)
            chunks.learn_from(directions)
            for number in expected_parts(frame, self._query.layout):
                # The first part has all matches, the others none.
                own = directions if number == 0 else tuple(_none(matches) for matches in directions)
                yield Emit(Topic.MATCHES, number, Part(frame.epoch, frame.frame_id, number, begin, end, own))

    def counters(self) -> dict[str, float]:
        """The method's counters, summed over all streams."""
        return summed(side.side.counters.as_dict() for side in self._sides)

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(side.side.tuples for side in self._sides)

    def state_bytes(self) -> int:
        """Bytes held by the method."""
        return sum(side.side.nbytes for side in self._sides)


class StreamSide:
    """A stream's window as a method holds it, and the translation of frames into its numbers and back."""

    def __init__(self, query: Query, stream: int, make: Make) -> None:
        self._query = query
        self._plan = SearchPlan(query)
        self._stream = stream
        self._directions = [direction for direction in query.directions if direction.target == stream]
        self._slots = stored_slots(query, stream)
        self._lists = self._plan.lists_pairs
        self._seqs = SeqTrail(query)
        self._seen = -1
        self.side = make(side_spec(query, stream, query.method))

    def take(self, frame: Frame, begin: int, end: int) -> dict[Direction, Matches]:
        """Store this stream's tuples at frame positions [begin, end), and search for the probes among them."""
        own, probes = frame.slices[self._stream], frame.slices[self._directions[0].probe]
        if self._lists and frame.frame_id != self._seen:
            self._seqs.append_tuples(frame, own)
            self._seqs.drop_below(first_reached(frame, self._stream))
            self._seen = frame.frame_id
        first, last = probe_range(probes.positions, begin, end)
        lower, upper = windows(self._query, own, probes, first, last)
        codes = [column[first:last] for column in probes.codes]
        searches = [searches_of(direction, codes) for direction in self._directions]
        found = self.side.take(self._stored(own, begin, end), searches, lower, upper)
        return {direction: self._matches(each) for direction, each in zip(self._directions, found, strict=True)}

    def _stored(self, own: StreamSlice, begin: int, end: int) -> I64:
        first, last = probe_range(own.positions, begin, end)
        return np.stack([own.codes[slot][first:last] for slot in self._slots])

    def _matches(self, found: Found) -> Matches:
        if not self._lists:
            return Matches(found.counts)
        assert found.offsets is not None, "a search for partners lists them"
        assert found.partners is not None, "a search for partners lists them"
        return cut(Matches(found.counts, found.offsets, self._seqs.seqs(found.partners)), self._plan.part_limit)


def windows(query: Query, own: StreamSlice, probes: StreamSlice, first: int, last: int) -> tuple[I64, I64]:
    """The indexes [lower, upper) of `own` that the probes numbered [first, last) reach: int64 (last - first,) each."""
    if query.is_self:
        upper = own.first_index + np.arange(first, last, dtype=np.int64)
    else:
        before = np.searchsorted(own.positions, probes.positions[first:last])
        upper = own.first_index + before.astype(np.int64)
    lower = np.broadcast_to(lower_bounds(probes, first, last), upper.shape)
    return np.minimum(lower, upper), upper


def stored_slots(query: Query, stream: int) -> list[int]:
    """The slots of the stream's columns with which probes are compared, in storage order."""
    return sorted(
        {p.target_slot for direction in query.directions if direction.target == stream for p in direction.predicates}
    )


def side_spec(query: Query, stream: int, method: Method) -> SideSpec:
    """The specification of a stream's side for this method."""
    slots, window = stored_slots(query, stream), query.window_over(stream)
    directions = tuple(_checks(query, direction, slots) for direction in query.directions if direction.target == stream)
    return SideSpec(len(slots), directions, window, SearchPlan(query).lists_pairs, dict(method.options))


def _checks(query: Query, direction: Direction, slots: list[int]) -> tuple[Check, ...]:
    both = zip(direction.predicates, query.predicates, strict=True)
    return tuple(_check(p.op, slots.index(p.target_slot), asked.text) for p, asked in both)


def _check(op: Op, column: int, text: str) -> Check:
    return Check(column, op is Op.NE, op in (Op.EQ, Op.NE), text)


def searches_of(direction: Direction, codes: Sequence[I64]) -> Searches:
    """The searches of probes with these codes, int64 (m,) by the probe stream's slot, in a direction."""
    both = [bounds(p.op, p.domain, p.width, codes[p.probe_slot]) for p in direction.predicates]
    return Searches(np.stack([lo for lo, _ in both]), np.stack([hi for _, hi in both]))


def cut(matches: Matches, limit: int | None) -> Matches:
    """At most `limit` partners per probe, the earliest ones."""
    if limit is None or matches.offsets is None or matches.partners is None:
        return matches
    kept = np.minimum(np.diff(matches.offsets), limit)
    offsets = offsets_of(kept)
    at = (
        np.arange(int(offsets[-1]), dtype=np.int64)
        - np.repeat(offsets[:-1], kept)
        + np.repeat(matches.offsets[:-1], kept)
    )
    return Matches(matches.counts, offsets, matches.partners[at])


def _none(matches: Matches) -> Matches:
    counts = np.zeros_like(matches.counts)
    if matches.offsets is None:
        return Matches(counts)
    return Matches(counts, np.zeros_like(matches.offsets), np.empty(0, np.int64))
