"""The most recent values of a column in ascending order: new ones are merged in, so few new ones take little time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64, U16, Unsigned
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.intervals16 import STORED_MAX
from spojoin.kernels.permutation import positions
from spojoin.kernels.ranks import Sought

#: A sorted column: codes ascending, ties by arrival, and the arrival offset of each.
Sorted = tuple[I64, Unsigned]


@dataclass(frozen=True, slots=True, eq=False)
class SortedTail:
    """Codes of the indexes [first, first + n), n <= STORED_MAX; an *offset* counts them by arrival.

    codes: int64 (n,), ascending, ties by arrival; order: uint16 (n,), the offset of each
    ranks: uint16 (n,), by offset, where each stands
    """

    first: int
    codes: I64
    order: U16
    ranks: U16

    @property
    def end(self) -> int:
        """One more than the last index."""
        return self.first + len(self.codes)

    def advanced(self, first: int, added: Sorted) -> SortedTail:
        """The codes from index `first` on, which may lie before or behind the end, and those of the next indexes.

        ValueError if there are more than STORED_MAX.
        """
        dropped = min(max(first - self.first, 0), len(self.codes))
        n = len(self.codes) - dropped + len(added[0])
        if n > STORED_MAX:
            raise ValueError(f"the tail has {n} tuples, at most {STORED_MAX} have 16-bit ranks: hand over sooner")
        if dropped == len(self.codes):
            order = added[1].astype(np.uint16, copy=False)
            return SortedTail(self.end, added[0], order, positions(order))
        tail = SortedTail(self.first + dropped, np.empty(n, np.int64), np.empty(n, np.uint16), np.empty(n, np.uint16))
        kept = self.since(first) if dropped else (self.codes, self.order)
        _merge_into(*kept, *added, tail.codes, tail.order, tail.ranks)
        return tail

    def since(self, index: int) -> tuple[I64, U16]:
        """The codes from an index on, ascending, and their offsets from that index: int64 (k,), uint16 (k,)."""
        dropped = min(max(index - self.first, 0), len(self.codes))
        n = len(self.codes) - dropped
        codes, order = np.empty(n, np.int64), np.empty(n, np.uint16)
        _keep(self.codes, self.order, dropped, codes, order)
        return codes, order

    def found(self, wanted: Sought) -> tuple[I64, I64]:
        """For each probe's value v #{code < v} and #{code <= v}, both int64 (m,) by probe."""
        below, upto = np.empty((2, len(wanted.values)), np.int64)
        _search(self.codes, wanted.values, wanted.probes, below, upto)
        return below, upto


def empty_tail(first: int) -> SortedTail:
    """A tail that begins at an index and holds nothing."""
    return SortedTail(first, np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint16))


@kernel
def _merge_into(
    codes: I64, order: U16, added: I64, places: Unsigned, all_codes: I64, all_order: U16, ranks: U16
) -> None:
    """Whole stretches are copied between the codes that are added, which are mostly few."""
    n, begin = len(codes), 0
    for j in range(len(added) + 1):
        end = _upto(codes, begin, added[j]) if j < len(added) else n
        all_codes[begin + j : end + j] = codes[begin:end]
        all_order[begin + j : end + j] = order[begin:end]
        for i in range(begin, end):
            ranks[order[i]] = i + j
        if j < len(added):
            all_codes[end + j], all_order[end + j] = added[j], n + places[j]
            ranks[n + places[j]] = end + j
        begin = end


@kernel
def _keep(codes: I64, order: U16, dropped: int, kept_codes: I64, kept_order: U16) -> None:
    k = 0
    for i in range(len(codes)):
        if order[i] >= dropped:
            kept_codes[k], kept_order[k] = codes[i], order[i] - dropped
            k += 1


@kernel
def _search(codes: I64, values: I64, probes: I64, below: I64, upto: I64) -> None:
    at = 0
    for k in range(len(values)):
        at = _below(codes, at, values[k])
        below[probes[k]], upto[probes[k]] = at, _upto(codes, at, values[k])


@inlined
def _below(codes: I64, begin: int, value: np.int64) -> int:
    """How many codes are smaller than a value, at least `begin`: steps double until they pass it."""
    step = 1
    while begin + step <= len(codes) and codes[begin + step - 1] < value:
        begin += step
        step <<= 1
    while step > 0:
        if begin + step <= len(codes) and codes[begin + step - 1] < value:
            begin += step
        step >>= 1
    return begin


@inlined
def _upto(codes: I64, begin: int, value: np.int64) -> int:
    """How many codes are at most a value, at least `begin`."""
    step = 1
    while begin + step <= len(codes) and codes[begin + step - 1] <= value:
        begin += step
        step <<= 1
    while step > 0:
        if begin + step <= len(codes) and codes[begin + step - 1] <= value:
            begin += step
        step >>= 1
    return begin
