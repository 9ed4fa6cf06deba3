"""From conjuncts to predicates and key columns: sides, domains, scales and bands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import sqlglot
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.expressions.types import duckdb_type
from spojoin.model import (
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
    Made,
    NotIndexed,
    compared,
    nearly,
)
from spojoin.query.computed import of_side, uses_of, value_of
from spojoin.query.floating import evaluate
from spojoin.query.linear import linear_form, scale_needed, scaled
from spojoin.query.mended import Mended, span
from spojoin.query.operands import Implausible, NotLinear, Operand, OperandKind, bind, in_units_of, text_of
from spojoin.query.scope import Scope
from spojoin.query.statement import DIALECT, bare
from spojoin.query.zones import check_ranks, check_zones

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
_MOMENTS = {TypeName.DATE: OperandKind.DATE, TypeName.TIMESTAMP: OperandKind.TIMESTAMP}


@dataclass(slots=True)
class KeyTable:
    """The key columns of each stream in slot order; both sides of a self join share one list."""

    columns: tuple[list[KeyColumn], ...]

    def slot(self, side: int, key: KeyColumn) -> int:
        """The slot of a key column, which is added if no equal one exists (its text may differ)."""
        keys = self.columns[min(side, len(self.columns) - 1)]
        for slot, known in enumerate(keys):
            if replace(known, text=key.text, has_no_nan=key.has_no_nan) == key:
                keys[slot] = replace(known, has_no_nan=known.has_no_nan or key.has_no_nan)
                return slot
        keys.append(key)
        return len(keys) - 1


@dataclass(frozen=True, slots=True)
class _Pair:
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
    if type(node) not in _COMPARISONS:
        return False
    _, *operands, _ = _operands(node, scope)
    sides = [{use.side for use in uses_of(each, scope)} for each in operands]
    return sides in ([{0}, {1}], [{1}, {0}])


def is_by_prefixes(predicate: Predicate, key: KeyColumn, scope: Scope) -> bool:
    """Whether an index compares how texts begin, so that the condition itself must decide about each pair.

    key: the left side's key column
    """
    made = key.expression
    kind = (
        made.type
        if isinstance(made, Computed)
        else scope.schemas[0].get(made.name)
        if isinstance(made, Column)
        else None
    )
    return predicate.domain is Domain.INTEGER and kind is not None and kind.name in BY_PREFIX


def _operands(node: exp.Expression, scope: Scope) -> tuple[Op, exp.Expression, exp.Expression, exp.Expression | None]:
    """A comparison's operator and two operands; of a band, ABS(a - b) < c, a and b, and c as its width."""
    op, first, second = _COMPARISONS[type(node)], bare(node.this), bare(node.expression)
    for one, absolute, width in ((op, first, second), (op.flipped, second, first)):
        difference = bare(absolute.this) if isinstance(absolute, exp.Abs) else None
        if isinstance(difference, exp.Sub) and not uses_of(width, scope):
            return one, bare(difference.this), bare(difference.expression), width
    return op, first, second, None


def build_predicate(node: exp.Expression, scope: Scope, keys: KeyTable) -> Predicate:
    """The predicate that a comparison means; its key columns enter `keys`. QueryError for every mistake.

    Sums of columns with constant factors are evaluated exactly, all else by the expression engine. NotIndexed where
    only the engine can compare the two sides.
    """
    try:
        return _linear_predicate(node, scope, keys)
    except NotLinear as error:
        return _computed_predicate(node, scope, keys, error)


def _linear_predicate(node: exp.Expression, scope: Scope, keys: KeyTable) -> Predicate:
    pair = _pair(node, scope)
    if _is_mixed(pair):
        return _mixed_predicate(pair, keys)
    domain = _domain(pair)
    scale = _common_scale(pair) if domain is Domain.INTEGER else 0
    slots = [_slot(pair, side, domain, scale, keys) for side in (0, 1)]
    width = _width(pair, domain, scale) if pair.width is not None else 0
    return Predicate(pair.op, slots[0], slots[1], domain, width, pair.text)


def _is_mixed(pair: _Pair) -> bool:
    """Whether one side is exact beyond doubles and the other of doubles."""
    kinds = [{use.type.name for use in each.uses} for each in (pair.left, pair.right)]
    is_apart = any(one & _BEYOND_DOUBLE and not one & _FLOATING and other & _FLOATING and not other & _BEYOND_DOUBLE
                   for one, other in (kinds, reversed(kinds)))  # fmt: skip
    return is_apart and pair.left.kind is pair.right.kind


