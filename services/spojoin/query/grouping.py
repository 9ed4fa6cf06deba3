"""GROUP BY a left row: aggregates of its partners, and expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction

from sqlglot import exp

from spojoin.errors import QueryError
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
from spojoin.query.computed import condition_of_pair, of_pair, value_of
from spojoin.query.operands import text_of
from spojoin.query.scope import Scope
from spojoin.query.selected import read_select
from spojoin.query.statement import Statement, written

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
}
EXPECTED = "COUNT, SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, QUANTILE_DISC or MEDIAN"


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
        raise QueryError(
            f"'{written(statement.group).strip()}' isn't supported: expected GROUP BY {left}, one answer for each of "
            "its rows",
            scope.line_of(statement.group),
        )


def _found(node: exp.Expression) -> list[exp.Expression]:
    """The aggregates of an expression; none of them within another."""
    if type(node) in _FUNCTIONS:
        return [node]
    if isinstance(node, exp.Filter):
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
    condition, inner = None, node
    if isinstance(node, exp.Filter):
        condition, inner = condition_of_pair(node.expression.this, scope), node.this
    if type(inner) not in _FUNCTIONS:
        raise QueryError(f"'{text_of(inner)}' isn't supported: expected {EXPECTED}", scope.line_of(node))
    function, text, line = _FUNCTIONS[type(inner)], text_of(node), scope.line_of(node)
    if isinstance(inner.this, exp.Distinct):
        raise QueryError(f"'{text}': DISTINCT isn't supported in aggregates", line)
    given = [each for each in (inner.this, inner.args.get("expression"), *inner.expressions) if each is not None]
    share = None
    if function in ("quantile_disc", "median"):
        share = _share(given[1], scope) if function == "quantile_disc" else Fraction(1, 2)
        function, given = "quantile_disc", given[:1]
    if function == "count" and given and isinstance(given[0], exp.Star):
        given = []
    wanted = 2 if function in ("arg_min", "arg_max") else 1
    if len(given) != wanted and not (function == "count" and not given):
        raise QueryError(f"'{text}': expected {wanted} argument{'s' * (wanted > 1)}", line)
    arguments = tuple(of_pair(each, scope) for each in given)
    return Aggregate(function, arguments, _type(function, arguments, text, line), text, share, condition)


def _share(node: exp.Expression, scope: Scope) -> Fraction:
    value = value_of(node, scope)
    share = Fraction(str(value)) if isinstance(value, int | float) or hasattr(value, "as_tuple") else None
    if share is None or not 0 <= share <= 1:
        raise QueryError(f"'{text_of(node)}': expected a quantile between 0 and 1", scope.line_of(node))
    return share


def _type(function: str, arguments: Sequence[PairExpression], text: str, line: int) -> ColumnType:
    if function == "count":
        return _LONG
    kind = arguments[0].type
    allowed = _NUMBERS if function in ("sum", "avg") else _ORDERED
    compared = arguments[-1].type
    if compared.name not in allowed:
        raise QueryError(f"'{text}' is of a {compared}: expected one of {', '.join(allowed)}", line)
    if function == "avg":
        return _DOUBLE
    if function != "sum":
        return kind
    if kind.name in (TypeName.FLOAT, TypeName.DOUBLE):
        return _DOUBLE
    return ColumnType(TypeName.DECIMAL, _SUM_PRECISION, kind.scale)
