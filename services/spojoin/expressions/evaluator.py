"""Evaluates SQL expressions with Arrow's functions if these give the same values for all rows, otherwise with DuckDB.

Arrow costs a tenth of a call of DuckDB. It evaluates columns and literals of one type, comparisons, AND, OR, NOT, IS
NULL, IN, BETWEEN, sums and products within their type, and lower() and upper() of ASCII text. Anything else raises
`Untranslatable`, either at the translation or at a value that Arrow treats differently: a NaN, which it compares as in
IEEE 754, or a result that is out of range.
"""

from __future__ import annotations

import datetime as dt
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from spojoin.expressions.engine import DuckdbEvaluator, Evaluated
from spojoin.expressions.types import value_type
from spojoin.model import INTEGERS, ColumnType, TypeName

_COMPARISONS: dict[type[exp.Expression], Callable[..., pa.Array]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_CONNECTORS: dict[type[exp.Expression], Callable[..., pa.Array]] = {exp.And: pc.and_kleene, exp.Or: pc.or_kleene}
_SUMS: dict[type[exp.Expression], Callable[..., pa.Array]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_CASES: dict[type[exp.Expression], Callable[..., pa.Array]] = {exp.Lower: pc.ascii_lower, exp.Upper: pc.ascii_upper}
_COMPARED = (*INTEGERS, TypeName.DOUBLE, TypeName.STRING, TypeName.DATE, TypeName.TIMESTAMP)
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DOUBLE = re.compile(r"-?(?=[\d.]{1,15}$)\d+(\.\d+)?", re.ASCII)
_DATE = re.compile(r"(?!0000)\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"(?!0000)\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", re.ASCII)
Columns = Mapping[str, ColumnType]
#: Types with whose values only DuckDB computes.
_DUCKDBS = (TypeName.UUID, TypeName.MAP, TypeName.CARRIED)
_BOOLEAN = ColumnType(TypeName.BOOLEAN)
_STRING = ColumnType(TypeName.STRING)


class Untranslatable(Exception):  # a signal within this package
    """The two engines treat an expression or a value differently."""


class TableColumns:
    """A table's columns as arrays."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __getitem__(self, name: str) -> pa.Array:
        column = self._table.column(name)
        if column.num_chunks == 1:
            return column.chunk(0)
        combined: Any = column.combine_chunks()
        return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


Run = Callable[[TableColumns], pa.Array]


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression's type and the function that evaluates it."""

    type: ColumnType
    run: Run


def arrow_function(sql: str, columns: Columns) -> Run | None:
    """A function that evaluates an expression in DuckDB's dialect; None if Arrow's functions would differ."""
    try:
        node = sqlglot.parse_one(sql, dialect="duckdb")
        assert isinstance(node, exp.Expression)
        if isinstance(node, exp.Column) and node.name in columns and columns[node.name].name is TypeName.CARRIED:
            return operator.itemgetter(node.name)
        return _term(node, columns).run
    except (Untranslatable, RecursionError):  # DuckDB has its own limit
        return None


def _term(node: exp.Expression, columns: Columns) -> _Term:
    translate = _HANDLERS.get(type(node))
    if translate is None:
        raise Untranslatable
    return translate(node, columns)


def _column(node: exp.Column, columns: Columns) -> _Term:
    if node.table or node.name not in columns or columns[node.name].name in _DUCKDBS:
        raise Untranslatable
    return _Term(columns[node.name], operator.itemgetter(node.name))


def _condition(node: exp.Expression, columns: Columns) -> Run:
    found = _term(node, columns)
    if found.type.name is not TypeName.BOOLEAN:
        raise Untranslatable
    return found.run


def _connected(join: Callable[..., pa.Array], node: exp.Expression, columns: Columns) -> _Term:
    """The operands that nested ANDs connect, or nested ORs, without recursion: there may be thousands."""
    runs = [_condition(each, columns) for each in node.flatten() if isinstance(each, exp.Expression)]
    return _Term(_BOOLEAN, lambda rows: functools.reduce(join, (run(rows) for run in runs)))


def _not(node: exp.Expression, columns: Columns) -> _Term:
    inner = _condition(node.this, columns)
    return _Term(_BOOLEAN, lambda rows: pc.invert(inner(rows)))


def _is(node: exp.Expression, columns: Columns) -> _Term:
    if not isinstance(node.expression, exp.Null):
        raise Untranslatable
    inner = _term(node.this, columns)
    return _Term(_BOOLEAN, lambda rows: inner.run(rows).is_null())


def _between(node: exp.Expression, columns: Columns) -> _Term:
    if node.args.get("symmetric"):
        raise Untranslatable
    low = _comparison(pc.greater_equal, node.this, node.args["low"], columns).run
    high = _comparison(pc.less_equal, node.this, node.args["high"], columns).run
    return _Term(_BOOLEAN, lambda rows: pc.and_kleene(low(rows), high(rows)))


def _in(node: exp.Expression, columns: Columns) -> _Term:
    value, listed = _term(node.this, columns), node.expressions
    if not listed or value.type.name not in (*INTEGERS, TypeName.STRING):
        raise Untranslatable
    # In 64 bits, so that a number that no 32-bit column holds is not found.
    kind = pa.string() if value.type.name is TypeName.STRING else pa.int64()
    known = pa.array([_literal(each, value.type) for each in listed], kind)

    def run(rows: TableColumns) -> pa.Array:
        values = value.run(rows)
        return pc.if_else(values.is_valid(), pc.is_in(values.cast(kind), value_set=known), None)

    return _Term(_BOOLEAN, run)


def _comparison(
    compare: Callable[..., pa.Array], left: exp.Expression, right: exp.Expression, columns: Columns
) -> _Term:
    first, second = _pair(left, right, columns)
    is_double = first.type.name is TypeName.DOUBLE
    return _Term(_BOOLEAN, lambda rows: compare(*(_ordered(each.run(rows), is_double) for each in (first, second))))


def _ordered(values: pa.Array | pa.Scalar, is_double: bool) -> pa.Array | pa.Scalar:
    """The values, if both engines order them alike."""
    if is_double and isinstance(values, pa.Array) and np.isnan(_doubles(values)).any():
        raise Untranslatable
    return values


def _doubles(values: pa.Array) -> NDArray[np.float64]:
    """All doubles of an array, including those in place of NULLs."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.empty(0)
    return np.frombuffer(buffer, np.float64)[values.offset : values.offset + len(values)]


def _pair(left: exp.Expression, right: exp.Expression, columns: Columns) -> tuple[_Term, _Term]:
    """Two terms of one type; one of them may be a literal."""
    if _is_literal(left) and not _is_literal(right):
        second = _term(right, columns)
        return _constant(left, second.type), second
    first = _term(left, columns)
    second = _constant(right, first.type) if _is_literal(right) else _term(right, columns)
    both = first.type.name, second.type.name
    if first.type != second.type and not all(name in INTEGERS for name in both):
        raise Untranslatable
    if first.type.name not in (*_COMPARED, TypeName.DECIMAL):
        raise Untranslatable
    return first, second


def _sum(add: Callable[..., pa.Array], node: exp.Expression, columns: Columns) -> _Term:
    first, second = _term(node.this, columns), _term(node.expression, columns)
    if first.type != second.type or first.type.name not in (*INTEGERS, TypeName.DOUBLE):
        raise Untranslatable
    is_double = first.type.name is TypeName.DOUBLE

    def run(rows: TableColumns) -> pa.Array:
        found = add(first.run(rows), second.run(rows))
        if is_double and not np.isfinite(_doubles(found)).all():
            raise Untranslatable
        return found

    return _Term(first.type, run)


def _of_case(fold: Callable[..., pa.Array], node: exp.Expression, columns: Columns) -> _Term:
    inner = _term(node, columns)
    if inner.type.name is not TypeName.STRING:
        raise Untranslatable

    def run(rows: TableColumns) -> pa.Array:
        values = inner.run(rows)
        if not pc.all(pc.string_is_ascii(values), min_count=0).as_py():
            raise Untranslatable
        return fold(values)

    return _Term(_STRING, run)


def _is_literal(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal | exp.Neg | exp.Cast)


def _constant(node: exp.Expression, kind: ColumnType) -> _Term:
    value = _literal(node, kind)
    # In 64 bits, so that an integer that no 32-bit column holds is beyond all values.
    target = pa.int64() if kind.name in INTEGERS else value_type(kind)
    scalar = pa.scalar(value, target)
    return _Term(kind, lambda _: scalar)


def _literal(node: exp.Expression, kind: ColumnType) -> object:
    """A literal as a value of a type."""
    text, is_string = _text(node)
    patterns = _TEXTS if is_string else _NUMBERS
    if kind.name not in patterns or (is_string and isinstance(node, exp.Cast) and _cast_to(node) is not kind.name):
        raise Untranslatable
    pattern, read = patterns[kind.name]
    if pattern is not None and not pattern.fullmatch(text):
        raise Untranslatable
    try:
        return read(text)
    except ValueError as error:
        raise Untranslatable from error


def _text(node: exp.Expression) -> tuple[str, bool]:
    """A literal's text with its sign, and whether it is in quotes."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.name}", False
    inner = node.this if isinstance(node, exp.Cast) else node
    if not isinstance(inner, exp.Literal) or (isinstance(node, exp.Cast) and not inner.is_string):
        raise Untranslatable
    return inner.name, inner.is_string


def _cast_to(node: exp.Cast) -> TypeName | None:
    if node.to.this is exp.DataType.Type.DATE:
        return TypeName.DATE
    is_plain = node.to.this in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
    return TypeName.TIMESTAMP if is_plain else None


_Reader = tuple[re.Pattern[str] | None, Callable[[str], object]]
_NUMBERS: dict[TypeName, _Reader] = {
    **dict.fromkeys(INTEGERS, (_INTEGER, int)),
    TypeName.DOUBLE: (_DOUBLE, float),
}
_TEXTS: dict[TypeName, _Reader] = {
    TypeName.STRING: (None, str),
    TypeName.DATE: (_DATE, dt.date.fromisoformat),
    TypeName.TIMESTAMP: (_TIMESTAMP, dt.datetime.fromisoformat),
}


def _compared_by(compare: Callable[..., pa.Array]) -> _Handler:
    return lambda node, columns: _comparison(compare, node.this, node.expression, columns)


def _joined_by(join: Callable[..., pa.Array]) -> _Handler:
    return lambda node, columns: _connected(join, node, columns)


def _summed_by(add: Callable[..., pa.Array]) -> _Handler:
    return lambda node, columns: _sum(add, node, columns)


def _folded_by(fold: Callable[..., pa.Array]) -> _Handler:
    return lambda node, columns: _of_case(fold, node.this, columns)


_Handler = Callable[[Any, Columns], _Term]
_HANDLERS: dict[type[exp.Expression], _Handler] = {
    exp.Paren: lambda node, columns: _term(node.this, columns),
    exp.Column: _column,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    **{kind: _compared_by(compare) for kind, compare in _COMPARISONS.items()},
    **{kind: _joined_by(join) for kind, join in _CONNECTORS.items()},
    **{kind: _summed_by(add) for kind, add in _SUMS.items()},
    **{kind: _folded_by(fold) for kind, fold in _CASES.items()},
}


Evaluate = Callable[[pa.Table], Evaluated]


def evaluator(sqls: Sequence[str], columns: Mapping[str, ColumnType], *, is_timed: bool = True) -> Evaluate:
    """A function of a table of the columns that gives the values of all expressions.

    is_timed: whether rows that take too long get no value
    """
    runs = [arrow_function(sql, columns) for sql in sqls]
    if all(run is None for run in runs):
        return DuckdbEvaluator(sqls, columns, is_timed=is_timed)
    return _MixedEvaluator(sqls, columns, runs, is_timed=is_timed)


class _MixedEvaluator:
    """Evaluates plain expressions with Arrow, others with DuckDB; special values such as NaN only with DuckDB."""

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
