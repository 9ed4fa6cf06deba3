"""A permutation as a levelwise wavelet matrix: dominance counts and rectangles in O(log n).

The domain is padded to a power of two by the identity. Every node of a level then starts at a known place and holds
as many zeros as ones, so that one rank a level suffices where the textbook's matrix needs two (Claude, Navarro,
Ordonez, "The wavelet matrix", Information Systems 47, 2015). Probes descend together, level by level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, wavelet_step

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

#: At most so many corners descend together: a level of a large node is read once for all of them.
_TOGETHER = 1 << 14


def build(permutation: NDArray[Any]) -> U64:
    """The matrix of a permutation of 0..n-1, 1 <= n < 2**32.

    permutation: unsigned (n,). Returns uint64 (levels, 2**levels / 32 + 1): 32 complemented bits in an entry's lower
    half, the zeros of its level before them in the upper; the last entry is the level's end, where a descent may come.
    """
    levels = max((len(permutation) - 1).bit_length(), 5)
    values = np.arange(1 << levels, dtype=np.uint32)
    values[: len(permutation)] = permutation
    entries = np.empty((levels, (1 << (levels - 5)) + 1), np.uint64)
    _build(values, np.empty_like(values), entries)
    return entries


def rectangle_counts(entries: U64, n: int, a0: I64, b0: I64, a1: I64, b1: I64) -> I64:
    """#{i: a0 <= i < b0, a1 <= permutation[i] < b1} for each probe, from at most four dominance counts.

    entries: of `build`; a0, b0, a1, b1: int64 (m,) within [0, n], a <= b. Returns int64 (m,).
    """
    counts = np.zeros(len(a0), np.int64)
    states = np.empty((5, min(4 * len(a0), _TOGETHER) + LANES), np.int64)
    _add_rectangles(entries, n, (a0, b0), (a1, b1), states, counts)
    return counts


@kernel
def _build(values: NDArray[np.uint32], spare: NDArray[np.uint32], entries: U64) -> None:
    n = len(values)
    levels = len(entries)
    for level in range(levels):
        shift = np.uint32(levels - 1 - level)
        node = n >> level
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


@kernel
def _add_rectangles(
    entries: U64, n: int, first: tuple[I64, I64], second: tuple[I64, I64], states: I64, counts: I64
) -> np.uint64:
    """Add to each count its rectangle: dominance counts of its corners, with alternating signs."""
    places, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4]
    waiting, touched = 0, np.uint64(0)
    for corner in range(4):
        is_end, is_cap = corner & 1, corner >> 1
        corner_places, corner_caps = first[is_end], second[is_cap]
        sign = 1 - 2 * (is_end ^ is_cap)
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
                touched += _descend(entries, places, caps, totals, waiting)
                for i in range(waiting):
                    counts[probes[i]] += signs[i] * totals[i]
                waiting = 0
    touched += _descend(entries, places, caps, totals, waiting)
    for i in range(waiting):
        counts[probes[i]] += signs[i] * totals[i]
    return touched


@inlined
def _descend(entries: U64, places: I64, caps: I64, totals: I64, m: int) -> np.uint64:
    """totals[q] = #{i < places[q]: permutation[i] < caps[q]} for q < m; lanes beyond m idle at the root.

    Many probes visit most of a level, and in no order that the machine foresees: reading it once from end to end
    brings it into the cache much sooner. What was read is returned lest the compiler drop it.
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
            wavelet_step(row, places, caps, totals, q, levels - 1 - level)
    return touched
