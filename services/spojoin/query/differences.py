"""Turns conditions on a difference of both sides into index conditions that they equal or imply.

`r.at - l.at <= INTERVAL '5 min'` is `r.at <= l.at + INTERVAL '5 min'`. An inexact condition implies a wider one. It is
inexact if it has a count of boundaries (`date_diff`), a rounded number of seconds (`epoch`), or a month, which has 28
to 31 days. An index finds the pairs of the wider condition, and the written one decides about each of them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp

from spojoin.columns.time_units import DAY_US
from spojoin.model import TypeName, Use
from spojoin.query.nodes import FLIPPED_NODE, bare
from spojoin.query.operands import constant_interval
from spojoin.query.scope import Scope

ZERO, ONE = Fraction(0), Fraction(1)
#: Days of a month in an INTERVAL that is compared instead of being added to a moment.
_MONTH_DAYS = 30
#: The largest error of a moment's seconds as a double: in the year 294247, doubles are 0.002 seconds apart.
_SECONDS_OFF_US = 2_000
#: A mean month of the Gregorian calendar: 400 years have 146,097 days.
_MEAN_MONTH_US = Fraction(146_097, 4_800) * DAY_US
#: The error of a count of boundaries, in units: less than one unit, and more since months and years differ in length.
_BOUNDARIES_OFF = Fraction(5, 4)
_FIXED_US = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
_UNITS_US: Mapping[str, Fraction] = {
    **{name: Fraction(us) for name, us in _FIXED_US.items()},
    "day": Fraction(DAY_US),
    "week": Fraction(7 * DAY_US),
    "month": _MEAN_MONTH_US,
    "quarter": 3 * _MEAN_MONTH_US,
    "year": 12 * _MEAN_MONTH_US,
}
_WORDS = {1_000_000: "second", 60_000_000: "minute", 3_600_000_000: "hour", DAY_US: "day"}


class _Kind(enum.Enum):
    NUMBER = "number"
    DATE = "date"
    MOMENT = "moment"
    INTERVAL = "interval"


_MOMENTS = (_Kind.DATE, _Kind.MOMENT)
_KINDS = {
    TypeName.INT: _Kind.NUMBER,
    TypeName.LONG: _Kind.NUMBER,
    TypeName.DECIMAL: _Kind.NUMBER,
    TypeName.DATE: _Kind.DATE,
    TypeName.TIMESTAMP: _Kind.MOMENT,
}


class _NoSum(Exception):  # a signal within this file
    """An expression that isn't a sum of columns."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A value that is the sum of `terms`, columns with their factors, plus a number from `low` to `high`.

    Dates, moments and intervals are in microseconds. months: additional months, from a constant interval
    """

    kind: _Kind
    terms: Mapping[Use, Fraction] = field(default_factory=dict)
    low: Fraction = ZERO
    high: Fraction = ZERO
    months: int = 0

    def times(self, factor: Fraction, kind: _Kind | None = None) -> _Sum:
        """The sum times a factor, as a value of `kind`."""
        ends = sorted((self.low * factor, self.high * factor))
        terms = {use: each * factor for use, each in self.terms.items()}
        return _Sum(kind or self.kind, terms, ends[0], ends[1], int(self.months * factor))

    def wider(self, below: Fraction | int, above: Fraction | int) -> _Sum:
        """The same with wider bounds."""
        return replace(self, low=self.low - below, high=self.high + above)


@dataclass(frozen=True, slots=True)
class Implied:
    """The comparisons of both sides that a condition implies; is_exact: whether they also imply the condition."""

    conditions: tuple[exp.Expression, ...]
    is_exact: bool


NOTHING = Implied((), is_exact=False)

_COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)


def implied_comparisons(node: exp.Expression, scope: Scope) -> Implied:
    """The comparisons of both sides that a condition implies; none if it doesn't compare sums of columns."""
    if not isinstance(node, _COMPARED):
        return NOTHING
    try:
        parts = [_compared(op, first, second, scope) for op, first, second in _comparisons(node)]
    except _NoSum:
        return NOTHING
    return Implied(tuple(each for part in parts for each in part.conditions), all(part.is_exact for part in parts))


_Comparison = tuple[type[exp.Expression], exp.Expression, exp.Expression]


