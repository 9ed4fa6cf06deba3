"""GROUP BY a left row: aggregates of its partners, and expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.expressions.types import value_type
from spojoin.model import (
    AGGREGATE,
    Aggregate,
    ColumnType,
    Grouped,
    PairExpression,
    Selected,
    TypeName,
    Use,
)
from spojoin.query.computed import condition_of_pair, of_pair, uses_of, value_of
from spojoin.query.mended import Mended, span
from spojoin.query.nearest import is_interval, ordered, sort_keys
from spojoin.query.operands import text_of
from spojoin.query.scope import Scope
from spojoin.query.selected import read_select
from spojoin.query.statement import DIALECT, Statement, written
from spojoin.query.zones import check_ranks

#: What stands for an aggregate in the expressions over them: a column of this table, named by its number.
_AGGREGATES = "\0aggregates"
_LONG, _DOUBLE = ColumnType(TypeName.LONG), ColumnType(TypeName.DOUBLE)
_INTEGERS = (TypeName.INT, TypeName.LONG)
_NUMBERS = (*_INTEGERS, TypeName.FLOAT, TypeName.DOUBLE, TypeName.DECIMAL)
_ORDERED = (*_NUMBERS, TypeName.DATE, TypeName.TIMESTAMP, TypeName.STRING, TypeName.BOOLEAN)
#: Digits of a sum: 128 bits hold these.
_SUM_PRECISION = 38

_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.ArgMin: "arg_min",
    exp.ArgMax: "arg_max",
    exp.PercentileDisc: "quantile_disc",
    exp.Median: "median",
    exp.LogicalOr: "max",
    exp.LogicalAnd: "min",
    exp.CountIf: "sum",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.First: "first",
    exp.Last: "last",
    exp.AnyValue: "any_value",
    exp.ArrayAgg: "list",
    exp.GroupConcat: "string_agg",
}
EXPECTED = (
    "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, BOOL_OR, BOOL_AND, QUANTILE_DISC, MEDIAN, STDDEV, "
    "VARIANCE, FIRST, LAST, ANY_VALUE, LIST or STRING_AGG"
)
_OF_NUMBERS = ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
_OF_ANYTHING = ("count", "first", "last", "any_value", "list", "string_agg")
_ARGUMENTS = ("this", "expression", "expressions", "separator", "big_int")


def has_aggregates(statement: Statement) -> bool:
    """Whether the statement gives one row for each left row."""
    nodes = [*statement.columns, *([statement.having] if statement.having else [])]
    return statement.group is not None or any(_found(node) for node in nodes)


def read_grouped(statement: Statement, scope: Scope) -> tuple[Grouped, tuple[Selected, ...]]:
    """The aggregates, HAVING, and the select list over them. Raises QueryError."""
    _check_group(statement, scope)
    table = _Aggregates(scope)
    columns = [table.replaced(node) for node in statement.columns]
    having = None if statement.having is None else table.replaced(statement.having.this)
    names = {field.name: getattr(scope, field.name) for field in fields(scope)}
    over = GroupScope(**names, types=tuple(each.type for each in table.found))
    select = read_select(columns, over, [_name_of(node) for node in statement.columns])
    condition = None if having is None else condition_of_pair(having, over)
    return Grouped(tuple(table.found), condition), select


def _name_of(node: exp.Expression) -> str:
    return node.alias if isinstance(node, exp.Alias) else text_of(node)


@dataclass(frozen=True, slots=True)
class GroupScope(Scope):
    """Names over groups: the left row's columns, and aggregates; types: those of the aggregates, by number."""

    types: tuple[ColumnType, ...] = ()

    def passed(self, node: exp.Column) -> Use:
        """The column or aggregate that a name stands for."""
        if node.table == _AGGREGATES:
            return Use(AGGREGATE, node.name, self.types[int(node.name)])
        use = Scope.passed(self, node)
        if use.side != 0:
            raise QueryError(
                f"'{written(node)}' stands outside an aggregate, and a left row may have many partners: expected "
                f"{EXPECTED} around it",
                self.line_of(node),
            )
        return use


