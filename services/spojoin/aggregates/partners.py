"""Computes aggregates from listed partners.

Pairs are in the order of left rows, and for each left row in the order in which its partners are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.aggregates.totals import check_size, decimals, means
from spojoin.arrays import I64, Flags
from spojoin.expressions.types import value_type
from spojoin.kernels.chosen import first_listed
from spojoin.kernels.exact_sums import sums_of_doubles, sums_of_integers
from spojoin.kernels.placed import placed
from spojoin.kernels.ratings import CODED, NEVER
from spojoin.kernels.segments import before, marked_each
from spojoin.measures.numbers import codes, doubles, flags, halves
from spojoin.model import Aggregate, ColumnType, SortKey


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """The partners of q left rows, as n pairs, for one aggregate.

    arguments: n values for each argument; counted: bool (n,), which pairs count
    offsets: int64 (q + 1,), where each left row's pairs begin; seqs: int64 (q,), the left rows' numbers
    """

    aggregate: Aggregate
    arguments: Sequence[pa.Array]
    counted: Flags
    offsets: I64
    seqs: I64

    def counts(self) -> I64:
        """The number of pairs that count, for each left row, (q,)."""
        return marked_each(self.counted, self.offsets)

    # -- sums of the first argument

    def sums(self) -> pa.Array:
        """Exact sums; sums of doubles are rounded once."""
        if pa.types.is_floating(self.arguments[0].type):
            found, counts = self.exactly(self.doubles(), is_mean=False)
            return pa.array(found, mask=counts == 0)
        return decimals(*self._integers(), value_type(self.aggregate.type))

    def means(self) -> pa.Array:
        """Exact sums divided by the numbers of values, rounded once."""
        kind = self.arguments[0].type
        if pa.types.is_floating(kind):
            found, counts = self.exactly(self.doubles(), is_mean=True)
            return pa.array(found, mask=counts == 0)
        return means(*self._integers(), kind)

    def doubles(self) -> NDArray[np.float64]:
        """The first argument as doubles, (n,)."""
        return doubles(self.arguments[0])

    def exactly(self, values: NDArray[np.float64], *, is_mean: bool) -> tuple[NDArray[np.float64], I64]:
        """For n doubles, the exact sums or means of those that count, rounded once, and their numbers, (q,)."""
        found, counts = np.empty(len(self.offsets) - 1), np.empty(len(self.offsets) - 1, np.int64)
        sums_of_doubles(values, self.counted, self.offsets, is_mean, found, counts)
        return found, counts

    def _integers(self) -> tuple[tuple[NDArray[np.uint64], I64], I64]:
        """Sums of integers and decimals, in halves, and their numbers of values. BadData if a sum is too large."""
        low, high = halves(self.arguments[0])
        groups = len(self.offsets) - 1
        sums, tops, counts = np.empty(groups, np.uint64), np.empty(groups, np.int64), np.empty(groups, np.int64)
        beyond = sums_of_integers(low, high, self.counted, self.offsets, sums, tops, counts)
        check_size(self.aggregate.text, (sums, tops), beyond, self.seqs)
        return (sums, tops), counts

    # -- one of the values of the first argument; NULL if no pair counts

    def end(self, *, is_last: bool) -> pa.Array:
        """The first or last value that counts."""
        kept, borders = np.flatnonzero(self.counted), before(self.counts())
        has_any = borders[1:] > borders[:-1]
        places = np.where(has_any, borders[1:] - 1 if is_last else borders[:-1], 0)
        return self._taken(kept[places] if len(kept) else places, has_any)

    def first_by_code(self, *, is_greatest: bool) -> pa.Array:
        """The value whose last argument has the first code; ties are ordered by the partners' numbers."""
        of_last = codes(self.arguments[-1])
        ratings = ~of_last if is_greatest else of_last, np.where(self.counted, CODED, NEVER)
        first = first_listed(ratings, np.arange(len(self.counted)), self.offsets, (1, False))
        has_any = first.lengths > 0
        return self._taken(np.where(has_any, first.seqs(is_latest=False)[:, 0], 0), has_any)

    def ranks(self) -> I64:
        """Ranks in the order of the last argument, (n,); arbitrary for NULL."""
        return _ranks(self.arguments[-1], self.aggregate.arguments[-1].type)

    def at(self, numbers: I64, places: I64) -> pa.Array:
        """The values at the places (q,) in the order of n numbers; ties are ordered by the partners' numbers."""
        found = np.empty(len(self.offsets) - 1, np.int64)
        placed(numbers, self.counted, self.offsets, places, found)
        return self._taken(np.maximum(found, 0), found >= 0)

    def _taken(self, rows: I64, has_any: Flags) -> pa.Array:
        return self.arguments[0].take(pa.array(rows, mask=~has_any))

    # -- all of the values of the first argument

    def lists(self) -> pa.Array:
        """Lists of the values that count; NULL if there are none."""
        counts = self.counts()
        borders = pa.array(before(counts).astype(np.int32), mask=np.append(counts == 0, False))
        return pa.ListArray.from_arrays(borders, self.arguments[0].filter(pa.array(self.counted)))


def partners_of(one: Aggregate, given: list[pa.Array], offsets: I64, seqs: I64) -> Partners:
    """The partners for one aggregate, out of all pairs. given: all needed values; offsets, seqs: as in `Partners`."""
    counted = np.ones(int(offsets[-1]), np.bool_)
    if one.filter is not None:
        counted = flags(given.pop().cast(pa.bool_()).fill_null(False))
    given, by = given[: len(one.arguments)], given[len(one.arguments) :]
    if by:
        order = _in_order(by, one.order, offsets)
        given, counted = [each.take(pa.array(order)) for each in given], counted[order]
    if not one.function.takes_nulls:
        for argument in given:
            if argument.null_count:
                counted = counted & flags(argument.is_valid())
    if one.is_distinct:
        counted = _first_of_equal(given[0], one.arguments[0].type, counted, offsets)
    return Partners(one, given, counted, offsets, seqs)


def _ranks(values: pa.Array, kind: ColumnType) -> I64:
    """Ranks in the order of the values, equal for equal values, (n,); arbitrary for NULL."""
    if kind.is_coded:
        return codes(values)
    return np.asarray(pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False)).astype(np.int64)


def _in_order(values: Sequence[pa.Array], keys: Sequence[SortKey], offsets: I64) -> I64:
    """The places of all pairs, ordered for each left row by keys; ties keep their order. values: of the keys."""
    parts: list[NDArray[np.int64] | Flags] = [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))]
    for array, key in zip(values, keys, strict=True):
        nulls = flags(array.is_null())
        ranks = _ranks(array, key.expression.type)
        parts += [nulls != key.nulls_first, np.where(nulls, 0, ~ranks if key.is_descending else ranks)]
    return np.lexsort(parts[::-1])


def _first_of_equal(values: pa.Array, kind: ColumnType, counted: Flags, offsets: I64) -> Flags:
    """Which counted values equal no earlier value of the same left row, (n,); NULL equals only NULL."""
    kept = np.flatnonzero(counted)
    group = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[kept]
    nulls = flags(values.is_null())[kept]
    keys = (group, nulls, np.where(nulls, 0, _ranks(values, kind)[kept]))
    order = np.lexsort((kept, *keys[::-1]))
    is_new = np.ones(len(kept), np.bool_)
    is_new[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    found = np.zeros(len(counted), np.bool_)
    found[kept[order[is_new]]] = True
    return found