def _comparisons(node: exp.Expression) -> list[_Comparison]:
    """The comparisons of a condition: itself, or for ABS(a) < b the two a < b and -a < b."""
    op, first, second = type(node), bare(node.this), bare(node.expression)
    if isinstance(second, exp.Abs):
        op, first, second = FLIPPED_NODE[op], second, first
    if not isinstance(first, exp.Abs):
        return [(op, first, second)]
    if op not in (exp.LT, exp.LTE):
        raise _NoSum
    return [(op, each, second) for each in (first.this, exp.Neg(this=exp.paren(first.this)))]


def _compared(op: type[exp.Expression], first: exp.Expression, second: exp.Expression, scope: Scope) -> Implied:
    """The comparisons that `first op second` implies."""
    left, right = (_of_one_length(_sum(each, scope)) for each in (first, second))
    left, right = _in_milliseconds(left, right, scope), _in_milliseconds(right, left, scope)
    if left.kind is not right.kind and not (left.kind in _MOMENTS and right.kind in _MOMENTS):
        raise _NoSum
    columns = _columns(scope, first, second)
    whole = _added(left, right.times(Fraction(-1)), left.kind)
    kinds = {_KINDS[use.type.name] for use in whole.terms}
    if kinds == {_Kind.NUMBER}:
        return _of_numbers(op, whole, columns)
    return _of_moments(op, whole, columns)


def _in_milliseconds(one: _Sum, other: _Sum, scope: Scope) -> _Sum:
    """An interval in milliseconds, if the other operand consists of event times that are integers."""
    is_of_times = bool(other.terms) and all(scope.is_time_ms([use]) for use in other.terms)
    return one.times(Fraction(1, 1_000), _Kind.NUMBER) if one.kind is _Kind.INTERVAL and is_of_times else one


def _columns(scope: Scope, *nodes: exp.Expression) -> dict[Use, exp.Column]:
    return {scope.column(each): each for node in nodes for each in node.find_all(exp.Column)}


def _of_moments(op: type[exp.Expression], whole: _Sum, columns: Mapping[Use, exp.Column]) -> Implied:
    """`whole op 0` as comparisons of the right side's moment with the left side's."""
    factors = {use.side: (use, factor) for use, factor in whole.terms.items()}
    if len(whole.terms) != 2 or set(factors) != {0, 1} or sum(whole.terms.values(), ZERO):
        raise _NoSum
    (left, _), (right, factor) = factors[0], factors[1]
    op = op if factor > 0 else FLIPPED_NODE[op]
    low, high = sorted((-whole.low / factor, -whole.high / factor))
    dates = {left.type.name, right.type.name} == {TypeName.DATE}
    unit = DAY_US if dates else 1
    is_exact = low == high and (op is not exp.EQ or not low % unit)
    ends = [(op, low)] if is_exact else [(each, low if each in (exp.GT, exp.GTE) else high) for each in _ends(op)]
    conditions = [_bounded(each, columns[right], columns[left], _whole(each, end, unit)) for each, end in ends]
    return Implied(tuple(conditions), is_exact)


def _ends(op: type[exp.Expression]) -> tuple[type[exp.Expression], ...]:
    return (exp.GTE, exp.LTE) if op is exp.EQ else (op,)


def _whole(op: type[exp.Expression], end: Fraction, unit: int) -> int:
    """An equivalent bound in whole units: `d < 1.5` is `d < 2`, and `d <= 1.5` is `d <= 1`."""
    rounded = math.ceil if op in (exp.LT, exp.GTE) else math.floor
    return rounded(end / unit) * unit


def _bounded(op: type[exp.Expression], right: exp.Column, left: exp.Column, us: int) -> exp.Expression:
    if not us:
        return op(this=right.copy(), expression=left.copy())
    moved = (exp.Add if us > 0 else exp.Sub)(this=left.copy(), expression=_interval(abs(us)))
    return op(this=right.copy(), expression=moved)


def _interval(us: int) -> exp.Expression:
    """An INTERVAL in the largest unit that divides it."""
    size = max((each for each in _WORDS if us % each == 0), default=1)
    count = us // size
    return exp.Interval(this=exp.Literal.string(f"{count} {_WORDS.get(size, 'microsecond')}{'s' * (count != 1)}"))


def _of_numbers(op: type[exp.Expression], whole: _Sum, columns: Mapping[Use, exp.Column]) -> Implied:
    """`whole op 0` for integers and decimals as an exact comparison of left columns with right columns."""
    if whole.low != whole.high or {use.side for use in whole.terms} != {0, 1}:
        raise _NoSum
    left = [_term(columns[use], factor) for use, factor in whole.terms.items() if use.side == 0]
    right = [_term(columns[use], -factor) for use, factor in whole.terms.items() if use.side == 1]
    if whole.low:
        right.append(_number(-whole.low))
    return Implied((op(this=_summed(left), expression=_summed(right)),), is_exact=True)


