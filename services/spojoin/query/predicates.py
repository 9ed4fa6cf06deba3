"""Turns comparisons of both sides into predicates over key columns, with their domains, scales and widths of bands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import sqlglot
from sqlglot import exp

from spojoin.columns.arithmetic import evaluate, linear_form, scale_needed, scaled
from spojoin.errors import QueryError
from spojoin.expressions.types import duckdb_type
from spojoin.model import (
    FLOATING,
    OPERATORS,
    Arithmetic,
    Column,
    ColumnType,
    Computed,
    Constant,
    Domain,
    Expression,
    KeyColumn,
    Op,
    Predicate,
    TypeName,
)
from spojoin.query.comparable import (
    BY_PREFIX,
    ROUNDED,
    SCALE_MAX,
    CodeComparison,
    NotIndexed,
    Substitute,
    check_ranks,
    check_zones,
    code_comparison,
    nearest_comparable,
)
from spojoin.query.computed import side_expression, uses_of, value_of
from spojoin.query.nodes import DIALECT, NODE_OF_OP, OP_OF_NODE, bare, characters_of, sql_text
from spojoin.query.operands import Implausible, NotLinear, Operand, OperandKind, bind, in_units_of
from spojoin.query.places import Correctable
from spojoin.query.scope import Scope

CODE_MAX = 2**63 - 1

_BANDS = {Op.LT: Op.BAND_LT, Op.LE: Op.BAND_LE}
_BEYOND_DOUBLE = {TypeName.LONG, TypeName.DECIMAL}
_MOMENTS = {TypeName.DATE: OperandKind.DATE, TypeName.TIMESTAMP: OperandKind.TIMESTAMP}


@dataclass(slots=True)
class KeyTable:
    """The key columns of each stream in slot order; both sides of a self join share one list."""

    columns: tuple[list[KeyColumn], ...]

    def slot(self, side: int, key: KeyColumn) -> int:
        """The slot of a key column; the column is added if there is no equal one (texts may differ)."""
        keys = self.columns[min(side, len(self.columns) - 1)]
        for slot, known in enumerate(keys):
            if replace(known, text=key.text, has_no_nan=key.has_no_nan) == key:
                keys[slot] = replace(known, has_no_nan=known.has_no_nan or key.has_no_nan)
                return slot
        keys.append(key)
        return len(keys) - 1


@dataclass(frozen=True, slots=True)
class _OperandPair:
    """Two operands, left side first, the operator between them, and the width of a band."""

    op: Op
    left: Operand
    right: Operand
    text: str
    line: int
    width: Operand | None
    schemas: tuple[dict[str, ColumnType], ...]
    is_time_ms: bool


def is_comparison(node: exp.Expression, scope: Scope) -> bool:
    """Whether a conjunct compares an expression of one side with one of the other, or is a band on their difference."""
    if type(node) not in OP_OF_NODE:
        return False
    _, *operands, _ = _operands(node, scope)
    sides = [{use.side for use in uses_of(each, scope)} for each in operands]
    return sides in ([{0}, {1}], [{1}, {0}])


def is_by_prefixes(predicate: Predicate, key: KeyColumn, scope: Scope) -> bool:
    """Whether the index compares only prefixes of texts, so that the condition itself must decide about each pair.

    key: the left side's key column
    """
    expression = key.expression
    kind: ColumnType | None = None
    if isinstance(expression, Computed):
        kind = expression.type
    elif isinstance(expression, Column):
        kind = scope.schemas[0].get(expression.name)
    return predicate.domain is Domain.INTEGER and kind is not None and kind.name in BY_PREFIX


def _operands(node: exp.Expression, scope: Scope) -> tuple[Op, exp.Expression, exp.Expression, exp.Expression | None]:
    """A comparison's operator, two operands and width: a, b and c for a band ABS(a - b) < c, otherwise no width."""
    op, first, second = OP_OF_NODE[type(node)], bare(node.this), bare(node.expression)
    for one, absolute, width in ((op, first, second), (op.flipped, second, first)):
        difference = bare(absolute.this) if isinstance(absolute, exp.Abs) else None
        if isinstance(difference, exp.Sub) and not uses_of(width, scope):
            return one, bare(difference.this), bare(difference.expression), width
    return op, first, second, None


