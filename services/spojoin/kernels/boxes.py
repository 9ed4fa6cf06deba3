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

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U8, U32, U64
from spojoin.kernels import wavelet
from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, LINE, boxes_step, bytes_below

#: The last levels, whose blocks fit a cache line, are one comparison of all values of a block.
_LEAF_LEVELS = 6
#: At most this many corners descend together: their states stay in the second-level cache.
_TOGETHER = 1 << 11
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


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
class BoxSide:
    """What m boxes are in one column: ranks [a, b), 0 <= a <= b <= n, or all others if `complement`; int64 (m,)."""

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


def box_counts(boxes: Boxes, x: BoxSide, y: BoxSide, z: BoxSide) -> I64:
    """How many tuples lie within each of m boxes: int64 (m,)."""
    counts = np.zeros(len(x.a), np.int64)
    of_x, of_y, of_z = (_rays(boxes.size, len(boxes.thirds), side) for side in (x, y, z))
    for rays in itertools.product(of_x, of_y, of_z):
        _add_octants(boxes, rays, _shared(rays[2], of_z), counts)
    return counts


@dataclass(frozen=True, slots=True)
class _Ray:
    """The ranks below one, or, where `upper` is 1, from it on, to be added `sign` times; each int64 (m,) or one."""

    rank: I64
    upper: I64 | int
    sign: I64 | int


def _rays(n: int, padded: int, side: BoxSide) -> list[_Ray]:
    """A side as a sum of at most two rays; those that hold nothing have no sign."""
    if side.complement:
        return [_below(n, padded, side.a, 1), _above(n, side.b)]
    if not side.a.any():
        return [_below(n, padded, side.b, 1)]
    if (side.b == n).all():
        return [_above(n, side.a)]
    return [_below(n, padded, side.b, 1), _below(n, padded, side.a, -1)]


def _above(n: int, rank: I64) -> _Ray:
    """The ranks from `rank` on."""
    return _Ray(rank, 1, 1 if rank.max(initial=0) < n else (rank < n).astype(np.int64))


def _below(n: int, padded: int, rank: I64, sign: int) -> _Ray:
    """The ranks below `rank`: where that is the padded domain's end, those from 0 on."""
    signs = sign if rank.min(initial=n) > 0 else sign * (rank > 0)
    if n < padded or rank.max(initial=0) < n:
        return _Ray(rank, 0, signs)
    return _Ray(np.where(rank == n, 0, rank), (rank == n).astype(np.int64), signs)


def _shared(ray: _Ray, rays: list[_Ray]) -> I64:
    """The rank of the ray that the path is shared with: the descents of two opposite rays cancel until they part."""
    others = [other for other in rays if other is not ray]
    if not others:
        return ~ray.rank
    cancels = (ray.sign * others[0].sign < 0) & (np.equal(ray.upper, others[0].upper))
    return np.where(cancels, others[0].rank, ~ray.rank)


def _add_octants(boxes: Boxes, rays: tuple[_Ray, ...], shared: I64, counts: I64) -> None:
    x, y, z = rays
    corners = np.empty((5, len(counts)), np.int64)
    corners[0], corners[1], corners[2], corners[3] = x.rank, y.rank, z.rank, shared
    corners[4] = x.upper | y.upper << 1 | z.upper << 2
    sign = x.sign * y.sign * z.sign
    found = np.zeros_like(counts)
    if isinstance(sign, int):
        _octants(boxes.size, boxes.paths, boxes.entries, boxes.leaves, boxes.thirds, corners, found)
        counts += sign * found
    else:
        some = np.flatnonzero(sign)
        corners = np.ascontiguousarray(corners[:, some])
        _octants(boxes.size, boxes.paths, boxes.entries, boxes.leaves, boxes.thirds, corners, found[: len(some)])
        counts[some] += sign[some] * found[: len(some)]


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
def _octants(n: int, paths: U64, entries: U64, leaves: U8, thirds: U8, corners: I64, counts: I64) -> np.uint64:
    """The counts of the octants at `corners`, (5, m): ranks of x, y and z, the rank shared with, what is upper."""
    touched = np.uint64(0)
    room = min(len(counts), _TOGETHER) + 2 * LANES
    states, jobs = np.empty((8, room), np.int64), np.empty((4, room), np.int64)
    for begin in range(0, len(counts), _TOGETHER):
        chunk = slice(begin, min(begin + _TOGETHER, len(counts)))
        touched += _descend(paths, entries, leaves, corners[:, chunk], states, jobs)
        _finish(n, leaves[len(leaves) - 1], thirds, corners[:, chunk], states, counts[chunk])
    return touched


@inlined
def _descend(paths: U64, entries: U64, leaves: U8, corners: I64, states: I64, jobs: I64) -> np.uint64:
    """Bring all corners to the blocks where they end; lanes beyond the last idle at the root.

    states: places in x and y, the rank of z, the tuples below in x and in y in what the path left aside on its left,
    those below in both in what it left aside on the octant's side, the rank shared with, whether z is upper
    jobs: place, cap and total of a dominance count in a block, the corner that waits for it
    """
    m, depth, row, touched = corners.shape[1], len(leaves), 0, np.uint64(0)
    states[:, m : m + LANES] = 0
    states[:3, :m], states[3:6, :m], states[6, :m], states[7, :m] = corners[:3], 0, corners[3], corners[4] >> 2
    both, totals, corner = states[5], jobs[2], jobs[3]
    lanes = states[0], states[1], states[2], states[3], states[4], both, states[6], states[7]
    collected = jobs[0], jobs[1], corner
    for level in range(depth):
        shift, waiting = depth + _LEAF_LEVELS - 1 - level, 0
        for q in range(0, m, LANES):
            waiting = boxes_step(paths[0, level], paths[1, level], lanes, collected, q, shift, waiting)
        rows = depth - level - 1
        touched += wavelet.descend(entries[row : row + rows], leaves[level], jobs[0], jobs[1], totals, waiting)
        for i in range(waiting):
            both[corner[i]] += totals[i]
        row += rows
    return touched


@inlined
def _finish(n: int, leaves: U8, thirds: U8, corners: I64, states: I64, counts: I64) -> None:
    """The corners' counts, from what their paths left aside and comparisons of the blocks where they ended."""
    padded = len(thirds)
    for q in range(len(counts)):
        cap, kind = corners[2, q], corners[4, q]
        begin = cap & ~np.int64(LINE - 1)
        x, y = states[0, q] - begin, states[1, q] - begin
        within = _ALL if x == LINE else (np.uint64(1) << np.uint64(x)) - np.uint64(1)
        within ^= _ALL * np.uint64(kind & 1)
        within &= bytes_below(leaves, begin, y) ^ (_ALL * np.uint64((kind >> 1) & 1))
        within &= bytes_below(thirds, begin, cap & (LINE - 1)) ^ (_ALL * np.uint64(kind >> 2))
        aside, below_x, below_y, count = begin, states[3, q], states[4, q], states[5, q]
        if kind >> 2:
            aside = padded - begin - LINE
            below_x, below_y = corners[0, q] - x - below_x, corners[1, q] - y - below_y
        if kind & 3 == 1:
            count = below_y - count
        elif kind & 3 == 2:
            count = below_x - count
        elif kind & 3 == 3:
            count += aside - below_x - below_y
        counts[q] = count + np.int64(popcount(within)) - (padded - n) * (kind == 7)
