"""Where probes fall in a sorted column.

A frame's probes are sorted once and then searched in many columns: each search continues where its smaller
neighbour ended, a cache line of keys per step, so memory is read once and in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64, U32
from spojoin.kernels.bounds import GREATEST, LEAST
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.lanes import LANES, bisect_step, count_below, prefetch
from spojoin.kernels.permutation import sort_places

#: Keys per block: a cache line.
_BLOCK = LANES
#: Walking over this many heads takes as long as a bisection of all of them by one lane of several.
_WALK_MAX = 1 << 4
#: Blocks of this many probes fit the first-level cache.
_TOGETHER = 1 << 8


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """A sorted column of n codes, prepared for searches that read little memory, and in order.

    keys: int64, the codes ascending, or the k distinct ones if they are few; then blanks up to whole blocks
    heads: int64, each block's last key, then a block of blanks, at which every walk ends
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
    """`codes`, int64 (n,) ascending, prepared for searching; n < 2**32."""
    return SortedKeys(*_prepared(codes), len(codes))


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """m codes to search for in sorted columns.

    values: int64 (m,), ascending; probes: int64 (m,), the probe of each value
    """

    values: I64
    probes: I64


def sought(codes: I64, like: Sought | None = None) -> Sought:
    """The codes int64 (m,) of m probes in any order, prepared for the search.

    like: what the same probes search elsewhere, which often has the same order; checking it is cheaper than sorting
    """
    if like is not None:
        values = codes[like.probes]
        if (values[1:] >= values[:-1]).all():
            return Sought(values, like.probes)
    return Sought(*sort_places(codes))


def ranks(column: SortedKeys, wanted: Sought) -> tuple[I64, I64]:
    """For each probe's value v #{code < v} and #{code <= v}, both int64 (m,) by probe."""
    found = np.empty((2, len(wanted.values)), np.int64)
    search_sorted(
        column.keys, column.heads, column.starts, column.size, wanted.values, wanted.probes, found[0], found[1]
    )
    return found[0], found[1]


def rank_intervals(column: SortedKeys, lo: I64, hi: I64) -> tuple[I64, I64]:
    """Rank intervals [a, b) of the code intervals [lo, hi]: a = #{code < lo}, b = #{code <= hi}, b = a if lo > hi.

    lo, hi: int64 (m,) in any order. Returns two int64 (m,).
    """
    if lo is hi or np.array_equal(lo, hi):
        return ranks(column, sought(lo))
    begins = None if (lo == LEAST).all() else sought(lo)
    a = np.zeros_like(lo) if begins is None else ranks(column, begins)[0]
    b = np.full_like(hi, column.size) if (hi == GREATEST).all() else ranks(column, sought(hi, begins))[1]
    return a, np.maximum(a, b)


