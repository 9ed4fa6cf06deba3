"""Sorts a statement's conditions by where they are evaluated, and reads its window.

A condition on one side's columns is a filter of that side's rows. A comparison of one side's expression with the
other's is an index condition. Any other condition on pairs is a residual condition. In an interval join, the windows
express the bounds on event times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.expressions.types import duckdb_type
from spojoin.model import (
    OPERATORS,
    ColumnType,
    Computed,
    Constant,
    Domain,
    Filter,
    JoinKind,
    KeyColumn,
    Op,
    PairExpression,
    Predicate,
    TypeName,
)
from spojoin.query.comparable import NotIndexed
from spojoin.query.computed import (
    condition_of_pair,
    condition_of_side,
    is_of_left_rows,
    side_expression,
    uses_of,
    value_of,
)
from spojoin.query.differences import implied_comparisons
from spojoin.query.interval import Bound, TimeColumn, interval_of, time_bound
from spojoin.query.nodes import DIALECT, NODE_OF_OP, OP_OF_NODE, bare, sql_text
from spojoin.query.places import Correctable
from spojoin.query.predicates import (
    KeyTable,
    build_predicate,
    coarser_comparisons,
    exact_where_doubles_tie,
    is_by_prefixes,
    is_comparison,
)
from spojoin.query.scope import Scope
from spojoin.query.statement import Statement
from spojoin.windows import Window


@dataclass(frozen=True, slots=True)
class Condition:
    """The conditions by where they are evaluated.

    keys: the key columns of one stream (self join) or two; filters: the filters of the left and of the right side
    """

    predicates: tuple[Predicate, ...]
    keys: tuple[list[KeyColumn], ...]
    window: Window
    filters: tuple[Filter | None, Filter | None] = (None, None)
    residuals: tuple[PairExpression, ...] = ()


#: Up to this many ranges, a search takes logarithmic time; the order of texts isn't added as a further one.
_RANGES_FEW = 2


@dataclass(slots=True)
class _SortedConjuncts:
    """The conjuncts by where they are evaluated: in the index, for each pair, or as filters of the sides.

    bounds: comparisons that index conditions imply, used only for the interval of event times
    texts: residual conditions on the order of texts; an index on prefixes narrows down their pairs
    """

    index: list[exp.Expression] = field(default_factory=list)
    bounds: list[exp.Expression] = field(default_factory=list)
    texts: list[exp.Expression] = field(default_factory=list)
    residual: list[exp.Expression] = field(default_factory=list)
    sides: tuple[list[exp.Expression], list[exp.Expression]] = field(default_factory=lambda: ([], []))


def read_condition(
    statement: Statement, scope: Scope, window: Window | None, line: int, *, asks: bool = False
) -> Condition:
    """The conditions and the window of a statement; without a window clause, the conditions must bound event times.

    line: for errors; asks: whether left rows ask, and therefore form their own stream. Raises QueryError.
    """
    parts = _sorted_conjuncts(statement.conjuncts, scope)
    # if all rows of a side are in the results, its conditions in ON don't filter these rows: they choose among pairs
    for side in parts.sides[: _SIDES_WITH_ALL_ROWS.get(statement.join.kind, 0)]:
        parts.residual += side
        side.clear()
    parts.sides[0].extend(_filters_in_where(statement, scope))
    if not parts.index and not (window and window.holds_all):
        raise _without_index(statement, parts, scope)
    filters = _filter(parts.sides[0], scope), _filter(parts.sides[1], scope)
    residuals = tuple(condition_of_pair(node, scope) for node in parts.residual)
    condition = _indexed(parts, scope, filters, window, line, is_apart=asks)
    if statement.join.kind is JoinKind.FULL or not parts.index:
        condition = _with_mark_of_void_rows(condition)
    return replace(condition, filters=filters, residuals=residuals)


#: How many sides have rows in the results even if ON isn't true for them: the left side, or both.
_SIDES_WITH_ALL_ROWS = {JoinKind.LEFT: 1, JoinKind.ANTI: 1, JoinKind.FULL: 2}


def _with_mark_of_void_rows(condition: Condition) -> Condition:
    """The conditions and one more, which is false if a key of either row is NULL, and otherwise true.

    If both sides ask, rows with such a NULL are searched too, and their codes mean nothing. If there is no index
    condition, the added one finds all pairs.
    """
    left, right = condition.keys
    equal = Predicate(Op.EQ, len(left), len(right), Domain.INTEGER, 0, "neither row is void")
    mark = KeyColumn(Constant(Fraction(0)), Domain.INTEGER, 0, "whether it is void", marks_void=True)
    return replace(condition, predicates=(*condition.predicates, equal), keys=([*left, mark], [*right, mark]))


def _filters_in_where(statement: Statement, scope: Scope) -> list[exp.Expression]:
    """The conditions of WHERE that filter the left rows of an outer, SEMI or ANTI JOIN. QueryError for others."""
    if statement.join.outer_span is not None and (join := _less_outer(statement, scope)) is not None:
        message = f"WHERE removes the rows that {statement.join.kind.upper()} JOIN adds: expected {join}"
        edits = [(*statement.join.outer_span, join.removesuffix(" JOIN") if join != "JOIN" else "INNER")]
        raise Correctable(message, scope.line_of(statement.kept[0]), edits)
    if statement.join.kind is JoinKind.FULL and statement.kept:
        raise _filtered_full(statement, scope)
    for node in statement.kept:
        uses = uses_of(node, scope)
        if not uses:
            _check_true(node, scope)
        elif not statement.join.is_asof and any(use.side == 1 or use.is_number for use in uses):
            left, right = scope.aliases
            if _is_of_rows_without(node, statement, scope):
                message = f"an ANTI JOIN gives the rows of {left} that have no partner: expected it, without WHERE"
                raise Correctable(message, scope.line_of(node), statement.join.anti_edits)
            raise QueryError(
                f"'{sql_text(node)}' in WHERE names more than {left}'s columns, and only these choose the rows of a "
                f"{statement.join.kind.upper()} JOIN: move conditions on {right} into ON; for rows without a partner, "
                "write ANTI JOIN",
                scope.line_of(node),
            )
    return [node for node in statement.kept if is_of_left_rows(node, scope)]


def _is_of_rows_without(node: exp.Expression, statement: Statement, scope: Scope) -> bool:
    """Whether WHERE r.x IS NULL chooses left rows without a partner: ON compares r.x, so no partner has NULL there."""
    if not statement.join.anti_edits or not isinstance(node.this, exp.Column):
        return False
    compared = [use for each in statement.conjuncts for use in uses_of(each, scope) if is_comparison(each, scope)]
    listed = [column for each in statement.columns for column in each.find_all(exp.Column, exp.Star)]
    is_left = all(
        (isinstance(each, exp.Column) and each.table == scope.aliases[0]) or _is_within(each) for each in listed
    )
    return set(uses_of(node, scope)) <= set(compared) and is_left


def _is_within(node: exp.Expression) -> bool:
    """Whether a star belongs to l.*, which sqlglot reads as a column."""
    return isinstance(node, exp.Star) and isinstance(node.parent, exp.Column)


def _less_outer(statement: Statement, scope: Scope) -> str | None:
    """The simpler join with the same results, if WHERE is never true for a row in which a whole side is NULL."""
    needs = {side for node in statement.kept for side in _sides_needed(node, scope)}
    if statement.join.kind is JoinKind.FULL:
        return {(0,): "LEFT JOIN", (1,): "RIGHT JOIN", (0, 1): "JOIN"}.get(tuple(sorted(needs)))
    return "JOIN" if 1 in needs else None


def _sides_needed(node: exp.Expression, scope: Scope) -> set[int]:
    """The side that a condition names, if it names only one and isn't true for NULLs; otherwise empty."""
    sides = {use.side for use in uses_of(node, scope)}
    if len(sides) != 1 or any(use.is_number for use in uses_of(node, scope)):
        return set()
    nulls = node.copy().transform(lambda each: exp.Null() if isinstance(each, exp.Column) else each)
    return set() if value_of(nulls, scope) is True else sides


