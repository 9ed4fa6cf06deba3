"""Combines the parts of frames, in any chunks and any order in which they come (rule P6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np

from spojoin.arrays import I64
from spojoin.kernels.pairs import Segments, merge_segments
from spojoin.kernels.segments import before
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import expected_parts, probe_range
from spojoin.protocol.machine import ResultPosition
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Frame, Matches, Part
from spojoin.wire.sums import Sums, added, joined, no_sums

#: How many chunks of one partition, and partners in them, may wait for the other parts.
CHUNKS_MAX = 512
PARTNERS_MAX = 1 << 23


class HeldChunks(NamedTuple):
    """What is held in memory of a partition."""

    chunks: int
    partners: int


NOTHING = HeldChunks(0, 0)


class FrameSpan(NamedTuple):
    """Positions [begin, end) of a frame."""

    frame: Frame
    begin: int
    end: int


class WaitingParts:
    """The chunks of all parts, by (epoch, frame, part), until results are out for them."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._plan = SearchPlan(query)
        self._chunks: dict[tuple[int, int, int], PartChunks] = {}
        self._held: dict[int, HeldChunks] = {}
        self._expecting: tuple[Frame | None, list[int]] = None, []

    def has_room(self, partition: int) -> bool:
        """Whether few chunks of a partition wait: each worker has its own, with chunks in the order of frames."""
        held = self._held.get(partition, NOTHING)
        return held.chunks < CHUNKS_MAX and held.partners < PARTNERS_MAX

    def accept_chunk(self, chunk: Part, partition: int, next_frame: int, result_position: ResultPosition) -> None:
        """Hold a chunk, unless its frame is before the next one; positions that results cover are cut off."""
        if chunk.frame_id < next_frame:
            return
        key = chunk.epoch, chunk.frame_id, chunk.part
        if key not in self._chunks:
            begin = result_position.position if chunk.frame_id == result_position.frame_id else 0
            self._chunks[key] = PartChunks(begin)
        if self._chunks[key].append_next(chunk, partition):
            held = self._held.get(partition, NOTHING)
            self._held[partition] = HeldChunks(held.chunks + 1, held.partners + _partners(chunk))

    def covered_to(self, frame: Frame, position: int) -> int:  # P10.3
        """Where the result from a position on ends: at the first end of a chunk, even if more chunks are here.

        So the matches topic alone determines the bounds of results, regardless of when it is read: a sink's successor
        continues its results without gap or overlap, and readers can resume from either.
        """
        chunks = [self._chunks.get((frame.epoch, frame.frame_id, part)) for part in self._expected(frame)]
        ends = [position if one is None else one.next_end(position) for one in chunks]
        return min(ends, default=0)

    def matches_in(self, span: FrameSpan) -> list[Matches]:
        """All parts' matches in a span that they cover, by direction."""
        frame, begin, end = span
        parts = [
            self._chunks[frame.epoch, frame.frame_id, part].matches_between(frame, self._query, begin, end)
            for part in self._expected(frame)
        ]
        if not parts:
            return self.no_matches()
        if self._query.layout.has_mutable_part:
            # Workers hold older tuples than the mutable part: in this order merging partners is mostly copying.
            parts = [*parts[1:], parts[0]]
        limit = self._plan.part_limit
        return [combined([part[number] for part in parts], limit) for number in range(len(parts[0]))]

    def no_matches(self) -> list[Matches]:
        """The matches of zero probes, by direction."""
        nothing = np.empty(0, np.int64)
        listed = Matches(nothing, np.zeros(1, np.int64), nothing)
        return [
            listed if self._plan.lists_matches(direction) or self._plan.choices else Matches(nothing)
            for direction in self._query.directions
        ]

    def drop_chunks(self, frame: Frame, position: int) -> None:
        """Forget the frame's chunks that end at or before a position."""
        for part in self._expected(frame):
            self._release(self._chunks[frame.epoch, frame.frame_id, part].drop_below(position))

    def drop_frame(self, frame: Frame) -> None:
        """Forget the chunks of a frame and of earlier ones."""
        for key in [key for key in self._chunks if key[1] <= frame.frame_id]:
            self._release(self._chunks.pop(key).drop_below(frame.answers + 1))

    def _expected(self, frame: Frame) -> list[int]:
        """The parts that must answer for the first waiting frame."""
        if self._expecting[0] is not frame:
            self._expecting = frame, expected_parts(frame, self._query.layout)
        return self._expecting[1]

    def _release(self, gone: list[WaitingChunk]) -> None:
        for chunk, partition in gone:
            held = self._held[partition]
            self._held[partition] = HeldChunks(held.chunks - 1, held.partners - _partners(chunk))


