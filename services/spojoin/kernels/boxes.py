"""Three permuted columns as one structure: counts of boxes of ranks in O(log^2 n).

The ranks of the third column are decomposed: a descent by them visits a block of half the size at each level, and
whatever it leaves aside on one side is a whole block, in which the other two columns ask a dominance count. So a
prefix of the third column's ranks is at most log2(n) blocks, each with a wavelet matrix of its own; where a rank of
the other columns falls within a block is told by two more matrices on the way (a range tree with wavelet matrices for
its last two columns: Bentley, "Decomposable searching problems", IPL 8, 1979; Chazelle, "A functional approach to
data structures and its use in multidimensional searching", SIAM J. Comput. 17, 1988).

Blocks of a level lie one behind the other in a matrix of the whole domain. Any octant costs one descent: the blocks
that are left aside on the other side, and their sizes, tell the complements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels import wavelet
from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, LINE, bytes_below, wavelet_step

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]

#: The last levels, whose blocks fit a cache line, are one comparison of all values of a block.
_LEAF_LEVELS = 6
#: At most this many corners descend together: their states stay in the second-level cache.
_TOGETHER = 1 << 11
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

#: Rows of a corner's state: places of the first two columns, the same before a level's step, the third column's rank
#: and the one that its path is shared with, tuples below in the first two columns, in both; where it began; its kind.
_X, _Y, _OLD_X, _OLD_Y, _CAP, _OTHER, _BELOW_X, _BELOW_Y, _BOTH, _FROM_X, _FROM_Y, _KIND, _PROBE, _SIGN = range(14)
#: Rows of a dominance count that waits for a level's matrix.
_PLACE, _BLOCK_CAP, _TOTAL, _CORNER = range(4)


@dataclass(frozen=True, slots=True)
class Boxes:
    """Three columns x, y, z of n tuples, padded to 2**L; D = L - 6 levels of z's ranks are decomposed.

    paths: uint64 (2, D, 2**L / 32 + 1), the levels of the permutations x -> z and y -> z
    entries: uint64 (D * (D - 1) / 2, 2**L / 32 + 1), of x -> y within the blocks of the levels 1, 2, ... D of z
    leaves: uint8 (D, 2**L), where these end; thirds: uint8 (2**L,), z within the last blocks, in the order of x
    """

    size: int
    paths: U64
    entries: U64
    leaves: U8
    thirds: U8

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.paths.nbytes + self.entries.nbytes + self.leaves.nbytes + self.thirds.nbytes


@dataclass(frozen=True, slots=True)
class Side:
    """What m boxes are in one column: ranks [a, b), 0 <= a <= b <= n, or, where `complement`, all others; int64 (m,)."""

    a: I64
    b: I64
    complement: bool


def build(second: NDArray[Any], third: NDArray[Any]) -> Boxes:
    """From the permutations x -> y and x -> z, unsigned (n,), 1 <= n < 2**32."""
    n = len(second)
    length = max((n - 1).bit_length(), _LEAF_LEVELS + 1)
    depth, words = length - _LEAF_LEVELS, (1 << (length - 5)) + 1
    ys, zs = (np.arange(1 << length, dtype=np.uint32) for _ in range(2))
    ys[:n], zs[:n] = second, third
    boxes = Boxes(
        n,
        np.zeros((2, depth, words), np.uint64),
        np.empty((depth * (depth - 1) // 2, words), np.uint64),
        np.empty((depth, 1 << length), np.uint8),
        np.empty(1 << length, np.uint8),
    )
    _build(ys, zs, boxes.paths, boxes.entries, boxes.leaves, boxes.thirds)
    return boxes


def box_counts(boxes: Boxes, x: Side, y: Side, z: Side) -> I64:
    """How many tuples lie within each of m boxes: int64 (m,)."""
    counts = np.zeros(len(x.a), np.int64)
    states = np.empty((_SIGN + 1, _TOGETHER + 8 + LANES), np.int64)
    jobs = np.empty((_CORNER + 1, _TOGETHER + 8 + LANES), np.int64)
    ends = np.array([[x.a, x.b], [y.a, y.b], [z.a, z.b]])
    complements = np.array([x.complement, y.complement, z.complement])
    _add_boxes(
        boxes.size, boxes.paths, boxes.entries, boxes.leaves, boxes.thirds, ends, complements, states, jobs, counts
    )
    return counts


@kernel
def _build(ys: U32, zs: U32, paths: U64, entries: U64, leaves: U8, thirds: U8) -> None:
    n, depth = len(ys), len(leaves)
    next_ys, next_zs, spare = np.empty_like(ys), np.empty_like(zs), np.empty_like(ys)
    row = 0
    for level in range(depth):
        shift = np.uint32(depth + _LEAF_LEVELS - 1 - level)
        _mark(ys, zs, shift, paths[0, level], paths[1, level])
        _halve(ys, zs, shift, paths[1, level], next_ys, next_zs)
        ys[:] = next_ys
        rows = depth - level - 1
        wavelet.build_levels(ys, spare, entries[row : row + rows], leaves[level])
        row += rows
        ys, next_ys = next_ys, ys
        zs, next_zs = next_zs, zs
    for i in range(n):
        thirds[i] = zs[i] & np.uint32(LINE - 1)


@inlined
def _mark(ys: U32, zs: U32, shift: np.uint32, by_x: U64, by_y: U64) -> None:
    """The level's bits of z, complemented, in the orders of x and of y within each block, and the zeros before them."""
    for i in range(len(zs)):
        zero = np.uint64(1) - np.uint64((zs[i] >> shift) & np.uint32(1))
        by_x[i >> 5] |= zero << np.uint64(i & 31)
        y = np.int64(ys[i])
        by_y[y >> 5] |= zero << np.uint64(y & 31)
    zeros_x, zeros_y = np.uint64(0), np.uint64(0)
    for word in range(len(by_x)):
        in_x, in_y = popcount(by_x[word]), popcount(by_y[word])
        by_x[word] |= zeros_x << np.uint64(32)
        by_y[word] |= zeros_y << np.uint64(32)
        zeros_x += in_x
        zeros_y += in_y


