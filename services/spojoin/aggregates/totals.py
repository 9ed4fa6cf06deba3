"""What aggregates make of the sums of a left row's partners, which parts have summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64, U64
from spojoin.errors import BadData
from spojoin.expressions.types import value_type
from spojoin.kernels import digits
from spojoin.kernels.exact_sums import means_of_integers
from spojoin.model import Aggregate
from spojoin.wire.sums import INFINITE, KEYS, MISSING, NEGATIVE_INFINITE, NOT_A_NUMBER, Sums


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The sums of q left rows, for one aggregate.

    measure: the number of its measure among those of the query; partners: int64 (q,), how many each row has
    added: the sums of all measures; seqs: int64 (q,), of the left rows
    """

    aggregate: Aggregate
    measure: int
    partners: I64
    added: Sums
    seqs: I64

    def counts(self) -> I64:
        """How many partners count, (q,)."""
        return self.partners - self._row(MISSING)

    def sums(self) -> pa.Array:
        """Exact sums, of doubles rounded once; NULL where no partner counts."""
        counts = self.counts()
        if self._is_of_doubles:
            return pa.array(self._doubles(counts, is_mean=False), mask=counts == 0)
        return decimals(self._integers(), counts, value_type(self.aggregate.type))

    def means(self) -> pa.Array:
        """Exact sums over the numbers of values, rounded once; NULL where no partner counts."""
        counts = self.counts()
        if self._is_of_doubles:
            return pa.array(self._doubles(counts, is_mean=True), mask=counts == 0)
        return means(self._integers(), counts, value_type(self.aggregate.arguments[0].type))

    @property
    def _is_of_doubles(self) -> bool:
        return bool(pa.types.is_floating(value_type(self.aggregate.arguments[0].type)))

    def _integers(self) -> tuple[NDArray[np.uint64], I64]:
        rows = np.stack([self._row(digit) for digit in range(digits.WHOLE_DIGITS)])
        low, high = np.empty(len(self.added), np.uint64), np.empty(len(self.added), np.int64)
        beyond = digits.whole_numbers(rows, low, high)
        check_size(self.aggregate.text, (low, high), beyond, self.seqs)
        return low, high

    def _doubles(self, counts: I64, *, is_mean: bool) -> NDArray[np.float64]:
        first, keys = KEYS * self.measure, self.added.keys
        begin, end = np.searchsorted(keys, (first, first + NOT_A_NUMBER)).tolist()
        kinds = np.stack([self._row(part) for part in (NOT_A_NUMBER, INFINITE, NEGATIVE_INFINITE)])
        rows, found = np.ascontiguousarray(self.added.rows[begin:end]), np.empty(len(self.added))
        digits.doubles(keys[begin:end] - first, rows, counts, kinds, is_mean, found)
        return found

    def _row(self, part: int) -> I64:
        key = KEYS * self.measure + part
        at = int(np.searchsorted(self.added.keys, key))
        has = at < len(self.added.keys) and self.added.keys[at] == key
        return self.added.rows[at] if has else np.zeros(len(self.added), np.int64)


_SUM_MAX = 10**38


def check_size(text: str, sums: tuple[U64, I64], beyond: NDArray[np.bool_], seqs: I64) -> None:
    """BadData if a sum, given in halves, (n,) each, has more than 38 digits.

    text: of the aggregate; beyond: (n,), which took more than 128 bits; seqs: int64 (n,), of the left rows
    """
    low, high = sums
    large = np.flatnonzero(np.abs(high.astype(np.float64)) >= _SUM_MAX / 2**64 / 2)
    for q in np.union1d(large, np.flatnonzero(beyond)).tolist():
        if beyond[q] or abs((int(high[q]) << 64) + int(low[q])) >= _SUM_MAX:
            raise BadData(f"{text} of the left row with seq {seqs[q]} has more than 38 digits")


def decimals(sums: tuple[U64, I64], counts: I64, kind: pa.DataType) -> pa.Array:
    """Sums as decimals, NULL where nothing was summed; counts: int64 (n,), of the values."""
    low, high = sums
    bits = np.stack([low.view(np.int64), high], axis=1)
    valid = pa.array(counts > 0).buffers()[1]
    return pa.Array.from_buffers(kind, len(counts), [valid, pa.py_buffer(bits)])


def means(sums: tuple[U64, I64], counts: I64, summed: pa.DataType) -> pa.Array:
    """Sums over their counts, each rounded once, NULL where nothing was summed; summed: the type of the values."""
    scale = summed.scale if pa.types.is_decimal(summed) else 0
    found = np.empty(len(counts))
    means_of_integers(*sums, counts, np.uint64(10**scale), found)
    return pa.array(found, mask=counts == 0)
