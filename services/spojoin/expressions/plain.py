"""Chooses what evaluates expressions: DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from spojoin.expressions.engine import Evaluated, Evaluator
from spojoin.model import ColumnType

Evaluate = Callable[[pa.Table], Evaluated]


def evaluator(sqls: Sequence[str], columns: Mapping[str, ColumnType]) -> Evaluate:
    """A function of a table of the columns that gives the values of all expressions."""
    return Evaluator(sqls, columns)
