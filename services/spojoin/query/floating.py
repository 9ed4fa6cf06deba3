"""Expressions over doubles, evaluated as written: the same code for columns (arrays) and for constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spojoin.model import Arithmetic, Column, Constant, Expression

_Number = TypeVar("_Number")


def evaluate(expression: Expression, column: Callable[[str], _Number], constant: Callable[[float], _Number]) -> _Number:
    """The value of `expression`, each operation rounded to a double as IEEE 754 says.

    column: the doubles of a column by its name; constant: converts a literal's nearest double for the arithmetic
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
