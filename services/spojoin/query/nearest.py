"""Reads which partners a left row keeps: the nearest one in an ASOF join, or the best by QUALIFY ROW_NUMBER() ..."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import MOMENTS, SEQ, Best, ColumnType, PairExpression, SortKey, Use, quoted_column
from spojoin.query.comparable import check_ranks
from spojoin.query.computed import condition_of_pair, is_of_left_rows, pair_expression, uses_of
from spojoin.query.conditions import without_not
from spojoin.query.differences import NOTHING, implied_comparisons
from spojoin.query.nodes import bare, sql_text, written
from spojoin.query.scope import SEQ_TYPE, Scope
from spojoin.query.statement import Statement

_COUNT_MAX = 2**31 - 1


def read_best(statement: Statement, scope: Scope) -> Best | None:
    """How many partners a left row keeps, and in which order; None if it keeps all. Raises QueryError."""
    if statement.join.is_asof and statement.qualify is not None:
        raise QueryError(
            "an ASOF JOIN keeps one partner: expected no QUALIFY beside it", scope.line_of(statement.qualify)
        )
    if statement.nearest is not None:
        return _nearest_only(statement.nearest, scope)
    return None if statement.qualify is None else _best_by_qualify(statement.qualify.this, scope)


def _nearest_only(nearest: exp.Expression, scope: Scope) -> Best:
    """The partner with the nearest value; if several are equal, the last to come, or the first if both sides search."""
    found = inequality(nearest, scope)
    if found is not None:
        by, ties = SortKey(pair_expression(found.right, scope), found.is_from_above, nulls_first=False), True
    else:
        by, ties = (
            SortKey(pair_expression(distance(nearest, scope), scope), is_descending=False, nulls_first=False),
            False,
        )
    return Best(1, (by, _by_number(is_descending=ties)), nearest=sql_text(nearest))


def read_where(statement: Statement, scope: Scope) -> PairExpression | None:
    """The conditions in WHERE that filter the pairs of an ASOF join after the nearest partners are chosen."""
    kept = statement.kept if statement.join.is_asof else ()
    nodes = [node for node in kept if uses_of(node, scope) and not is_of_left_rows(node, scope)]
    if not nodes:
        return None
    both = functools.reduce(lambda one, other: exp.And(this=exp.paren(one), expression=exp.paren(other)), nodes)
    return condition_of_pair(both, scope)


def ordered(node: exp.Expression, scope: Scope) -> PairExpression:
    """An expression whose values have an order; intervals become the microseconds by which they are compared."""
    found = pair_expression(node, scope)
    if is_interval(found.type):
        micros = exp.Anonymous(this="epoch_us", expressions=[node.copy()])
        return replace(pair_expression(micros, scope), text=found.text)
    if isinstance(found.type.arrow, pa.DataType) and pa.types.is_nested(found.type.arrow):
        raise QueryError(
            f"'{found.text}' is of type {found.type}, which has no order: expected a number, a text or a moment",
            scope.line_of(node),
        )
    return found


def is_interval(kind: ColumnType) -> bool:
    """Whether values of a type are DuckDB's intervals."""
    return isinstance(kind.arrow, pa.DataType) and pa.types.is_interval(kind.arrow)


