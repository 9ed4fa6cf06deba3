"""Aggregates that need all of a left row's partners at once: lists, joined texts, the first one, how far they spread.

Pairs stand in the order of left rows, and within each in the order in which its partners are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.kernels.segments import before, marked_each
from spojoin.measures.numbers import Flags, codes, doubles, flags
from spojoin.model import Aggregate, ColumnType, SortKey
from spojoin.roles.sink.sums import sums_or_means
from spojoin.wire.records import I64


def numbers(values: pa.Array, kind: ColumnType) -> I64:
    """Numbers in the order of the values, equal for equal ones, (n,); of NULL any."""
    if kind.is_coded:
        return codes(values)
    return np.asarray(pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False)).astype(np.int64)


def in_order(values: Sequence[pa.Array], keys: Sequence[SortKey], offsets: I64) -> I64:
    """The places of all pairs, each left row's in an order, ties as they stand; values: of the keys."""
    parts: list[NDArray[np.int64] | Flags] = [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))]
    for array, key in zip(values, keys, strict=True):
        nulls = flags(array.is_null())
        ranks = numbers(array, key.expression.type)
        parts += [nulls != key.nulls_first, np.where(nulls, 0, ~ranks if key.is_descending else ranks)]
    return np.lexsort(parts[::-1])


def first_of_equal(values: I64, counted: Flags, offsets: I64) -> Flags:
    """Which counted values no earlier one of the same left row equals, (n,)."""
    kept = np.flatnonzero(counted)
    group = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[kept]
    order = np.lexsort((kept, values[kept], group))
    group, sorted_values = group[order], values[kept][order]
    is_new = np.ones(len(kept), np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (sorted_values[1:] != sorted_values[:-1])
    found = np.zeros(len(counted), np.bool_)
    found[kept[order[is_new]]] = True
    return found


def _end(one: Aggregate, values: pa.Array, counted: Flags, offsets: I64) -> pa.Array:
    """Each left row's first or last counted value; NULL where it has none."""
    kept, borders = np.flatnonzero(counted), before(marked_each(counted, offsets))
    has_any = borders[1:] > borders[:-1]
    places = np.where(has_any, borders[1:] - 1 if one.function == "last" else borders[:-1], 0)
    rows = kept[places] if len(kept) else places
    return values.take(pa.array(rows, mask=~has_any))


def _lists(_: Aggregate, values: pa.Array, counted: Flags, offsets: I64) -> pa.Array:
    """Each left row's counted values as a list; NULL where it has none."""
    counts = marked_each(counted, offsets)
    borders = pa.array(before(counts).astype(np.int32), mask=np.append(counts == 0, False))
    return pa.ListArray.from_arrays(borders, values.filter(pa.array(counted)))


def _joined(one: Aggregate, values: pa.Array, counted: Flags, offsets: I64) -> pa.Array:
    return pc.binary_join(_lists(one, values, counted, offsets), one.separator)


def _variances(one: Aggregate, values: pa.Array, counted: Flags, offsets: I64) -> pa.Array:
    """The mean of squared distances from the mean, over n, or n - 1 where it is a sample's; NULL of too few values.

    In two passes over doubles: the mean is the exact one, rounded; the distances from it and their squares are summed
    exactly, and what the rounding of the mean has added is taken off.
    """
    given, is_sample = doubles(values), one.function.endswith("_samp")
    means, counts = sums_or_means(given, counted, offsets, is_mean=True)
    with np.errstate(all="ignore"):
        apart = given - np.repeat(means, np.diff(offsets))
        squares, _ = sums_or_means(apart * apart, counted, offsets, is_mean=False)
        rest, _ = sums_or_means(apart, counted, offsets, is_mean=False)
        found = np.maximum(squares - rest * rest / counts, 0.0) / (counts - is_sample)
    return pa.array(found, mask=counts <= int(is_sample))


def _deviations(one: Aggregate, values: pa.Array, counted: Flags, offsets: I64) -> pa.Array:
    return pc.sqrt(_variances(one, values, counted, offsets))


#: Functions by name: of the values of all pairs, which of them count, (n,), and where each left row's begin.
GATHERED: Mapping[str, Callable[[Aggregate, pa.Array, Flags, I64], pa.Array]] = {
    **dict.fromkeys(("first", "last", "any_value"), _end),
    "list": _lists,
    "string_agg": _joined,
    **dict.fromkeys(("var_samp", "var_pop"), _variances),
    **dict.fromkeys(("stddev_samp", "stddev_pop"), _deviations),
}
