"""What an ASOF join means by nearest: one inequality between both sides, or the distance on either side.

MATCH_CONDITION says which one. Without it, it is the only inequality. A further bound on the same two expressions is a
tolerance if it has an offset and the other has none, as in r.at BETWEEN l.at - INTERVAL '5 s' AND l.at. Where two could
be meant, nobody guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import TypeName
from spojoin.query.computed import uses_of
from spojoin.query.condition import without_not
from spojoin.query.differences import NOTHING, implied
from spojoin.query.operands import text_of
from spojoin.query.scope import Scope
from spojoin.query.statement import Statement, bare, written

_MOMENTS = (TypeName.DATE, TypeName.TIMESTAMP)
_FROM_ABOVE: dict[type[exp.Expression], bool] = {exp.LT: False, exp.LTE: False, exp.GT: True, exp.GTE: True}


@dataclass(frozen=True, slots=True)
class Inequality:
    """A comparison by order of a left expression with a right one.

    is_from_above: whether the right value is at most the left one, so that the greatest is the nearest
    cores: both expressions without what is added to them that names no column; axis: the same, however written
    """

    node: exp.Expression
    left: exp.Expression
    right: exp.Expression
    is_from_above: bool
    cores: tuple[exp.Expression, exp.Expression]
    axis: tuple[str, str]

    @property
    def has_offset(self) -> bool:
        """Whether something is added."""
        return self.cores[0] is not self.left or self.cores[1] is not self.right


def with_nearest(statement: Statement, scope: Scope) -> Statement:
    """The statement with the condition of its ASOF join that says which row is nearest, and with its tolerance.

    Raises QueryError where no condition says it, or more than one may.
    """
    if statement.asof is None:
        return statement
    match, conjuncts = statement.asof.match, list(statement.conjuncts)
    nearest = _chosen(statement, scope) if match is None else bare(match)
    if match is not None:
        if inequality(nearest, scope) is None and not is_distance(nearest, scope):
            raise _no_match(match, scope)
        known = {_plain(node) for node in conjuncts}
        conjuncts += [nearest] if type(nearest) in _FROM_ABOVE and _plain(nearest) not in known else []
    if statement.asof.tolerance is not None:
        conjuncts.append(_tolerated(nearest, statement.asof.tolerance, scope))
    if not any(uses_of(node, scope) for node in conjuncts):
        raise QueryError(
            f"nothing bounds how far the nearest by '{text_of(nearest)}' may be, so that no index could find it: "
            "expected a tolerance at the end of the join, such as TOLERANCE 5 or TOLERANCE INTERVAL '5 s'",
            scope.line_of(nearest),
        )
    return replace(statement, conjuncts=tuple(conjuncts), nearest=nearest)


def inequality(node: exp.Expression, scope: Scope) -> Inequality | None:
    """A condition as an inequality between the sides; None where it is another one."""
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


def _inequalities(node: exp.Expression, scope: Scope) -> list[Inequality]:
    """A condition as inequalities, also where it bounds a difference, such as r.at - l.at."""
    plain = inequality(node, scope)
    if plain is not None:
        return [plain]
    found = NOTHING if is_distance(node, scope) else implied(node, scope)
    return [each for one in found.conditions if found.is_exact and (each := inequality(one, scope)) is not None]


def is_distance(node: exp.Expression, scope: Scope) -> bool:
    """Whether a condition bounds how far both sides are apart, or an expression is this distance."""
    return _difference(node, scope) is not None


def distance(node: exp.Expression, scope: Scope) -> exp.Expression:
    """How far both sides are apart, as a number: of moments in microseconds."""
    difference = _difference(node, scope)
    assert difference is not None, "only a distance is asked for"
    parts = [part.copy() for part in (difference.this, difference.expression)]
    if any(use.type.name in _MOMENTS for use in uses_of(difference, scope)):
        parts = [exp.func("epoch_us", exp.cast(part, "TIMESTAMP")) for part in parts]
    return exp.Abs(this=exp.Sub(this=exp.paren(parts[0]), expression=exp.paren(parts[1])))


def _difference(node: exp.Expression, scope: Scope) -> exp.Sub | None:
    """The difference of ABS(l.x - r.x), by itself or at most a constant."""
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
    """An expression without what is added to it and names no column."""
    node = bare(node)
    if isinstance(node, exp.Add | exp.Sub):
        ends = [(node.this, node.expression)] + [(node.expression, node.this)] * isinstance(node, exp.Add)
        for own, other in ends:
            if not uses_of(other, scope):
                return _core(own, scope)
    return node


def _name(core: exp.Expression, scope: Scope) -> str:
    """An expression of one side, however its column is written."""
    return scope.column(core).name if isinstance(core, exp.Column) else text_of(core).lower()


def _chosen(statement: Statement, scope: Scope) -> exp.Expression:
    """The condition that says which row is nearest, though no clause does."""
    found = [each for node in statement.conjuncts for each in _inequalities(without_not(node), scope)]
    if not found:
        return _on_either_side(statement, scope)
    meant = _meant(found)
    if len(meant) > 1:
        raise _ambiguous(statement, meant, scope)
    return meant[0].node


def _meant(found: Sequence[Inequality]) -> list[Inequality]:
    """Those that may be meant, one of each kind: of the same expressions those without offset, if there is any."""
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
            f"ASOF JOIN lacks an inequality that says what is nearest: expected one such as {left}.at >= {right}.at; "
            f"for the nearest on either side ABS({left}.at - {right}.at) <= INTERVAL '5 s'",
            statement.right.line,
        )
    texts = [text_of(node) for node in found]
    raise QueryError(
        f"ASOF JOIN may mean the nearest by '{texts[0]}' or by '{texts[1]}': expected MATCH_CONDITION ({texts[0]}) or "
        f"MATCH_CONDITION ({texts[1]})",
        scope.line_of(found[1]),
        instead=statement.asof.matched_by(texts[0]),
    )


def _ambiguous(statement: Statement, meant: Sequence[Inequality], scope: Scope) -> QueryError:
    """Which rows are meant by two inequalities; event times come first in what is proposed, unless a number is near."""
    assert statement.asof is not None
    is_number = isinstance(statement.asof.tolerance, exp.Literal)
    ordered = sorted(meant, key=lambda each: (_is_of_times(each, scope) is is_number, each.has_offset))
    texts = [text_of(each.node) for each in ordered]
    if ordered[0].has_offset and ordered[0].axis == ordered[1].axis:  # a range on both sides, or beside the left row
        texts.insert(0, f"ABS({' - '.join(map(text_of, ordered[0].cores))})")
    others = " or ".join(f"MATCH_CONDITION ({text})" for text in texts[1:])
    return QueryError(
        f"ASOF JOIN may mean the nearest row by {' or by '.join(repr(text) for text in texts)}: MATCH_CONDITION says "
        f"which, and the other conditions choose among which rows; expected MATCH_CONDITION ({texts[0]}), or {others} "
        "before ON",
        scope.line_of(ordered[0].node),
        instead=statement.asof.matched_by(texts[0]),
    )


def _is_of_times(one: Inequality, scope: Scope) -> bool:
    uses = uses_of(one.node, scope)
    return all(use.type.name in _MOMENTS or use.name == scope.times[use.side] for use in uses)


def _tolerated(nearest: exp.Expression, tolerance: exp.Expression, scope: Scope) -> exp.Expression:
    """The condition that a row is no farther than the tolerance."""
    found = inequality(nearest, scope)
    if found is None:
        difference = _difference(nearest, scope)
        assert difference is not None, "nearest is an inequality or a distance"
        return exp.LTE(this=exp.Abs(this=difference.copy()), expression=tolerance)
    left, right = found.left.copy(), found.right.copy()
    if found.is_from_above:
        return exp.GTE(this=right, expression=exp.Sub(this=exp.paren(left), expression=tolerance))
    return exp.LTE(this=right, expression=exp.Add(this=exp.paren(left), expression=tolerance))


def _plain(node: exp.Expression) -> str:
    """A comparison's text, the same however it is turned."""
    turned: dict[type[exp.Expression], type[exp.Expression]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
    if type(node) in turned:
        node = turned[type(node)](this=node.expression.copy(), expression=node.this.copy())
    return text_of(node).lower()


def _no_match(match: exp.Expression, scope: Scope) -> QueryError:
    left, right = scope.aliases
    return QueryError(
        f"MATCH_CONDITION ({written(match)}) compares no expression of {left} with one of {right}: expected "
        f"{left}.at >= {right}.at, with >, >=, < or <=, or ABS({left}.at - {right}.at) for the nearest on either side",
        scope.line_of(match),
    )
