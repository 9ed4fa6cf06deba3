"""Prepares expressions for the engine: resolves names, checks functions and finds types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spojoin.errors import QueryError
from spojoin.model import ColumnType, Computed, PairExpression, TypeName, Use, pair_column
from spojoin.query.comparable import check_zones_within
from spojoin.query.exact_comparisons import with_exact_comparisons
from spojoin.query.nodes import DIALECT, bare, characters_of, sql_text
from spojoin.query.places import Correctable
from spojoin.query.scope import Scope

#: An integer that fits in 32 bits.
_SHORT = re.compile(r"\d{1,9}", re.ASCII)
_CALLED = re.compile(r"\w+")
#: A format that pads to more than 9,999 characters, or to a width that is one of the values.
_WIDE = re.compile(r"\{[^{}]*:[^{}]*(\d{5}|\{)|%[-+ #0']*(\d{5}|\*)")
#: DuckDB's types that results may have although no column can be declared with them.
_TRAVELS = re.compile(r"(INTERVAL|(STRUCT|TUPLE|MAP)\(.*\)|.*\[\d*\])$", re.DOTALL)
_TABLES = (exp.Subquery, exp.Select, exp.SetOperation, exp.Exists)


def uses_of(node: exp.Expression, scope: Scope) -> tuple[Use, ...]:
    """The columns that an expression names, each once, in order. Raises QueryError for names that don't exist."""
    check(node, scope)
    return tuple(dict.fromkeys(scope.column(column) for column in _columns(node)))


def is_of_left_rows(node: exp.Expression, scope: Scope) -> bool:
    """Whether a condition uses only columns of left rows, so that it can filter them before they get a number."""
    uses = uses_of(node, scope)
    return bool(uses) and all(use.side == 0 and not use.is_number for use in uses)


def check(node: exp.Expression, scope: Scope) -> None:
    """QueryError if an expression contains a table, an aggregate, a volatile function or a parameter."""
    for found in node.walk():
        assert isinstance(found, exp.Expression)
        why = _why_refused(found)
        if why:
            raise QueryError(why, scope.line_of(found))


def side_expression(node: exp.Expression, scope: Scope) -> Computed:
    """An expression of one side's columns, for the engine."""
    uses = uses_of(node, scope)
    sql = _renamed(node, scope, lambda use: use.name)
    columns = {use.name: use.type for use in uses}
    exact = _exact(node, sql, columns, scope, is_signed=True)
    kind = _type_of(node, exact, columns, scope)
    _check_zones(node, scope, columns, lambda use: use.name)
    return Computed(exact, tuple(columns), kind)


def pair_expression(node: exp.Expression, scope: Scope, *, is_condition: bool = False) -> PairExpression:
    """An expression of both sides' columns, for the engine."""
    uses = uses_of(node, scope)
    sql = _renamed(node, scope, lambda use: pair_column(use.side, use.name))
    columns = {pair_column(use.side, use.name): use.type for use in uses}
    exact = _exact(node, sql, columns, scope, is_signed=is_condition)
    kind = _type_of(node, exact, columns, scope)
    _check_zones(node, scope, columns, lambda use: pair_column(use.side, use.name))
    return PairExpression(exact, uses, kind, sql_text(node))


def condition_of_side(node: exp.Expression, scope: Scope) -> Computed:
    """A condition on one side's columns."""
    found = side_expression(node, scope)
    _expect_boolean(node, found.type, scope)
    return found


def condition_of_pair(node: exp.Expression, scope: Scope) -> PairExpression:
    """A condition on both sides' columns."""
    found = pair_expression(node, scope, is_condition=True)
    _expect_boolean(node, found.type, scope)
    return found


def value_of(node: exp.Expression, scope: Scope) -> object:
    """The value of an expression without columns."""
    import duckdb  # noqa: PLC0415  (few queries need the engine)

    from spojoin.expressions.engine import constant, refused  # noqa: PLC0415

    check(node, scope)
    try:
        return constant(bare(node).sql(dialect=DIALECT, comments=False))
    except duckdb.Error as error:
        raise refused(f"'{sql_text(node)}'", error, scope.line_of(node)) from error


def _columns(node: exp.Expression) -> list[exp.Column]:
    """All columns in the order of the text; parameters of lambdas aren't columns."""
    return sorted(node.find_all(exp.Column), key=lambda column: column.this.meta.get("start", 0))


def _renamed(node: exp.Expression, scope: Scope, name: Callable[[Use], str]) -> str:
    def rename(found: exp.Expression) -> exp.Expression:
        if isinstance(found, exp.Column):
            return exp.column(exp.to_identifier(name(scope.column(found)), quoted=True))
        return found

    return bare(node).copy().transform(rename).sql(dialect=DIALECT, comments=False)


def _type_of(node: exp.Expression, sql: str, columns: dict[str, ColumnType], scope: Scope) -> ColumnType:
    import duckdb  # noqa: PLC0415  (few queries need the engine)

    from spojoin.expressions.engine import arrow_type_of, refused, type_of  # noqa: PLC0415
    from spojoin.expressions.types import column_type  # noqa: PLC0415

    if isinstance(bare(node), exp.Column):
        return next(iter(columns.values()))
    try:
        found = type_of(sql, columns)
    except duckdb.Error as error:
        raise refused(f"'{sql_text(node)}'", error, scope.line_of(node)) from error
    kind = column_type(found)
    if kind is None and _TRAVELS.match(found):
        return ColumnType(TypeName.CARRIED, arrow=arrow_type_of(sql, columns))
    if kind is None:
        raise QueryError(
            f"'{sql_text(node)}' is of type {found}, which no column can have: cast it, such as "
            f"CAST({sql_text(node)} AS VARCHAR)",
            scope.line_of(node),
        )
    return kind


