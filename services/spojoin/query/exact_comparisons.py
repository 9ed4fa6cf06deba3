"""Makes comparisons exact, though the engine rounds integers and decimals to doubles, or knows only one unit of time.

This is for filters and residual conditions; an index compares integers that stand for the doubles (see
`comparable.py`). If the rounded values differ, the exact ones differ in the same direction, since rounding keeps the
order. If they are equal, the double's digits are compared with the exact value's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import pyarrow as pa
import sqlglot
from sqlglot import exp

from spojoin.model import FLOATING, ColumnType, TypeName
from spojoin.query.nodes import DIALECT, FLIPPED_NODE, SIGN_OF_NODE

_PRECISION_MAX = 37  # one digit is added
#: The digits of integer types; the type of a decimal says its own.
_WHOLE_DIGITS = {TypeName.INT: 10, TypeName.LONG: 19, TypeName.DECIMAL: 0}
#: The engine converts decimals of up to this many digits to the nearest double.
_DIGITS_EXACT = 15
#: Between these instants, 64 bits hold the nanoseconds.
_FIRST_NS, _LAST_NS = (f"CAST('{year}-01-01 00:00:00+00' AS TIMESTAMPTZ)" for year in (1678, 2262))
#: Gives the type of an expression in DuckDB's dialect; None if no column can have this type.
TypeOf = Callable[[str], ColumnType | None]


def _parsed(sql: str) -> exp.Expression:
    node = sqlglot.parse_one(sql, dialect=DIALECT)
    assert isinstance(node, exp.Expression)
    return node


def with_exact_comparisons(sql: str, type_of: TypeOf) -> str:
    """An expression in which each comparison of an integer or decimal with a double is exact.

    So are comparisons of two numbers that don't fit in one decimal of the engine, and comparisons of nanoseconds with
    microseconds, which the engine supports only for timestamps without a zone.
    """
    node = _parsed(sql)
    kinds = _kinds_compared(node, type_of)
    is_rounded = any(map(_is_beyond, kinds)) and any(kind.name in FLOATING for kind in kinds)
    if not (is_rounded or _overflows(kinds) or any(_nanoseconds(kind) for kind in kinds)):
        return sql
    return _compared_exactly(node, type_of).sql(dialect=DIALECT, comments=False)


def _kinds_compared(node: exp.Expression, type_of: TypeOf) -> list[ColumnType]:
    compared = [each for each in node.walk() if type(each) in SIGN_OF_NODE or isinstance(each, exp.Between)]
    parts = [part for each in compared for part in each.args.values() if isinstance(part, exp.Expression)]
    found = (type_of(part.sql(dialect=DIALECT, comments=False)) for part in parts)
    return [kind for kind in found if kind is not None]


def _compared_exactly(node: exp.Expression, type_of: TypeOf) -> exp.Expression:
    whole = exp.paren(node.copy())
    for between in list(whole.find_all(exp.Between)):
        if not between.args.get("symmetric"):
            between.replace(exp.paren(_ends(between)))
    # Inner ones first: a comparison may be a part of another one, such as (a < b) = c.
    compared = [each for each in whole.walk() if isinstance(each, exp.Expression) and type(each) in SIGN_OF_NODE]
    for found in reversed(compared):
        found.replace(_exact(found, type_of))
    inner = whole.this
    assert isinstance(inner, exp.Expression)
    return inner


def _ends(between: exp.Between) -> exp.Expression:
    value, low, high = (between.args[name] for name in ("this", "low", "high"))
    return exp.And(
        this=exp.GTE(this=value.copy(), expression=low.copy()),
        expression=exp.LTE(this=value.copy(), expression=high.copy()),
    )


def _exact(node: exp.Expression, type_of: TypeOf) -> exp.Expression:
    left, right = (type_of(each.sql(dialect=DIALECT, comments=False)) for each in (node.this, node.expression))
    if left is None or right is None:
        return node
    if _is_beyond(left) and right.name in FLOATING:
        return _rounded_or_exact(node, node.this, node.expression, left)
    if _is_beyond(right) and left.name in FLOATING:
        return _rounded_or_exact(node, node.expression, node.this, right)
    if _overflows((left, right)):
        a, b = (_parts_of(each.sql(dialect=DIALECT, comments=False)) for each in (node.this, node.expression))
        return _by_parts(a, b, SIGN_OF_NODE[type(node)])
    return _of_one_unit(node, left, right)


def _of_one_unit(node: exp.Expression, left: ColumnType, right: ColumnType) -> exp.Expression:
    """A comparison of nanoseconds with microseconds, rewritten in nanoseconds."""
    if _nanoseconds(left) and not _nanoseconds(right):
        return _of_nanoseconds(node, node.this, node.expression, left)
    if _nanoseconds(right) and not _nanoseconds(left):
        return _of_nanoseconds(node, node.expression, node.this, right)
    return node


def _overflows(kinds: Sequence[ColumnType]) -> bool:
    """Whether no decimal of the engine has room for all numbers' digits before and after the point."""
    exact = [kind for kind in kinds if kind.name in _WHOLE_DIGITS]
    whole = [_WHOLE_DIGITS[kind.name] or kind.precision - kind.scale for kind in exact]
    return bool(exact) and max(whole) + max(kind.scale for kind in exact) > _PRECISION_MAX + 1


