"""Reads the columns of results: the select list and, for rows that ask, aggregates and the choice of partners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction

from sqlglot import exp

from spojoin.aggregates.functions import BY_NODE, EXPECTED, Function
from spojoin.errors import QueryError
from spojoin.model import AGGREGATE, Aggregate, ColumnType, Grouped, JoinKind, PairExpression, RowAnswers, Selected, Use
from spojoin.query.comparable import check_ranks
from spojoin.query.computed import condition_of_pair, pair_expression, uses_of, value_of
from spojoin.query.nearest import is_interval, ordered, read_best, read_where, sort_keys
from spojoin.query.nodes import characters_of, sql_text, written
from spojoin.query.places import Correctable
from spojoin.query.scope import SEQ_TYPE, Scope
from spojoin.query.select_list import read_select
from spojoin.query.statement import Statement
from spojoin.suggest import listed


def read_answers(statement: Statement, scope: Scope) -> tuple[tuple[Selected, ...], RowAnswers]:
    """Read the columns of results and the answers from which they are made. Raises QueryError."""
    _check_full_join(statement, scope)
    best = read_best(statement, scope)
    if not has_aggregates(statement):
        if statement.having is not None:
            raise QueryError(
                f"HAVING without aggregates: expected GROUP BY {scope.aliases[0]} before it, or the condition in WHERE",
                scope.line_of(statement.having),
            )
        is_of_left = statement.join.kind in (JoinKind.SEMI, JoinKind.ANTI)
        sides = (0,) if is_of_left else (1, 0) if statement.join.is_turned else (0, 1)
        select = read_select(statement.columns, scope, sides=sides)
        if is_of_left:
            _check_left_columns(select, statement, scope)
        return select, RowAnswers(best=best, where=read_where(statement, scope))
    if best is not None or statement.join.kind in (JoinKind.SEMI, JoinKind.ANTI):
        clause = statement.qualify or statement.group or statement.columns[0]
        raise QueryError(
            "aggregates need all partners: expected neither a SEMI, ANTI or ASOF JOIN nor QUALIFY beside them",
            scope.line_of(clause),
        )
    grouped, select = read_grouped(statement, scope)
    return select, RowAnswers(grouped=grouped)


def _check_full_join(statement: Statement, scope: Scope) -> None:
    """QueryError if a FULL JOIN has a clause that gives answers for left rows only."""
    if statement.join.kind is not JoinKind.FULL:
        return
    left, right = scope.aliases
    if statement.qualify is not None:
        raise QueryError(
            f"QUALIFY chooses among the partners of {left}'s rows, but a FULL JOIN also gives {right}'s rows without a "
            "partner: expected JOIN or LEFT JOIN",
            scope.line_of(statement.qualify),
        )
    if has_aggregates(statement):
        raise QueryError(
            f"aggregates are over the partners of {left}'s rows, but a FULL JOIN also gives {right}'s rows without a "
            "partner: expected LEFT JOIN",
            scope.line_of(statement.group or statement.columns[0]),
        )


def _check_left_columns(select: tuple[Selected, ...], statement: Statement, scope: Scope) -> None:
    for each in select:
        if any(use.side == 1 for use in each.expression.uses):
            raise QueryError(
                f"'{each.expression.text}' names {scope.aliases[1]}, but a {statement.join.kind.upper()} JOIN gives "
                f"left rows alone: expected columns of {scope.aliases[0]}",
                scope.line_of(statement.columns[0]),
            )


#: In expressions over aggregates, each aggregate is a column of this table; its number is the column's name.
_AGGREGATES = "\0aggregates"
#: Fields of sqlglot's nodes that hold an aggregate's arguments, or that are read separately.
_ARGUMENTS = ("this", "expression", "expressions", "separator", "big_int")


def has_aggregates(statement: Statement) -> bool:
    """Whether the statement gives one row for each left row."""
    nodes = [*statement.columns, *([statement.having] if statement.having else [])]
    return statement.group is not None or any(_aggregates_in(node) for node in nodes)


def read_grouped(statement: Statement, scope: Scope) -> tuple[Grouped, tuple[Selected, ...]]:
    """The aggregates, HAVING, and the select list over them. Raises QueryError."""
    _check_group(statement, scope)
    table = _AggregateTable(scope)
    columns = [table.replaced(node) for node in statement.columns]
    having = None if statement.having is None else table.replaced(statement.having.this)
    names = {field.name: getattr(scope, field.name) for field in fields(scope)}
    over = GroupScope(**names, types=tuple(each.type for each in table.found))
    select = read_select(columns, over, [_name_of(node) for node in statement.columns])
    condition = None if having is None else condition_of_pair(having, over)
    return Grouped(tuple(table.found), condition), select


def _name_of(node: exp.Expression) -> str:
    return node.alias if isinstance(node, exp.Alias) else sql_text(node)


@dataclass(frozen=True, slots=True)
class GroupScope(Scope):
    """The names that a grouped expression may use: left columns and aggregates. types: the aggregates' types."""

    types: tuple[ColumnType, ...] = ()

    def passed_column(self, node: exp.Column) -> Use:
        """The column or aggregate that a name means."""
        if node.table == _AGGREGATES:
            return Use(AGGREGATE, node.name, self.types[int(node.name)])
        use = Scope.passed_column(self, node)
        if use.side != 0:
            self._check_called(node)
            raise QueryError(
                f"'{written(node)}' stands outside an aggregate, but a left row may have many partners: expected "
                f"{EXPECTED} around it",
                self.line_of(node),
            )
        return use

    def _check_called(self, node: exp.Column) -> None:
        """QueryError if a function around the column doesn't exist, such as a misspelled aggregate."""
        from spojoin.expressions.functions import unknown_function  # noqa: PLC0415  (few queries need the engine)

        call = node.find_ancestor(exp.Anonymous)
        if call is not None and (unknown := unknown_function(call.name)) is not None:
            raise QueryError(f"'{sql_text(call)}': {unknown}", self.line_of(call))