def _filtered_full(statement: Statement, scope: Scope) -> QueryError:
    node, (left, right) = statement.kept[0], scope.aliases
    return QueryError(
        f"'{sql_text(node)}' in WHERE would remove rows with NULLs, which a FULL JOIN adds: expected conditions on "
        f"partners in ON; LEFT JOIN keeps only {left}'s rows without a partner, RIGHT JOIN only {right}'s",
        scope.line_of(node),
    )


def _sorted_conjuncts(conjuncts: Sequence[exp.Expression], scope: Scope) -> _SortedConjuncts:
    parts = _SortedConjuncts()
    for node in (part for conjunct in conjuncts for part in null_safe_equalities(without_not(conjunct), scope)):
        uses = uses_of(node, scope)
        sides = {use.side for use in uses}
        if not sides:
            _check_true(node, scope)
        elif len(sides) == 1 and not any(use.is_number for use in uses):
            parts.sides[min(sides)].append(node)
        else:
            _sort_condition_on_both(node, parts, scope)
    parts.index += parts.texts[: max(_RANGES_FEW - sum(not isinstance(each, exp.EQ) for each in parts.index), 0)]
    return parts


def _sort_condition_on_both(node: exp.Expression, parts: _SortedConjuncts, scope: Scope) -> None:
    """Add a condition on both sides to the index if it, or an implied condition, fits there; otherwise as residual."""
    implied = implied_comparisons(node, scope)
    indexable = [comparison for comparison in implied.conditions if _as_indexed(comparison, scope) is not None]
    indexed = _as_indexed(node, scope)
    if indexed is not None:
        is_wider = is_by_prefixes(*indexed, scope)
        (parts.texts if is_wider else parts.index).append(node)
        parts.residual += [node] if is_wider else []
        parts.bounds += indexable
        return
    coarser = [] if indexable else _coarser(node, scope)
    parts.index += indexable + coarser
    if not implied.is_exact or len(indexable) < len(implied.conditions):
        parts.residual.append(exact_where_doubles_tie(node, scope) if coarser else node)


