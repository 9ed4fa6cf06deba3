"""Reads one side of a predicate from parsed SQL: the expression, its columns and the kind of its value."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from spojoin.columns.time_units import DAY_US, MILLISECOND_US
from spojoin.errors import QueryError
from spojoin.model import Arithmetic, Column, Constant, Expression, TypeName, Use
from spojoin.query.durations import DURATION_EXPECTED, parse_duration_us
from spojoin.query.nodes import DIALECT, bare, sql_text, written
from spojoin.query.scope import Scope

_OPERATORS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_EXPONENT_MAX = 400  # beyond all doubles and int64 values


class OperandKind(enum.StrEnum):
    """The kind of an operand; only operands of one kind can be compared."""

    NUMBER = "number"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"


class NotLinear(QueryError):
    """An operand is more than a sum of columns, so the expression engine must evaluate it, or say why it can't."""


class Implausible(NotLinear):
    """An operand or comparison is probably wrong; if the engine refuses it too, this error has the better reason."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression with its columns, kind, line, its own text and its text without aliases."""

    expression: Expression
    kind: OperandKind
    uses: tuple[Use, ...]
    line: int
    text: str
    plain_text: str

    @property
    def sides(self) -> frozenset[int]:
        """The sides (0 left, 1 right) that the operand names."""
        return frozenset(use.side for use in self.uses)


def bind(node: exp.Expression, scope: Scope) -> Operand:
    """The operand that `node` describes. Raises QueryError for names and operations that don't exist."""
    expression, kind, uses = _bound(bare(node), scope)
    return Operand(expression, kind, uses, scope.line_of(node), sql_text(node), _without_aliases(node))


_Bound = tuple[Expression, OperandKind, tuple[Use, ...]]


def _bound(node: exp.Expression, scope: Scope) -> _Bound:
    if isinstance(node, exp.Column):
        return _column(node, scope)
    if isinstance(node, exp.Literal):
        return Constant(_number(node, scope)), OperandKind.NUMBER, ()
    if (length := constant_interval(node, scope)) is not None:
        return Constant(Fraction(_of_fixed_length(length, node, scope))), OperandKind.INTERVAL, ()
    if isinstance(node, exp.Neg):
        return _negated(node, scope)
    if type(node) in _OPERATORS:
        return _arithmetic(node, scope)
    raise NotLinear(
        f"'{sql_text(node)}' isn't supported: expected columns, numbers and intervals with + - * /", scope.line_of(node)
    )


def _column(node: exp.Column, scope: Scope) -> _Bound:
    use = scope.column(node)
    if use.type.name is TypeName.BOOLEAN or not use.type.is_coded or use.type.is_ranked or use.is_number:
        raise NotLinear(
            f"'{sql_text(node)}' is a {use.type}: expected a number, a date or a timestamp", scope.line_of(node)
        )
    kinds = {TypeName.DATE: OperandKind.DATE, TypeName.TIMESTAMP: OperandKind.TIMESTAMP}
    return Column(use.name), kinds.get(use.type.name, OperandKind.NUMBER), (use,)


def _number(node: exp.Literal, scope: Scope) -> Fraction:
    if node.is_string:
        raise Implausible(
            f"text {written(node)} can't be compared: expected a number, or INTERVAL '...' beside a date or timestamp",
            scope.line_of(node),
        )
    number = Decimal(node.name)
    if not number.is_finite() or abs(number.adjusted()) > _EXPONENT_MAX:
        raise QueryError(f"{node.name} is beyond all column types: expected a smaller number", scope.line_of(node))
    return Fraction(number)


@dataclass(frozen=True, slots=True)
class IntervalLength:
    """An INTERVAL: months, which differ in length, and microseconds; a day has 24 hours."""

    months: int
    rest_us: int


def constant_interval(node: exp.Expression, scope: Scope) -> IntervalLength | None:
    """The value of an INTERVAL in any spelling, such as 5 * INTERVAL '1 min' or to_minutes(5); otherwise None."""
    if isinstance(node, exp.Interval):
        text = " ".join(str(part.name) for part in (node.this, node.args.get("unit")) if part is not None)
        duration = parse_duration_us(text)
        if duration is not None:
            return IntervalLength(0, duration)
    elif all(isinstance(each, _PLAIN) for each in node.walk()):
        return None
    if node.find(exp.Column) is not None:
        return None
    found = _evaluated(node)
    if found is None and isinstance(node, exp.Interval):
        raise Implausible(f"interval '{text}' can't be read: expected {DURATION_EXPECTED}", scope.line_of(node))
    return found


