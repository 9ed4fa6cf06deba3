"""The least value of a rectangle of ranks: least values of ranges of a wavelet matrix's levels.

A rectangle is at most two nodes a level, of each of them a range of places. The least value of a range is that of its
first and last block and of two runs of whole blocks, of which every one that is a power of two long is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import U8, U32, U64
from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LINE

#: Above all values.
NOTHING = np.uint32(0xFFFF_FFFF)
#: Places of a block: two cache lines.
BLOCK = 32
_SHIFT = 5
#: Levels below those of a wavelet matrix, and of the blocks among its leaves.
_LEAF_LEVELS = 6


@dataclass(frozen=True, slots=True)
class LeastMatrix:
    """What finds least values in an order of n tuples and, beside a wavelet matrix, in rectangles.

    values: uint32 (levels + 1, 2**L), those of the tuples in the order, and in that of each level behind
    runs: uint32 (rows, 2**L / BLOCK), by level and j, the least value of the 2**j blocks from each one on in its node
    """

    values: U32
    runs: U32

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.values.nbytes + self.runs.nbytes


def build(values: U32, permutation: NDArray[Any] | None) -> LeastMatrix:
    """Of values, uint32 (n,), in an order; permutation: as in `wavelet.build`, None where there is no matrix beside."""
    bits = max((len(values) - 1).bit_length(), _LEAF_LEVELS)
    levels = 0 if permutation is None else bits - _LEAF_LEVELS
    found = np.full((levels + 1, 1 << bits), NOTHING, np.uint32)
    found[0, : len(values)] = values
    if permutation is not None:
        ranks = np.arange(1 << bits, dtype=np.uint32)
        ranks[: len(permutation)] = permutation
        _sort_levels(ranks, np.empty_like(ranks), found)
    runs = np.empty((int(_first_run(bits, levels + 1)), 1 << (bits - _SHIFT)), np.uint32)
    _find_runs(found, bits, runs)
    return LeastMatrix(found, runs)


@inlined
def _first_run(bits: int, level: int) -> int:
    """The row of a level's single blocks; a level above has one row more, as its nodes are twice as long."""
    return level * (bits - _SHIFT + 1) - level * (level - 1) // 2


@kernel
def _sort_levels(ranks: U32, spare: U32, values: U32) -> None:
    size, count = values.shape[1], len(values) - 1
    for level in range(count):
        shift = np.uint32(count + _LEAF_LEVELS - 1 - level)
        node = np.int64(2) << np.int64(shift)
        low, high = np.int64(0), np.int64(node >> 1)
        for place in range(size):
            if place & (node - 1) == 0:
                low, high = np.int64(place), np.int64(place + (node >> 1))
            if (ranks[place] >> shift) & np.uint32(1):
                spare[high], values[level + 1, high] = ranks[place], values[level, place]
                high += 1
            else:
                spare[low], values[level + 1, low] = ranks[place], values[level, place]
                low += 1
        ranks, spare = spare, ranks


@kernel
def _find_runs(values: U32, bits: int, runs: U32) -> None:
    blocks = runs.shape[1]
    for level in range(len(values)):
        first, row = _first_run(bits, level), values[level]
        for block in range(blocks):
            least = NOTHING
            for i in range(block * BLOCK, (block + 1) * BLOCK):
                least = min(least, row[i])
            runs[first, block] = least
        for j in range(1, bits - level - _SHIFT + 1):
            shorter, half = runs[first + j - 1], 1 << (j - 1)
            for block in range(blocks):
                runs[first + j, block] = min(shorter[block], shorter[min(block + half, blocks - 1)])


@inlined
def least_between(values: U32, runs: U32, bits: int, level: int, low: int, high: int, limit: np.uint32) -> np.uint32:
    """The least value at places [low, high) of one node of a level, or `limit` where it is less."""
    if low >= high:
        return limit
    first, begin, end = _first_run(bits, level), low >> _SHIFT, (high - 1) >> _SHIFT
    if runs[first, begin] < limit:
        for i in range(low, min(high, (begin + 1) << _SHIFT)):
            limit = min(limit, values[level, i])
    if begin == end:
        return limit
    if runs[first, end] < limit:
        for i in range(end << _SHIFT, high):
            limit = min(limit, values[level, i])
    count = end - begin - 1
    if count > 0:
        j = log2(count)
        limit = min(limit, runs[first + j, begin + 1], runs[first + j, end - (1 << j)])
    return limit