def _check_group(statement: Statement, scope: Scope) -> None:
    left = scope.aliases[0]
    if statement.group is None:
        node = next(iter(_found(statement.having)), None) if statement.having is not None else None
        node = node or next(found for column in statement.columns for found in _found(column))
        raise QueryError(
            f"'{text_of(node)}' is an aggregate: expected GROUP BY {left} behind the conditions", scope.line_of(node)
        )
    written_as = statement.group.expressions
    others = [name for name, value in statement.group.args.items() if value and name != "expressions"]
    if others or len(written_as) != 1 or not scope.is_left_row(written_as[0]):
        raise _not_by_row(statement.group, scope)


def _not_by_row(group: exp.Expression, scope: Scope) -> QueryError:
    left, places = scope.aliases[0], [span(each) for each in group.expressions]
    known = [each for each in places if each is not None]
    message = (
        f"'{written(group).strip()}' isn't supported: expected GROUP BY {left}, one answer for each of its rows; a "
        "group of several would stay open while more of them may come"
    )
    if not _is_of_left(group, scope) or len(known) < len(places):
        return QueryError(message, scope.line_of(group))
    ends = min(start for start, _ in known), max(end for _, end in known)
    return Mended(message, scope.line_of(group), [(*ends, left)])


def _is_of_left(group: exp.Expression, scope: Scope) -> bool:
    try:
        return {use.side for each in group.expressions for use in uses_of(each, scope)} == {0}
    except QueryError:  # such as a name of both sides
        return False


def _found(node: exp.Expression) -> list[exp.Expression]:
    """The aggregates of an expression; none of them within another."""
    if type(node) in _FUNCTIONS:
        return [node]
    if isinstance(node, exp.Filter | exp.IgnoreNulls):
        return [node]
    return [found for child in node.iter_expressions() for found in _found(child)]


@dataclass(slots=True)
class _Aggregates:
    """The aggregates met so far, each once."""

    scope: Scope
    found: list[Aggregate] = field(default_factory=list)

    def replaced(self, node: exp.Expression) -> exp.Expression:
        """An expression with a column of `_AGGREGATES` for each aggregate."""
        root = exp.Paren(this=node.copy()) if not isinstance(node, exp.Alias) else node.copy()
        for found in _found(root):
            number = self._number(found)
            column = exp.column(
                exp.to_identifier(str(number), quoted=True), exp.to_identifier(_AGGREGATES, quoted=True)
            )
            if "start" in found.meta:
                column.meta["start"] = found.meta["start"]
            found.replace(column)
        return root if isinstance(root, exp.Alias) else root.this

    def _number(self, node: exp.Expression) -> int:
        one = _aggregate(node, self.scope)
        if one not in self.found:
            self.found.append(one)
        return self.found.index(one)


def _aggregate(node: exp.Expression, scope: Scope) -> Aggregate:
    """An aggregate as written. Raises QueryError."""
    text, line, found = text_of(node), scope.line_of(node), _taken_apart(node)
    if type(found.node) not in _FUNCTIONS:
        raise QueryError(f"'{text_of(found.node)}' isn't supported: expected {EXPECTED}", line)
    function, given, share = _FUNCTIONS[type(found.node)], list(found.given), None
    if function in ("quantile_disc", "median"):
        share = _share(given[1], scope) if function == "quantile_disc" else Fraction(1, 2)
        function, given = "quantile_disc", given[:1]
    _check_given(function, given, found, text, line)
    condition = None if found.wanted is None else condition_of_pair(found.wanted, scope)
    separator = "" if function != "string_agg" else str(value_of(found.node.args["separator"], scope))
    arguments = tuple(of_pair(each, scope) for each in given)
    if function in ("arg_min", "arg_max"):
        arguments = arguments[0], ordered(given[1], scope)
    elif function in ("min", "max") and is_interval(arguments[0].type):
        function, arguments = f"arg_{function}", (arguments[0], ordered(given[0], scope))
    if isinstance(found.node, exp.LogicalOr | exp.LogicalAnd):
        arguments = tuple(condition_of_pair(each, scope) for each in given)
    kind = _type(function, arguments, text, line)
    is_distinct = found.is_distinct and function not in ("min", "max", "any_value")
    order = sort_keys(found.order, scope) if function in _IN_ORDER else ()
    return Aggregate(function, arguments, kind, text, share, condition, order, is_distinct, separator)


