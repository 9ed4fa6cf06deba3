"""A statement's conditions, each at the place of the flow where it is evaluated, and its window.

A condition on one side's columns filters that side's rows. A comparison of one side's expression with the other's is
part of the index. Whatever else is true or false of a pair is a residual condition. In an interval join, the windows
express bounds on event times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import (
    ALL_ROWS,
    WHOLE_TABLE,
    Computed,
    Constant,
    Domain,
    Filter,
    Interval,
    JoinKind,
    KeyColumn,
    Op,
    PairExpression,
    Predicate,
    Window,
)
from spojoin.query.comparable import NotIndexed
from spojoin.query.computed import condition_of_pair, condition_of_side, is_of_left_rows, uses_of, value_of
from spojoin.query.differences import implied
from spojoin.query.interval import Bound, TimeColumn, interval_of, is_held, time_bound, window_of
from spojoin.query.mended import Mended
from spojoin.query.null_safe import null_safe
from spojoin.query.operands import text_of
from spojoin.query.predicates import KeyTable, build_predicate, coarser, decided, is_by_prefixes, is_comparison
from spojoin.query.scope import Scope
from spojoin.query.statement import Statement, bare


@dataclass(frozen=True, slots=True)
class Condition:
    """What a pair must satisfy. keys: the key columns of one stream (self join) or two; `interval` as in `Query`.

    filters: of the left and of the right side
    """

    predicates: tuple[Predicate, ...]
    keys: tuple[list[KeyColumn], ...]
    window: Window
    interval: Interval | None
    filters: tuple[Filter | None, Filter | None] = (None, None)
    residuals: tuple[PairExpression, ...] = ()


#: Ranges with which a search takes logarithmic time: the order of texts isn't worth more of them.
_RANGES_FEW = 2


@dataclass(slots=True)
class _Sorted:
    """The conjuncts by where they are evaluated.

    bounds: what those of the index imply, which no index evaluates
    texts: residual ones that compare the order of texts, which an index narrows down by how these begin
    """

    index: list[exp.Expression] = field(default_factory=list)
    bounds: list[exp.Expression] = field(default_factory=list)
    texts: list[exp.Expression] = field(default_factory=list)
    residual: list[exp.Expression] = field(default_factory=list)
    sides: tuple[list[exp.Expression], list[exp.Expression]] = field(default_factory=lambda: ([], []))


def read_condition(
    statement: Statement, scope: Scope, window: Window | None, line: int, *, asks: bool = False
) -> Condition:
    """The condition of a statement; where it has no window clause, event times must bound it; `line` is the error's.

    asks: whether left rows ask, which are a stream of their own then
    """
    parts = _sorted(statement.conjuncts, scope)
    for own in parts.sides[: _SIDES_GIVEN_BACK.get(statement.join, 0)]:
        parts.residual += own
        own.clear()
    parts.sides[0].extend(_kept(statement, scope))
    if not parts.index and window not in (ALL_ROWS, WHOLE_TABLE):
        raise _without_index(statement, parts, scope)
    filters = _filter(parts.sides[0], scope), _filter(parts.sides[1], scope)
    residuals = tuple(condition_of_pair(node, scope) for node in parts.residual)
    found = _indexed(parts, scope, filters, window, line, is_apart=asks)
    if statement.join is JoinKind.FULL or not parts.index:
        found = _void_marked(found)
    return replace(found, filters=filters, residuals=residuals)


#: How many sides' rows are given back though ON isn't true of them: the left side's, or both.
_SIDES_GIVEN_BACK = {JoinKind.LEFT: 1, JoinKind.ANTI: 1, JoinKind.FULL: 2}
_MARK = "neither row is void"


def _void_marked(found: Condition) -> Condition:
    """The condition with one more that is false where an index condition is NULL of either row, and else true.

    Where both sides ask, such rows stand among those that are searched, with codes that mean nothing. Without any index
    condition all pairs are found by this one.
    """
    left, right = found.keys
    equal = Predicate(Op.EQ, len(left), len(right), Domain.INTEGER, 0, _MARK)
    mark = KeyColumn(Constant(Fraction(0)), Domain.INTEGER, 0, "whether it is void", marks_void=True)
    return replace(found, predicates=(*found.predicates, equal), keys=([*left, mark], [*right, mark]))


def _kept(statement: Statement, scope: Scope) -> list[exp.Expression]:
    """The conditions of WHERE on left rows, which an outer, SEMI or ANTI JOIN keeps. Raises QueryError for others."""
    if statement.outer is not None and (join := _less_outer(statement, scope)) is not None:
        message = f"WHERE takes away the rows that {statement.join.upper()} JOIN gives back: expected {join}"
        edits = [(*statement.outer, join.removesuffix(" JOIN") if join != "JOIN" else "INNER")]
        raise Mended(message, scope.line_of(statement.kept[0]), edits)
    if statement.join is JoinKind.FULL and statement.kept:
        raise _filtered_full(statement, scope)
    for node in statement.kept:
        uses = uses_of(node, scope)
        if not uses:
            _check_true(node, scope)
        elif not statement.is_asof and any(use.side == 1 or use.is_number for use in uses):
            left, right = scope.aliases
            if _is_of_rows_without(node, statement, scope):
                message = f"{left}'s rows without a partner are those of an ANTI JOIN: expected it without WHERE"
                raise Mended(message, scope.line_of(node), statement.as_anti)
            raise QueryError(
                f"'{text_of(node)}' in WHERE isn't about {left}'s columns alone: {statement.join.upper()} JOIN is "
                f"filtered by those; put conditions on {right} into ON, and for rows without partners say ANTI JOIN",
                scope.line_of(node),
            )
    return [node for node in statement.kept if is_of_left_rows(node, scope)]


def _is_of_rows_without(node: exp.Expression, statement: Statement, scope: Scope) -> bool:
    """Whether WHERE r.x IS NULL means left rows without a partner: ON compares r.x, so that no partner lacks it."""
    if not statement.as_anti or not isinstance(node.this, exp.Column):
        return False
    compared = [use for each in statement.conjuncts for use in uses_of(each, scope) if is_comparison(each, scope)]
    listed = [column for each in statement.columns for column in each.find_all(exp.Column, exp.Star)]
    is_left = all(
        (isinstance(each, exp.Column) and each.table == scope.aliases[0]) or _is_within(each) for each in listed
    )
    return set(uses_of(node, scope)) <= set(compared) and is_left


def _is_within(node: exp.Expression) -> bool:
    """Whether a star is that of l.*, which is a column of its own."""
    return isinstance(node, exp.Star) and isinstance(node.parent, exp.Column)


def _less_outer(statement: Statement, scope: Scope) -> str | None:
    """The join that gives the same, where WHERE is true of no row that has NULL in place of a side."""
    needs = {side for node in statement.kept for side in _sides_needed(node, scope)}
    if statement.join is JoinKind.FULL:
        return {(0,): "LEFT JOIN", (1,): "RIGHT JOIN", (0, 1): "JOIN"}.get(tuple(sorted(needs)))
    return "JOIN" if 1 in needs else None


def _sides_needed(node: exp.Expression, scope: Scope) -> set[int]:
    """The one side that a condition names, where it isn't true of NULLs."""
    sides = {use.side for use in uses_of(node, scope)}
    if len(sides) != 1 or any(use.is_number for use in uses_of(node, scope)):
        return set()
    nulls = node.copy().transform(lambda each: exp.Null() if isinstance(each, exp.Column) else each)
    return set() if value_of(nulls, scope) is True else sides


