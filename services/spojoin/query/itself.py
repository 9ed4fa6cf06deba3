"""A self join of two streams pairs no row with itself, also where the conditions are true of it: that is said once."""

from __future__ import annotations

from fractions import Fraction

from spojoin.model import Computed, Expression, KeyColumn, Op, Predicate, Query
from spojoin.query.linear import LinearForm, linear_form

_TRUE_OF_EQUALS = (Op.LE, Op.GE, Op.EQ, Op.BAND_LT, Op.BAND_LE)


def note_of_itself(query: Query, name: str) -> str | None:
    """What is said of a self join whose conditions may all be true of a row with itself; None of other queries.

    They may be where one is in any case, and none is false in any case; a residual condition leaves out some.

    name: of the stream, as the statement has it
    """
    if query.has_table or not query.is_of_one_input or query.residuals or not _may_meet(query):
        return None
    found = [_holds(p, query.streams[0].keys[p.left_slot], query.streams[-1].keys[p.right_slot]) for p in _said(query)]
    if False in found or (query.interval is None and True not in found):
        return None
    how = "are" if all(found) else "may be"
    return (
        f"no row is paired with itself, though all conditions {how} true of it: in a self join a row meets only "
        f"other rows; JOIN TABLE({name}) pairs it with itself, too"
    )


def _said(query: Query) -> tuple[Predicate, ...]:
    """The conditions that the statement has: void rows are marked by one more."""
    return tuple(p for p in query.predicates if not query.streams[0].keys[p.left_slot].marks_void)


def _may_meet(query: Query) -> bool:
    """Whether both sides' filters let a row pass that either lets pass, and the interval holds it."""
    filters = [stream.filter.condition for stream in (query.streams[0], query.streams[-1]) if stream.filter is not None]
    within = query.interval is None or query.interval.lower_us <= 0 <= query.interval.upper_us
    return within and (len(filters) < 2 or filters[0].sql == filters[1].sql)


def _holds(predicate: Predicate, left: KeyColumn, right: KeyColumn) -> bool | None:
    """Whether a condition is true of a row with itself; None where that is for its values to say."""
    apart = _apart(left.expression, right.expression)
    if apart is None:
        return None if predicate.op not in (Op.EQ, Op.NE) else False
    if predicate.op in (Op.BAND_LT, Op.BAND_LE):
        return bool(abs(apart) <= Fraction(predicate.width) / 10**left.scale)
    if apart == 0:
        return predicate.op in _TRUE_OF_EQUALS
    return predicate.op in ((Op.LT, Op.LE, Op.NE) if apart < 0 else (Op.GT, Op.GE, Op.NE))


def _apart(left: Expression, right: Expression) -> Fraction | None:
    """A row's left expression minus its right one, where it is the same for every row."""
    if isinstance(left, Computed) or isinstance(right, Computed):
        return Fraction(0) if left == right else None
    try:
        forms = linear_form(left), linear_form(right)
    except ValueError:
        return Fraction(0) if left == right else None
    return _constant(*forms)


def _constant(left: LinearForm, right: LinearForm) -> Fraction | None:
    return left.constant - right.constant if left.terms == right.terms else None
