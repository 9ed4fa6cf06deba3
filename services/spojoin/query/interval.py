"""Interval joins: the bounds that a condition sets on the difference of two event times, and their windows.

The paper on PPOIJ defines the online interval join by two time boundaries (section 2.2, equation 1), in SQL
`r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'`. A pair's later tuple finds the earlier one, so each
bound is the length of one stream's window. Beyond the paper, bounds may be strict, both on one side of zero, or written
as a band.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from spojoin.errors import QueryError
from spojoin.model import Computed, Domain, Interval, KeyColumn, Op, Predicate, TypeName, Window
from spojoin.query.linear import LinearForm, linear_form
from spojoin.query.operands import DAY_US, MILLISECOND_US
from spojoin.query.window import CLAUSE_EXPECTED, LENGTH_US_MAX

EXAMPLE = "r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'"

_STRICT = (Op.LT, Op.GT, Op.BAND_LT)
_UNITS_US = {
    TypeName.TIMESTAMP: 1,
    TypeName.DATE: DAY_US,
    TypeName.INT: MILLISECOND_US,
    TypeName.LONG: MILLISECOND_US,
}


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A stream's event-time column; `type` is None where its schema doesn't declare it."""

    name: str | None
    type: TypeName | None


@dataclass(frozen=True, slots=True)
class Bound:
    """One predicate's bounds on right's event time minus left's, in whole microseconds; None: no bound on that end."""

    lower_us: int | None
    upper_us: int | None


def time_bound(predicate: Predicate, left: KeyColumn, right: KeyColumn, times: Sequence[TimeColumn]) -> Bound | None:
    """A predicate's bounds on the difference of the event times; None where it compares anything else as well.

    left, right: the predicate's key columns; times: the event-time columns of both sides, left first
    """
    unit = times[0].type
    computed = any(isinstance(key.expression, Computed) or key.rounding for key in (left, right))
    if unit is None or predicate.domain is not Domain.INTEGER or computed:
        return None
    first, second = linear_form(left.expression), linear_form(right.expression)
    if not (_is_time(first, times[0]) and _is_time(second, times[1])):
        return None
    unit_us = _UNITS_US[unit]
    middle = (first.constant - second.constant) * unit_us
    return _bound(predicate.op, middle, Fraction(predicate.width) / 10**left.scale * unit_us)


def _is_time(form: LinearForm, time: TimeColumn) -> bool:
    return time.type is not None and form.terms == {time.name: 1}


def _bound(op: Op, middle: Fraction, width: Fraction) -> Bound | None:
    """The bounds of `l + a op r + b`: with d = r - l and `middle` a - b, d is on the right of the operator."""
    if op is Op.NE:
        return None
    is_strict = op in _STRICT
    lower = None if op in (Op.GT, Op.GE) else _least(middle - width, is_strict)
    upper = None if op in (Op.LT, Op.LE) else -_least(-middle - width, is_strict)
    return Bound(lower, upper)


def _least(value: Fraction, is_strict: bool) -> int:
    """The least integer that is above the value, or not below it."""
    return math.floor(value) + 1 if is_strict else math.ceil(value)


class Unbounded(QueryError):
    """A statement without WINDOW whose conditions leave no interval of event times."""


def interval_of(bounds: Iterable[Bound], line: int, right: str) -> Interval:
    """The interval that all bounds leave; QueryError where it has no end, no member, or is too long for a window.

    right: the right side's stream, for errors
    """
    known = list(bounds)
    lower = max((b.lower_us for b in known if b.lower_us is not None), default=None)
    upper = min((b.upper_us for b in known if b.upper_us is not None), default=None)
    if lower is None or upper is None:
        raise Unbounded(_unbounded(lower, upper, right), line)
    if lower > upper:
        raise QueryError(
            f"the interval is empty: right's event time minus left's is at least {lower} us and at most {upper} us; "
            f"expected the lower bound first, such as {EXAMPLE}",
            line,
        )
    if max(-lower, upper) > LENGTH_US_MAX:
        raise QueryError("the interval reaches back too far: expected at most 10 years (3653 days)", line)
    return Interval(lower, upper)


def _unbounded(lower: int | None, upper: int | None, right: str) -> str:
    table = f"JOIN TABLE({right}) if all rows of {right} are there before those that ask about them"
    if lower is None and upper is None:
        either = f"{CLAUSE_EXPECTED} at the end, or an interval of the streams' times"
        return f"missing WINDOW: expected {table}, {either}, such as {EXAMPLE}"
    missing = "later" if upper is None else "earlier"
    return (
        f"the interval is open: nothing bounds how much {missing} the right side's event time may be than the left's, "
        f"so no tuple could ever be dropped; expected both bounds, such as {EXAMPLE}, or TOLERANCE INTERVAL '1 min' "
        f"behind an ASOF JOIN, {table}, or {CLAUSE_EXPECTED} at the end"
    )


def window_of(interval: Interval) -> Window:
    """The window that holds every partner of either stream's tuples: in microseconds of event time."""
    return Window(True, max(interval.upper_us, -interval.lower_us), 1)


def is_held(interval: Interval, is_self: bool) -> bool:
    """Whether the windows express the interval exactly, so that no predicates on event times are needed.

    A window's near end is the probe's own time, so zero must lie inside. A self join has one window for both
    directions: its ends must be equally far.
    """
    if is_self:
        return interval.lower_us == -interval.upper_us
    return interval.lower_us <= 0 <= interval.upper_us
