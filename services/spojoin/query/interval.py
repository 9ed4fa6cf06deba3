"""Interval joins: the bounds that conditions set on the difference of two event times, and the windows of these bounds.

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

from spojoin.columns.arithmetic import LinearForm, linear_form
from spojoin.columns.time_units import DAY_US, MILLISECOND_US
from spojoin.errors import QueryError
from spojoin.model import OPERATORS, Computed, Domain, KeyColumn, Op, Predicate, TypeName
from spojoin.query.clauses import WINDOW_EXPECTED
from spojoin.suggest import span
from spojoin.windows import IntervalWindow

EXAMPLE = "r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'"

_UNITS_US = {
    TypeName.TIMESTAMP: 1,
    TypeName.DATE: DAY_US,
    TypeName.INT: MILLISECOND_US,
    TypeName.LONG: MILLISECOND_US,
}


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A stream's event-time column; `type` is None if its schema doesn't declare it."""

    name: str | None
    type: TypeName | None


@dataclass(frozen=True, slots=True)
class Bound:
    """One predicate's bounds on the right event time minus the left one, in whole microseconds; None if unbounded."""

    lower_us: int | None
    upper_us: int | None


def time_bound(predicate: Predicate, left: KeyColumn, right: KeyColumn, times: Sequence[TimeColumn]) -> Bound | None:
    """A predicate's bounds on the difference of the event times; None if it compares other values too.

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
    """The bounds on d = r - l in `l + a op r + b`, which is `middle op d` with `middle` = a - b."""
    if op is Op.NE:
        return None
    is_strict = OPERATORS[op].is_strict
    lower = None if op in (Op.GT, Op.GE) else _least(middle - width, is_strict)
    upper = None if op in (Op.LT, Op.LE) else -_least(-middle - width, is_strict)
    return Bound(lower, upper)


def _least(value: Fraction, is_strict: bool) -> int:
    """The least integer above the value if `is_strict`, otherwise at least the value."""
    return math.floor(value) + 1 if is_strict else math.ceil(value)


class Unbounded(QueryError):
    """The statement has no WINDOW, and its conditions don't bound event times to an interval."""


def interval_of(bounds: Iterable[Bound], line: int, right: str) -> IntervalWindow:
    """The interval within all bounds. Raises QueryError if it has an open end, is empty, or is too long for a window.

    right: the right side's stream, for errors
    """
    known = list(bounds)
    lower = max((b.lower_us for b in known if b.lower_us is not None), default=None)
    upper = min((b.upper_us for b in known if b.upper_us is not None), default=None)
    if lower is None or upper is None:
        raise Unbounded(_unbounded(lower, upper, right), line)
    if lower > upper:
        raise QueryError(
            f"the interval is empty: the right side's event time minus the left's must be at least {span(lower)} and "
            f"at most {span(upper)}; expected the lower bound first, such as {EXAMPLE}",
            line,
        )
    if max(-lower, upper) > IntervalWindow.LENGTH_MAX:
        raise QueryError(f"the interval is too long: expected bounds of at most {IntervalWindow.LENGTH_MAX_TEXT}", line)
    return IntervalWindow(lower, upper)


def _unbounded(lower: int | None, upper: int | None, right: str) -> str:
    table = f"JOIN TABLE({right}) if all rows of {right} are there before the rows that ask about them"
    if lower is None and upper is None:
        either = f"{WINDOW_EXPECTED} at the end, or an interval of event times"
        return f"missing WINDOW: expected {table}, {either}, such as {EXAMPLE}"
    missing = "later" if upper is None else "earlier"
    return (
        f"the interval is open: no condition bounds how much {missing} the right side's event time may be than the "
        f"left's, so no row could ever be dropped; expected both bounds, such as {EXAMPLE}, or TOLERANCE INTERVAL "
        f"'1 min' after an ASOF JOIN, {table}, or {WINDOW_EXPECTED} at the end"
    )
