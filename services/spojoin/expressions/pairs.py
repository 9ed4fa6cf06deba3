"""Expressions of columns of both sides, of which the evaluator is opened when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from spojoin.expressions.types import value_type
from spojoin.model import PairExpression, Use, pair_column

if TYPE_CHECKING:
    from spojoin.expressions.plain import Evaluate


class PairExpressions:
    """Some expressions. uses: the columns that they need; failures: rows so far without a value for one of them."""

    def __init__(self, expressions: Sequence[PairExpression]) -> None:
        self._expressions = expressions
        self.uses = list(dict.fromkeys(use for each in expressions for use in each.uses))
        self._evaluate: Evaluate | None = None
        self.failures = 0

    def values(self, columns: Mapping[Use, pa.Array], n: int) -> list[pa.Array]:
        """One array an expression, n values each, by the columns that they need."""
        if not n or not self._expressions:
            return [pa.array([], value_type(each.type)) for each in self._expressions]
        named = {pair_column(use.side, use.name): values for use, values in columns.items()}
        found = self._opened()(pa.table(named or {"nothing": pa.nulls(n)}))
        self.failures += len(found.failures)
        return [v.cast(value_type(each.type)) for v, each in zip(found.values, self._expressions, strict=True)]

    def _opened(self) -> Evaluate:
        if self._evaluate is None:
            from spojoin.expressions.plain import evaluator  # noqa: PLC0415  (few queries need the engine)

            types = {pair_column(use.side, use.name): use.type for use in self.uses}
            self._evaluate = evaluator([each.sql for each in self._expressions], types)
        return self._evaluate
