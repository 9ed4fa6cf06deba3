"""Aggregates that parts have summed: the sums of a left row's partners, as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.expressions.types import value_type
from spojoin.kernels import digits
from spojoin.measures.weigher import Weigher
from spojoin.model import Aggregate, Measure
from spojoin.roles.sink.closed_rows import ClosedRows
from spojoin.roles.sink.history import History
from spojoin.roles.sink.sums import check_size, decimals, means
from spojoin.wire.records import I64
from spojoin.wire.sums import INFINITE, KEYS, MISSING, NEGATIVE_INFINITE, NOT_A_NUMBER, Sums, added, no_sums

U64 = NDArray[np.uint64]


class SummedColumns:
    """The aggregates of a query; is_outer: a row without partners counts as one pair with NULLs."""

    def __init__(self, aggregates: Sequence[Aggregate], measures: Sequence[Measure], *, is_outer: bool) -> None:
        self._aggregates = aggregates
        self._measures = measures
        self._none = Weigher(measures).of_none() if is_outer else None

    def values(self, found: ClosedRows, _histories: Sequence[History]) -> list[pa.Array]:
        """By aggregate one value a left row."""
        counts, sums = found.counts, no_sums(len(found.counts)) if found.sums is None else found.sums
        if self._none is not None:
            alone = (counts == 0).astype(np.int64)
            counts = counts + alone
            sums = added([sums, Sums(self._none.keys, self._none.rows * alone)])
        return [self._value(one, sums, counts, found.seqs) for one in self._aggregates]

    def _value(self, one: Aggregate, sums: Sums, counts: I64, seqs: I64) -> pa.Array:
        number = next(k for k, measure in enumerate(self._measures) if measure.serves(one))
        given = counts - _row(sums, KEYS * number + MISSING)
        if one.function == "count":
            return pa.array(given)
        kind = value_type(one.arguments[0].type)
        if pa.types.is_floating(kind):
            numbers = _doubles(sums, number, given, is_mean=one.function == "avg")
            return pa.array(numbers, mask=given == 0)
        whole = _integers(one, sums, number, seqs)
        return means(whole, given, kind) if one.function == "avg" else decimals(whole, given, value_type(one.type))


def _integers(one: Aggregate, sums: Sums, number: int, seqs: I64) -> tuple[U64, I64]:
    rows = np.stack([_row(sums, KEYS * number + digit) for digit in range(digits.WHOLE_DIGITS)])
    low, high = np.empty(len(sums), np.uint64), np.empty(len(sums), np.int64)
    beyond = digits.whole_numbers(rows, low, high)
    check_size(one.text, (low, high), beyond, seqs)
    return low, high


def _doubles(sums: Sums, number: int, counts: I64, *, is_mean: bool) -> NDArray[np.float64]:
    first = KEYS * number
    begin, end = np.searchsorted(sums.keys, (first, first + NOT_A_NUMBER)).tolist()
    kinds = np.stack([_row(sums, first + part) for part in (NOT_A_NUMBER, INFINITE, NEGATIVE_INFINITE)])
    rows, found = np.ascontiguousarray(sums.rows[begin:end]), np.empty(len(sums))
    digits.doubles(sums.keys[begin:end] - first, rows, counts, kinds, is_mean, found)
    return found


def _row(sums: Sums, key: int) -> I64:
    at = int(np.searchsorted(sums.keys, key))
    has = at < len(sums.keys) and sums.keys[at] == key
    return sums.rows[at] if has else np.zeros(len(sums), np.int64)
