"""The weights of right rows: for each measure of a query, the digits of its value, or that it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64, Flags
from spojoin.expressions.pair_expressions import PairExpressions
from spojoin.expressions.types import value_type
from spojoin.kernels import digits
from spojoin.kernels.tail import Tail
from spojoin.measures.numbers import doubles, flags, halves
from spojoin.model import Measure, PairExpression, Use
from spojoin.wire.sums import INFINITE, KEYS, MISSING, NEGATIVE_INFINITE, NOT_A_NUMBER, Sums, no_sums


class Weigher:
    """Weighs right rows by some measures. uses: the columns that this needs."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = measures
        self._expressions = PairExpressions([each for measure in measures for each in measure.expressions])
        self.uses = self._expressions.uses

    def of_rows(self, payload: pa.RecordBatch | None, seqs: I64) -> Sums:
        """The weights of a frame's or a batch's rows; seqs: int64 (n,), their numbers."""
        return self.of(columns_of(self.uses, payload, seqs), len(seqs))

    def of_none(self) -> Sums:
        """The weights of the row of NULLs that an outer join adds to a left row without partners."""
        return self.of({use: pa.nulls(1, value_type(use.type)) for use in self.uses}, 1)

    def of(self, columns: Mapping[Use, pa.Array], n: int) -> Sums:
        """The weights of n rows by their columns."""
        if not n:
            return no_sums(0)
        values = iter(self._expressions.values(columns, n))
        keyed = [
            (KEYS * number + part, row)
            for number, measure in enumerate(self._measures)
            for part, row in _weights(measure, {each: next(values) for each in measure.expressions}, n)
        ]
        keys = np.array([key for key, _ in keyed], np.int64)
        return Sums(keys, np.stack([row for _, row in keyed])) if keyed else no_sums(n)


def columns_of(uses: Sequence[Use], payload: pa.RecordBatch | None, seqs: I64) -> dict[Use, pa.Array]:
    """The columns of a frame's or a batch's rows; seqs: int64 (n,), their numbers."""
    columns = {use: pa.array(seqs) for use in uses if use.is_number}
    if payload is not None:
        columns |= {use: payload.column(use.name) for use in uses if not use.is_number}
    return columns


def _weights(measure: Measure, values: Mapping[PairExpression, pa.Array], n: int) -> Iterator[tuple[int, I64]]:
    """The rows of one measure, ascending by part, without those that are all zeros."""
    counted = np.ones(n, np.bool_)
    if measure.filter is not None:
        counted &= flags(values[measure.filter].cast(pa.bool_()).fill_null(False))
    if measure.argument is not None:
        counted &= flags(values[measure.argument].is_valid())
        if measure.is_summed:
            yield from _digits(values[measure.argument], counted)
    if not counted.all():
        yield MISSING, (~counted).astype(np.int64)


def _digits(values: pa.Array, counted: Flags) -> Iterator[tuple[int, I64]]:
    if not pa.types.is_floating(values.type):
        yield from zip(*digits.of_integers(*halves(values), counted), strict=True)
        return
    numbers = doubles(values)
    yield from zip(*digits.of_doubles(numbers, counted), strict=True)
    for part, is_such in (
        (NOT_A_NUMBER, np.isnan(numbers)),
        (INFINITE, numbers == np.inf),
        (NEGATIVE_INFINITE, numbers == -np.inf),
    ):
        if (is_such & counted).any():
            yield part, (is_such & counted).astype(np.int64)


class WeightTail:
    """The weights of indexes [first, end): appended at the end, dropped at the front."""

    def __init__(self) -> None:
        self._first = self._end = 0
        self._tails: dict[int, Tail] = {}

    def append(self, first: int, weights: Sums) -> None:
        """Add the weights of tuples from index `first` on, which follow the held ones."""
        if self._end == 0:
            self._first = self._end = first
        for key in weights.keys.tolist():
            if key not in self._tails:
                self._tails[key] = Tail(self._first)
                self._tails[key].append(np.zeros(self._end - self._first, np.int64))
        rows = dict(zip(weights.keys.tolist(), weights.rows, strict=True))
        for key, tail in self._tails.items():
            tail.append(rows[key] if key in rows else np.zeros(len(weights), np.int64))
        self._end += len(weights)

    def since(self, first: int) -> Sums:
        """The weights of all indexes from a held one on; valid until the next append."""
        keys = sorted(self._tails)
        rows = [self._tails[key].view(first, self._end) for key in keys]
        return Sums(np.array(keys, np.int64), np.stack(rows) if rows else _nothing(self._end - first))

    def drop_below(self, index: int) -> None:
        """Forget tuples with smaller indexes."""
        self._first = max(self._first, min(index, self._end))
        for key, tail in [*self._tails.items()]:
            tail.drop_below(index)
            if not tail.held.any():
                del self._tails[key]


def _nothing(n: int) -> I64:
    return np.empty((0, n), np.int64)
