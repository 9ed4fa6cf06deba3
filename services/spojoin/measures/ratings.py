"""The ratings of right rows: for each choice of a query, the code of the ordering value, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.expressions.pair_expressions import PairExpressions
from spojoin.kernels.ratings import CODED, FIRST, LAST, NEVER, Ratings
from spojoin.kernels.tail import Tail
from spojoin.measures.numbers import codes, flags
from spojoin.measures.weights import columns_of
from spojoin.model import Choice, PairExpression, Use


class Rater:
    """Rates right rows by some choices. uses: the columns that this needs."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = choices
        self._expressions = PairExpressions([each for choice in choices for each in choice.expressions])
        self.uses = self._expressions.uses

    def of_rows(self, payload: pa.RecordBatch | None, seqs: I64) -> Ratings:
        """The ratings of a frame's or a batch's rows; seqs: int64 (n,), their numbers."""
        return self.of(columns_of(self.uses, payload, seqs), len(seqs))

    def of(self, columns: Mapping[Use, pa.Array], n: int) -> Ratings:
        """The ratings of n rows by their columns."""
        values = iter(self._expressions.values(columns, n))
        found = Ratings(np.zeros((len(self._choices), n), np.int64), np.zeros((len(self._choices), n), np.int8))
        for number, choice in enumerate(self._choices):
            _rate(choice, {each: next(values) for each in choice.expressions}, *found.of(number))
        return found


def _rate(choice: Choice, values: Mapping[PairExpression, pa.Array], found: I64, kinds: np.ndarray) -> None:
    kinds[:] = CODED
    if choice.key is not None:
        given = values[choice.key.expression]
        found[:] = ~codes(given) if choice.key.is_descending else codes(given)
        kinds[flags(given.is_null())] = FIRST if choice.key.nulls_first else LAST
    for each in choice.needed:
        kinds[flags(values[each].is_null())] = NEVER
    if choice.filter is not None:
        kinds[~flags(values[choice.filter].cast(pa.bool_()).fill_null(False))] = NEVER
    found[kinds != CODED] = 0


class RatingTail:
    """The ratings of a stream's recent tuples: appended at the end, dropped at the front."""

    def __init__(self, choices: int) -> None:
        self._tails: tuple[Tail, Tail] | None = None
        self._choices = choices

    def append(self, first: int, ratings: Ratings) -> None:
        """Add the ratings of tuples from index `first` on, which follow the held ones."""
        if self._tails is None:
            self._tails = Tail(first, columns=self._choices), Tail(first, columns=self._choices)
        for tail, rows in zip(self._tails, (ratings.codes, ratings.kinds.astype(np.int64)), strict=True):
            tail.append(rows)

    def since(self, first: int, n: int) -> Ratings:
        """The ratings of n indexes from a held one on; valid until the next append."""
        assert self._tails is not None, "a frame's rows are rated before it is answered"
        codes, kinds = [tail.view(first, first + n) for tail in self._tails]
        return Ratings(codes, kinds.astype(np.int8))

    def drop_below(self, index: int) -> None:
        """Forget tuples with smaller indexes."""
        for tail in self._tails or ():
            tail.drop_below(index)
