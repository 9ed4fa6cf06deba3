"""How a frame's evaluation is divided: parts by worker, chunks by frame position (rules P6 and P10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.model import Direction, LayoutChoice, Query
from spojoin.wire.records import I64, U16, U32, Closing, Frame, Matches, Probes, StreamSlice

#: The part of the tuples that are not handed over; part 1 + w is PO-Join worker w's.
MUTABLE_PART = 0
#: Partners that a chunk should hold: 8 MB of seqs. A single probe's may be more, at most a window's for each direction.
CHUNK_PARTNERS = 1 << 20
#: A frame that has so many times fewer is one chunk: its result, with the columns of both rows, is a message.
FEW_OF = 4
#: Probes of a frame's first chunk, before anything is known of its matches.
CHUNK_PROBES_FIRST = 64
#: A chunk has at most so many times as many probes as the one before it, whose matches tell what to expect.
CHUNK_GROWTH = 8


def expected_parts(frame: Frame, layout: LayoutChoice) -> list[int]:
    """The parts that must report on a frame: the mutable part where the layout has one, and each worker.

    Nobody reports on a frame of which nothing is to be answered (P12).
    """
    if not frame.is_answered:
        return []
    mutable = [MUTABLE_PART] if layout.has_mutable_part else []
    return [*mutable, *(1 + worker for worker in range(frame.workers))]


def probe_range(positions: U16, begin: int, end: int) -> tuple[int, int]:
    """Which of a stream's tuples, by number within the frame, lie at frame positions [begin, end)."""
    if len(positions) and begin <= positions[0] and positions[-1] < end:  # mostly: then no search is due
        return 0, len(positions)
    first, last = np.searchsorted(positions, (begin, end))
    return int(first), int(last)


def lower_bounds(probes: Probes, first: int, last: int) -> I64:
    """Window bounds of probes [first, last): int64 (1,) where all agree, else (last - first,)."""
    return probes.lower if len(probes.lower) == 1 else probes.lower[first:last]


def first_reached(frame: Frame, target: int) -> int:
    """The smallest index of a stream that a window of this frame reaches, or of a row that it still may answer."""
    if frame.closings:
        return reached_by(frame.closings, target)
    probes = frame.slices[target if len(frame.slices) == 1 else 1 - target]
    return int(probes.lower[0])


def reached_by(closings: Sequence[Closing], target: int) -> int:
    """The smallest index of a stream of a row that may still be answered, or that one of the other side may find."""
    return min(closing.first if stream == target else closing.reached for stream, closing in enumerate(closings))


def mutable_bounds(frame: Frame, direction: Direction) -> tuple[I64, I64]:
    """Offsets [lower, upper) of the target's mutable tuples that each of a frame's m probes may match.

    Both int64 (m,); offsets count from the handover index. Within the frame itself a probe sees what precedes it.
    """
    probes, target = frame.probes(direction.probe), frame.slices[direction.target]
    upper = target.first_index - target.handover_index + found_within(frame, direction)
    if not len(probes) or probes.lower[-1] <= target.handover_index:  # mostly
        return np.zeros_like(upper), upper
    lower = np.maximum(probes.lower - target.handover_index, 0)
    return np.minimum(lower, upper), upper


def found_within(frame: Frame, direction: Direction) -> I64:
    """How many of the frame's own tuples each of its m probes may match: those that precede it, int64 (m,)."""
    probes = frame.probes(direction.probe)
    if direction.probe == direction.target:
        return np.arange(len(probes), dtype=np.int64)
    return np.searchsorted(frame.slices[direction.target].positions, _preceding(probes)).astype(np.int64)


def _preceding(probes: Probes) -> U16 | U32:
    """How many rows of the frame come before each probe, (m,)."""
    return probes.positions if isinstance(probes, StreamSlice) else probes.after


class Chunks:
    """Splits frame positions [0, count) so that a chunk's matches fit into memory; counts need no splitting.

    It begins with the frame, also where results are out for its first positions: so the bounds of chunks, and with
    them those of results, follow from the frame alone, whoever evaluates it and after whatever restarts.
    """

    def __init__(self, count: int, *, lists_pairs: bool) -> None:
        self._count = count
        self._next = 0
        self._probes = CHUNK_PROBES_FIRST if lists_pairs else count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._next < self._count:
            begin, self._next = self._next, min(self._next + self._probes, self._count)
            yield begin, self._next

    def expect(self, most: int) -> None:
        """Be told how many matches there are at most: where they are few for a chunk, one holds all."""
        if most <= CHUNK_PARTNERS // FEW_OF:
            self._probes = self._count

    def note(self, roles: tuple[Matches, ...]) -> None:
        """Learn from a chunk how many probes the next one may hold."""
        listed = [len(matches.partners) for matches in roles if matches.partners is not None]
        if listed:
            per_chunk = self._probes * CHUNK_PARTNERS // max(sum(listed), 1)
            self._probes = max(1, min(CHUNK_GROWTH * self._probes, per_chunk))


class SeqTrail:
    """From a stream's recent indexes to seqs; in a self join they are the same number until a row has no index."""

    def __init__(self, query: Query) -> None:
        self._is_self = query.is_self
        self._first = 0
        self._end = 0
        self._seqs: Tail | None = None

    def append(self, frame: Frame, piece: StreamSlice) -> None:
        """Take a frame's tuples."""
        if self._end == 0:
            self._first = self._end = piece.first_index
        if self._seqs is None and not (self._is_self and piece.passed == piece.void == 0):
            self._seqs = Tail(self._first)
            self._seqs.append(np.arange(self._first, self._end, dtype=np.int64))
        self._end = piece.first_index + len(piece)
        if self._seqs is not None:
            self._seqs.append(frame.first_seq + piece.positions.astype(np.int64))

    def seqs(self, indexes: I64) -> I64:
        """Seqs of tuples by index, int64, any shape."""
        if self._seqs is None:
            return indexes
        return self._seqs.view(self._seqs.first, self._seqs.end)[indexes - self._seqs.first]

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._first = max(self._first, min(index, self._end))
        if self._seqs is not None:
            self._seqs.drop_below(index)

    def __len__(self) -> int:
        return 0 if self._seqs is None else len(self._seqs)