def _exact(node: exp.Expression, sql: str, columns: dict[str, ColumnType], scope: Scope, *, is_signed: bool) -> str:
    """The expression with exact comparisons; is_signed: whether sums of unsigned integers may be negative."""
    try:
        return with_exact_comparisons(_signed(sql, columns) if is_signed else sql, lambda part: _kind_of(part, columns))
    except SqlglotError as error:  # the parser can't read everything that it writes, such as substr(a >= 1, 2)
        raise QueryError(
            f"'{sql_text(node)}' can't be read: put each argument of its functions in parentheses, as in f((a), (b))",
            scope.line_of(node),
        ) from error


def _signed(sql: str, columns: dict[str, ColumnType]) -> str:
    """The expression with unsigned integers in sums cast to decimals, so that a difference may be negative."""
    unsigned = {name for name, kind in columns.items() if str(kind.arrow) == "uint64"}
    if not unsigned:
        return sql
    node = sqlglot.parse_one(sql, dialect=DIALECT)
    for column in [each for each in node.find_all(exp.Column) if each.name in unsigned]:
        if column.find_ancestor(exp.Add, exp.Sub, exp.Neg) is not None and column is not node:
            column.replace(exp.cast(column.copy(), "DECIMAL(20, 0)"))
    return str(node.sql(dialect=DIALECT, comments=False))


def _kind_of(part: str, columns: dict[str, ColumnType]) -> ColumnType | None:
    if part[:1] == part[-1:] == '"' and part[1:-1] in columns:
        return columns[part[1:-1]]
    import duckdb  # noqa: PLC0415  (few queries need the engine)

    from spojoin.expressions.engine import quoted, type_of  # noqa: PLC0415
    from spojoin.expressions.types import column_type  # noqa: PLC0415

    known = {quoted(name): kind for name, kind in columns.items()}
    if part in known or _SHORT.fullmatch(part):
        return known.get(part, ColumnType(TypeName.INT))
    try:
        return column_type(type_of(part, columns))
    except duckdb.Error:  # such as a parameter of a lambda: the engine compares it
        return None


def _check_zones(
    node: exp.Expression, scope: Scope, columns: dict[str, ColumnType], name: Callable[[Use], str]
) -> None:
    """QueryError if times with a zone and without one are compared."""
    if any(kind.zone is not None or kind.is_ranked for kind in columns.values()):
        check_zones_within(
            node, lambda part: _kind_of(_renamed(part, scope, name), columns), sql_text, scope.line_of(node)
        )


def _expect_boolean(node: exp.Expression, kind: ColumnType, scope: Scope) -> None:
    if kind.name is TypeName.BOOLEAN:
        return
    text = sql_text(node)
    message = f"'{text}' is a {kind}, no condition: expected a comparison, or another value that is true or false"
    place = characters_of(bare(node))
    if place is None or kind.name not in (TypeName.STRING, TypeName.INT, TypeName.LONG):
        raise QueryError(message, scope.line_of(node))
    raise Correctable(message, scope.line_of(node), [(*place, f"CAST({text} AS BOOLEAN)")])


def _why_refused(node: exp.Expression) -> str | None:
    if isinstance(node, _TABLES):
        return f"'{sql_text(node)}' is a query within the query: expected an expression of the sides' columns"
    if isinstance(node, exp.Window):
        return f"'{sql_text(node)}' is a window function: expected functions of single values"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return f"'{sql_text(node)}' is a parameter: expected a value"
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Column):
        around = node.parent if isinstance(node.parent, exp.Expression) else node
        return f"'{sql_text(around)}': expected a column: '*' may stand only in a select list"
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.INET:
        return _why_no_address(node)
    is_call = isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast | exp.Case | exp.If)
    return _why_not_called(node) if is_call else None


def _why_no_address(node: exp.Cast) -> str:
    text = sql_text(node.this)
    parts = " + ".join(f"split_part({text}, '.', {k + 1})::BIGINT * {256 ** (3 - k)}" for k in range(4))
    return (
        f"'{sql_text(node)}': INET is an extension of DuckDB that isn't loaded; write an address as a number: {parts}"
    )


def _why_not_called(node: Any) -> str | None:  # noqa: ANN401  (sqlglot's functions are typed apart)
    from spojoin.expressions.functions import why_refused  # noqa: PLC0415  (few queries need the engine)

    text = sql_text(node)
    if isinstance(node, exp.AggFunc):
        of_rows = (
            "a window function" if "is a window function" in (why_refused(node.sql_name()) or "") else "an aggregate"
        )
        return f"'{text}' is {of_rows}: expected functions of single values"
    written = _CALLED.match(node.sql(dialect=DIALECT, comments=False))
    names = [node.name] if isinstance(node, exp.Anonymous) else [node.sql_name(), written[0] if written else ""]
    for name in filter(None, names):
        why = why_refused(name, len(node.expressions)) or _why_too_wide(name.lower(), node)
        if why:
            return f"function {name.lower()}() {why}"
    return None


def _why_too_wide(name: str, node: exp.Expression) -> str | None:
    """Why a call of format() or printf() is refused: its width can't be guarded without the number of arguments."""
    text = next(node.find_all(exp.Literal), None) if name in ("format", "printf") else None
    is_wide = text is not None and text.is_string and _WIDE.search(text.name)
    return "pads to more than 9,999 characters: expected a width written out, up to 9999" if is_wide else None