def _filtered_full(statement: Statement, scope: Scope) -> QueryError:
    node, (left, right) = statement.kept[0], scope.aliases
    return QueryError(
        f"'{text_of(node)}' in WHERE: a FULL JOIN gives back the rows of both sides, and WHERE would take away those "
        f"with NULLs: expected conditions on partners in ON; LEFT JOIN keeps {left}'s rows alone, RIGHT JOIN {right}'s",
        scope.line_of(node),
    )


def _sorted(conjuncts: Sequence[exp.Expression], scope: Scope) -> _Sorted:
    parts = _Sorted()
    for node in (each for one in conjuncts for each in null_safe(without_not(one), scope)):
        uses = uses_of(node, scope)
        sides = {use.side for use in uses}
        if not sides:
            _check_true(node, scope)
        elif len(sides) == 1 and not any(use.is_number for use in uses):
            parts.sides[min(sides)].append(node)
        else:
            _sort_of_both(node, parts, scope)
    parts.index += parts.texts[: max(_RANGES_FEW - sum(not isinstance(each, exp.EQ) for each in parts.index), 0)]
    return parts


def _sort_of_both(node: exp.Expression, parts: _Sorted, scope: Scope) -> None:
    """A condition on both sides: in the index as it stands, or what it is or implies there; else of each pair."""
    found = implied(node, scope)
    known = [each for each in found.conditions if _as_indexed(each, scope) is not None]
    indexed = _as_indexed(node, scope)
    if indexed is not None:
        is_wider = is_by_prefixes(*indexed, scope)
        (parts.texts if is_wider else parts.index).append(node)
        parts.residual += [node] if is_wider else []
        parts.bounds += known
        return
    nearly = [] if known else _coarser(node, scope)
    parts.index += known + nearly
    if not found.is_exact or len(known) < len(found.conditions):
        parts.residual.append(decided(node, scope) if nearly else node)


def _coarser(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """Index conditions that find the pairs among which a residual condition chooses; none if it is no comparison."""
    if not is_comparison(node, scope) or any(use.is_number for use in uses_of(node, scope)):
        return []
    return coarser(node, scope)


def _as_indexed(node: exp.Expression, scope: Scope) -> tuple[Predicate, KeyColumn] | None:
    """A comparison that an index answers, as its predicate and the left side's key column; None for all else."""
    if not is_comparison(node, scope) or any(use.is_number for use in uses_of(node, scope)):
        return None
    keys = KeyTable(([], []))
    try:
        predicate = build_predicate(node, scope, keys)
    except NotIndexed:
        return None
    return predicate, keys.columns[0][predicate.left_slot]


_OPPOSITES: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}


