"""The best partners of a left row: QUALIFY ROW_NUMBER() ..., and ASOF joins."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import SEQ, Best, PairExpression, SortKey, Use, quoted_column
from spojoin.query.computed import of_pair, uses_of
from spojoin.query.operands import text_of
from spojoin.query.scope import SEQ_TYPE, Scope
from spojoin.query.statement import Statement, bare

_COUNT_MAX = 2**31 - 1
_NEAREST: dict[type[exp.Expression], bool] = {exp.LT: False, exp.LTE: False, exp.GT: True, exp.GTE: True}


def read_best(statement: Statement, scope: Scope) -> Best | None:
    """How many partners a left row keeps, and by which order; None where it keeps all. Raises QueryError."""
    if statement.is_asof and statement.qualify is not None:
        raise QueryError("ASOF keeps one partner: expected no QUALIFY beside it", scope.line_of(statement.qualify))
    if statement.is_asof:
        return _asof(statement, scope)
    return None if statement.qualify is None else _qualified(statement.qualify.this, scope)


def _asof(statement: Statement, scope: Scope) -> Best:
    """The partner whose value is nearest in the first inequality; of equal ones the last that came."""
    for node in statement.conjuncts:
        if type(node) not in _NEAREST:
            continue
        sides = [{use.side for use in uses_of(part, scope)} for part in (node.this, node.expression)]
        if sides == [{0}, {1}]:
            return _nearest(node.expression, scope, is_descending=_NEAREST[type(node)])
        if sides == [{1}, {0}]:
            return _nearest(node.this, scope, is_descending=not _NEAREST[type(node)])
    left, right = scope.aliases
    raise QueryError(
        f"ASOF JOIN has no inequality that says which row is nearest: expected one such as {left}.at >= {right}.at",
        statement.right.line,
    )


def _nearest(node: exp.Expression, scope: Scope, *, is_descending: bool) -> Best:
    return Best(1, (SortKey(of_pair(node, scope), is_descending, nulls_first=False), _by_number(is_descending=True)))


def _by_number(*, is_descending: bool) -> SortKey:
    use = Use(1, SEQ, SEQ_TYPE, is_number=True)
    number = PairExpression(quoted_column(use), (use,), SEQ_TYPE, SEQ)
    return SortKey(number, is_descending, nulls_first=False)


def _qualified(node: exp.Expression, scope: Scope) -> Best:
    node = bare(node)
    count, window = _bound(node), bare(node.this) if isinstance(node.this, exp.Expression) else None
    if not 1 <= count <= _COUNT_MAX or not isinstance(window, exp.Window):
        raise _refused(node, scope)
    order = window.args.get("order")
    if not isinstance(window.this, exp.RowNumber) or order is None or not _is_by_left_row(window, scope):
        raise _refused(node, scope)
    keys = sort_keys(order.expressions, scope)
    return Best(count, (*keys, _by_number(is_descending=False)))


def sort_keys(order: Sequence[exp.Expression], scope: Scope) -> tuple[SortKey, ...]:
    """What ORDER BY orders partners by."""
    return tuple(
        SortKey(of_pair(each.this, scope), bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for each in order
    )


def _bound(node: exp.Expression) -> int:
    """How many rows `... <= 3`, `... < 4` or `... = 1` keep; 0 where it is none of these."""
    bound = bare(node.expression) if isinstance(node, exp.LTE | exp.LT | exp.EQ) else None
    count = int(bound.name) if isinstance(bound, exp.Literal) and bound.name.isdecimal() else 0
    if isinstance(node, exp.EQ):
        return count if count == 1 else 0
    return count - isinstance(node, exp.LT)


def _is_by_left_row(window: exp.Window, scope: Scope) -> bool:
    by = window.args.get("partition_by") or []
    return len(by) == 1 and scope.is_left_row(by[0])


def _refused(node: exp.Expression, scope: Scope) -> QueryError:
    left, right = scope.aliases
    return QueryError(
        f"QUALIFY '{text_of(node)}': expected ROW_NUMBER() OVER (PARTITION BY {left} ORDER BY {right}.a) <= 3",
        scope.line_of(node),
    )