def _check_group(statement: Statement, scope: Scope) -> None:
    left = scope.aliases[0]
    if statement.group is None:
        node = next(iter(_aggregates_in(statement.having)), None) if statement.having is not None else None
        node = node or next(found for column in statement.columns for found in _aggregates_in(column))
        raise QueryError(
            f"'{sql_text(node)}' is an aggregate: expected GROUP BY {left} after the conditions", scope.line_of(node)
        )
    written_as = statement.group.expressions
    others = [name for name, value in statement.group.args.items() if value and name != "expressions"]
    if others or len(written_as) != 1 or not scope.is_left_row(written_as[0]):
        raise _not_by_row(statement.group, scope)


def _not_by_row(group: exp.Expression, scope: Scope) -> QueryError:
    left, places = scope.aliases[0], [characters_of(each) for each in group.expressions]
    known = [each for each in places if each is not None]
    message = (
        f"'{written(group).strip()}' isn't supported: expected GROUP BY {left}, which gives one answer for each of its "
        "rows; a group of several rows would stay open for as long as more of them may come"
    )
    if not _is_of_left(group, scope) or len(known) < len(places):
        return QueryError(message, scope.line_of(group))
    ends = min(start for start, _ in known), max(end for _, end in known)
    return Correctable(message, scope.line_of(group), [(*ends, left)])


def _is_of_left(group: exp.Expression, scope: Scope) -> bool:
    try:
        return {use.side for each in group.expressions for use in uses_of(each, scope)} == {0}
    except QueryError:  # such as a name that both sides have
        return False


def _aggregates_in(node: exp.Expression) -> list[exp.Expression]:
    """The aggregates of an expression, except for those within another aggregate."""
    if type(node) in BY_NODE or isinstance(node, exp.Filter | exp.IgnoreNulls):
        return [node]
    return [found for child in node.iter_expressions() for found in _aggregates_in(child)]