def _sort_key(node: exp.Expression, scope: Scope) -> SortKey:
    found = ordered(node.this, scope)
    check_ranks(found.text, [(found.text, found.type)], scope.line_of(node))
    return SortKey(found, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _by_number(*, is_descending: bool) -> SortKey:
    use = Use(1, SEQ, SEQ_TYPE, is_number=True)
    number = PairExpression(quoted_column(use), (use,), SEQ_TYPE, SEQ)
    return SortKey(number, is_descending, nulls_first=False)


def _best_by_qualify(node: exp.Expression, scope: Scope) -> Best:
    node = bare(node)
    count, window = _kept_count(node), bare(node.this) if isinstance(node.this, exp.Expression) else None
    if not 1 <= count <= _COUNT_MAX or not isinstance(window, exp.Window):
        raise _not_understood(node, scope)
    order, has_ties = window.args.get("order"), isinstance(window.this, exp.Rank) and count == 1
    if not (isinstance(window.this, exp.RowNumber) or has_ties) or order is None or not _is_by_left_row(window, scope):
        raise _not_understood(node, scope)
    keys = sort_keys(order.expressions, scope)
    return Best(count, (*keys, _by_number(is_descending=False)), has_ties)


def sort_keys(order: Sequence[exp.Expression], scope: Scope) -> tuple[SortKey, ...]:
    """The keys by which ORDER BY orders partners."""
    return tuple(_sort_key(each, scope) for each in order)


def _kept_count(node: exp.Expression) -> int:
    """How many rows `... <= 3`, `... < 4` or `... = 1` keep; 0 for other conditions."""
    bound = bare(node.expression) if isinstance(node, exp.LTE | exp.LT | exp.EQ) else None
    count = int(bound.name) if isinstance(bound, exp.Literal) and bound.name.isdecimal() else 0
    if isinstance(node, exp.EQ):
        return count if count == 1 else 0
    return count - isinstance(node, exp.LT)


def _is_by_left_row(window: exp.Window, scope: Scope) -> bool:
    by = window.args.get("partition_by") or []
    return len(by) == 1 and scope.is_left_row(by[0])


def _not_understood(node: exp.Expression, scope: Scope) -> QueryError:
    left, right = scope.aliases
    return QueryError(
        f"QUALIFY '{sql_text(node)}': expected ROW_NUMBER() OVER (PARTITION BY {left} ORDER BY {right}.a) <= 3, or, "
        "to keep all ties of the first, RANK() OVER ... = 1",
        scope.line_of(node),
    )


_FROM_ABOVE: dict[type[exp.Expression], bool] = {exp.LT: False, exp.LTE: False, exp.GT: True, exp.GTE: True}


@dataclass(frozen=True, slots=True)
class Inequality:
    """An inequality between a left expression and a right one.

    is_from_above: whether the right value is at most the left one, so that the greatest is the nearest
    cores: both expressions without added terms that name no column; axis: their text, the same for each spelling
    """

    node: exp.Expression
    left: exp.Expression
    right: exp.Expression
    is_from_above: bool
    cores: tuple[exp.Expression, exp.Expression]
    axis: tuple[str, str]

    @property
    def has_offset(self) -> bool:
        """Whether a term without columns is added to either expression."""
        return self.cores[0] is not self.left or self.cores[1] is not self.right


def with_nearest(statement: Statement, scope: Scope) -> Statement:
    """The statement with the condition that defines the nearest row of its ASOF join, and with the tolerance.

    Raises QueryError if no condition defines it, or more than one may.
    """
    if statement.asof is None:
        return statement
    match, conjuncts = statement.asof.match, list(statement.conjuncts)
    nearest = _nearest_condition(statement, scope) if match is None else bare(match)
    if match is not None:
        if inequality(nearest, scope) is None and not is_distance(nearest, scope):
            raise _no_comparison(match, scope)
        known = {_comparable_text(node) for node in conjuncts}
        conjuncts += [nearest] if type(nearest) in _FROM_ABOVE and _comparable_text(nearest) not in known else []
    if statement.asof.tolerance is not None:
        conjuncts.append(_within_tolerance(nearest, statement.asof.tolerance, scope))
    if not any(uses_of(node, scope) for node in conjuncts):
        raise QueryError(
            f"no condition bounds how far the nearest row by '{sql_text(nearest)}' may be, so no index can find it: "
            "expected a tolerance at the end of the join, such as TOLERANCE 5 or TOLERANCE INTERVAL '5 s'",
            scope.line_of(nearest),
        )
    return replace(statement, conjuncts=tuple(conjuncts), nearest=nearest)


def inequality(node: exp.Expression, scope: Scope) -> Inequality | None:
    """A condition as an inequality between the sides; None for other conditions."""
    if type(node) not in _FROM_ABOVE:
        return None
    first, second = bare(node.this), bare(node.expression)
    sides = [{use.side for use in uses_of(part, scope)} for part in (first, second)]
    if sides not in ([{0}, {1}], [{1}, {0}]):
        return None
    is_turned = sides[0] == {1}
    left, right = (second, first) if is_turned else (first, second)
    cores = _core(left, scope), _core(right, scope)
    axis = _name(cores[0], scope), _name(cores[1], scope)
    return Inequality(node, left, right, _FROM_ABOVE[type(node)] != is_turned, cores, axis)


def _implied_inequalities(node: exp.Expression, scope: Scope) -> list[Inequality]:
    """A condition as inequalities, even if it bounds a difference such as r.at - l.at."""
    plain = inequality(node, scope)
    if plain is not None:
        return [plain]
    found = NOTHING if is_distance(node, scope) else implied_comparisons(node, scope)
    return [each for one in found.conditions if found.is_exact and (each := inequality(one, scope)) is not None]


def is_distance(node: exp.Expression, scope: Scope) -> bool:
    """Whether a condition bounds the distance of both sides, or an expression is this distance."""
    return _difference(node, scope) is not None


def distance(node: exp.Expression, scope: Scope) -> exp.Expression:
    """The distance of both sides as a number; for moments, in microseconds."""
    difference = _difference(node, scope)
    assert difference is not None, "only a distance is asked for"
    parts = [part.copy() for part in (difference.this, difference.expression)]
    if any(use.type.name in MOMENTS for use in uses_of(difference, scope)):
        parts = [exp.func("epoch_us", exp.cast(part, "TIMESTAMP")) for part in parts]
    return exp.Abs(this=exp.Sub(this=exp.paren(parts[0]), expression=exp.paren(parts[1])))


def _difference(node: exp.Expression, scope: Scope) -> exp.Sub | None:
    """The difference in ABS(l.x - r.x), alone or compared with a constant."""
    ends = (node.this, node.expression) if type(node) in _FROM_ABOVE else (node, None)
    if type(node) in (exp.GT, exp.GTE):
        ends = ends[::-1]
    absolute, bound = ends
    inner = bare(absolute.this) if isinstance(absolute, exp.Abs) else None
    if not isinstance(inner, exp.Sub) or (bound is not None and uses_of(bound, scope)):
        return None
    sides = [{use.side for use in uses_of(part, scope)} for part in (inner.this, inner.expression)]
    return inner if sides in ([{0}, {1}], [{1}, {0}]) else None


def _core(node: exp.Expression, scope: Scope) -> exp.Expression:
    """An expression without added terms that name no column."""
    node = bare(node)
    if isinstance(node, exp.Add | exp.Sub):
        ends = [(node.this, node.expression)] + [(node.expression, node.this)] * isinstance(node, exp.Add)
        for own, other in ends:
            if not uses_of(other, scope):
                return _core(own, scope)
    return node


def _name(core: exp.Expression, scope: Scope) -> str:
    """The text of one side's expression, the same for each spelling of its column."""
    return scope.column(core).name if isinstance(core, exp.Column) else sql_text(core).lower()


def _nearest_condition(statement: Statement, scope: Scope) -> exp.Expression:
    """The condition in ON that defines the nearest row. Raises QueryError if there is none, or more than one."""
    found = [each for node in statement.conjuncts for each in _implied_inequalities(without_not(node), scope)]
    if not found:
        return _on_either_side(statement, scope)
    meant = _candidates(found)
    if len(meant) > 1:
        raise _ambiguous(statement, meant, scope)
    return meant[0].node


def _candidates(found: Sequence[Inequality]) -> list[Inequality]:
    """The inequalities that may be meant: one per direction and pair of expressions, if possible without an offset."""
    meant = []
    for axis in dict.fromkeys(each.axis for each in found):
        same = [each for each in found if each.axis == axis]
        free = [each for each in same if not each.has_offset] or same
        meant += list({each.is_from_above: each for each in reversed(free)}.values())[::-1]
    return meant


def _on_either_side(statement: Statement, scope: Scope) -> exp.Expression:
    found = [node for node in statement.conjuncts if is_distance(node, scope)]
    if len(found) == 1:
        return found[0]
    left, right = scope.aliases
    assert statement.asof is not None
    if not found:
        raise QueryError(
            f"ASOF JOIN lacks an inequality that defines which row is nearest: expected one, such as "
            f"{left}.at >= {right}.at; for the nearest on either side, ABS({left}.at - {right}.at) <= INTERVAL '5 s'",
            statement.right.line,
        )
    texts = [sql_text(node) for node in found]
    raise QueryError(
        f"ASOF JOIN may mean the nearest row by '{texts[0]}' or by '{texts[1]}': expected MATCH_CONDITION ({texts[0]}) "
        f"or MATCH_CONDITION ({texts[1]})",
        scope.line_of(found[1]),
        instead=statement.asof.matched_by(texts[0]),
    )


def _ambiguous(statement: Statement, meant: Sequence[Inequality], scope: Scope) -> QueryError:
    """The error if two inequalities may be meant; it proposes event times first, unless the tolerance is a number."""
    assert statement.asof is not None
    is_number = isinstance(statement.asof.tolerance, exp.Literal)
    ordered = sorted(meant, key=lambda each: (_is_of_times(each, scope) is is_number, each.has_offset))
    texts = [sql_text(each.node) for each in ordered]
    if ordered[0].has_offset and ordered[0].axis == ordered[1].axis:  # a range on both sides, or beside the left row
        texts.insert(0, f"ABS({' - '.join(map(sql_text, ordered[0].cores))})")
    others = " or ".join(f"MATCH_CONDITION ({text})" for text in texts[1:])
    return QueryError(
        f"ASOF JOIN may mean the nearest row by {' or by '.join(repr(text) for text in texts)}: expected before ON "
        f"MATCH_CONDITION ({texts[0]}), or {others}; the other conditions define which rows to choose from",
        scope.line_of(ordered[0].node),
        instead=statement.asof.matched_by(texts[0]),
    )


def _is_of_times(one: Inequality, scope: Scope) -> bool:
    uses = uses_of(one.node, scope)
    return all(use.type.name in MOMENTS or use.name == scope.times[use.side] for use in uses)


def _within_tolerance(nearest: exp.Expression, tolerance: exp.Expression, scope: Scope) -> exp.Expression:
    """The condition that a row's distance is at most the tolerance."""
    found = inequality(nearest, scope)
    if found is None:
        difference = _difference(nearest, scope)
        assert difference is not None, "nearest is an inequality or a distance"
        return exp.LTE(this=exp.Abs(this=difference.copy()), expression=tolerance)
    left, right = found.left.copy(), found.right.copy()
    if found.is_from_above:
        return exp.GTE(this=right, expression=exp.Sub(this=exp.paren(left), expression=tolerance))
    return exp.LTE(this=right, expression=exp.Add(this=exp.paren(left), expression=tolerance))


def _comparable_text(node: exp.Expression) -> str:
    """A comparison's text, the same if its sides are exchanged."""
    turned: dict[type[exp.Expression], type[exp.Expression]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
    if type(node) in turned:
        node = turned[type(node)](this=node.expression.copy(), expression=node.this.copy())
    return sql_text(node).lower()


def _no_comparison(match: exp.Expression, scope: Scope) -> QueryError:
    left, right = scope.aliases
    return QueryError(
        f"MATCH_CONDITION ({written(match)}) compares no expression of {left} with one of {right}: expected "
        f"{left}.at >= {right}.at, with >, >=, < or <=, or ABS({left}.at - {right}.at) for the nearest on either side",
        scope.line_of(match),
    )
