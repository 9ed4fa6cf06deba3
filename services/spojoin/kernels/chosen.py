"""The first partners of probes in an order of values: short lists, brought up to date node by node.

A value is a code, and of equal codes a tie decides, which no two tuples share: smaller ones come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U16, U32, Flags
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.intervals16 import and_collect
from spojoin.kernels.permutation import sort_column
from spojoin.kernels.ratings import CODED, NEVER
from spojoin.kernels.segments import before

#: A tie has a number's bits below those of the kind, and where the latest comes first the complement of them.
_NUMBER_BITS = 61
_NUMBERS = (1 << _NUMBER_BITS) - 1
#: The codes of what comes before all codes, and behind them.
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
#: Stored tuples that are compared one by one before a block of them is at once.
_ALONE = 32
_BLOCK = 256
#: With so many matches a probe, or fewer, listing them takes less time than going through the order.
_FEW = 64


@dataclass(frozen=True, slots=True)
class ValueOrder:
    """n tuples in an order of values, but for those that are in none: c of them.

    places: uint32 (c,), their offsets, first to last; codes, ties: int64 (c,)
    is_latest: ties hold complements
    """

    places: U32
    codes: I64
    ties: I64

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.places.nbytes + self.codes.nbytes + self.ties.nbytes

    def ranks(self, n: int) -> U32:
        """By offset the rank of each of n tuples, uint32 (n,); of those in no order the greatest number."""
        found = np.full(n, np.iinfo(np.uint32).max, np.uint32)
        found[self.places] = np.arange(len(self.places), dtype=np.uint32)
        return found


def order_of(codes: I64, kinds: NDArray[np.int8], seqs: I64, *, is_latest: bool) -> ValueOrder:
    """The order of tuples by their kinds and codes, ties by number, (n,) each; seqs: int64, ascending."""
    there = np.flatnonzero(kinds != NEVER) if kinds.any() else np.arange(len(kinds))
    there = there[::-1] if is_latest else there
    kinds = kinds[there]
    codes = np.where(kinds == CODED, codes[there], np.where(kinds < CODED, _LEAST, _GREATEST))
    order: NDArray[Any] = np.lexsort((codes, kinds)) if kinds.any() else sort_column(codes)[1]
    places = there[order]
    numbers = _NUMBERS - seqs[places] if is_latest else seqs[places]
    return ValueOrder(places.astype(np.uint32), codes[order], (kinds[order].astype(np.int64) << _NUMBER_BITS) + numbers)


class Chosen:
    """The first `count` partners of each of m probes.

    codes, ties: int64 (m, count), each probe's first `lengths`, int64 (m,), in order
    """

    def __init__(self, m: int, count: int) -> None:
        self.codes = np.empty((m, count), np.int64)
        self.ties = np.empty((m, count), np.int64)
        self.lengths = np.zeros(m, np.int64)

    def add(self, other: Chosen) -> None:
        """Take what other tuples gave the same probes."""
        _add(self.codes, self.ties, self.lengths, other.codes, other.ties, other.lengths)

    def add_masked(
        self,
        order: ValueOrder,
        ranks: Sequence[U16],
        wanted: tuple[Sequence[U16], Sequence[U16]],
        slices: tuple[I64, I64],
        counts: I64,
    ) -> None:
        """Take the tuples that `intervals16.and_counts` counts; counts: int64 (m,), what it counted.

        wanted: starts and lengths; slices: slice_lo and slice_hi
        """
        if counts.sum() <= _FEW * len(counts):
            _, offsets, places = and_collect(ranks, *wanted, *slices, None)
            self.add_listed(order, len(ranks[0]), (offsets[:-1], np.diff(offsets), places))
            return
        lo, hi = slices
        stored = np.stack([order.places.astype(np.uint16), *(rank[order.places] for rank in ranks)])
        starts = np.stack([lo.astype(np.uint16), *wanted[0]])
        lengths = np.stack([np.maximum(hi - lo, 0).astype(np.uint16), *wanted[1]])
        _add_masked((order.codes, order.ties), stored, starts, lengths, counts, (self.codes, self.ties, self.lengths))

    def add_listed(self, order: ValueOrder, n: int, listed: tuple[I64, I64, I64]) -> None:
        """Take tuples of n that are listed: begins, lengths and offsets, probe q's `lengths[q]` from `begins[q]` on."""
        ranked = order.ranks(n)
        _add_listed((ranked, order.codes, order.ties), *listed, (self.codes, self.ties, self.lengths))

    def seqs(self, *, is_latest: bool) -> I64:
        """The numbers of the partners, int64 (m, count), each probe's first `lengths` of them."""
        numbers = self.ties & _NUMBERS
        return _NUMBERS - numbers if is_latest else numbers


def listed(chosen: Sequence[tuple[Chosen, bool]]) -> tuple[I64, I64]:
    """All partners that were chosen for a probe, by some orders, of each whether the latest come first.

    Returns offsets int64 (m + 1,), and each probe's seqs, ascending, none twice.
    """
    m = len(chosen[0][0].lengths)
    seqs = np.concatenate([one.seqs(is_latest=is_latest) for one, is_latest in chosen], axis=1)
    there = [np.arange(one.codes.shape[1]) < one.lengths[:, None] for one, _ in chosen]
    seqs[~np.concatenate(there, axis=1)] = _GREATEST
    seqs.sort(axis=1)
    kept = seqs != _GREATEST
    kept[:, 1:] &= seqs[:, 1:] != seqs[:, :-1]
    return before(kept.sum(axis=1) if m else np.zeros(0, np.int64)), seqs[kept]


