"""A permutation as a levelwise wavelet matrix: dominance counts and rectangles in O(log n).

The domain is padded to a power of two by the identity. Every node of a level then starts at a known place and holds
as many zeros as ones, so that one rank a level suffices where the textbook's matrix needs two (Claude, Navarro,
Ordonez, "The wavelet matrix", Information Systems 47, 2015). Probes descend together, level by level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U8, U64
from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, LINE, bytes_below, count_bytes_below, range_step, wavelet_step

#: The last levels, whose nodes fit a cache line, are one comparison of all values of a node.
_LEAF_LEVELS = 6

#: At most this many corners descend together: a level of a large node is read once for all of them.
_TOGETHER = 1 << 14
#: At most this many bands descend together.
_BANDS = 1 << 12
#: Both ends of a band share the descent as long as nodes hold this many times as many values as a band.
_WIDTHS = 8


@dataclass(frozen=True, slots=True)
class Wavelet:
    """The matrix of a permutation padded to 2**L values.

    entries: uint64 (L - 6, 2**L / 32 + 1), a level's bits: 32 complemented bits in an entry's lower half, the zeros of
    its level before them in the upper; the last entry is the level's end, where a descent may come
    leaves: uint8 (2**L,), where the levels end: nodes of LINE values, each value less its node's smallest
    """

    entries: U64
    leaves: U8

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.entries.nbytes + self.leaves.nbytes


def build(permutation: NDArray[Any]) -> Wavelet:
    """The matrix of a permutation of 0..n-1, unsigned (n,), 1 <= n < 2**32."""
    levels = max((len(permutation) - 1).bit_length(), _LEAF_LEVELS)
    values = np.arange(1 << levels, dtype=np.uint32)
    values[: len(permutation)] = permutation
    entries = np.empty((levels - _LEAF_LEVELS, (1 << (levels - 5)) + 1), np.uint64)
    leaves = np.empty(1 << levels, np.uint8)
    build_levels(values, np.empty_like(values), entries, leaves)
    return Wavelet(entries, leaves)


def rectangle_counts(matrix: Wavelet, n: int, a0: I64, b0: I64, a1: I64, b1: I64) -> I64:
    """#{i: a0 <= i < b0, a1 <= permutation[i] < b1} for each probe, from at most four dominance counts.

    n: the permutation's length; a0, b0, a1, b1: int64 (m,) within [0, n], a <= b. Returns int64 (m,).
    """
    counts = np.zeros(len(a0), np.int64)
    if a0.any() and a1.any() and (b0 < n).any() and (b1 < n).any():
        add_bands(matrix.entries, matrix.leaves, n, (a0, b0), (a1, b1), counts)
    else:
        add_rectangles(matrix.entries, matrix.leaves, n, (a0, b0), (a1, b1), rectangle_states(len(a0)), counts)
    return counts


@kernel
def build_levels(values: NDArray[np.uint32], spare: NDArray[np.uint32], entries: U64, leaves: U8) -> None:
    """Write the last levels, from nodes of LINE << len(entries) values each on, which must hold their own places.

    values: uint32 (2**L,), overwritten like `spare`; entries: uint64 (levels, 2**L / 32 + 1); leaves: uint8 (2**L,)
    """
    n = len(values)
    levels = len(entries)
    for level in range(levels):
        shift = np.uint32(levels + _LEAF_LEVELS - 1 - level)
        node = np.int64(2) << np.int64(shift)
        row = entries[level]
        zeros = np.uint64(0)
        low, high = np.int64(0), np.int64(node >> 1)
        for word in range(n >> 5):
            bits = np.uint64(0)
            for i in range(32):
                place = (word << 5) + i
                if place & (node - 1) == 0:
                    low, high = np.int64(place), np.int64(place + (node >> 1))
                value = values[place]
                one = np.int64((value >> shift) & np.uint32(1))
                spare[high if one else low] = value
                high += one
                low += 1 - one
                bits |= np.uint64(1 - one) << np.uint64(i)
            row[word] = (zeros << np.uint64(32)) | bits
            zeros += popcount(bits)
        row[n >> 5] = zeros << np.uint64(32)
        values, spare = spare, values
    for i in range(n):
        leaves[i] = values[i] & np.uint32(LINE - 1)


@inlined
def rectangle_states(m: int) -> I64:
    """Room for `add_rectangles` of m probes."""
    return np.empty((5, min(4 * m, _TOGETHER) + LANES), np.int64)


@kernel
def add_rectangles(
    entries: U64, leaves: U8, n: int, first: tuple[I64, I64], second: tuple[I64, I64], states: I64, counts: I64
) -> np.uint64:
    """Add to each count its rectangle: dominance counts of its corners, with alternating signs."""
    places, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4]
    waiting, touched = 0, np.uint64(0)
    for corner in range(4):
        corner_places, corner_caps, sign = corner_of(corner, first, second)
        for q in range(len(counts)):
            place, cap = corner_places[q], corner_caps[q]
            if place == 0 or cap == 0:
                continue
            if n in (place, cap):
                counts[q] += sign * min(place, cap)
                continue
            places[waiting], caps[waiting], probes[waiting], signs[waiting] = place, cap, q, sign
            waiting += 1
            if waiting == len(places) - LANES:
                touched += descend(entries, leaves, places, caps, totals, waiting)
                settle(totals, probes, signs, waiting, counts)
                waiting = 0
    touched += descend(entries, leaves, places, caps, totals, waiting)
    settle(totals, probes, signs, waiting, counts)
    return touched


@inlined
def corner_of(corner: int, first: tuple[I64, I64], second: tuple[I64, I64]) -> tuple[I64, I64, int]:
    """The places and caps of one of the four corners of rectangles, and its sign."""
    is_end, is_cap = corner & 1, corner >> 1
    return first[is_end], second[is_cap], 1 - 2 * (is_end ^ is_cap)


@inlined
def settle(totals: I64, probes: I64, signs: I64, waiting: int, found: I64) -> None:
    """Add the totals of so many waiting corners to what their probes have found."""
    for i in range(waiting):
        found[probes[i]] += signs[i] * totals[i]


@inlined
def descend(entries: U64, leaves: U8, places: I64, caps: I64, totals: I64, m: int) -> np.uint64:
    """totals[q] = #{i < places[q]: permutation[i] < caps[q]} for q < m; lanes beyond m idle at the root.

    Many probes visit most of a level, in an order that the processor can't predict: reading it once from end to end
    brings it into the cache much sooner. Returns what was read, so that the compiler doesn't drop the reads.
    """
    totals[: m + LANES] = 0
    places[m : m + LANES] = 0
    caps[m : m + LANES] = 0
    touched = np.uint64(0)
    levels = len(entries)
    for level in range(levels):
        row = entries[level]
        if 2 * m > len(row) >> 3:
            for word in range(0, len(row), 8):
                touched ^= row[word]
        for q in range(0, m, LANES):
            wavelet_step(row, places, caps, totals, q, levels + _LEAF_LEVELS - 1 - level)
    if 2 * m > len(leaves) >> 6:
        for line in range(0, len(leaves), LINE):
            touched ^= np.uint64(leaves[line])
    for q in range(m):
        leaf = caps[q] & ~np.int64(LINE - 1)
        cap, upto = caps[q] & (LINE - 1), places[q] - leaf
        if upto == LINE:
            totals[q] += cap
        else:
            totals[q] += count_bytes_below(leaves, leaf, cap, upto)
    return touched


@kernel
def add_bands(
    entries: U64, leaves: U8, n: int, first: tuple[I64, I64], second: tuple[I64, I64], counts: I64
) -> np.uint64:
    """Add to each count its rectangle: ranges of places descend, to one end of the band less to the other.

    While nodes are much wider than bands, both ends of a band in one node descend as one. What is no longer in its
    range isn't followed any further.
    """
    touched, shared = np.uint64(0), _shared_levels(entries, len(leaves), second)
    room = 2 * min(len(counts), _BANDS) + LANES
    states, others = np.empty((6, room), np.int64), np.empty((6, room), np.int64)
    for begin in range(0, len(counts), _BANDS):
        end = min(begin + _BANDS, len(counts))
        m = _push_bands(n, len(entries) + _LEAF_LEVELS - shared, first, second, begin, end, states, counts)
        touched += _descend_ranges(entries[:shared], len(entries) + _LEAF_LEVELS - 1, states, m)
        m = _part(states, m, second[0], others, counts)
        touched += _descend_ranges(entries[shared:], len(entries) + _LEAF_LEVELS - 1 - shared, others, m)
        _count_leaves(leaves, others, m, counts)
    return touched


@inlined
def _shared_levels(entries: U64, values: int, bands: tuple[I64, I64]) -> int:
    """The levels whose nodes are much wider than the bands."""
    total, level, m = np.int64(0), 0, len(bands[0])
    for q in range(m):
        total += bands[1][q] - bands[0][q]
    width = _WIDTHS * (total // max(m, 1) + 1)
    while level < len(entries) and values >> (level + 1) >= width:
        level += 1
    return level


@inlined
def _push_bands(
    n: int, shift: int, first: tuple[I64, I64], second: tuple[I64, I64], begin: int, end: int, states: I64, counts: I64
) -> int:
    """Lanes of the bands [begin, end): a range of places, a cap, a total, the probe, its sign or 0 for both ends."""
    lows, highs, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4], states[5]
    m = 0
    for q in range(begin, end):
        low, high, below, upto = first[0][q], first[1][q], second[0][q], second[1][q]
        if low == high or below == upto:
            continue
        if upto == n:
            counts[q] += high - low
        else:
            is_shared = (below ^ upto) >> shift == 0
            lows[m], highs[m], caps[m], totals[m], probes[m], signs[m] = low, high, upto, 0, q, 1 - is_shared
            m += 1
            if is_shared:
                continue
        if below > 0:
            lows[m], highs[m], caps[m], totals[m], probes[m], signs[m] = low, high, below, 0, q, -1
            m += 1
    return m


@inlined
def _part(states: I64, m: int, below: I64, others: I64, counts: I64) -> int:
    """Copy the lanes whose range holds something, those for both ends of a band as two; count the rest."""
    lows, highs, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4], states[5]
    to_low, to_high, to_cap, to_total, to_probe, to_sign = (
        others[0],
        others[1],
        others[2],
        others[3],
        others[4],
        others[5],
    )
    k = 0
    for i in range(m):
        low, high, q, sign = lows[i], highs[i], probes[i], signs[i]
        if low == high:
            counts[q] += sign * totals[i]
            continue
        to_low[k], to_high[k], to_cap[k], to_total[k], to_probe[k] = low, high, caps[i], totals[i] * sign * sign, q
        to_sign[k] = 1 if sign == 0 else sign
        k += 1
        if sign == 0:
            to_low[k], to_high[k], to_cap[k], to_total[k], to_probe[k] = low, high, below[q], 0, q
            to_sign[k] = -1
            k += 1
    return k


@inlined
def _descend_ranges(entries: U64, shift: int, states: I64, m: int) -> np.uint64:
    """Bring the ranges of m lanes down the levels `entries`, the first of which has nodes of 2 << shift values."""
    touched = np.uint64(0)
    lanes = states[0], states[1], states[2], states[3]
    states[:4, m : m + LANES] = 0
    for level in range(len(entries)):
        row = entries[level]
        if 4 * m > len(row) >> 3:
            for word in range(0, len(row), 8):
                touched ^= row[word]
        for q in range(0, m, LANES):
            range_step(row, lanes, q, shift - level)
    return touched


@inlined
def _count_leaves(leaves: U8, states: I64, m: int, counts: I64) -> None:
    lows, highs, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4], states[5]
    for i in range(m):
        leaf = caps[i] & ~np.int64(LINE - 1)
        below = bytes_below(leaves, leaf, caps[i] & (LINE - 1))
        within = first_bits(highs[i] - leaf) & ~first_bits(lows[i] - leaf)
        counts[probes[i]] += signs[i] * (totals[i] + np.int64(popcount(below & within)))


@inlined
def first_bits(count: int) -> np.uint64:
    """The lowest `count` bits, at most LINE."""
    return np.uint64(0) if count == 0 else ~np.uint64(0) >> np.uint64(LINE - count)
