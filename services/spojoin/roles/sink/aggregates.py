"""Aggregates over the partners of left rows, whose pairs are listed; or over their number alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.expressions.types import value_type
from spojoin.kernels.chosen import first_listed
from spojoin.kernels.exact_sums import sums_of_integers
from spojoin.kernels.placed import placed
from spojoin.kernels.ratings import CODED, NEVER
from spojoin.kernels.segments import marked_each
from spojoin.measures.numbers import Flags, codes, doubles, flags, halves
from spojoin.model import Aggregate
from spojoin.roles.sink.closed_rows import ClosedRows
from spojoin.roles.sink.gathered import GATHERED, first_of_equal, in_order, numbers
from spojoin.roles.sink.history import History
from spojoin.roles.sink.pairs import PairProgram, SeqPairs
from spojoin.roles.sink.sums import check_size, decimals, means, sums_or_means
from spojoin.wire.records import I64


class AggregateColumns:
    """The aggregates of a query; is_outer: a row without partners counts as one pair with NULLs."""

    def __init__(self, aggregates: Sequence[Aggregate], *, is_outer: bool) -> None:
        self._columns = [AggregateColumn(one) for one in aggregates]
        self._program = PairProgram([each for column in self._columns for each in column.needed])
        self._is_outer = is_outer

    def values(self, found: ClosedRows, histories: Sequence[History]) -> list[pa.Array]:
        """By aggregate one value a left row."""
        if found.partners is None:
            with_none = np.maximum(found.counts, 1) if self._is_outer else found.counts
            return [pa.array(found.counts if column.needed else with_none) for column in self._columns]
        rows = found.with_none() if self._is_outer else found
        assert rows.offsets is not None, "partners are listed where they are aggregated"
        given = iter(self._program.run(SeqPairs(*rows.pairs(), histories)))
        return [
            column.values([next(given) for _ in column.needed], rows.offsets, rows.seqs) for column in self._columns
        ]


class AggregateColumn:
    """One aggregate. needed: the expressions of pairs that it is made of, its filter last."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._kind = value_type(aggregate.type)
        self.needed = list(aggregate.needed)

    def values(self, given: list[pa.Array], offsets: I64, seqs: I64) -> pa.Array:
        """One value a left row; given: of all pairs what is needed; offsets, seqs: as in `ClosedRows`."""
        one = self._aggregate
        counted = np.ones(int(offsets[-1]), np.bool_)
        if one.filter is not None:
            counted = flags(given.pop().cast(pa.bool_()).fill_null(False))
        given, by = given[: len(one.arguments)], given[len(one.arguments) :]
        if by:
            order = in_order(by, one.order, offsets)
            given, counted = [each.take(pa.array(order)) for each in given], counted[order]
        if not one.takes_nulls:
            for argument in given:
                if argument.null_count:
                    counted = counted & flags(argument.is_valid())
        if one.is_distinct:
            counted = first_of_equal(numbers(given[0], one.arguments[0].type), counted, offsets)
        return self._of(given, counted, offsets, seqs)

    def _of(self, given: list[pa.Array], counted: Flags, offsets: I64, seqs: I64) -> pa.Array:
        match self._aggregate.function:
            case function if function in GATHERED:
                return GATHERED[function](self._aggregate, given[0], counted, offsets).cast(self._kind)
            case "count":
                return pa.array(marked_each(counted, offsets))
            case "sum":
                return self._sum(given[0], counted, offsets, seqs)
            case "avg":
                return self._mean(given[0], counted, offsets, seqs)
            case _:
                return self._picked(given, counted, offsets)

    # -- sums

    def _sum(self, values: pa.Array, counted: Flags, offsets: I64, seqs: I64) -> pa.Array:
        if pa.types.is_floating(values.type):
            sums, counts = sums_or_means(doubles(values), counted, offsets, is_mean=False)
            return pa.array(sums, mask=counts == 0)
        whole, counts = self._integers(values, counted, offsets, seqs)
        return decimals(whole, counts, self._kind)

    def _mean(self, values: pa.Array, counted: Flags, offsets: I64, seqs: I64) -> pa.Array:
        if pa.types.is_floating(values.type):
            found, counts = sums_or_means(doubles(values), counted, offsets, is_mean=True)
            return pa.array(found, mask=counts == 0)
        sums, counts = self._integers(values, counted, offsets, seqs)
        return means(sums, counts, values.type)

    def _integers(
        self, values: pa.Array, counted: Flags, offsets: I64, seqs: I64
    ) -> tuple[tuple[NDArray[np.uint64], I64], I64]:
        """Sums of integers and decimals, in halves, and how many values they have. BadData where one is too large."""
        low, high = halves(values)
        groups = len(offsets) - 1
        sums, tops, counts = np.empty(groups, np.uint64), np.empty(groups, np.int64), np.empty(groups, np.int64)
        beyond = sums_of_integers(low, high, counted, offsets, sums, tops, counts)
        check_size(self._aggregate.text, (sums, tops), beyond, seqs)
        return (sums, tops), counts

    # -- one of the values

    def _picked(self, given: list[pa.Array], counted: Flags, offsets: I64) -> pa.Array:
        """The value at a place in the order of the last argument; ties by the partners' numbers."""
        choice = self._aggregate.choice
        if choice is not None:
            of_last = codes(given[-1])
            ratings = ~of_last if self._aggregate.function.endswith("max") else of_last, np.where(counted, CODED, NEVER)
            first = first_listed(ratings, np.arange(len(counted)), offsets, (1, False))
            has_any = first.lengths > 0
            places = np.where(has_any, first.seqs(is_latest=False)[:, 0], 0)
            return given[0].take(pa.array(places, mask=~has_any)).cast(self._kind)
        found = np.empty(len(offsets) - 1, np.int64)
        placed(self._ordered(given[-1]), counted, offsets, self._place(marked_each(counted, offsets)), found)
        return given[0].take(pa.array(np.maximum(found, 0), mask=found < 0)).cast(self._kind)

    def _ordered(self, values: pa.Array) -> I64:
        """Numbers in the order of the values, (n,); of NULL any."""
        found = numbers(values, self._aggregate.arguments[-1].type)
        return ~found if self._aggregate.function == "arg_max" else found

    def _place(self, counts: I64) -> I64:
        match self._aggregate.function:
            case "max":
                return counts - 1
            case "quantile_disc":
                share = self._aggregate.share
                assert share is not None, "a quantile has a share"
                up = [-(-int(n) * share.numerator // share.denominator) - 1 for n in counts.tolist()]
                return np.maximum(np.array(up, np.int64).reshape(len(counts)), 0)
            case _:
                return np.zeros(len(counts), np.int64)