def build_predicate(node: exp.Expression, scope: Scope, keys: KeyTable) -> Predicate:
    """The predicate of a comparison; adds its key columns to `keys`. Raises QueryError for every mistake.

    Sums of columns with constant factors are evaluated exactly, other expressions by the engine. Raises NotIndexed if
    only the engine can compare the two sides.
    """
    try:
        return _linear_predicate(node, scope, keys)
    except NotLinear as error:
        return _computed_predicate(node, scope, keys, error)


def _linear_predicate(node: exp.Expression, scope: Scope, keys: KeyTable) -> Predicate:
    pair = _operand_pair(node, scope)
    if _is_mixed(pair):
        return _mixed_predicate(pair, keys)
    domain = _domain(pair)
    scale = _common_scale(pair) if domain is Domain.INTEGER else 0
    slots = [_slot(pair, side, domain, scale, keys) for side in (0, 1)]
    width = _width(pair, domain, scale) if pair.width is not None else 0
    return Predicate(pair.op, slots[0], slots[1], domain, width, pair.text)


def _is_mixed(pair: _OperandPair) -> bool:
    """Whether one side has exact values that doubles can't hold, and the other side has doubles."""
    kinds = [{use.type.name for use in each.uses} for each in (pair.left, pair.right)]
    is_apart = any(one & _BEYOND_DOUBLE and not one & FLOATING and other & FLOATING and not other & _BEYOND_DOUBLE
                   for one, other in (kinds, reversed(kinds)))  # fmt: skip
    return is_apart and pair.left.kind is pair.right.kind


def _mixed_predicate(pair: _OperandPair, keys: KeyTable) -> Predicate:
    """Compares integers or decimals with doubles exactly, by integers in place of the doubles; a band uses doubles."""
    if pair.width is not None:
        slots = [_slot(pair, side, Domain.FLOAT, 0, keys) for side in (0, 1)]
        return Predicate(pair.op, slots[0], slots[1], Domain.FLOAT, _width(pair, Domain.FLOAT, 0), pair.text)
    if pair.op is Op.NE:
        raise NotLinear("an integer or decimal stands for the double that it equals", pair.line)
    is_left = bool({use.type.name for use in pair.left.uses} & FLOATING)
    floating, exact = (pair.left, pair.right) if is_left else (pair.right, pair.left)
    _check_no_division(exact.expression, pair)
    scale = scale_needed(linear_form(exact.expression), pair.schemas[is_left])
    op, rounding = ROUNDED[pair.op.flipped if is_left else pair.op]
    _check_double_constants(floating.expression, pair)
    key = KeyColumn(floating.expression, Domain.INTEGER, scale, floating.plain_text, rounding)
    if is_left:
        left = keys.slot(0, key)
        return Predicate(op.flipped, left, _slot(pair, 1, Domain.INTEGER, scale, keys), Domain.INTEGER, 0, pair.text)
    left = _slot(pair, 0, Domain.INTEGER, scale, keys)
    return Predicate(op, left, keys.slot(1, key), Domain.INTEGER, 0, pair.text)


def _computed_predicate(node: exp.Expression, scope: Scope, keys: KeyTable, error: NotLinear) -> Predicate:
    """The predicate of expressions that the engine evaluates; error: why they aren't plain sums."""
    parts, line = _compared_sides(node, scope), scope.line_of(node)
    sides = _computed_sides(parts, error, scope)
    kinds = [(sql_text(side), computed.type) for side, computed in zip(parts.sides, sides, strict=True)]
    check_zones(sql_text(node), kinds, line)
    if parts.op not in (Op.EQ, Op.NE):
        check_ranks(sql_text(node), kinds, line)
    comparison = code_comparison(sides[0].type, sides[1].type, parts.op, is_band=parts.width is not None)
    if comparison is None:
        raise _not_comparable(parts, sides, error, node, scope)
    if comparison.substitutes == (None, None) and any(_is_wide(each, scope.schemas[k]) for k, each in enumerate(sides)):
        raise NotIndexed
    slots = []
    for side, (operand, computed) in enumerate(zip(parts.sides, sides, strict=True)):
        column = scope.column(operand).name if isinstance(operand, exp.Column) else None
        key = comparison.key(side, computed, column, sql_text(operand))
        slots.append(keys.slot(side, replace(key, has_no_nan=parts.width is not None)))
    width = 0 if parts.width is None else _computed_width(parts, comparison, sides, scope)
    op = comparison.op if parts.width is None else parts.op
    return Predicate(op, slots[0], slots[1], comparison.domain, width, sql_text(node))