@inlined
def log2(count: int) -> int:
    """The place of the highest set bit."""
    word = np.uint64(count)
    for shift in (1, 2, 4, 8, 16):
        word |= word >> np.uint64(shift)
    return int(popcount(word)) - 1


@inlined
def least_of(
    entries: U64, leaves: U8, values: U32, runs: U32, x: tuple[int, int], y: tuple[int, int], limit: np.uint32
) -> np.uint32:
    """The least value at places x of which the rank lies in y, both [begin, end) and not empty, or `limit` if less."""
    low, high, first, last = x[0], x[1], y[0], y[1] - 1
    bits, start, level = len(entries) + _LEAF_LEVELS, 0, 0
    while level < len(entries) and low < high:
        shift = bits - 1 - level
        if first >> shift != last >> shift:
            break
        left, right = _halves(entries, level, shift, start, low, high)
        if (first >> shift) & 1:
            low, high = right
            start += 1 << shift
        else:
            low, high = left
        level += 1
    if level == len(entries):
        return _least_of_leaf(leaves, values, level, low, high, (first, last), limit)
    if low >= high or least_between(values, runs, bits, level, low, high, limit) >= limit:
        return limit  # no value in the node that holds all the ranks is less, whatever its rank
    shift = bits - 1 - level
    (low, high), right = _halves(entries, level, shift, start, low, high)
    limit = _least_beside(entries, leaves, values, runs, level + 1, (start, low, high), first, 0, limit)
    start += 1 << shift
    return _least_beside(entries, leaves, values, runs, level + 1, (start, right[0], right[1]), last, 1, limit)


@inlined
def _halves(
    entries: U64, level: int, shift: int, start: int, low: int, high: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the places [low, high) of the node that begins at `start` go in its left and right half."""
    before, upto = _zeros(entries, level, low) - (start >> 1), _zeros(entries, level, high) - (start >> 1)
    half = 1 << shift
    return (start + before, start + upto), (half + low - before, half + high - upto)


@inlined
def _zeros(entries: U64, level: int, place: int) -> int:
    """The zeros of a level before a place."""
    entry = entries[level, place >> 5]
    below = entry & ((np.uint64(1) << np.uint64(place & 31)) - np.uint64(1))
    return int(entry >> np.uint64(32)) + int(popcount(below))


@inlined
def _least_beside(
    entries: U64,
    leaves: U8,
    values: U32,
    runs: U32,
    level: int,
    node: tuple[int, int, int],
    bound: int,
    is_last: int,
    limit: np.uint32,
) -> np.uint32:
    """The least value in a node of ranks from `bound` on, or, where it `is_last`, up to it.

    At each step down to the bound's half the other half lies within, where the bound turns away from it, or outside.
    """
    bits = len(entries) + _LEAF_LEVELS
    start, low, high = node
    while low < high:
        below = (1 << (bits - level)) - 1
        if bound & below == (below if is_last else 0):
            return least_between(values, runs, bits, level, low, high, limit)
        if level == len(entries):
            return _least_of_leaf(leaves, values, level, low, high, (0, bound) if is_last else (bound, LINE - 1), limit)
        shift = bits - 1 - level
        left, right = _halves(entries, level, shift, start, low, high)
        level += 1
        if (bound >> shift) & 1:
            if is_last:
                limit = least_between(values, runs, bits, level, left[0], left[1], limit)
            low, high = right
            start += 1 << shift
        else:
            if not is_last:
                limit = least_between(values, runs, bits, level, right[0], right[1], limit)
            low, high = left
    return limit


@inlined
def _least_of_leaf(
    leaves: U8, values: U32, level: int, low: int, high: int, inside: tuple[int, int], limit: np.uint32
) -> np.uint32:
    first, last = np.uint8(inside[0] & (LINE - 1)), np.uint8(inside[1] & (LINE - 1))
    for i in range(low, high):
        if first <= leaves[i] <= last:
            limit = min(limit, values[level, i])
    return limit