@kernel
def _prepared(codes: I64) -> tuple[I64, I64, U32]:
    n, distinct = len(codes), _distinct(codes)
    is_few = 2 * distinct <= n
    size = ((distinct if is_few else n) // _BLOCK + 1) * _BLOCK
    keys, heads = np.empty(size, np.int64), np.empty(size // _BLOCK + _BLOCK, np.int64)
    starts = np.empty(distinct + 1 if is_few else 0, np.uint32)
    _fill(codes, keys, heads, starts)
    return keys, heads, starts


@inlined
def _distinct(codes: I64) -> int:
    found = min(len(codes), 1)
    for i in range(1, len(codes)):
        found += codes[i] != codes[i - 1]
    return found


@inlined
def _fill(codes: I64, keys: I64, heads: I64, starts: U32) -> None:
    if len(starts) > 0:
        found = 0
        for i in range(len(codes)):
            if i == 0 or codes[i] != codes[i - 1]:
                keys[found], starts[found] = codes[i], i
                found += 1
        starts[found], keys[found:] = len(codes), GREATEST
    else:
        keys[: len(codes)], keys[len(codes) :] = codes, GREATEST
    for block in range(len(keys) // _BLOCK):
        heads[block] = keys[(block + 1) * _BLOCK - 1]
    heads[len(keys) // _BLOCK :] = GREATEST


@kernel
def search_sorted(keys: I64, heads: I64, starts: U32, n: int, values: I64, probes: I64, below: I64, upto: I64) -> None:
    """`ranks` of a column of n tuples by its arrays, into `below` and `upto`."""
    blocks = np.empty(len(values), np.int64)
    if len(heads) > _WALK_MAX * len(values):
        _bisect_all(heads, values, blocks)
    else:
        _walk_all(heads, values, blocks, keys)
    n_keys = len(starts) - 1 if len(starts) > 0 else n
    ends = np.empty((2, _TOGETHER), np.int64)
    for begin in range(0, len(values), _TOGETHER):
        chunk = slice(begin, min(begin + _TOGETHER, len(values)))
        _search_blocks(keys, n_keys, blocks[chunk], values[chunk], ends[0], ends[1])
        for k in range(chunk.stop - begin):
            first, after, probe = ends[0, k], ends[1, k], probes[begin + k]
            below[probe] = starts[first] if len(starts) > 0 else first
            upto[probe] = starts[after] if len(starts) > 0 else after


@inlined
def _search_blocks(keys: I64, n_keys: int, blocks: I64, values: I64, firsts: I64, afters: I64) -> None:
    """Where the keys equal to each value begin, which is in `blocks`, and end.

    Independent loads bring the blocks into the cache before any branch depends on their content.
    """
    for k in range(len(blocks)):
        begin = blocks[k] * _BLOCK
        firsts[k] = begin + count_below(keys, begin, values[k])
        afters[k] = begin + count_below(keys, begin, values[k] + 1)
    for k in range(len(blocks)):
        if values[k] == GREATEST:
            afters[k] = n_keys
        elif afters[k] == (blocks[k] + 1) * _BLOCK:
            afters[k] = _after_equals(keys, n_keys, blocks[k] + 1, values[k])


@inlined
def _bisect_all(heads: I64, values: I64, blocks: I64) -> None:
    """The block of each value, as `_walk_all` finds it, where values are far apart: LANES of them step together."""
    states = np.zeros((3, _TOGETHER), np.int64)
    found, lengths, wanted = states[0], states[1], states[2]
    for begin in range(0, len(values), _TOGETHER):
        count = min(_TOGETHER, len(values) - begin)
        found[:count], lengths[:count], lengths[count:] = 0, len(heads), 0
        wanted[:count] = values[begin : begin + count]
        left = len(heads)
        while left > 0:
            for q in range(0, count, LANES):
                bisect_step(heads, found, lengths, wanted, q)
            left >>= 1
        blocks[begin : begin + count] = found[:count]


@inlined
def _walk_all(heads: I64, values: I64, blocks: I64, keys: I64) -> None:
    """The block of each value: the first whose head is not below it.

    Walks along four stretches of the values in turn, so the processor needn't wait for a step to end.
    """
    quarter = len(values) >> 2
    one, two, three = quarter, 2 * quarter, 3 * quarter
    at0, at1, at2, at3 = 0, 0, 0, 0
    if quarter > 0:
        at1 = _bisect(heads, len(heads), values[one])
        at2 = _bisect(heads, len(heads), values[two])
        at3 = _bisect(heads, len(heads), values[three])
    for k in range(quarter):
        at0, at1 = _walk(heads, at0, values[k]), _walk(heads, at1, values[one + k])
        at2, at3 = _walk(heads, at2, values[two + k]), _walk(heads, at3, values[three + k])
        blocks[k], blocks[one + k], blocks[two + k], blocks[three + k] = at0, at1, at2, at3
        prefetch(keys, at0 * _BLOCK)
        prefetch(keys, at1 * _BLOCK)
        prefetch(keys, at2 * _BLOCK)
        prefetch(keys, at3 * _BLOCK)
    for k in range(4 * quarter, len(values)):
        at3 = _walk(heads, at3, values[k])
        blocks[k] = at3


@inlined
def _walk(heads: I64, at: int, value: np.int64) -> int:
    step = count_below(heads, at, value)
    while step == _BLOCK:
        at += step
        step = count_below(heads, at, value)
    return int(at + step)


@inlined
def _after_equals(keys: I64, n_keys: int, block: int, value: np.int64) -> int:
    """The end of the keys equal to `value`, not the greatest, that reach up to `block`; usually they are few."""
    for begin in range(block * _BLOCK, min((block + 4) * _BLOCK, len(keys)), _BLOCK):
        step = count_below(keys, begin, value + 1)
        if step < _BLOCK:
            return int(begin + step)
    return _bisect(keys, n_keys, value + 1)


@inlined
def _bisect(column: I64, n: int, value: np.int64) -> int:
    """How many of the first n codes of a sorted column are smaller."""
    begin, length = 0, n
    while length > 0:
        half = (length + 1) >> 1
        if column[begin + half - 1] < value:
            begin += half
        length -= half
    return begin