@inlined
def insert(codes: I64, ties: I64, length: int, code: int, tie: int) -> int:
    """Put a value into a sorted list of `length`, of which as many are kept as there is room for; returns how many."""
    k = length
    if length == len(codes):
        if not is_before(code, tie, codes[length - 1], ties[length - 1]):
            return length
        k -= 1
    while k > 0 and is_before(code, tie, codes[k - 1], ties[k - 1]):
        codes[k], ties[k] = codes[k - 1], ties[k - 1]
        k -= 1
    codes[k], ties[k] = code, tie
    return min(length + 1, len(codes))


@inlined
def is_before(code: int, tie: int, other_code: int, other_tie: int) -> bool:
    """Whether a value comes before another."""
    return code < other_code or (code == other_code and tie < other_tie)


@inlined
def better(codes: I64, ties: I64, code: int, tie: int) -> int:
    """How many values of an order come before another: mostly few, so the front is searched, in growing steps."""
    low, step = 0, 1
    while low + step <= len(codes) and is_before(codes[low + step - 1], ties[low + step - 1], code, tie):
        low += step
        step *= 2
    high = min(low + step - 1, len(codes))
    while low < high:
        middle = (low + high) >> 1
        if is_before(codes[middle], ties[middle], code, tie):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _add(codes: I64, ties: I64, lengths: I64, other_codes: I64, other_ties: I64, other_lengths: I64) -> None:
    for q in range(len(lengths)):
        for k in range(other_lengths[q]):
            lengths[q] = insert(codes[q], ties[q], lengths[q], other_codes[q, k], other_ties[q, k])


def first_listed(ratings: tuple[I64, NDArray[np.int8]], seqs: I64, offsets: I64, wanted: tuple[int, bool]) -> Chosen:
    """The first of listed tuples that have any order; probe q's are those from offsets[q] to offsets[q + 1].

    ratings: codes and kinds, (n,) each; seqs: int64 (n,); wanted: how many, and whether the latest of equals is first
    """
    codes, kinds = ratings
    coded = np.where(kinds == CODED, codes, np.where(kinds < CODED, _LEAST, _GREATEST))
    ties = (kinds.astype(np.int64) << _NUMBER_BITS) + (_NUMBERS - seqs if wanted[1] else seqs)
    found = Chosen(len(offsets) - 1, wanted[0])
    _add_all(coded, ties, kinds != NEVER, offsets, (found.codes, found.ties, found.lengths))
    return found


@kernel
def _add_all(codes: I64, ties: I64, has_order: Flags, offsets: I64, kept: tuple[I64, I64, I64]) -> None:
    for q in range(len(offsets) - 1):
        for i in range(offsets[q], offsets[q + 1]):
            if has_order[i]:
                kept[2][q] = insert(kept[0][q], kept[1][q], kept[2][q], codes[i], ties[i])


@kernel
def _add_listed(
    order: tuple[U32, I64, I64], begins: I64, lengths: I64, offsets: I64, kept: tuple[I64, I64, I64]
) -> None:
    ranked, codes, ties = order
    for q in range(len(begins)):
        for i in range(begins[q], begins[q] + lengths[q]):
            rank = ranked[offsets[i]]
            if rank < len(codes):
                kept[2][q] = insert(kept[0][q], kept[1][q], kept[2][q], codes[rank], ties[rank])


@kernel
def _add_masked(
    order: tuple[I64, I64], stored: U16, starts: U16, lengths: U16, counts: I64, kept: tuple[I64, I64, I64]
) -> None:
    """Each probe's tuples in order, until it has enough, or all that were counted, or only worse ones follow.

    stored: their places and ranks, uint16 (1 + predicates, c), of which a probe wants those in wrapped intervals
    """
    codes, ties = order
    holds = np.empty(_BLOCK, np.uint16)
    for q in range(len(counts)):
        left, end, begin = min(counts[q], kept[0].shape[1]), len(codes), 0
        if left > 0 and kept[2][q] == kept[0].shape[1]:
            end = better(codes, ties, kept[0][q, kept[2][q] - 1], kept[1][q, kept[2][q] - 1])
        while begin < end and left > 0:
            upto = min(begin + (_ALONE if begin == 0 else _BLOCK), end)
            some = holds[: upto - begin]
            if _mark(stored, begin, starts, lengths, q, some) > 0:
                for j in range(len(some)):
                    if some[j] and left > 0:
                        kept[2][q] = insert(kept[0][q], kept[1][q], kept[2][q], codes[begin + j], ties[begin + j])
                        left -= 1
            begin = upto


@inlined
def _mark(stored: U16, begin: int, starts: U16, lengths: U16, q: int, some: U16) -> int:
    """Write 1 where all of a probe's intervals hold a tuple, from `begin` on, else 0; returns how many they hold."""
    some[:] = 1
    for p in range(len(stored)):
        values, start, length = stored[p, begin : begin + len(some)], starts[p, q], lengths[p, q]
        for j in range(len(some)):
            some[j] &= np.uint16(np.uint16(values[j] - start) < length)
    found = np.uint16(0)
    for j in range(len(some)):
        found = np.uint16(found + some[j])
    return int(found)
