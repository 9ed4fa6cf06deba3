"""Expressions of both sides' columns, whose evaluator is opened when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spojoin.expressions.types import value_type
from spojoin.model import ColumnType, PairExpression, Use, pair_column

if TYPE_CHECKING:
    from spojoin.expressions.engine import Evaluated
    from spojoin.expressions.evaluator import Evaluate


class PairExpressions:
    """Some expressions. uses: the columns that they need; failures: rows so far without a value of an expression.

    is_timed: as in `evaluator`
    """

    def __init__(self, expressions: Sequence[PairExpression], *, is_timed: bool = True) -> None:
        self._expressions = expressions
        self._is_timed = is_timed
        self._varying = [each for each in expressions if each.uses]
        self._constant = [each for each in expressions if not each.uses]
        self.uses = list(dict.fromkeys(use for each in expressions for use in each.uses))
        self._evaluate: Evaluate | None = None
        self._once: Evaluated | None = None
        self.failures = 0

    def values(self, columns: Mapping[Use, pa.Array], n: int) -> list[pa.Array]:
        """An array of n values for each expression, from the columns that they need."""
        if not n:
            return [pa.array([], value_type(each.type)) for each in self._expressions]
        varying, constant = iter(self._of_rows(columns)), iter(self._of_all(n))
        found = [next(varying if each.uses else constant) for each in self._expressions]
        return [v.cast(value_type(each.type)) for v, each in zip(found, self._expressions, strict=True)]

    def _of_rows(self, columns: Mapping[Use, pa.Array]) -> Sequence[pa.Array]:
        if not self._varying:
            return []
        if self._evaluate is None:
            types = {pair_column(use.side, use.name): use.type for use in self.uses}
            self._evaluate = _evaluator(self._varying, types, is_timed=self._is_timed)
        found = self._evaluate(pa.table({pair_column(use.side, use.name): v for use, v in columns.items()}))
        self.failures += len(found.failures)
        return found.values

    def _of_all(self, n: int) -> list[pa.Array]:
        """The values of expressions without columns, which are evaluated once."""
        if not self._constant:
            return []
        if self._once is None:
            self._once = _evaluator(self._constant, {}, is_timed=self._is_timed)(pa.table({"nothing": pa.nulls(1)}))
        self.failures += n * len(self._once.failures)
        first = pa.array(np.zeros(n, np.int32))
        return [value.take(first) for value in self._once.values]


def _evaluator(expressions: Sequence[PairExpression], types: Mapping[str, ColumnType], *, is_timed: bool) -> Evaluate:
    from spojoin.expressions.evaluator import evaluator  # noqa: PLC0415  (few queries need the engine)

    return evaluator([each.sql for each in expressions], types, is_timed=is_timed)
