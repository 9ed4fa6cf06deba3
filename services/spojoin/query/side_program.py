"""The expressions of one input that need the expression engine, evaluated for a batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spojoin.model import Computed, Stream
from spojoin.query.field import Mask
from spojoin.query.refusals import Refusals

if TYPE_CHECKING:
    from spojoin.expressions.plain import Evaluate

#: Why a row is refused for which an expression has no value.
FAILED = "expression"


@dataclass(frozen=True, slots=True)
class SideValues:
    """The values of expressions, n each, and which rows pass the filter of each stream that the input feeds, (n,)."""

    values: Mapping[Computed, pa.Array]
    passes: Sequence[Mask]


class SideProgram:
    """Filters first; then all other expressions, of the rows that pass one of them."""

    def __init__(self, stream: Stream) -> None:
        self._members = stream.fed(0)
        filters = [member.filter.condition for member in self._members if member.filter is not None]
        self._filters = _Stage(stream, filters)
        self._rest = _Stage(stream, [key.expression for key in stream.keys if isinstance(key.expression, Computed)])
        #: the columns that it reads
        self.columns = list(dict.fromkeys([*self._filters.columns, *self._rest.columns]))

    def run(self, count: int, column: Callable[[str], pa.Array], refusals: Refusals) -> SideValues:
        """Evaluate all for `count` rows; column: its values by name, in the type that expressions see."""
        everyone = np.ones(count, np.bool_)
        filtered = self._filters.run(column, everyone, refusals)
        passes = [
            everyone if member.filter is None else _is_true(filtered[member.filter.condition])
            for member in self._members
        ]
        rows = np.logical_or.reduce(passes)
        return SideValues(self._rest.run(column, rows, refusals), passes)


class _Stage:
    """Expressions that are evaluated at once."""

    def __init__(self, stream: Stream, expressions: Sequence[Computed]) -> None:
        self._expressions = list(dict.fromkeys(expressions))
        self.columns = list(dict.fromkeys(name for each in self._expressions for name in each.columns))
        self._types = {name: stream.type_of(name) for name in self.columns}
        self._evaluator: Evaluate | None = None

    def run(self, column: Callable[[str], pa.Array], rows: Mask, refusals: Refusals) -> dict[Computed, pa.Array]:
        """The values for the masked rows, NULL elsewhere; rows without a value are refused."""
        if not self._expressions:
            return {}
        evaluate = self._opened()
        table = pa.table({name: column(name) for name in self.columns} or {"nothing": pa.nulls(len(rows))})
        kept = np.flatnonzero(rows)
        picked = table if len(kept) == len(rows) else table.take(pa.array(kept))
        found = evaluate(picked)
        for failure in found.failures:
            refusals.add(int(kept[failure.row]), FAILED, f"an expression has no value: {failure.why}")
        values = found.values if len(kept) == len(rows) else [_spread(v, kept, len(rows)) for v in found.values]
        return dict(zip(self._expressions, values, strict=True))

    def _opened(self) -> Evaluate:
        if self._evaluator is None:
            from spojoin.expressions.plain import evaluator  # noqa: PLC0415  (few queries need the engine)

            self._evaluator = evaluator([each.sql for each in self._expressions], self._types)
        return self._evaluator


def _is_true(values: pa.Array) -> Mask:
    if pa.types.is_null(values.type):  # of no rows, or of rows for which it has no value
        return np.zeros(len(values), np.bool_)
    return np.asarray(values.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _spread(values: pa.Array, kept: np.ndarray, count: int) -> pa.Array:
    from spojoin.expressions.engine import spread  # noqa: PLC0415  (few queries need the engine)

    return spread(values, kept, count)