def _coarser(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """Index conditions that narrow down the pairs of a residual comparison; empty for other conditions."""
    if not is_comparison(node, scope) or any(use.is_number for use in uses_of(node, scope)):
        return []
    return coarser_comparisons(node, scope)


def _as_indexed(node: exp.Expression, scope: Scope) -> tuple[Predicate, KeyColumn] | None:
    """The predicate and the left key column of a comparison that an index answers; None for others."""
    if not is_comparison(node, scope) or any(use.is_number for use in uses_of(node, scope)):
        return None
    keys = KeyTable(([], []))
    try:
        predicate = build_predicate(node, scope, keys)
    except NotIndexed:
        return None
    return predicate, keys.columns[0][predicate.left_slot]


_OPPOSITES: dict[type[exp.Expression], type[exp.Expression]] = {
    **{
        node: NODE_OF_OP[opposite] for node, op in OP_OF_NODE.items() if (opposite := OPERATORS[op].negated) is not None
    },
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}


def without_not(node: exp.Expression) -> exp.Expression:
    """The condition with NOT a < b rewritten as a >= b, which is NULL for the same values."""
    inner = bare(node.this) if isinstance(node, exp.Not) else None
    if inner is None or type(inner) not in _OPPOSITES or isinstance(inner.this, exp.Abs):
        return node
    return _OPPOSITES[type(inner)](this=inner.this.copy(), expression=inner.expression.copy())


def _check_true(node: exp.Expression, scope: Scope) -> None:
    if value_of(node, scope) is not True:
        raise QueryError(
            f"condition '{sql_text(node)}' names no column and isn't true, so no rows can ever match: remove it",
            scope.line_of(node),
        )


class NotIndexable(QueryError):
    """No condition can be evaluated in an index, but an index must find the pairs that other conditions filter."""


def _without_index(statement: Statement, parts: _SortedConjuncts, scope: Scope) -> NotIndexable:
    left, right = scope.aliases
    expected = (
        f"expected a comparison of an expression of {left} with one of {right}, such as {left}.a < {right}.a or "
        f"ABS({left}.a - {right}.a) < 5, joined to others by AND"
    )
    first = (parts.residual or statement.conjuncts)[0]
    if parts.residual:
        why = "can only filter pairs that an index finds, and no other condition is for an index"
        return NotIndexable(f"'{sql_text(first)}' {why}: {expected}", scope.line_of(first))
    sides = [side for side in (0, 1) if parts.sides[side]]
    named = f"only {scope.aliases[sides[0]]}" if len(sides) == 1 else "one side" if sides else "no column"
    return NotIndexable(
        f"no condition compares both sides, '{sql_text(first)}' names {named}: {expected}", scope.line_of(first)
    )


#: Up to this many conditions of a side are checked one by one, so that an error has its line; more, several at a time.
_CONDITIONS_MAX = 100


def _filter(conjuncts: Sequence[exp.Expression], scope: Scope) -> Filter | None:
    """One side's conditions as one filter."""
    if not conjuncts:
        return None
    size = -(-len(conjuncts) // _CONDITIONS_MAX)
    together = [conjuncts[start : start + size] for start in range(0, len(conjuncts), size)]
    checked = [condition_of_side(cast("exp.Expression", exp.and_(*nodes, copy=False)), scope) for nodes in together]
    names = tuple(dict.fromkeys(name for each in checked for name in each.columns))
    sql = " AND ".join(f"({each.sql})" for each in checked) if len(checked) > 1 else checked[0].sql
    return Filter(Computed(sql, names, checked[0].type), " AND ".join(sql_text(node) for node in conjuncts))


def _indexed(
    parts: _SortedConjuncts,
    scope: Scope,
    filters: tuple[Filter | None, Filter | None],
    window: Window | None,
    line: int,
    *,
    is_apart: bool,
) -> Condition:
    """The condition with its predicates, and the window, which they or the statement's clause define."""
    nodes = parts.index
    predicates, keys = _predicates(nodes, scope, filters, is_apart=is_apart)
    if window is not None:
        return Condition(predicates, keys, window)
    bounds = [_time_bound(p, keys, scope) for p in predicates]
    further, their_keys = _predicates(parts.bounds, scope, filters, is_apart=is_apart)
    known = (*bounds, *(_time_bound(p, their_keys, scope) for p in further))
    interval = interval_of((b for b in known if b is not None), line, scope.streams[1])
    if interval.is_exact(is_self=len(keys) == 1) and None in bounds:
        held = tuple(p.text for p, b in zip(predicates, bounds, strict=True) if b is not None)
        rest = [node for node, b in zip(nodes, bounds, strict=True) if b is None]
        predicates, keys = _predicates(rest, scope, filters, is_apart=len(keys) == len(scope.streams))
        interval = replace(interval, held=held)
    return Condition(predicates, keys, interval)


def _predicates(
    nodes: Sequence[exp.Expression],
    scope: Scope,
    filters: tuple[Filter | None, Filter | None],
    *,
    is_apart: bool = False,
) -> tuple[tuple[Predicate, ...], tuple[list[KeyColumn], ...]]:
    """The predicates and each stream's key columns; a self join has one stream if both sides need the same columns.

    is_apart: whether the sides are two streams in any case, as when their windows differ
    """
    if not is_apart and scope.is_self and _condition_of(filters[0]) == _condition_of(filters[1]):
        shared = KeyTable(([],))
        predicates = tuple(build_predicate(node, scope, shared) for node in nodes)
        bands = [p for p in predicates if p.op.is_band]  # which treat a NaN like NULL
        if all({p.left_slot for p in some} == {p.right_slot for p in some} for some in (predicates, bands)):
            return predicates, shared.columns
    apart = KeyTable(([], []))
    return tuple(build_predicate(node, scope, apart) for node in nodes), apart.columns


def _condition_of(one: Filter | None) -> str | None:
    return None if one is None else one.condition.sql


def _time_bound(predicate: Predicate, keys: tuple[list[KeyColumn], ...], scope: Scope) -> Bound | None:
    left, right = keys[0][predicate.left_slot], keys[-1][predicate.right_slot]
    return time_bound(predicate, left, right, [_time_column(scope, side) for side in (0, 1)])


def _time_column(scope: Scope, side: int) -> TimeColumn:
    name = scope.times[side]
    declared = scope.schemas[side].get(name) if name is not None else None
    return TimeColumn(name, declared.name if declared is not None else None)


#: A value of each type that stands for NULL; the second equality distinguishes it from NULL.
_FOR_NULL = {
    TypeName.DATE: "1970-01-01",
    TypeName.TIMESTAMP: "1970-01-01",
    TypeName.STRING: "",
    TypeName.BINARY: "",
    TypeName.BOOLEAN: "false",
    TypeName.UUID: "00000000-0000-0000-0000-000000000000",
}


def null_safe_equalities(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """`a IS NOT DISTINCT FROM b` as two equalities: of values, with a constant for NULL, and of being NULL.

    Other conditions, and comparisons within one side, are returned unchanged.
    """
    if not isinstance(node, exp.NullSafeEQ):
        return [node]
    parts = node.this, node.expression
    if [len({use.side for use in uses_of(part, scope)}) for part in parts] != [1, 1]:
        return [node]
    filled = [_filled(part, side_expression(part, scope).type) for part in parts]
    nulls = [exp.paren(exp.Is(this=part.copy(), expression=exp.Null())) for part in parts]
    return [exp.EQ(this=a, expression=b) for a, b in (filled, nulls)]


def _filled(node: exp.Expression, kind: ColumnType) -> exp.Expression:
    value = exp.Literal.string(_FOR_NULL.get(kind.name, "0"))
    target = exp.DataType.build(duckdb_type(kind), dialect=DIALECT)
    return exp.Coalesce(this=node.copy(), expressions=[exp.Cast(this=value, to=target)])
