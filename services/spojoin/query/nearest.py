"""The best partners of a left row: QUALIFY ROW_NUMBER() ..., and ASOF joins."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import SEQ, Best, ColumnType, PairExpression, SortKey, Use, quoted_column
from spojoin.query.asof import distance, inequality
from spojoin.query.computed import condition_of_pair, is_of_left_rows, of_pair, uses_of
from spojoin.query.operands import text_of
from spojoin.query.scope import SEQ_TYPE, Scope
from spojoin.query.statement import Statement, bare
from spojoin.query.zones import check_ranks

_COUNT_MAX = 2**31 - 1


def read_best(statement: Statement, scope: Scope) -> Best | None:
    """How many partners a left row keeps, and by which order; None where it keeps all. Raises QueryError."""
    if statement.is_asof and statement.qualify is not None:
        raise QueryError("ASOF keeps one partner: expected no QUALIFY beside it", scope.line_of(statement.qualify))
    if statement.nearest is not None:
        return _asof(statement.nearest, scope)
    return None if statement.qualify is None else _qualified(statement.qualify.this, scope)


def _asof(nearest: exp.Expression, scope: Scope) -> Best:
    """The partner whose value is nearest; of equal ones the last that came, and on either side the first."""
    found = inequality(nearest, scope)
    if found is not None:
        by, ties = SortKey(of_pair(found.right, scope), found.is_from_above, nulls_first=False), True
    else:
        by, ties = SortKey(of_pair(distance(nearest, scope), scope), is_descending=False, nulls_first=False), False
    return Best(1, (by, _by_number(is_descending=ties)), nearest=text_of(nearest))


def read_where(statement: Statement, scope: Scope) -> PairExpression | None:
    """The conditions of an ASOF join's WHERE that choose among its pairs, once they are chosen."""
    kept = statement.kept if statement.is_asof else ()
    nodes = [node for node in kept if uses_of(node, scope) and not is_of_left_rows(node, scope)]
    if not nodes:
        return None
    both = functools.reduce(lambda one, other: exp.And(this=exp.paren(one), expression=exp.paren(other)), nodes)
    return condition_of_pair(both, scope)


def ordered(node: exp.Expression, scope: Scope) -> PairExpression:
    """An expression whose values have an order: an interval as the microseconds by which intervals are compared."""
    found = of_pair(node, scope)
    if is_interval(found.type):
        micros = exp.Anonymous(this="epoch_us", expressions=[node.copy()])
        return replace(of_pair(micros, scope), text=found.text)
    if isinstance(found.type.arrow, pa.DataType) and pa.types.is_nested(found.type.arrow):
        raise QueryError(
            f"'{found.text}' is of type {found.type}, which has no order: expected a number, text or a moment",
            scope.line_of(node),
        )
    return found


def is_interval(kind: ColumnType) -> bool:
    """Whether values are DuckDB's intervals."""
    return isinstance(kind.arrow, pa.DataType) and pa.types.is_interval(kind.arrow)


def _key(node: exp.Expression, scope: Scope) -> SortKey:
    found = ordered(node.this, scope)
    check_ranks(found.text, [(found.text, found.type)], scope.line_of(node))
    return SortKey(found, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _by_number(*, is_descending: bool) -> SortKey:
    use = Use(1, SEQ, SEQ_TYPE, is_number=True)
    number = PairExpression(quoted_column(use), (use,), SEQ_TYPE, SEQ)
    return SortKey(number, is_descending, nulls_first=False)


def _qualified(node: exp.Expression, scope: Scope) -> Best:
    node = bare(node)
    count, window = _bound(node), bare(node.this) if isinstance(node.this, exp.Expression) else None
    if not 1 <= count <= _COUNT_MAX or not isinstance(window, exp.Window):
        raise _refused(node, scope)
    order, has_ties = window.args.get("order"), isinstance(window.this, exp.Rank) and count == 1
    if not (isinstance(window.this, exp.RowNumber) or has_ties) or order is None or not _is_by_left_row(window, scope):
        raise _refused(node, scope)
    keys = sort_keys(order.expressions, scope)
    return Best(count, (*keys, _by_number(is_descending=False)), has_ties)


def sort_keys(order: Sequence[exp.Expression], scope: Scope) -> tuple[SortKey, ...]:
    """What ORDER BY orders partners by."""
    return tuple(_key(each, scope) for each in order)


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
        f"QUALIFY '{text_of(node)}': expected ROW_NUMBER() OVER (PARTITION BY {left} ORDER BY {right}.a) <= 3, or, "
        "to keep all ties of the first, RANK() OVER ... = 1",
        scope.line_of(node),
    )