def _mixed_predicate(pair: _Pair, keys: KeyTable) -> Predicate:
    """Integers or decimals against doubles: exact, by the integers that stand for the doubles; a band is of doubles."""
    if pair.width is not None:
        slots = [_slot(pair, side, Domain.FLOAT, 0, keys) for side in (0, 1)]
        return Predicate(pair.op, slots[0], slots[1], Domain.FLOAT, _width(pair, Domain.FLOAT, 0), pair.text)
    if pair.op is Op.NE:
        raise NotLinear("an integer or decimal stands for the double that it equals", pair.line)
    is_left = bool({use.type.name for use in pair.left.uses} & _FLOATING)
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
    """The same with expressions that the engine evaluates; `error` says why they aren't plain sums."""
    found, line = _taken_apart(node, scope), scope.line_of(node)
    sides = _computed_sides(found, error, scope)
    kinds = [(text_of(each), made.type) for each, made in zip(found.sides, sides, strict=True)]
    check_zones(text_of(node), kinds, line)
    if found.op not in (Op.EQ, Op.NE):
        check_ranks(text_of(node), kinds, line)
    comparison = compared(sides[0].type, sides[1].type, found.op, is_band=found.width is not None)
    if comparison is None:
        raise _not_comparable(found, sides, error, node, scope)
    if comparison.made == (None, None) and any(_is_wide(each, scope.schemas[k]) for k, each in enumerate(sides)):
        raise NotIndexed
    slots = []
    for side, (operand, made) in enumerate(zip(found.sides, sides, strict=True)):
        column = scope.column(operand).name if isinstance(operand, exp.Column) else None
        key = comparison.key(side, made, column, text_of(operand))
        slots.append(keys.slot(side, replace(key, has_no_nan=found.width is not None)))
    width = 0 if found.width is None else _computed_width(found, comparison, sides, scope)
    op = comparison.op if found.width is None else found.op
    return Predicate(op, slots[0], slots[1], comparison.domain, width, text_of(node))


def _is_wide(side: Computed, schema: Mapping[str, ColumnType]) -> bool:
    """Whether an expression of numbers has more digits than a code, since a column has."""
    is_wide = side.type.name is TypeName.DECIMAL and not side.type.is_coded
    return is_wide and any(name in schema and not schema[name].is_coded for name in side.columns)


_COARSER: dict[Op, type[exp.Expression]] = {
    Op.LT: exp.LTE,
    Op.LE: exp.LTE,
    Op.GT: exp.GTE,
    Op.GE: exp.GTE,
    Op.EQ: exp.EQ,
}


