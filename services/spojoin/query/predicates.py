"""From conjuncts to predicates and key columns: sides, domains, scales and bands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import (
    Arithmetic,
    ColumnType,
    Constant,
    Domain,
    Expression,
    KeyColumn,
    Op,
    Predicate,
    TypeName,
)
from spojoin.query.floating import evaluate
from spojoin.query.linear import linear_form, scale_needed, scaled
from spojoin.query.operands import Operand, OperandKind, Scope, bind, in_units_of, text_of
from spojoin.query.statement import bare

SCALE_MAX = 18  # 10**18 is the largest power of ten in an int64
CODE_MAX = 2**63 - 1

_COMPARISONS: dict[type[exp.Expression], Op] = {
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
}
_BANDS = {Op.LT: Op.BAND_LT, Op.LE: Op.BAND_LE}
_FLOATING = {TypeName.FLOAT, TypeName.DOUBLE}
_BEYOND_DOUBLE = {TypeName.LONG, TypeName.DECIMAL}
_EXPECTED = "<, <=, >, >=, =, != or ABS(l.a - r.b) < w"


@dataclass(slots=True)
class KeyTable:
    """The key columns of each stream in slot order; both sides of a self join share one list."""

    columns: tuple[list[KeyColumn], ...]

    def slot(self, side: int, key: KeyColumn) -> int:
        """The slot of a key column, which is added if no equal one exists (its text may differ)."""
        keys = self.columns[min(side, len(self.columns) - 1)]
        for slot, known in enumerate(keys):
            if (known.expression, known.domain, known.scale) == (key.expression, key.domain, key.scale):
                return slot
        keys.append(key)
        return len(keys) - 1


@dataclass(slots=True)
class _Pair:
    """Two operands, left side first, and the operator between them."""

    op: Op
    left: Operand
    right: Operand
    text: str
    line: int
    width: Operand | None = None
    schemas: tuple[dict[str, ColumnType], ...] = field(default_factory=tuple)
    is_time_ms: bool = False


def build_predicate(node: exp.Expression, scope: Scope, keys: KeyTable) -> Predicate:
    """The predicate that a conjunct means; its key columns enter `keys`. QueryError for every mistake."""
    pair = _pair(node, scope)
    domain = _domain(pair)
    scale = _common_scale(pair) if domain is Domain.INTEGER else 0
    slots = [_slot(pair, side, domain, scale, keys) for side in (0, 1)]
    width = _width(pair, domain, scale) if pair.width is not None else 0
    return Predicate(pair.op, slots[0], slots[1], domain, width, pair.text)


def _pair(node: exp.Expression, scope: Scope) -> _Pair:
    if type(node) not in _COMPARISONS:
        raise QueryError(_not_supported(node, text_of(node)), scope.line_of(node))
    op, first, second = _COMPARISONS[type(node)], bare(node.this), bare(node.expression)
    if isinstance(second, exp.Abs) and not isinstance(first, exp.Abs):
        op, first, second = op.flipped, second, first
    if isinstance(first, exp.Abs):
        return _band(op, first, second, scope, node)
    return _oriented(op, bind(first, scope), bind(second, scope), scope, node)


def _not_supported(node: exp.Expression, text: str) -> str:
    if isinstance(node, exp.Or):
        return f"OR isn't supported in '{text}': expected predicates joined by AND; run one query for each alternative"
    if isinstance(node, exp.Not):
        return f"NOT isn't supported in '{text}': expected the opposite operator, one of {_EXPECTED}"
    return f"'{text}' is no predicate: expected {_EXPECTED}"


def _oriented(op: Op, first: Operand, second: Operand, scope: Scope, node: exp.Expression) -> _Pair:
    text, line = text_of(node), scope.line_of(node)
    for operand in (first, second):
        if len(operand.sides) > 1:
            raise QueryError(
                f"predicate '{text}': '{operand.text}' mixes both sides: expected columns of "
                f"{scope.aliases[0]} on one side of the operator and of {scope.aliases[1]} on the other",
                line,
            )
    named = first.sides | second.sides
    if len(named) != 2:
        names = f"only {scope.aliases[next(iter(named))]}" if named else "no side"
        raise QueryError(
            f"predicate '{text}' names {names}: expected columns of both {scope.aliases[0]} and {scope.aliases[1]}",
            line,
        )
    if first.sides == {1}:
        op, first, second = op.flipped, second, first
    is_time_ms = scope.is_time_ms(first.uses) and scope.is_time_ms(second.uses)
    return _Pair(op, first, second, text, line, schemas=scope.schemas, is_time_ms=is_time_ms)


def _band(op: Op, absolute: exp.Abs, width: exp.Expression, scope: Scope, node: exp.Expression) -> _Pair:
    text, line = text_of(node), scope.line_of(node)
    if op not in _BANDS:
        raise QueryError(f"predicate '{text}': expected a band, ABS(A - B) < w or ABS(A - B) <= w", line)
    difference = bare(absolute.this)
    if not isinstance(difference, exp.Sub):
        raise QueryError(
            f"predicate '{text}': '{text_of(difference)}' is no difference: expected ABS(A - B) with A of one side "
            "and B of the other",
            line,
        )
    pair = _oriented(op, bind(difference.this, scope), bind(difference.expression, scope), scope, node)
    pair.op, pair.width = _BANDS[op], bind(width, scope)
    if pair.width.uses:
        raise QueryError(f"predicate '{text}': band width '{pair.width.text}' names a column: expected a number", line)
    return pair


def _domain(pair: _Pair) -> Domain:
    if pair.left.kind is not pair.right.kind or pair.left.kind is OperandKind.INTERVAL:
        raise QueryError(
            f"predicate '{pair.text}' compares {_kind_text(pair.left)} with {_kind_text(pair.right)}: "
            "expected two numbers, two dates or two timestamps",
            pair.line,
        )
    uses = pair.left.uses + pair.right.uses
    floating = [use for use in uses if use.type.name in _FLOATING]
    exact = [use for use in uses if use.type.name in _BEYOND_DOUBLE]
    if floating and exact:
        raise QueryError(_inexact(pair, exact[0].name, exact[0].type, floating[0].name, floating[0].type), pair.line)
    return Domain.FLOAT if floating else Domain.INTEGER


def _kind_text(operand: Operand) -> str:
    return f"{operand.kind} '{operand.text}'"


def _inexact(pair: _Pair, exact: str, exact_type: ColumnType, floating: str, floating_type: ColumnType) -> str:
    why, other, instead = (
        ("integers only up to 2**53", "long or decimal(p,s)", "int")
        if exact_type.name is TypeName.LONG
        else ("few decimal fractions", "decimal(p,s)", "double")
    )
    return (
        f"predicate '{pair.text}' compares {exact_type} '{exact}' with {floating_type} '{floating}', which "
        f"isn't exact: a double holds {why}; declare '{floating}' as {other}, or '{exact}' as {instead}"
    )


def _common_scale(pair: _Pair) -> int:
    scale = 0
    for operand, schema in zip((pair.left, pair.right), pair.schemas, strict=True):
        _check_no_division(operand.expression, pair)
        scale = max(scale, scale_needed(linear_form(operand.expression), schema))
    if scale > SCALE_MAX:
        raise QueryError(
            f"predicate '{pair.text}' needs {scale} digits after the point: expected at most {SCALE_MAX}", pair.line
        )
    return scale


def _check_no_division(expression: Expression, pair: _Pair) -> None:
    if not isinstance(expression, Arithmetic):
        return
    if expression.operator == "/":
        raise QueryError(
            f"predicate '{pair.text}' divides integers or decimals, which isn't exact: "
            "expected float or double columns, or a multiplication of the other side",
            pair.line,
        )
    _check_no_division(expression.left, pair)
    _check_no_division(expression.right, pair)


def _slot(pair: _Pair, side: int, domain: Domain, scale: int, keys: KeyTable) -> int:
    operand = pair.right if side else pair.left
    if domain is Domain.FLOAT:
        _check_double_constants(operand.expression, pair)
    else:
        _check_fits(operand, pair.schemas[side], scale, pair)
    return keys.slot(side, KeyColumn(operand.expression, domain, scale, operand.plain_text))


def _check_fits(operand: Operand, schema: dict[str, ColumnType], scale: int, pair: _Pair) -> None:
    form = scaled(linear_form(operand.expression), schema, scale)
    if any(abs(number) > CODE_MAX for number in (*form.terms.values(), form.constant)):
        raise QueryError(
            f"predicate '{pair.text}': a number in '{operand.text}' is beyond 64-bit integers"
            + (f" at {scale} digits after the point" if scale else ""),
            pair.line,
        )


def _check_double_constants(expression: Expression, pair: _Pair) -> None:
    if isinstance(expression, Arithmetic):
        _check_double_constants(expression.left, pair)
        _check_double_constants(expression.right, pair)
        if expression.operator == "/" and _constant_double(expression.right, pair) == 0:
            raise QueryError(f"predicate '{pair.text}' divides by zero: expected another number", pair.line)
    elif isinstance(expression, Constant):
        _constant_double(expression, pair)


def _constant_double(expression: Expression, pair: _Pair) -> float:
    try:
        with np.errstate(all="ignore"):
            value = float(evaluate(expression, _no_column, np.float64))
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise QueryError(f"predicate '{pair.text}': a number is beyond doubles: expected a finite one", pair.line)
    return value


def _no_column(name: str) -> np.float64:
    raise AssertionError(f"column {name} in a constant")


def _width(pair: _Pair, domain: Domain, scale: int) -> int | float:
    assert pair.width is not None
    width = _width_value(pair, pair.width, domain)
    least = "more than 0" if pair.op is Op.BAND_LT else "at least 0"
    if width < 0 or (width == 0 and pair.op is Op.BAND_LT):
        raise QueryError(f"predicate '{pair.text}': band width '{pair.width.text}' must be {least}", pair.line)
    return float(width) if domain is Domain.FLOAT else _integer_width(pair, Fraction(width) * 10**scale)


def _width_value(pair: _Pair, width: Operand, domain: Domain) -> Fraction | float:
    is_interval = width.kind is OperandKind.INTERVAL
    temporal = pair.left.kind is not OperandKind.NUMBER or (is_interval and pair.is_time_ms)
    if temporal != is_interval:
        expected = "INTERVAL '...', such as INTERVAL '1 day'" if temporal else "a number"
        raise QueryError(f"predicate '{pair.text}': band width '{width.text}': expected {expected}", pair.line)
    if temporal:
        return in_units_of(pair.left.kind, width.expression, pair.line)
    if domain is Domain.FLOAT:
        _check_double_constants(width.expression, pair)
        return _constant_double(width.expression, pair)
    _check_no_division(width.expression, pair)
    return linear_form(width.expression).constant


def _integer_width(pair: _Pair, width: Fraction) -> int:
    """Between integers |d| < w is |d| < ceil(w), and |d| <= w is |d| <= floor(w): no finer scale is needed."""
    whole = math.ceil(width) if pair.op is Op.BAND_LT else math.floor(width)
    if whole > CODE_MAX:
        raise QueryError(f"predicate '{pair.text}': the band's width is beyond 64-bit integers", pair.line)
    return whole