def _term(column: exp.Column, factor: Fraction) -> exp.Expression:
    return column.copy() if factor == 1 else exp.Mul(this=_number(factor), expression=column.copy())


def _summed(parts: list[exp.Expression]) -> exp.Expression:
    found = parts[0]
    for each in parts[1:]:
        found = exp.Add(this=found, expression=each)
    return found


def _number(value: Fraction) -> exp.Expression:
    digits = Decimal(abs(value).numerator) / Decimal(value.denominator)
    if Fraction(digits) != abs(value):
        raise _NoSum
    literal = exp.Literal.number(f"{digits:f}")
    return exp.Neg(this=literal) if value < 0 else literal


def _sum(node: exp.Expression, scope: Scope) -> _Sum:
    node = bare(node)
    if isinstance(node, exp.Column):
        return _of_column(node, scope)
    if isinstance(node, exp.Literal):
        return _of_literal(node)
    length = constant_interval(node, scope)
    if length is not None:
        return _Sum(_Kind.INTERVAL, {}, Fraction(length.rest_us), Fraction(length.rest_us), length.months)
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise _NoSum
    return handler(node, scope)


def _of_column(node: exp.Column, scope: Scope) -> _Sum:
    use = scope.column(node)
    kind = _KINDS.get(use.type.name)
    if kind is None or use.is_number:
        raise _NoSum
    return _Sum(kind, {use: ONE})


def _of_literal(node: exp.Literal) -> _Sum:
    if node.is_string or "e" in node.name.lower():
        raise _NoSum
    value = Fraction(Decimal(node.name))
    return _Sum(_Kind.NUMBER, {}, value, value)


def _of_one_length(one: _Sum) -> _Sum:
    """An interval with months of 30 days, as in comparisons of two intervals."""
    days = Fraction(one.months * _MONTH_DAYS * DAY_US)
    return replace(one, low=one.low + days, high=one.high + days, months=0)


def _added(first: _Sum, second: _Sum, kind: _Kind) -> _Sum:
    both = {**first.terms, **second.terms}
    terms = {use: first.terms.get(use, ZERO) + second.terms.get(use, ZERO) for use in both}
    kept = {use: factor for use, factor in terms.items() if factor}
    return _Sum(kind, kept, first.low + second.low, first.high + second.high, first.months + second.months)


def _of_sum(node: exp.Expression, scope: Scope) -> _Sum:
    first, second = _sum(node.this, scope), _sum(node.expression, scope)
    if isinstance(node, exp.Sub):
        second = second.times(Fraction(-1))
        if first.kind in _MOMENTS and second.kind in _MOMENTS:
            return _apart(first, second)
    elif second.kind in _MOMENTS:
        first, second = second, first
    return _moved(first, second)


def _apart(first: _Sum, second: _Sum) -> _Sum:
    """The difference of two moments as an interval, or of two dates as a number of days."""
    found = _added(first, second, _Kind.INTERVAL)
    are_dates = first.kind is second.kind is _Kind.DATE
    return found.times(Fraction(1, DAY_US), _Kind.NUMBER) if are_dates else found


def _moved(first: _Sum, second: _Sum) -> _Sum:
    if first.kind is second.kind is _Kind.NUMBER:
        return _added(first, second, _Kind.NUMBER)
    if first.kind is second.kind is _Kind.INTERVAL:
        if first.terms or second.terms:
            first, second = _of_one_length(first), _of_one_length(second)
        return _added(first, second, _Kind.INTERVAL)
    if first.kind is _Kind.DATE and second.kind is _Kind.NUMBER and not second.terms:
        return _added(first, second.times(Fraction(DAY_US)), _Kind.DATE)
    if first.kind in _MOMENTS and second.kind is _Kind.INTERVAL:
        least, most = _days_of(second.months)
        return _added(first, replace(second, months=0).wider(-least * DAY_US, most * DAY_US), _Kind.MOMENT)
    raise _NoSum