def coarser(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """Comparisons that an index answers, and that are true wherever one is that no index answers; none if unknown.

    Rounding to doubles keeps the order of numbers, so that a < b is nowhere true without a <= b of the doubles.
    """
    try:
        found = _taken_apart(node, scope)
    except NotIndexed:
        return []
    made = nearly(*(of_side(each, scope).type for each in found.sides))
    if made is None or found.op is Op.NE:
        return []
    left, right = (_signed(each, scope) for each in found.sides)
    if found.width is None:
        return [_COARSER[found.op](this=_made(made, left), expression=_made(made, right))]
    above, below = (
        _made(made, move(this=exp.paren(left.copy()), expression=exp.paren(found.width.copy())))
        for move in (exp.Add, exp.Sub)
    )
    return [
        exp.GTE(this=above, expression=_made(made, right)),
        exp.LTE(this=below, expression=_made(made, right)),
    ]


def decided(node: exp.Expression, scope: Scope) -> exp.Expression:
    """A comparison for which `coarser` has conditions, by the doubles where they differ: no digits are beyond them.

    DuckDB brings two decimals to one scale, for which the digits of a large number may leave no room.
    """
    found = _taken_apart(node, scope)
    if found.width is not None or any(of_side(each, scope).type.name is not TypeName.DECIMAL for each in found.sides):
        return node
    left, right = (exp.cast(exp.paren(each.copy()), "DOUBLE") for each in (node.this, node.expression))
    return (
        exp.case()
        .when(exp.NEQ(this=left, expression=right), type(node)(this=left.copy(), expression=right.copy()))
        .else_(node.copy())
    )


def _signed(operand: exp.Expression, scope: Scope) -> exp.Expression:
    """The operand, of an unsigned integer as one that may become negative."""
    kind = of_side(operand, scope).type
    return exp.cast(operand.copy(), "HUGEINT") if kind.name is TypeName.DECIMAL and not kind.scale else operand


def _made(made: Made, operand: exp.Expression) -> exp.Expression:
    written = sqlglot.parse_one(made.sql.format('"?"'), dialect=DIALECT)
    place = written.find(exp.Column)
    assert place is not None
    place.replace(exp.paren(operand.copy()))
    assert isinstance(written, exp.Expression)
    return written


def _computed_sides(found: _Parts, error: NotLinear, scope: Scope) -> list[Computed]:
    try:
        return [of_side(each, scope) for each in found.sides]
    except QueryError:
        if isinstance(error, Implausible):
            raise error from None
        raise


@dataclass(frozen=True, slots=True)
class _Parts:
    """A comparison's operator and its two sides, left first; of a band also its width."""

    op: Op
    sides: tuple[exp.Expression, exp.Expression]
    width: exp.Expression | None = None


def _taken_apart(node: exp.Expression, scope: Scope) -> _Parts:
    op, first, second, width = _operands(node, scope)
    is_in_order = {use.side for use in uses_of(first, scope)} == {0}
    sides = (first, second) if is_in_order else (second, first)
    if width is None:
        return _Parts(op if is_in_order else op.flipped, sides)
    if op not in _BANDS:
        raise NotIndexed
    return _Parts(_BANDS[op], sides, width)


def _not_comparable(
    found: _Parts, sides: list[Computed], error: NotLinear, node: exp.Expression, scope: Scope
) -> QueryError:
    kinds = [side.type for side in sides]
    if isinstance(error, Implausible):
        return error
    kept = int(kinds[0].name is TypeName.STRING)  # a text is cast to what stands beside it, never the other way round
    message = (
        f"predicate '{text_of(node)}' compares {kinds[0]} '{text_of(found.sides[0])}' with {kinds[1]} "
        f"'{text_of(found.sides[1])}': cast one to the other's type, such as CAST(... AS {kinds[kept]})"
    )
    place = span(bare(found.sides[1 - kept]))
    if place is None:
        return QueryError(message, scope.line_of(node))
    cast = f"CAST({text_of(found.sides[1 - kept])} AS {duckdb_type(kinds[kept])})"
    return Mended(message, scope.line_of(node), [(*place, cast)])


def _computed_width(found: _Parts, comparison: CodeComparison, sides: list[Computed], scope: Scope) -> int | float:
    assert found.width is not None
    line = scope.line_of(found.width)
    value = _band_value(found.width, sides, scope)
    least = "more than 0" if found.op is Op.BAND_LT else "at least 0"
    if value < 0 or (value == 0 and found.op is Op.BAND_LT):
        raise QueryError(f"band width '{text_of(found.width)}' must be {least}", line)
    if comparison.domain is Domain.FLOAT:
        return float(value)
    scaled_width = Fraction(value) * 10**comparison.scale
    whole: int = math.ceil(scaled_width) if found.op is Op.BAND_LT else math.floor(scaled_width)
    if whole > CODE_MAX:
        raise QueryError(f"band width '{text_of(found.width)}' is beyond 64-bit integers", line)
    return whole


def _band_value(width: exp.Expression, sides: list[Computed], scope: Scope) -> Fraction | Decimal | float:
    """A band's width in the unit of what it compares: of dates days, of timestamps microseconds."""
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
        raise QueryError(f"band width '{text_of(width)}': expected a finite number", scope.line_of(width))
    return value


def _pair(node: exp.Expression, scope: Scope) -> _Pair:
    parts = _taken_apart(node, scope)
    left, right = (bind(side, scope) for side in parts.sides)
    width = None if parts.width is None else bind(parts.width, scope)
    is_time_ms = scope.is_time_ms(left.uses) and scope.is_time_ms(right.uses)
    return _Pair(parts.op, left, right, text_of(node), scope.line_of(node), width, scope.schemas, is_time_ms)


def _domain(pair: _Pair) -> Domain:
    if pair.left.kind is not pair.right.kind or pair.left.kind is OperandKind.INTERVAL:
        raise Implausible(
            f"predicate '{pair.text}' compares {_kind_text(pair.left)} with {_kind_text(pair.right)}: "
            "expected two numbers, two dates or two timestamps",
            pair.line,
        )
    uses = pair.left.uses + pair.right.uses
    check_zones(pair.text, [(each.text, use.type) for each in (pair.left, pair.right) for use in each.uses], pair.line)
    floating = [use for use in uses if use.type.name in _FLOATING]
    exact = [use for use in uses if use.type.name in _BEYOND_DOUBLE]
    if floating and exact:
        raise NotLinear(f"predicate '{pair.text}' computes doubles from {exact[0].type} '{exact[0].name}'", pair.line)
    return Domain.FLOAT if floating else Domain.INTEGER


def _kind_text(operand: Operand) -> str:
    return f"{operand.kind} '{operand.text}'"


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
        raise NotLinear(f"predicate '{pair.text}' divides integers or decimals, which isn't exact", pair.line)
    _check_no_division(expression.left, pair)
    _check_no_division(expression.right, pair)


def _slot(pair: _Pair, side: int, domain: Domain, scale: int, keys: KeyTable) -> int:
    operand = pair.right if side else pair.left
    if domain is Domain.FLOAT:
        _check_double_constants(operand.expression, pair)
    else:
        _check_fits(operand, pair.schemas[side], scale, pair)
    has_no_nan = domain is Domain.FLOAT and pair.width is not None
    return keys.slot(side, KeyColumn(operand.expression, domain, scale, operand.plain_text, has_no_nan=has_no_nan))


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