def _is_wide(side: Computed, schema: Mapping[str, ColumnType]) -> bool:
    """Whether a numeric expression has more digits than a code holds, because one of its columns has."""
    is_wide = side.type.name is TypeName.DECIMAL and not side.type.is_coded
    return is_wide and any(name in schema and not schema[name].is_coded for name in side.columns)


def coarser_comparisons(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """Comparisons that an index answers and that `node` implies, which no index answers; empty if none is known.

    Rounding to doubles keeps the order of numbers: if a < b, then a <= b for the doubles.
    """
    try:
        parts = _compared_sides(node, scope)
    except NotIndexed:
        return []
    substitute = nearest_comparable(*(side_expression(each, scope).type for each in parts.sides))
    if substitute is None or parts.op is Op.NE:
        return []
    left, right = (_signed_operand(each, scope) for each in parts.sides)
    if parts.width is None:
        relaxed = NODE_OF_OP[OPERATORS[parts.op].relaxed]
        return [relaxed(this=_substituted(substitute, left), expression=_substituted(substitute, right))]
    above, below = (
        _substituted(substitute, move(this=exp.paren(left.copy()), expression=exp.paren(parts.width.copy())))
        for move in (exp.Add, exp.Sub)
    )
    return [
        exp.GTE(this=above, expression=_substituted(substitute, right)),
        exp.LTE(this=below, expression=_substituted(substitute, right)),
    ]


def exact_where_doubles_tie(node: exp.Expression, scope: Scope) -> exp.Expression:
    """A residual comparison after `coarser_comparisons`: it compares doubles, and exact values if these are equal.

    DuckDB brings two decimals to one scale, for which a number with many digits may have no room.
    """
    parts = _compared_sides(node, scope)
    if parts.width is not None or any(
        side_expression(each, scope).type.name is not TypeName.DECIMAL for each in parts.sides
    ):
        return node
    left, right = (exp.cast(exp.paren(each.copy()), "DOUBLE") for each in (node.this, node.expression))
    return (
        exp.case()
        .when(exp.NEQ(this=left, expression=right), type(node)(this=left.copy(), expression=right.copy()))
        .else_(node.copy())
    )


def _signed_operand(operand: exp.Expression, scope: Scope) -> exp.Expression:
    """The operand, with unsigned integers in a type that may be negative."""
    kind = side_expression(operand, scope).type
    return exp.cast(operand.copy(), "HUGEINT") if kind.name is TypeName.DECIMAL and not kind.scale else operand


def _substituted(substitute: Substitute, operand: exp.Expression) -> exp.Expression:
    node = sqlglot.parse_one(substitute.sql.format('"?"'), dialect=DIALECT)
    value = node.find(exp.Column)
    assert value is not None
    value.replace(exp.paren(operand.copy()))
    assert isinstance(node, exp.Expression)
    return node


def _computed_sides(parts: _ComparedSides, error: NotLinear, scope: Scope) -> list[Computed]:
    try:
        return [side_expression(each, scope) for each in parts.sides]
    except QueryError:
        if isinstance(error, Implausible):
            raise error from None
        raise


@dataclass(frozen=True, slots=True)
class _ComparedSides:
    """A comparison's operator and its two sides, left first; for a band, also its width."""

    op: Op
    sides: tuple[exp.Expression, exp.Expression]
    width: exp.Expression | None = None


def _compared_sides(node: exp.Expression, scope: Scope) -> _ComparedSides:
    op, first, second, width = _operands(node, scope)
    is_in_order = {use.side for use in uses_of(first, scope)} == {0}
    sides = (first, second) if is_in_order else (second, first)
    if width is None:
        return _ComparedSides(op if is_in_order else op.flipped, sides)
    if op not in _BANDS:
        raise NotIndexed
    return _ComparedSides(_BANDS[op], sides, width)


def _not_comparable(
    parts: _ComparedSides, sides: list[Computed], error: NotLinear, node: exp.Expression, scope: Scope
) -> QueryError:
    kinds = [side.type for side in sides]
    if isinstance(error, Implausible):
        return error
    kept = int(kinds[0].name is TypeName.STRING)  # the text is cast to the other type, never the reverse
    message = (
        f"predicate '{sql_text(node)}' compares {kinds[0]} '{sql_text(parts.sides[0])}' with {kinds[1]} "
        f"'{sql_text(parts.sides[1])}': cast one to the other's type, such as CAST(... AS {kinds[kept]})"
    )
    place = characters_of(bare(parts.sides[1 - kept]))
    if place is None:
        return QueryError(message, scope.line_of(node))
    cast = f"CAST({sql_text(parts.sides[1 - kept])} AS {duckdb_type(kinds[kept])})"
    return Correctable(message, scope.line_of(node), [(*place, cast)])


def _computed_width(
    parts: _ComparedSides, comparison: CodeComparison, sides: list[Computed], scope: Scope
) -> int | float:
    assert parts.width is not None
    line = scope.line_of(parts.width)
    value = _band_value(parts.width, sides, scope)
    scale = comparison.scale if comparison.domain is Domain.INTEGER else None
    return _coded_width(value, scale, parts.op, sql_text(parts.width), line)


def _band_value(width: exp.Expression, sides: list[Computed], scope: Scope) -> Fraction | Decimal | float:
    """A band's width in the unit of the compared values: days for dates, microseconds for timestamps."""
    kinds = {_MOMENTS[side.type.name] for side in sides if side.type.name in _MOMENTS}
    if kinds:
        operand = bind(width, scope)
        if operand.kind is not OperandKind.INTERVAL:
            expected = "INTERVAL '...', such as INTERVAL '1 day'"
            raise QueryError(f"band width '{operand.text}': expected {expected}", operand.line)
        kind = OperandKind.TIMESTAMP if OperandKind.TIMESTAMP in kinds else OperandKind.DATE
        return in_units_of(kind, operand.expression, operand.line)
    value = value_of(width, scope)
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool) or not math.isfinite(value):
        raise QueryError(f"band width '{sql_text(width)}': expected a finite number", scope.line_of(width))
    return value