def _parts_of(own: str) -> tuple[str, str]:
    """A number's whole part, and its fraction."""
    return f"CAST(TRUNC({own}) AS HUGEINT)", f"(({own}) - TRUNC({own}))"


def _by_parts(left: tuple[str, str], right: tuple[str, str], sign: str) -> exp.Expression:
    """A comparison of the whole parts, and of the fractions if the whole parts are equal."""
    (a, rest_a), (b, rest_b) = left, right
    return _parsed(f"(CASE WHEN {a} <> {b} THEN {a} {sign} {b} ELSE {rest_a} {sign} {rest_b} END)")


def _nanoseconds(kind: ColumnType) -> str | None:
    """The engine's type for times of day or instants with nanoseconds; None for other types."""
    if not isinstance(kind.arrow, pa.DataType):
        return None
    return "TIME_NS" if kind.arrow == pa.time64("ns") else "TIMESTAMPTZ_NS" if _is_instant_ns(kind.arrow) else None


def _is_instant_ns(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is not None


def _of_nanoseconds(
    node: exp.Expression, fine: exp.Expression, other: exp.Expression, kind: ColumnType
) -> exp.Expression:
    """Compares nanoseconds with microseconds in nanoseconds, or in microseconds if 64 bits can't hold an instant."""
    own, known = (f"({each.sql(dialect=DIALECT, comments=False)})" for each in (fine, other))
    pairs = [(own, f"CAST({known} AS {_nanoseconds(kind)})"), (f"CAST({own} AS TIMESTAMPTZ)", known)]
    sign = SIGN_OF_NODE[type(node)]
    exact, rough = (f"{a} {sign} {b}" if fine is node.this else f"{b} {sign} {a}" for a, b in pairs)
    if kind.zone is None:
        return _parsed(f"({exact})")
    return _parsed(f"(CASE WHEN {known} BETWEEN {_FIRST_NS} AND {_LAST_NS} THEN {exact} ELSE {rough} END)")


def _is_beyond(kind: ColumnType) -> bool:
    """Whether a type has values that no double equals."""
    return kind.name in (TypeName.LONG, TypeName.DECIMAL)


def _rounded_or_exact(
    node: exp.Expression, exact: exp.Expression, floating: exp.Expression, kind: ColumnType
) -> exp.Expression:
    """Compares the rounded value with the double if they differ, otherwise the exact value with the double's digits."""
    if (constant := _number(exact)) is not None:
        return _compared_with(floating, _side_of(node, exact is node.this), constant)
    if kind.scale > _PRECISION_MAX:
        return node
    own, double = (each.sql(dialect=DIALECT, comments=False) for each in (exact, floating))
    rounded = f"CAST(({own}) AS DOUBLE)"
    if kind.precision > _PRECISION_MAX and kind.scale:
        return _rounded_or_by_parts(node, own, double, kind, is_flipped=exact is not node.this)
    known = _with_one_more_digit(double, kind.scale) if kind.scale else f"TRY_CAST(({double}) AS HUGEINT)"
    sign = SIGN_OF_NODE[type(node)]
    pairs = [(rounded, f"({double})"), (f"({own})", known)]
    whole, same = (f"{a} {sign} {b}" if exact is node.this else f"{b} {sign} {a}" for a, b in pairs)
    sql = f"(CASE WHEN {rounded} <> ({double}) THEN {whole} ELSE {same} END)"
    return _parsed(sql)


def _rounded_or_by_parts(
    node: exp.Expression, own: str, double: str, kind: ColumnType, *, is_flipped: bool
) -> exp.Expression:
    """Like `_rounded_or_exact`, for a decimal that has no room for one more digit."""
    rest = _with_one_more_digit(f"({double}) - TRUNC({double})", kind.scale)
    sides = [
        (f"CAST(({own}) AS DOUBLE)", *_parts_of(own)),
        (f"({double})", f"TRY_CAST(TRUNC({double}) AS HUGEINT)", rest),
    ]
    (a, *left), (b, *right) = reversed(sides) if is_flipped else sides
    sign = SIGN_OF_NODE[type(node)]
    same = _by_parts((left[0], left[1]), (right[0], right[1]), sign).sql(dialect=DIALECT, comments=False)
    return _parsed(f"(CASE WHEN {a} <> {b} THEN {a} {sign} {b} ELSE {same} END)")


def _number(node: exp.Expression) -> Fraction | None:
    """The value of a literal number, with its sign; None for anything else."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        found = _number(inner.this)
        return None if found is None else -found
    return Fraction(inner.name) if isinstance(inner, exp.Literal) and not inner.is_string else None


def _side_of(node: exp.Expression, is_flipped: bool) -> type[exp.Expression]:
    """The comparison's operator if the double is on the left."""
    return FLIPPED_NODE[type(node)] if is_flipped else type(node)


def _compared_with(floating: exp.Expression, compare: type[exp.Expression], constant: Fraction) -> exp.Expression:
    """Compares a double with a constant, by the double next to the constant; no other double is between the two."""
    nearest = float(constant)
    rest = Fraction(nearest) - constant
    if rest and compare in (exp.EQ, exp.NEQ):  # no double equals it: one result for all but NULL
        return (exp.NEQ if compare is exp.EQ else exp.EQ)(this=floating.copy(), expression=floating.copy())
    if rest:
        is_up = compare in (exp.GT, exp.GTE)
        compare = (exp.GTE if is_up else exp.LT) if rest > 0 else (exp.GT if is_up else exp.LTE)
    return compare(this=floating.copy(), expression=_parsed(_written(nearest)))


def _written(double: float) -> str:
    """A double as a literal; with many digits it gets an exponent, since a decimal would be rounded twice."""
    text = repr(double)
    return text if "e" in text or len(text) <= _DIGITS_EXACT else f"{text}e0"


def _with_one_more_digit(double: str, scale: int) -> str:
    """A double cut to some digits after the point, with a 5 after them if more digits follow.

    A double that is the nearest to a decimal of up to 18 digits has at most 112 digits after the point.
    """
    digits = f"FORMAT('{{:.120f}}', CAST(({double}) AS DOUBLE))"
    point = f"INSTR({digits}, '.')"
    rest = f"TRIM(SUBSTR({digits}, {point} + {scale + 1}), '0')"
    text = f"SUBSTR({digits}, 1, {point} + {scale}) || CASE WHEN {rest} = '' THEN '0' ELSE '5' END"
    return f"TRY_CAST({text} AS DECIMAL(38, {scale + 1}))"