@dataclass(slots=True)
class _AggregateTable:
    """Collects the aggregates of expressions, each once."""

    scope: Scope
    found: list[Aggregate] = field(default_factory=list)

    def replaced(self, node: exp.Expression) -> exp.Expression:
        """The expression with a column of `_AGGREGATES` in place of each aggregate."""
        root = exp.Paren(this=node.copy()) if not isinstance(node, exp.Alias) else node.copy()
        for found in _aggregates_in(root):
            number = self._number(found)
            column = exp.column(
                exp.to_identifier(str(number), quoted=True), exp.to_identifier(_AGGREGATES, quoted=True)
            )
            if "start" in found.meta:
                column.meta["start"] = found.meta["start"]
            found.replace(column)
        return root if isinstance(root, exp.Alias) else root.this

    def _number(self, node: exp.Expression) -> int:
        one = _read_aggregate(node, self.scope)
        if one not in self.found:
            self.found.append(one)
        return self.found.index(one)


def _read_aggregate(node: exp.Expression, scope: Scope) -> Aggregate:
    """An aggregate, read from its call. Raises QueryError."""
    text, line = sql_text(node), scope.line_of(node)
    wanted = node.expression.this if isinstance(node, exp.Filter) else None
    inner = node.this if isinstance(node, exp.Filter) else node
    inner = inner.this if isinstance(inner, exp.IgnoreNulls) else inner
    function = BY_NODE.get(type(inner))
    if function is None:
        raise QueryError(f"'{sql_text(inner)}' isn't supported: expected {EXPECTED}", line)

    # the arguments, and DISTINCT, ORDER BY and FILTER
    first, order, is_distinct = inner.this, (), False
    if isinstance(first, exp.Order):
        first, order = first.this, tuple(first.expressions)
    given = [each for each in (first, inner.args.get("expression"), *inner.expressions) if each is not None]
    if isinstance(first, exp.Distinct):
        given, is_distinct = [*first.expressions, *given[1:]], not function.ignores_distinct
    given, share, separator = function.arguments(inner, given), function.share, ""
    if function.has_share:
        share = _share(given[1], scope)
    if share is not None:
        given = given[:1]
    wanted_count = function.argument_count
    expected = f"'{text}': expected {wanted_count} argument{'s' * (wanted_count > 1)}"
    if len(given) != wanted_count and (given or not function.is_counted):
        raise QueryError(expected, line)
    if share is None and any(each for name, each in inner.args.items() if name not in _ARGUMENTS):
        raise QueryError(f"{expected}, without a further one", line)
    condition = None if wanted is None else condition_of_pair(wanted, scope)
    if isinstance(inner, exp.GroupConcat):
        separator = str(value_of(inner.args.get("separator") or exp.Literal.string(","), scope))

    # the same with types
    if function.is_of_conditions:
        arguments = tuple(condition_of_pair(each, scope) for each in given)
    else:
        arguments = tuple(pair_expression(each, scope) for each in given)
    if function.of_intervals is not None and is_interval(arguments[0].type):
        function, given = function.of_intervals, [given[0], given[0]]
        arguments = (arguments[0], arguments[0])
    if len(arguments) > 1:
        arguments = (arguments[0], ordered(given[1], scope))
    kind = _result_type(function, arguments, text, line)
    keys = sort_keys(order, scope) if function.is_in_order else ()
    return Aggregate(function, arguments, kind, text, share, condition, keys, is_distinct, separator)


def _share(node: exp.Expression, scope: Scope) -> Fraction:
    value = value_of(node, scope)
    share = Fraction(str(value)) if isinstance(value, int | float) or hasattr(value, "as_tuple") else None
    if share is None or not 0 <= share <= 1:
        raise QueryError(f"'{sql_text(node)}': expected a quantile between 0 and 1", scope.line_of(node))
    return share


def _result_type(function: Function, arguments: Sequence[PairExpression], text: str, line: int) -> ColumnType:
    if function.types is None:
        return function.result(arguments[0].type if arguments else SEQ_TYPE)
    compared = arguments[-1]
    if function.is_compared:
        check_ranks(text, [(compared.text, compared.type)], line)
    if compared.type.name not in function.types and is_interval(compared.type):
        raise QueryError(f"'{text}' aggregates intervals: expected their microseconds, EPOCH_US({compared.text})", line)
    if compared.type.name not in function.types:
        raise QueryError(f"'{text}' aggregates a {compared.type}: expected {listed(function.types)}", line)
    return function.result(arguments[0].type)