#: Whose value the order of partners changes.
_IN_ORDER = ("first", "last", "any_value", "list", "string_agg")


@dataclass(frozen=True, slots=True)
class _Call:
    """An aggregate's function, what it is given, and the order and the condition by which it takes partners."""

    node: exp.Expression
    given: tuple[exp.Expression, ...]
    wanted: exp.Expression | None = None
    order: tuple[exp.Expression, ...] = ()
    is_distinct: bool = False


def _taken_apart(node: exp.Expression) -> _Call:
    """The parts of an aggregate, whatever is written around its arguments; COUNT_IF(a) as a sum of ones."""
    wanted = node.expression.this if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node
    inner = inner.this if isinstance(inner, exp.IgnoreNulls) else inner
    first, order, is_distinct = inner.this, (), False
    if isinstance(inner, exp.CountIf):
        return _Call(inner, (exp.cast(exp.paren(first), "INTEGER"),), wanted)
    if isinstance(first, exp.Order):
        first, order = first.this, tuple(first.expressions)
    given = [each for each in (first, inner.args.get("expression"), *inner.expressions) if each is not None]
    if isinstance(first, exp.Distinct):
        given, is_distinct = [*first.expressions, *given[1:]], True
    if isinstance(inner, exp.Count) and given and isinstance(given[0], exp.Star):
        given = []
    if isinstance(inner, exp.GroupConcat):
        inner.set("separator", inner.args.get("separator") or exp.Literal.string(","))
        given[0] = exp.cast(given[0], "VARCHAR", dialect=DIALECT)
    return _Call(inner, tuple(given), wanted, order, is_distinct)


def _check_given(function: str, given: Sequence[exp.Expression], found: _Call, text: str, line: int) -> None:
    wanted = 2 if function in ("arg_min", "arg_max") else 1
    if len(given) != wanted and not (function == "count" and not given):
        raise QueryError(f"'{text}': expected {wanted} argument{'s' * (wanted > 1)}", line)
    others = [each for name, each in found.node.args.items() if each and name not in (*_ARGUMENTS, "quantile")]
    if others and function != "quantile_disc":
        raise QueryError(f"'{text}': expected {wanted} argument{'s' * (wanted > 1)}, without a further one", line)


def _share(node: exp.Expression, scope: Scope) -> Fraction:
    value = value_of(node, scope)
    share = Fraction(str(value)) if isinstance(value, int | float) or hasattr(value, "as_tuple") else None
    if share is None or not 0 <= share <= 1:
        raise QueryError(f"'{text_of(node)}': expected a quantile between 0 and 1", scope.line_of(node))
    return share


def _type(function: str, arguments: Sequence[PairExpression], text: str, line: int) -> ColumnType:
    kind = arguments[0].type if arguments else _LONG
    if function == "list":
        return ColumnType(TypeName.CARRIED, arrow=pa.list_(value_type(kind)))
    if function in _OF_ANYTHING:
        return _LONG if function == "count" else kind
    allowed = _NUMBERS if function in _OF_NUMBERS else _ORDERED
    compared = arguments[-1].type
    if function not in _OF_NUMBERS:
        check_ranks(text, [(arguments[-1].text, compared)], line)
    if compared.name not in allowed and is_interval(compared):
        what = arguments[-1].text
        raise QueryError(f"'{text}' is of intervals: expected their microseconds, such as EPOCH_US({what})", line)
    if compared.name not in allowed:
        raise QueryError(f"'{text}' is of a {compared}: expected one of {', '.join(allowed)}", line)
    if function not in _OF_NUMBERS:
        return kind
    is_whole = function == "sum" and kind.name not in (TypeName.FLOAT, TypeName.DOUBLE)
    return ColumnType(TypeName.DECIMAL, _SUM_PRECISION, kind.scale) if is_whole else _DOUBLE