def without_not(node: exp.Expression) -> exp.Expression:
    """NOT a < b as a >= b, which is NULL where the other is."""
    inner = bare(node.this) if isinstance(node, exp.Not) else None
    if inner is None or type(inner) not in _OPPOSITES or isinstance(inner.this, exp.Abs):
        return node
    return _OPPOSITES[type(inner)](this=inner.this.copy(), expression=inner.expression.copy())


def _check_true(node: exp.Expression, scope: Scope) -> None:
    if value_of(node, scope) is not True:
        raise QueryError(
            f"condition '{text_of(node)}' names no column and isn't true, so nothing could ever match: remove it",
            scope.line_of(node),
        )


class NotIndexable(QueryError):
    """No condition can be evaluated in an index, which would list the pairs among which the others choose."""


def _without_index(statement: Statement, parts: _Sorted, scope: Scope) -> NotIndexable:
    left, right = scope.aliases
    expected = (
        f"expected a comparison of an expression of {left} with one of {right}, such as {left}.a < {right}.a or "
        f"ABS({left}.a - {right}.a) < 5, joined to others by AND"
    )
    first = (parts.residual or statement.conjuncts)[0]
    if parts.residual:
        why = "can only filter pairs that an index finds, and no condition says which"
        return NotIndexable(f"'{text_of(first)}' {why}: {expected}", scope.line_of(first))
    sides = [side for side in (0, 1) if parts.sides[side]]
    named = f"only {scope.aliases[sides[0]]}" if len(sides) == 1 else "one side" if sides else "no column"
    return NotIndexable(
        f"no condition compares both sides, '{text_of(first)}' names {named}: {expected}", scope.line_of(first)
    )


#: A side's conditions are checked one by one, so that a mistake has its line; of more than these some together.
_CONDITIONS_MAX = 100


def _filter(conjuncts: Sequence[exp.Expression], scope: Scope) -> Filter | None:
    """One side's conditions as one, which is true where all are."""
    if not conjuncts:
        return None
    size = -(-len(conjuncts) // _CONDITIONS_MAX)
    together = [conjuncts[start : start + size] for start in range(0, len(conjuncts), size)]
    found = [condition_of_side(cast("exp.Expression", exp.and_(*nodes, copy=False)), scope) for nodes in together]
    names = tuple(dict.fromkeys(name for each in found for name in each.columns))
    sql = " AND ".join(f"({each.sql})" for each in found) if len(found) > 1 else found[0].sql
    return Filter(Computed(sql, names, found[0].type), " AND ".join(text_of(node) for node in conjuncts))


def _indexed(
    parts: _Sorted,
    scope: Scope,
    filters: tuple[Filter | None, Filter | None],
    window: Window | None,
    line: int,
    *,
    is_apart: bool,
) -> Condition:
    """The index conditions, and the window that they or the statement's clause give."""
    nodes = parts.index
    predicates, keys = _predicates(nodes, scope, filters, is_apart=is_apart)
    if window is not None:
        return Condition(predicates, keys, window, None)
    bounds = [_time_bound(p, keys, scope) for p in predicates]
    further, their_keys = _predicates(parts.bounds, scope, filters, is_apart=is_apart)
    known = (*bounds, *(_time_bound(p, their_keys, scope) for p in further))
    interval = interval_of((b for b in known if b is not None), line, scope.streams[1])
    if is_held(interval, len(keys) == 1) and None in bounds:
        held = tuple(p.text for p, b in zip(predicates, bounds, strict=True) if b is not None)
        rest = [node for node, b in zip(nodes, bounds, strict=True) if b is None]
        predicates, keys = _predicates(rest, scope, filters, is_apart=len(keys) == len(scope.streams))
        interval = replace(interval, held=held)
    return Condition(predicates, keys, window_of(interval), interval)


def _predicates(
    nodes: Sequence[exp.Expression],
    scope: Scope,
    filters: tuple[Filter | None, Filter | None],
    *,
    is_apart: bool = False,
) -> tuple[tuple[Predicate, ...], tuple[list[KeyColumn], ...]]:
    """The predicates and each stream's key columns; a self join is of one stream if its sides take the same of it.

    is_apart: whether the sides are two streams in any case, as their windows differ
    """
    if not is_apart and scope.is_self and _condition_of(filters[0]) == _condition_of(filters[1]):
        shared = KeyTable(([],))
        predicates = tuple(build_predicate(node, scope, shared) for node in nodes)
        bands = [p for p in predicates if p.op in (Op.BAND_LT, Op.BAND_LE)]  # for which a NaN is as NULL
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