class WaitingChunk(NamedTuple):
    """A chunk, and the partition that it came from."""

    chunk: Part
    partition: int


class PartChunks:
    """One part's chunks of one frame, contiguous from `begin`; positions that were seen before are cut off."""

    def __init__(self, begin: int) -> None:
        self.end = begin
        self._chunks: list[WaitingChunk] = []

    def append_next(self, chunk: Part, partition: int) -> bool:
        """Take a chunk, if it contains new positions; return whether it does."""
        has_news = chunk.begin <= self.end < chunk.end  # P6.2, P15.5
        if has_news:
            self._chunks.append(WaitingChunk(chunk, partition))
            self.end = chunk.end
        return has_news

    def next_end(self, position: int) -> int:
        """The end of the first chunk that reaches beyond a position, or the position itself if none does."""
        return next((chunk.end for chunk, _ in self._chunks if chunk.end > position), position)

    def matches_between(self, frame: Frame, query: Query, begin: int, end: int) -> list[Matches]:
        """Matches by direction of frame positions [begin, end), which must be here."""
        first_chunk = self._chunks[0].chunk
        if len(self._chunks) == 1 and (first_chunk.begin, first_chunk.end) == (begin, end):
            return list(first_chunk.directions)
        directions: list[list[Matches]] = [[] for _ in query.directions]
        for chunk, _ in self._chunks:
            low, high = max(chunk.begin, begin), min(chunk.end, end)
            if low >= high:
                continue
            for number, direction in enumerate(query.directions):
                positions = frame.probes(direction.probe).positions
                offset, _ = probe_range(positions, chunk.begin, chunk.end)
                first, last = probe_range(positions, low, high)
                directions[number].append(_slice(chunk.directions[number], first - offset, last - offset))
            begin = high
        return [_concatenated(parts) for parts in directions]

    def drop_below(self, position: int) -> list[WaitingChunk]:
        """Forget chunks that end at or before a position, and return them."""
        gone = [each for each in self._chunks if each.chunk.end <= position]
        self._chunks = [each for each in self._chunks if each.chunk.end > position]
        return gone


def _partners(chunk: Part) -> int:
    return sum([len(direction.partners) for direction in chunk.directions if direction.partners is not None])


def _slice(matches: Matches, first: int, last: int) -> Matches:
    counts = matches.counts[first:last]
    sums = None if matches.sums is None else matches.sums[first:last]
    if matches.offsets is None or matches.partners is None:
        return Matches(counts, sums=sums)
    offsets = matches.offsets[first : last + 1]
    return Matches(counts, offsets - offsets[0], matches.partners[offsets[0] : offsets[-1]], sums)


def _concatenated(parts: list[Matches]) -> Matches:
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([part.counts for part in parts])
    sums = _sums(parts, joined)
    if parts[0].offsets is None:
        return Matches(counts, sums=sums)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts if part.offsets is not None])
    partners = np.concatenate([part.partners for part in parts if part.partners is not None])
    return Matches(counts, before(lengths), partners, sums)


def combined(parts: list[Matches], limit: int | None) -> Matches:
    """All parts' matches of one direction: counts added, partners merged in the order of their seqs."""
    counts: I64 = reduce(np.add, [part.counts for part in parts])
    sums = _sums(parts, added)
    if parts[0].offsets is None:
        return Matches(counts, sums=sums)
    segments = [_segments(part) for part in parts]
    merged = segments[-1]
    for other in reversed(segments[:-1]):
        merged = merge_segments(other, merged, limit)
    return Matches(counts, *merged, sums)


def _sums(parts: list[Matches], together: Callable[[list[Sums]], Sums]) -> Sums | None:
    if all(part.sums is None for part in parts):
        return None
    return together([no_sums(len(part.counts)) if part.sums is None else part.sums for part in parts])


def _segments(matches: Matches) -> Segments:
    if matches.offsets is None or matches.partners is None:
        raise ValueError("a part without partners where the query asks for them")
    return matches.offsets, matches.partners
