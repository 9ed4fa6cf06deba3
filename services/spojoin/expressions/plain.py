"""Chooses what evaluates expressions: Arrow where it gives exactly what DuckDB gives, at a tenth of a call's cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from spojoin.expressions.engine import DuckdbEvaluator, Evaluated
from spojoin.expressions.translated import Run, TableColumns, Untranslatable, translated
from spojoin.model import ColumnType

Evaluate = Callable[[pa.Table], Evaluated]


def evaluator(sqls: Sequence[str], columns: Mapping[str, ColumnType], *, is_timed: bool = True) -> Evaluate:
    """A function of a table of the columns that gives the values of all expressions.

    is_timed: whether a row that takes too long has no value
    """
    runs = [translated(sql, columns) for sql in sqls]
    if all(run is None for run in runs):
        return DuckdbEvaluator(sqls, columns, is_timed=is_timed)
    return _Mixed(sqls, columns, runs, is_timed=is_timed)


class _Mixed:
    """Plain expressions by Arrow, the others by DuckDB, and all by DuckDB where values aren't plain, such as NaN."""

    def __init__(
        self, sqls: Sequence[str], columns: Mapping[str, ColumnType], runs: Sequence[Run | None], *, is_timed: bool
    ) -> None:
        self._runs = runs
        self._whole = DuckdbEvaluator(sqls, columns, is_timed=is_timed)
        rest = [sql for sql, run in zip(sqls, runs, strict=True) if run is None]
        self._rest = DuckdbEvaluator(rest, columns, is_timed=is_timed) if rest else None

    def __call__(self, table: pa.Table) -> Evaluated:
        """The values of all expressions for n rows of the columns."""
        try:
            plain = [None if run is None else run(TableColumns(table)) for run in self._runs]
        except (Untranslatable, pa.ArrowInvalid):
            return self._whole(table)
        others = self._rest(table) if self._rest is not None else Evaluated([], [])
        waiting = iter(others.values)
        return Evaluated([next(waiting) if found is None else found for found in plain], others.failures)
