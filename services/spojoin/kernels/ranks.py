"""Where code intervals fall in a sorted column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.bounds import GREATEST, LEAST
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.lanes import LANES, bisect_step

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]

#: Keys of one block: a cache line.
_BLOCK = 8
#: At most so many bounds are searched together: few enough to lie close, many enough to pay for finding the stretch.
_TOGETHER = 1 << 8


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """A sorted column of n codes, made for searching: little memory is read, and that in order.

    keys: int64, the codes ascending, or the k distinct ones where they are few; then blanks up to whole blocks
    heads: int64, each block's last key; the last is a blank, which is above every bound
    starts: uint32 (k + 1,), the rank of each distinct code's first tuple, and n; empty where keys holds every code
    """

    keys: I64
    heads: I64
    starts: U32
    size: int

    @property
    def codes(self) -> I64:
        """All n codes, ascending."""
        if len(self.starts) == 0:
            return self.keys[: self.size]
        return np.repeat(self.keys[: len(self.starts) - 1], np.diff(self.starts))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.keys.nbytes + self.heads.nbytes + self.starts.nbytes


def sorted_keys(codes: I64) -> SortedKeys:
    """`codes`, int64 (n,) ascending, made for searching; n < 2**32."""
    n = len(codes)
    firsts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    few = 2 * len(firsts) < n
    starts = np.concatenate(([0], firsts, [n])).astype(np.uint32) if few else np.empty(0, np.uint32)
    chosen = codes[starts[:-1]] if few else codes
    keys = np.full((len(chosen) // _BLOCK + 1) * _BLOCK, GREATEST)
    keys[: len(chosen)] = chosen
    return SortedKeys(keys, keys[_BLOCK - 1 :: _BLOCK].copy(), starts, n)


def rank_intervals(column: SortedKeys, lo: I64, hi: I64, visit: I64 | None = None) -> tuple[I64, I64]:
    """Rank intervals [a, b) of the code intervals [lo, hi]: a = #{code < lo}, b = #{code <= hi}, b = a where empty.

    lo, hi: int64 (m,) in any order; visit: int64 (m,), an order of the probes in which the bounds ascend, so that
    neighbours find what they search in the cache (None: as they stand). Returns two int64 (m,).
    """
    m = len(lo)
    ends = np.empty((2, m), np.int64)
    states = np.empty((3, min(m, _TOGETHER) + LANES), np.int64)
    visited = np.arange(m) if visit is None else visit
    _rank_intervals(column.keys, column.heads, column.starts, column.size, lo, hi, visited, states, ends)
    return ends[0], ends[1]


@kernel
def _rank_intervals(
    keys: I64, heads: I64, starts: U32, n: int, lo: I64, hi: I64, visit: I64, states: I64, ends: I64
) -> np.int64:
    places, values, probes = states[0], states[1], states[2]
    touched = np.int64(0)
    for side in range(2):
        found = ends[side]
        waiting = 0
        for k in range(len(visit)):
            q = visit[k]
            bound = hi[q] if side else lo[q]
            if lo[q] > hi[q]:
                found[q] = 0
            elif bound == (GREATEST if side else LEAST):
                found[q] = n if side else 0
            else:
                values[waiting], probes[waiting] = bound + side, q
                waiting += 1
            if waiting > 0 and (waiting == len(places) - LANES or k == len(visit) - 1):
                touched ^= _search(keys, heads, places, values, waiting)
                for i in range(waiting):
                    found[probes[i]] = starts[places[i]] if len(starts) > 0 else places[i]
                waiting = 0
    return touched


@inlined
def _search(keys: I64, heads: I64, places: I64, values: I64, m: int) -> np.int64:
    """places[q] = #{key < values[q]} for q < m.

    Neighbouring values lie close together, so the stretch of heads between the least and the greatest is read from
    end to end first, in an order that the machine foresees. What was read is returned lest the compiler drop it.
    """
    touched = np.int64(0)
    begin, end = _count_below(heads, values[:m].min()), _count_below(heads, values[:m].max())
    if end - begin < 64 * m:
        for i in range(begin, end, 8):
            touched ^= heads[i]
    values[m : m + LANES] = values[0]
    places[: m + LANES] = begin
    length = end - begin
    while length > 0:
        half = (length + 1) >> 1
        for q in range(0, m, LANES):
            bisect_step(heads, places, values, q, half)
        length -= half
    places[: m + LANES] *= _BLOCK
    for half in (4, 2, 1):
        for q in range(0, m, LANES):
            bisect_step(keys, places, values, q, half)
    return touched


@inlined
def _count_below(heads: I64, value: np.int64) -> int:
    begin, length = 0, len(heads)
    while length > 0:
        half = (length + 1) >> 1
        if heads[begin + half - 1] < value:
            begin += half
        length -= half
    return begin