@inlined
def _halve(ys: U32, zs: U32, shift: np.uint32, by_y: U64, next_ys: U32, next_zs: U32) -> None:
    """Part each block by the level's bit of z, both halves in the order of x, with their own ranks of y."""
    half = np.int64(1) << np.int64(shift)
    for begin in range(0, len(ys), 2 * half):
        low, high = np.int64(begin), begin + half
        for i in range(begin, begin + 2 * half):
            y = np.int64(ys[i])
            entry = by_y[y >> 5]
            below = (np.uint64(1) << np.uint64(y & 31)) - np.uint64(1)
            zeros = np.int64((entry >> np.uint64(32)) + popcount(entry & below)) - (begin >> 1)
            one = np.int64((zs[i] >> shift) & np.uint32(1))
            to = high if one else low
            next_zs[to] = zs[i]
            next_ys[to] = begin + half + (y - begin - zeros) if one else begin + zeros
            high += one
            low += 1 - one


@kernel
def _add_boxes(
    n: int, paths: U64, entries: U64, leaves: U8, thirds: U8,
    ends: I64, complements: NDArray[np.bool_], states: I64, jobs: I64, counts: I64,
) -> np.uint64:  # fmt: skip
    """Add to each count its box: octants at its corners, with alternating signs."""
    waiting, touched = 0, np.uint64(0)
    for q in range(len(counts)):
        waiting = _push_corners(n, thirds, ends[:, :, q], complements, q, states, waiting)
        if waiting >= _TOGETHER:
            touched += _descend(n, paths, entries, leaves, thirds, states, jobs, waiting, counts)
            waiting = 0
    if waiting > 0:
        touched += _descend(n, paths, entries, leaves, thirds, states, jobs, waiting, counts)
    return touched


@inlined
def _push_corners(
    n: int, thirds: U8, ends: I64, complements: NDArray[np.bool_], q: int, states: I64, waiting: int
) -> int:
    """Write the states of the at most eight corners of a box; returns how many wait now."""
    ranks, uppers, signs = np.empty((3, 2), np.int64), np.empty((3, 2), np.int64), np.empty((3, 2), np.int64)
    for column in range(3):
        _part(n, len(thirds), ends[column, 0], ends[column, 1], complements[column],
              ranks[column], uppers[column], signs[column])  # fmt: skip
    shared = signs[2, 0] * signs[2, 1] < 0
    for corner in range(8):
        i, j, k = corner >> 2, (corner >> 1) & 1, corner & 1
        sign = signs[0, i] * signs[1, j] * signs[2, k]
        if sign != 0:
            states[_X, waiting] = states[_FROM_X, waiting] = ranks[0, i]
            states[_Y, waiting] = states[_FROM_Y, waiting] = ranks[1, j]
            states[_CAP, waiting] = ranks[2, k]
            states[_OTHER, waiting] = ranks[2, 1 - k] if shared else ~ranks[2, k]
            states[_BELOW_X, waiting] = states[_BELOW_Y, waiting] = states[_BOTH, waiting] = 0
            states[_KIND, waiting] = uppers[0, i] | (uppers[1, j] << 1) | (uppers[2, k] << 2)
            states[_PROBE, waiting], states[_SIGN, waiting] = q, sign
            waiting += 1
    return waiting


