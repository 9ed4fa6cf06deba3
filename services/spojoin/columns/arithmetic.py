"""Arithmetic on columns: on doubles as written, on integers and decimals as exact linear forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from spojoin.model import Arithmetic, Column, ColumnType, Constant, Expression

_Number = TypeVar("_Number")


def evaluate(expression: Expression, column: Callable[[str], _Number], constant: Callable[[float], _Number]) -> _Number:
    """The value of `expression`, with each operation rounded to a double as in IEEE 754.

    column: gives a column's doubles by its name; constant: converts a literal's nearest double for the arithmetic
    """
    if isinstance(expression, Column):
        return column(expression.name)
    if isinstance(expression, Constant):
        return constant(float(expression.value))
    assert isinstance(expression, Arithmetic), "the expression engine evaluates all else"
    left = evaluate(expression.left, column, constant)
    right = evaluate(expression.right, column, constant)
    return _applied(expression, left, right)


def _applied(expression: Arithmetic, left: _Number, right: _Number) -> _Number:
    match expression.operator:
        case "+":
            return left + right  # type: ignore[operator,no-any-return]
        case "-":
            return left - right  # type: ignore[operator,no-any-return]
        case "*":
            return left * right  # type: ignore[operator,no-any-return]
        case _:
            return left / right  # type: ignore[operator,no-any-return]


ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class LinearForm:
    """The sum of coefficient * column over `terms`, plus `constant`."""

    terms: dict[str, Fraction]
    constant: Fraction


@dataclass(frozen=True, slots=True)
class ScaledForm:
    """A linear form times 10**scale over columns of integers at their own scale: its multipliers are integers."""

    terms: dict[str, int]
    constant: int


def linear_form(expression: Expression) -> LinearForm:
    """The form of an expression of + - * and, by constants, / (ValueError if two columns are multiplied)."""
    if isinstance(expression, Column):
        return LinearForm({expression.name: Fraction(1)}, ZERO)
    if isinstance(expression, Constant):
        return LinearForm({}, expression.value)
    if isinstance(expression, Arithmetic):
        return _combined(expression)
    raise ValueError("the expression engine evaluates it")


def scale_needed(form: LinearForm, schema: dict[str, ColumnType]) -> int:
    """How many decimal digits after the point hold every value of the form exactly (ValueError if none do)."""
    terms = (decimals(factor) + schema[name].scale for name, factor in form.terms.items())
    return max([decimals(form.constant), *terms])


def scaled(form: LinearForm, schema: dict[str, ColumnType], scale: int) -> ScaledForm:
    """The form at a scale of at least `scale_needed`."""
    terms = {name: _whole(factor * 10 ** (scale - schema[name].scale)) for name, factor in form.terms.items()}
    return ScaledForm(terms, _whole(form.constant * 10**scale))


def decimals(value: Fraction) -> int:
    """The number of decimal digits after a value's point; ValueError if they never end."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise ValueError(f"{value} has no finite decimal form")
    return max(twos, fives)


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise ValueError(f"{value} is no integer: the scale is too small")
    return value.numerator


def _combined(expression: Arithmetic) -> LinearForm:
    left, right = linear_form(expression.left), linear_form(expression.right)
    match expression.operator:
        case "+":
            return _sum(left, right)
        case "-":
            return _sum(left, _times(right, Fraction(-1)))
        case "*":
            if left.terms and right.terms:
                raise ValueError("columns can't be multiplied")
            return _times(left, right.constant) if not right.terms else _times(right, left.constant)
        case _:
            raise ValueError(f"'{expression.operator}' has no exact integer result")


def _sum(left: LinearForm, right: LinearForm) -> LinearForm:
    terms = {name: left.terms.get(name, ZERO) + right.terms.get(name, ZERO) for name in {**left.terms, **right.terms}}
    return LinearForm(terms, left.constant + right.constant)


def _times(form: LinearForm, factor: Fraction) -> LinearForm:
    return LinearForm({name: value * factor for name, value in form.terms.items()}, form.constant * factor)