def _operand_pair(node: exp.Expression, scope: Scope) -> _OperandPair:
    parts = _compared_sides(node, scope)
    left, right = (bind(side, scope) for side in parts.sides)
    width = None if parts.width is None else bind(parts.width, scope)
    is_time_ms = scope.is_time_ms(left.uses) and scope.is_time_ms(right.uses)
    return _OperandPair(parts.op, left, right, sql_text(node), scope.line_of(node), width, scope.schemas, is_time_ms)


def _domain(pair: _OperandPair) -> Domain:
    if pair.left.kind is not pair.right.kind or pair.left.kind is OperandKind.INTERVAL:
        raise Implausible(
            f"predicate '{pair.text}' compares {_kind_text(pair.left)} with {_kind_text(pair.right)}: "
            "expected two numbers, two dates or two timestamps",
            pair.line,
        )
    uses = pair.left.uses + pair.right.uses
    check_zones(pair.text, [(each.text, use.type) for each in (pair.left, pair.right) for use in each.uses], pair.line)
    floating = [use for use in uses if use.type.name in FLOATING]
    exact = [use for use in uses if use.type.name in _BEYOND_DOUBLE]
    if floating and exact:
        raise NotLinear(f"predicate '{pair.text}' computes doubles from {exact[0].type} '{exact[0].name}'", pair.line)
    return Domain.FLOAT if floating else Domain.INTEGER