def _days_of(months: int) -> tuple[int, int]:
    """The fewest and the most days by which months move a moment: a month has 28 to 31, a year 365 or 366."""
    if months < 0:
        least, most = _days_of(-months)
        return -most, -least
    years, rest = divmod(months, 12)
    return 365 * years + 28 * rest, 365 * years + -(-years // 4) + 31 * rest


def _of_product(node: exp.Expression, scope: Scope) -> _Sum:
    first, second = _sum(node.this, scope), _sum(node.expression, scope)
    if second.terms:
        first, second = second, first
    if second.terms or second.kind is not _Kind.NUMBER or second.low != second.high:
        raise _NoSum
    is_part = first.kind is _Kind.INTERVAL and second.low.denominator != 1
    if first.kind in _MOMENTS or first.months or is_part:
        raise _NoSum
    return first.times(second.low)


def _of_division(node: exp.Expression, scope: Scope) -> _Sum:
    """A number from moments divided by a constant: a double, whose rounding is far below the error of such numbers."""
    first, second = _sum(node.this, scope), _sum(node.expression, scope)
    is_of_moments = all(_KINDS[use.type.name] in _MOMENTS for use in first.terms)
    if first.kind is not _Kind.NUMBER or second.kind is not _Kind.NUMBER or not is_of_moments:
        raise _NoSum
    if second.terms or second.low != second.high or not second.low:
        raise _NoSum
    off = _SECONDS_OFF_US * sum(map(abs, first.terms.values())) or abs(first.low) / 2**50
    return first.wider(off, off).times(1 / second.low)


def _of_negation(node: exp.Expression, scope: Scope) -> _Sum:
    found = _sum(node.this, scope)
    if found.kind in _MOMENTS:
        raise _NoSum
    return found.times(Fraction(-1))


def _of_epoch(node: exp.Expression, per_us: Fraction, off_us: int, scope: Scope) -> _Sum:
    """A moment's or an interval's number of seconds or other units; per_us: units in a microsecond."""
    found = _of_one_length(_sum(node, scope))
    if found.kind is _Kind.NUMBER:
        raise _NoSum
    return found.wider(off_us, off_us).times(per_us, _Kind.NUMBER)


def _of_seconds(node: exp.Expression, scope: Scope) -> _Sum:
    return _of_epoch(node, Fraction(1, 1_000_000), _SECONDS_OFF_US, scope)


def _of_milliseconds(node: exp.Expression, scope: Scope) -> _Sum:
    return _of_epoch(node, Fraction(1, 1_000), 1_000, scope)


def _of_unix(node: exp.Expression, scope: Scope) -> _Sum:
    scale = node.args.get("scale")
    if scale is None or scale.name != "3":
        raise _NoSum
    return _of_milliseconds(node.this, scope)


def _of_extract(node: exp.Expression, scope: Scope) -> _Sum:
    if node.name.lower() != "epoch":
        raise _NoSum
    return _of_seconds(node.expression, scope)


def _of_count(unit: str, later: exp.Expression, earlier: exp.Expression, scope: Scope) -> _Sum:
    """The number of unit boundaries, or of whole units, between two moments."""
    unit_us = _UNITS_US.get(unit.lower().removesuffix("s"))
    first, second = _sum(later, scope), _sum(earlier, scope)
    if unit_us is None or first.kind not in _MOMENTS or second.kind not in _MOMENTS:
        raise _NoSum
    apart = _added(first, second.times(Fraction(-1)), _Kind.INTERVAL)
    return apart.times(1 / unit_us, _Kind.NUMBER).wider(_BOUNDARIES_OFF, _BOUNDARIES_OFF)


def _of_boundaries(node: exp.Expression, scope: Scope) -> _Sum:
    return _of_count(str(node.args["unit"].name if node.args.get("unit") else ""), node.this, node.expression, scope)


def _of_call(node: exp.Expression, scope: Scope) -> _Sum:
    """The value of a call of a function that sqlglot doesn't know."""
    name, given = node.name.lower(), node.expressions
    if name == "epoch_us" and len(given) == 1:
        return _of_epoch(given[0], ONE, 0, scope)
    if name in ("date_part", "datepart") and len(given) == 2 and given[0].name.lower() == "epoch":
        return _of_seconds(given[1], scope)
    if name in ("date_sub", "datesub") and len(given) == 3:
        return _of_count(given[0].name, given[2], given[1], scope)
    raise _NoSum


_Handler = Callable[[Any, Scope], _Sum]
_HANDLERS: dict[type[exp.Expression], _Handler] = {
    exp.Add: _of_sum,
    exp.Sub: _of_sum,
    exp.Mul: _of_product,
    exp.Div: _of_division,
    exp.Neg: _of_negation,
    exp.TimeToUnix: lambda node, scope: _of_seconds(node.this, scope),
    exp.UnixToTime: _of_unix,
    exp.Extract: _of_extract,
    exp.DateDiff: _of_boundaries,
    exp.Anonymous: _of_call,
}