#: Expressions that give numbers and never an interval.
_PLAIN: tuple[type[exp.Expression], ...] = (exp.Literal, exp.Neg, exp.Paren, *_OPERATORS)


def _evaluated(node: exp.Expression) -> IntervalLength | None:
    from spojoin.expressions.engine import interval  # noqa: PLC0415  (few queries need the engine)

    found = interval(node.sql(dialect=DIALECT, comments=False))
    return None if found is None else IntervalLength(*found)


def _of_fixed_length(length: IntervalLength, node: exp.Expression, scope: Scope) -> int:
    if length.months:
        raise NotLinear(f"'{sql_text(node)}' has months, which differ in length", scope.line_of(node))
    return length.rest_us


def _negated(node: exp.Neg, scope: Scope) -> _Bound:
    expression, kind, uses = _bound(bare(node.this), scope)
    if kind not in (OperandKind.NUMBER, OperandKind.INTERVAL):
        raise Implausible(f"'{sql_text(node)}': a {kind} has no negative", scope.line_of(node))
    if isinstance(expression, Constant):
        return Constant(-expression.value), kind, uses
    return Arithmetic("-", Constant(Fraction(0)), expression), kind, uses


def _arithmetic(node: exp.Expression, scope: Scope) -> _Bound:
    operator = _OPERATORS[type(node)]
    left, right = _bound(bare(node.this), scope), _bound(bare(node.expression), scope)
    if {left[1], right[1]} != {OperandKind.NUMBER}:
        return _moved(node, operator, left, right, scope)
    _check_linear(node, operator, left, right, scope)
    return Arithmetic(operator, left[0], right[0]), OperandKind.NUMBER, left[2] + right[2]


def _check_linear(node: exp.Expression, operator: str, left: _Bound, right: _Bound, scope: Scope) -> None:
    if operator == "*" and left[2] and right[2]:
        raise NotLinear(
            f"'{sql_text(node)}' multiplies columns: expected a number on one side of *", scope.line_of(node)
        )
    if operator == "/" and right[2]:
        raise NotLinear(f"'{sql_text(node)}' divides by a column: expected a number after /", scope.line_of(node))


def _moved(node: exp.Expression, operator: str, left: _Bound, right: _Bound, scope: Scope) -> _Bound:
    """A date, a timestamp or an event time of integers plus or minus an interval: the only arithmetic for them."""
    if operator == "+" and left[1] is OperandKind.INTERVAL:
        left, right = right, left
    kind = left[1]
    can_move = kind in (OperandKind.DATE, OperandKind.TIMESTAMP) or (
        kind is OperandKind.NUMBER and scope.is_time_ms(left[2])
    )
    if operator not in ("+", "-") or not can_move or right[1] is not OperandKind.INTERVAL:
        raise Implausible(
            f"'{sql_text(node)}' is {left[1]} {operator} {right[1]}: "
            "expected a date, a timestamp or a stream's time + or - an interval, such as l.at + INTERVAL '5 min'",
            scope.line_of(node),
        )
    amount = in_units_of(kind, right[0], scope.line_of(node), Implausible)
    return Arithmetic(operator, left[0], Constant(amount)), kind, left[2]


def in_units_of(kind: OperandKind, interval: Expression, line: int, refusal: type[QueryError] = QueryError) -> Fraction:
    """An interval as days for a date, microseconds for a timestamp, milliseconds for an event time of integers.

    refusal: the error if the interval isn't a whole number of these units
    """
    assert isinstance(interval, Constant)
    if kind is OperandKind.TIMESTAMP:
        return interval.value
    unit_us, whole = (DAY_US, "days") if kind is OperandKind.DATE else (MILLISECOND_US, "milliseconds")
    amount = interval.value / unit_us
    if amount.denominator != 1:
        of = "a date" if kind is OperandKind.DATE else "a time column of integers"
        raise refusal(f"an interval with {of} must be whole {whole}, such as INTERVAL '1 day'", line)
    return amount


def _without_aliases(node: exp.Expression) -> str:
    plain = bare(node).copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    return written(plain)
