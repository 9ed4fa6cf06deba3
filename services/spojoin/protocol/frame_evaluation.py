"""How a frame is evaluated: parts by worker, chunks by frame position (rules P6 and P10), columns sorted once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spojoin.arrays import I64, U8, U16, U32
from spojoin.kernels.permutation import sort_column
from spojoin.kernels.ranks import Sought
from spojoin.kernels.tail import Tail
from spojoin.model import Direction, LayoutChoice, Query
from spojoin.protocol.grid import grid_of
from spojoin.wire.records import NO_GUIDANCE, Closing, Frame, HotKeys, Matches, Probes, StreamSlice

#: The part with the tuples that aren't handed over; part 1 + c is that of column c of the PO-Join workers.
MUTABLE_PART = 0
#: How many partners a chunk should hold: 8 MB of seqs. A single probe may have more, up to a window in each direction.
CHUNK_PARTNERS = 1 << 20
#: A frame with fewer partners than CHUNK_PARTNERS / FEW_OF is one chunk: its result, with both rows' columns, is one
#: message.
FEW_OF = 4
#: How many probes a frame's first chunk has, before its matches are known.
CHUNK_PROBES_FIRST = 64
#: A chunk has at most this many times as many probes as the previous one, whose matches are the estimate.
CHUNK_GROWTH = 8


def expected_parts(frame: Frame, layout: LayoutChoice) -> list[int]:  # P6.1
    """The parts that must answer for a frame: the mutable part, if the layout has one, and each column of workers.

    There are none for a frame without answers (P12).
    """
    if not frame.is_answered:
        return []
    mutable = [MUTABLE_PART] if layout.has_mutable_part else []
    return [*mutable, *(1 + column for column in range(grid_of(frame).columns))]  # P11.1


def probe_range(positions: U16, begin: int, end: int) -> tuple[int, int]:
    """The range of a stream's tuples, by number within the frame, at frame positions [begin, end)."""
    if len(positions) and begin <= positions[0] and positions[-1] < end:  # the usual case needs no search
        return 0, len(positions)
    first, last = np.searchsorted(positions, (begin, end))
    return int(first), int(last)


def lower_bounds(probes: Probes, first: int, last: int) -> I64:
    """Window bounds of probes [first, last): int64 (1,) if all are equal, otherwise (last - first,)."""
    return probes.lower if len(probes.lower) == 1 else probes.lower[first:last]


def first_reached(frame: Frame, target: int) -> int:
    """The smallest index of a stream that a window of this frame reaches, or of a row that may still be answered."""
    if frame.closings:
        return reached_by(frame.closings, target)
    probes = frame.slices[target if len(frame.slices) == 1 else 1 - target]
    return int(probes.lower[0])


def reached_by(closings: Sequence[Closing], target: int) -> int:
    """The smallest index of a stream's row that may still be answered, or that a row of the other side may find."""
    return min(closing.first if stream == target else closing.reached for stream, closing in enumerate(closings))


def mutable_bounds(frame: Frame, direction: Direction) -> tuple[I64, I64]:  # P7.1
    """Offsets [lower, upper) of the target's mutable tuples that each of a frame's m probes may match.

    Both are int64 (m,); offsets count from the handover index. Within the frame, a probe finds the tuples before it.
    """
    probes, target = frame.probes(direction.probe), frame.slices[direction.target]
    upper = target.first_index - target.handover_index + found_within(frame, direction)
    if not len(probes) or probes.lower[-1] <= target.handover_index:  # the usual case
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


class Chunks:  # P10.1
    """Splits frame positions [0, count) so that a chunk's matches fit into memory; counts need no splitting.

    It begins with the frame even if results are out for its first positions. So the bounds of chunks, and thus of
    results, follow from the frame alone, regardless of which process evaluates it and of restarts.
    """

    def __init__(self, count: int, *, lists_pairs: bool) -> None:
        self._count = count
        self._next = 0
        self._probes = CHUNK_PROBES_FIRST if lists_pairs else count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._next < self._count:
            begin, self._next = self._next, min(self._next + self._probes, self._count)
            yield begin, self._next

    def expect_matches(self, most: int) -> None:  # P10.2
        """Note how many matches there are at most: if they are few, one chunk holds all."""
        if most <= CHUNK_PARTNERS // FEW_OF:
            self._probes = self._count

    def learn_from(self, roles: tuple[Matches, ...]) -> None:
        """Derive from a chunk's matches how many probes the next one may hold."""
        listed = [len(matches.partners) for matches in roles if matches.partners is not None]
        if listed:
            per_chunk = self._probes * CHUNK_PARTNERS // max(sum(listed), 1)
            self._probes = max(1, min(CHUNK_GROWTH * self._probes, per_chunk))


class SeqTrail:
    """Maps a stream's recent indexes to seqs; in a self join they are equal until a row has no index."""

    def __init__(self, query: Query) -> None:
        self._is_self = query.is_self
        self._first = 0
        self._end = 0
        self._seqs: Tail | None = None

    def append_tuples(self, frame: Frame, piece: StreamSlice) -> None:
        """Add a frame's tuples."""
        if self._end == 0:
            self._first = self._end = piece.first_index
        if self._seqs is None and not (self._is_self and piece.passed == piece.void == 0):
            self._seqs = Tail(self._first)
            self._seqs.append(np.arange(self._first, self._end, dtype=np.int64))
        self._end = piece.first_index + len(piece)
        if self._seqs is not None:
            self._seqs.append(frame.first_seq + piece.positions.astype(np.int64))

    def seqs(self, indexes: I64) -> I64:
        """The seqs of tuples by index, int64 of any shape."""
        if self._seqs is None:
            return indexes
        return self._seqs.view(self._seqs.first, self._seqs.end)[indexes - self._seqs.first]

    def drop_below(self, index: int) -> None:
        """Forget tuples with smaller indexes."""
        self._first = max(self._first, min(index, self._end))
        if self._seqs is not None:
            self._seqs.drop_below(index)

    def __len__(self) -> int:
        return 0 if self._seqs is None else len(self._seqs)


def sorted_column(piece: Probes, slot: int) -> tuple[I64, U16]:
    """A column as `sort_column` returns it: codes ascending, ties by arrival, and each one's offset in the slice."""
    found = piece.sorted_columns.get(slot)
    if found is None:
        piece.sorted_columns[slot] = found = sort_column(piece.codes[slot])
    return found


def sought_column(piece: Probes, slot: int) -> Sought:
    """A column's codes as the values for which all tuples of a slice search."""
    values, places = sorted_column(piece, slot)
    return Sought(values, places.astype(np.int64))


class Guide:
    """Follows the log for a layout and determines the next frame's guidance; this one, for most layouts, gives none."""

    def follow_frame(self, frame: Frame) -> None:
        """Note a frame of the log."""
        return

    def accept_hot_keys(self, hot_keys: HotKeys) -> None:
        """Note a predictor's hot keys, newer than all before."""
        return

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> U8:
        """The guidance of a frame of `count` tuples in these slices."""
        return NO_GUIDANCE


def hot_flags(hot_keys: HotKeys, count: int, slices: Sequence[StreamSlice]) -> U8:
    """Which of a frame's `count` tuples have a hot key in any column: uint8 (count,)."""
    hot = np.zeros(count, np.uint8)
    for (stream, slot), (codes, _) in hot_keys.hot.items():
        piece = slices[stream]
        hot[piece.positions] |= np.isin(piece.codes[slot], codes).astype(np.uint8)
    return hot
