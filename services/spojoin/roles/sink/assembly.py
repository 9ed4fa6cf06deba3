"""Brings together the parts of one frame, in whatever chunks and order they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from spojoin.kernels.pairs import Segments, merge_segments
from spojoin.kernels.segments import before
from spojoin.model import Query
from spojoin.protocol.parts import probe_range
from spojoin.wire.records import I64, Frame, Matches, Part
from spojoin.wire.sums import Sums, added, joined, no_sums

#: (chunks, partners) held in memory
Size = tuple[int, int]


class PartChunks:
    """One part's chunks of one frame, contiguous from `begin`; what was seen before is cut off."""

    def __init__(self, begin: int) -> None:
        self.end = begin
        self._chunks: list[Part] = []

    def add(self, chunk: Part) -> Size:
        """Take a chunk; one that brings nothing new changes nothing. Returns what it adds to memory."""
        if not chunk.begin <= self.end < chunk.end:
            return (0, 0)
        self._chunks.append(chunk)
        self.end = chunk.end
        return _size(chunk)

    def next_end(self, position: int) -> int:
        """Where the first chunk ends that reaches beyond a position, or the position itself where none does."""
        for chunk in self._chunks:
            if chunk.end > position:
                return chunk.end
        return position

    def take(self, frame: Frame, query: Query, begin: int, end: int) -> list[Matches]:
        """Matches per direction of frame positions [begin, end), which must be here."""
        if len(self._chunks) == 1 and (self._chunks[0].begin, self._chunks[0].end) == (begin, end):
            return list(self._chunks[0].directions)
        directions: list[list[Matches]] = [[] for _ in query.directions]
        for chunk in self._chunks:
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

    def drop_below(self, position: int) -> Size:
        """Forget chunks that end at or before a position. Returns what that frees."""
        gone = [_size(chunk) for chunk in self._chunks if chunk.end <= position]
        self._chunks = [chunk for chunk in self._chunks if chunk.end > position]
        return len(gone), sum([partners for _, partners in gone])


def _size(chunk: Part) -> Size:
    return 1, sum([len(direction.partners) for direction in chunk.directions if direction.partners is not None])


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