@inlined
def _part(n: int, padded: int, a: int, b: int, complement: bool, ranks: I64, uppers: I64, signs: I64) -> None:
    """A column's side as a sum of at most two rays with their signs: ranks below one, or (upper) from it on."""
    signs[:] = 0
    if complement:
        ranks[0], uppers[0], signs[0] = a, 0, 1
        ranks[1], uppers[1], signs[1] = b, 1, 1
    elif a == b:
        return
    elif b == n and a > 0:
        ranks[0], uppers[0], signs[0] = a, 1, 1
    else:
        ranks[0], uppers[0], signs[0] = b, 0, 1
        ranks[1], uppers[1], signs[1] = a, 0, -1
    for ray in range(2):
        if signs[ray] != 0 and ranks[ray] == (n if uppers[ray] else 0):
            signs[ray] = 0
        elif signs[ray] != 0 and ranks[ray] == padded:
            ranks[ray], uppers[ray] = 0, 1


@inlined
def _descend(
    n: int, paths: U64, entries: U64, leaves: U8, thirds: U8, states: I64, jobs: I64, m: int, counts: I64
) -> np.uint64:
    """Add the octants of the first m states to the counts; lanes beyond m idle at the root."""
    depth, row, touched = len(leaves), 0, np.uint64(0)
    states[: _CAP + 1, m : m + LANES] = 0
    for level in range(depth):
        shift = depth + _LEAF_LEVELS - 1 - level
        for q in range(m):
            states[_OLD_X, q], states[_OLD_Y, q] = states[_X, q], states[_Y, q]
        for q in range(0, m, LANES):
            wavelet_step(paths[0, level], states[_X], states[_CAP], states[_BELOW_X], q, shift)
            wavelet_step(paths[1, level], states[_Y], states[_CAP], states[_BELOW_Y], q, shift)
        rows = depth - level - 1
        waiting = _leave_aside(states, m, shift, jobs)
        totals = jobs[_TOTAL]
        touched += wavelet.descend(
            entries[row : row + rows], leaves[level], jobs[_PLACE], jobs[_BLOCK_CAP], totals, waiting
        )
        for i in range(waiting):
            states[_BOTH, jobs[_CORNER, i]] += totals[i]
        row += rows
    for q in range(m):
        counts[states[_PROBE, q]] += states[_SIGN, q] * _octant(n, leaves[depth - 1], thirds, states, q)
    return touched


@inlined
def _leave_aside(states: I64, m: int, shift: int, jobs: I64) -> int:
    """Collect the dominance counts in the blocks that this level leaves aside on the octant's side.

    Two corners that differ only in z's rank, with opposite signs, leave the same blocks aside until they part.
    """
    half = np.int64(1) << shift
    waiting = 0
    for q in range(m):
        cap = states[_CAP, q]
        bit = (cap >> shift) & 1
        x = states[_OLD_X, q] - states[_X, q] + bit * half
        y = states[_OLD_Y, q] - states[_Y, q] + bit * half
        begin = (cap & -half) ^ half
        is_wanted = (bit != states[_KIND, q] >> 2) & ((cap ^ states[_OTHER, q]) >> shift != 0)
        is_plain = (x & (half - 1) == 0) | (y & (half - 1) == 0)
        states[_BOTH, q] += min(x, y) * (is_wanted & is_plain)
        jobs[_PLACE, waiting], jobs[_BLOCK_CAP, waiting], jobs[_CORNER, waiting] = begin + x, begin + y, q
        waiting += is_wanted & (not is_plain)
    return waiting


@inlined
def _octant(n: int, leaves: U8, thirds: U8, states: I64, q: int) -> int:
    """A corner's count, from what its path left aside and a comparison of the block where it ended."""
    cap, kind = states[_CAP, q], states[_KIND, q]
    begin = cap & ~np.int64(LINE - 1)
    x, y = states[_X, q] - begin, states[_Y, q] - begin
    within = _ALL if x == LINE else (np.uint64(1) << np.uint64(x)) - np.uint64(1)
    within ^= _ALL * np.uint64(kind & 1)
    within &= bytes_below(leaves, begin, y) ^ (_ALL * np.uint64((kind >> 1) & 1))
    within &= bytes_below(thirds, begin, cap & (LINE - 1)) ^ (_ALL * np.uint64(kind >> 2))
    aside, below_x, below_y = begin, states[_BELOW_X, q], states[_BELOW_Y, q]
    if kind >> 2:
        aside = len(thirds) - begin - LINE
        below_x, below_y = states[_FROM_X, q] - x - below_x, states[_FROM_Y, q] - y - below_y
    count = states[_BOTH, q]
    if kind & 3 == 1:
        count = below_y - count
    elif kind & 3 == 2:
        count = below_x - count
    elif kind & 3 == 3:
        count += aside - below_x - below_y
    return count + np.int64(popcount(within)) - (len(thirds) - n) * (kind == 7)
