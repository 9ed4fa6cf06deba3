"""What a statement puts out: the select list, and where left rows ask, what is made of their partners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spojoin.errors import QueryError
from spojoin.model import Best, Grouped, JoinKind, PairExpression, Selected
from spojoin.query.grouping import has_aggregates, read_grouped
from spojoin.query.nearest import read_best, read_where
from spojoin.query.scope import Scope
from spojoin.query.selected import read_select
from spojoin.query.statement import Statement


@dataclass(frozen=True, slots=True)
class StatementAnswers:
    """The columns of results, and what they are made of."""

    select: tuple[Selected, ...] = ()
    grouped: Grouped | None = None
    best: Best | None = None
    where: PairExpression | None = None

    @property
    def expressions(self) -> Iterator[PairExpression]:
        """All expressions of both sides' columns."""
        yield from (each.expression for each in self.select)
        if self.grouped is not None:
            yield from (each for one in self.grouped.aggregates for each in one.needed)
            yield from [] if self.grouped.having is None else [self.grouped.having]
        if self.best is not None:
            yield from (key.expression for key in self.best.order)
        yield from [] if self.where is None else [self.where]


def read_answers(statement: Statement, scope: Scope) -> StatementAnswers:
    """What the select list, GROUP BY, HAVING, QUALIFY and the kind of join say. Raises QueryError."""
    _check_full(statement, scope)
    best = read_best(statement, scope)
    if not has_aggregates(statement):
        if statement.having is not None:
            raise QueryError(
                f"HAVING without aggregates: expected GROUP BY {scope.aliases[0]} before it, or the condition in WHERE",
                scope.line_of(statement.having),
            )
        is_of_left = statement.join in (JoinKind.SEMI, JoinKind.ANTI)
        sides = (0,) if is_of_left else (1, 0) if statement.is_turned else (0, 1)
        select = read_select(statement.columns, scope, sides=sides)
        if is_of_left:
            _check_left(select, statement, scope)
        return StatementAnswers(select, None, best, read_where(statement, scope))
    if best is not None or statement.join in (JoinKind.SEMI, JoinKind.ANTI):
        clause = statement.qualify or statement.group or statement.columns[0]
        raise QueryError(
            "aggregates are of all partners: expected no SEMI, ANTI or ASOF JOIN and no QUALIFY beside them",
            scope.line_of(clause),
        )
    grouped, select = read_grouped(statement, scope)
    return StatementAnswers(select, grouped)


def _check_full(statement: Statement, scope: Scope) -> None:
    """A FULL JOIN gives back rows of both sides, and no clause is of the left rows alone."""
    if statement.join is not JoinKind.FULL:
        return
    left, right = scope.aliases
    if statement.qualify is not None:
        raise QueryError(
            f"QUALIFY chooses among the partners of {left}'s rows, and a FULL JOIN gives back {right}'s rows as well: "
            "expected JOIN or LEFT JOIN",
            scope.line_of(statement.qualify),
        )
    if has_aggregates(statement):
        raise QueryError(
            f"aggregates are of the partners of {left}'s rows, and a FULL JOIN gives back {right}'s rows as well: "
            "expected LEFT JOIN",
            scope.line_of(statement.group or statement.columns[0]),
        )


def _check_left(select: tuple[Selected, ...], statement: Statement, scope: Scope) -> None:
    for each in select:
        if any(use.side == 1 for use in each.expression.uses):
            raise QueryError(
                f"'{each.expression.text}' names {scope.aliases[1]}: {statement.join.upper()} JOIN puts out left "
                "rows alone",
                scope.line_of(statement.columns[0]),
            )