def _kind_text(operand: Operand) -> str:
    return f"{operand.kind} '{operand.text}'"


def _common_scale(pair: _OperandPair) -> int:
    scale = 0
    for operand, schema in zip((pair.left, pair.right), pair.schemas, strict=True):
        _check_no_division(operand.expression, pair)
        scale = max(scale, scale_needed(linear_form(operand.expression), schema))
    if scale > SCALE_MAX:
        raise QueryError(
            f"predicate '{pair.text}' needs {scale} digits after the point: expected at most {SCALE_MAX}", pair.line
        )
    return scale


def _check_no_division(expression: Expression, pair: _OperandPair) -> None:
    if not isinstance(expression, Arithmetic):
        return
    if expression.operator == "/":
        raise NotLinear(f"predicate '{pair.text}' divides integers or decimals, which isn't exact", pair.line)
    _check_no_division(expression.left, pair)
    _check_no_division(expression.right, pair)


def _slot(pair: _OperandPair, side: int, domain: Domain, scale: int, keys: KeyTable) -> int:
    operand = pair.right if side else pair.left
    if domain is Domain.FLOAT:
        _check_double_constants(operand.expression, pair)
    else:
        _check_fits(operand, pair.schemas[side], scale, pair)
    has_no_nan = domain is Domain.FLOAT and pair.width is not None
    return keys.slot(side, KeyColumn(operand.expression, domain, scale, operand.plain_text, has_no_nan=has_no_nan))


def _check_fits(operand: Operand, schema: dict[str, ColumnType], scale: int, pair: _OperandPair) -> None:
    form = scaled(linear_form(operand.expression), schema, scale)
    if any(abs(number) > CODE_MAX for number in (*form.terms.values(), form.constant)):
        raise QueryError(
            f"predicate '{pair.text}': a number in '{operand.text}' is beyond 64-bit integers"
            + (f" at {scale} digits after the point" if scale else ""),
            pair.line,
        )


def _check_double_constants(expression: Expression, pair: _OperandPair) -> None:
    if isinstance(expression, Arithmetic):
        _check_double_constants(expression.left, pair)
        _check_double_constants(expression.right, pair)
        if expression.operator == "/" and _constant_double(expression.right, pair) == 0:
            raise QueryError(f"predicate '{pair.text}' divides by zero: expected another divisor", pair.line)
    elif isinstance(expression, Constant):
        _constant_double(expression, pair)


def _constant_double(expression: Expression, pair: _OperandPair) -> float:
    try:
        with np.errstate(all="ignore"):
            value = float(evaluate(expression, _no_column, np.float64))
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise QueryError(f"predicate '{pair.text}': a number is beyond doubles: expected a finite number", pair.line)
    return value


def _no_column(name: str) -> np.float64:
    raise AssertionError(f"column {name} in a constant")


def _width(pair: _OperandPair, domain: Domain, scale: int) -> int | float:
    assert pair.width is not None
    width = _width_value(pair, pair.width, domain)
    return _coded_width(width, scale if domain is Domain.INTEGER else None, pair.op, pair.width.text, pair.line)


def _width_value(pair: _OperandPair, width: Operand, domain: Domain) -> Fraction | float:
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


def _coded_width(width: Fraction | Decimal | float, scale: int | None, op: Op, text: str, line: int) -> int | float:
    """A band's width in codes; scale: None for doubles. Raises QueryError if no band has such a width.

    Between integers, |d| < w is |d| < ceil(w), and |d| <= w is |d| <= floor(w), so no finer scale is needed.
    """
    if width < 0 or (width == 0 and op is Op.BAND_LT):
        least = "more than 0" if op is Op.BAND_LT else "at least 0"
        raise QueryError(f"band width '{text}' must be {least}", line)
    if scale is None:
        return float(width)
    exact = Fraction(width) * 10**scale
    whole: int = math.ceil(exact) if op is Op.BAND_LT else math.floor(exact)
    if whole > CODE_MAX:
        raise QueryError(f"band width '{text}' is beyond 64-bit integers", line)
    return whole
