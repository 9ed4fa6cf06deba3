"""Defines which types can be compared, how an index compares them as codes, and which have no common order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import (
    FLOATING,
    MOMENTS,
    NUMBERS,
    OPERATORS,
    Column,
    ColumnType,
    Computed,
    Domain,
    Expression,
    KeyColumn,
    Op,
    Rounding,
    TypeName,
)

#: The most decimal digits after the point in a code: 10**18 is the largest power of ten in an int64.
SCALE_MAX = 18

#: How to compare an exact x with a double d: `x op d` is `x op i`, with the integer i that stands for d.
ROUNDED: dict[Op, tuple[Op, Rounding]] = {
    Op.LT: (Op.LE, Rounding.BELOW),
    Op.LE: (Op.LE, Rounding.AT_MOST),
    Op.GT: (Op.GE, Rounding.ABOVE),
    Op.GE: (Op.GE, Rounding.AT_LEAST),
    Op.EQ: (Op.EQ, Rounding.EQUAL),
}

_EXACT = NUMBERS - FLOATING
_ASSIGNED = (TypeName.STRING, TypeName.UUID, TypeName.BINARY)
#: Types whose order an index knows only by the first bytes, and the type of the compared prefixes.
BY_PREFIX = (TypeName.STRING, TypeName.BINARY)


@dataclass(frozen=True, slots=True)
class Substitute:
    """An expression to compare instead of a value, with {} in the value's place, and the expression's type."""

    sql: str
    type: TypeName


_MIDNIGHT = Substitute("CAST({} AS TIMESTAMP)", TypeName.TIMESTAMP)
#: A time of day as a moment on a fixed day, in microseconds.
_OF_DAY = Substitute("DATE '1970-01-01' + CAST({} AS TIME)", TypeName.TIMESTAMP)
#: A duration without months in microseconds.
_OF_DURATION = Substitute("EPOCH_US({})", TypeName.LONG)
#: An unsigned 64-bit integer as the signed integer with the same rank.
_SIGNED = Substitute("CAST(CAST({} AS HUGEINT) - 9223372036854775808 AS BIGINT)", TypeName.LONG)
#: A number as the nearest double.
_NEAREST = Substitute("CAST({} AS DOUBLE)", TypeName.DOUBLE)
_SUBSTITUTES = [(pa.types.is_uint64, _SIGNED), (pa.types.is_time, _OF_DAY), (pa.types.is_duration, _OF_DURATION)]
_NANOSECONDS = (pa.time64("ns"), pa.duration("ns"))


class NotIndexed(Exception):  # a signal within this package
    """A comparison of both sides that no index can answer."""


@dataclass(frozen=True, slots=True)
class CodeComparison:
    """How values of two types are compared as codes.

    op: compares the left side's code with the right side's
    substitutes: the expressions that are compared instead of each side; None for the side itself
    roundings: how each side of doubles is rounded to integers, if the other side is exact
    """

    op: Op
    domain: Domain
    scale: int = 0
    substitutes: tuple[Substitute | None, Substitute | None] = (None, None)
    roundings: tuple[Rounding | None, Rounding | None] = (None, None)

    def key(self, side: int, expression: Computed, column: str | None, text: str) -> KeyColumn:
        """The key column of a side; column: the column's name, if the expression is a single column."""
        compared: Expression = expression if column is None else Column(column)
        substitute = self.substitutes[side]
        if substitute is not None:
            sql = substitute.sql.format(f"({expression.sql})")
            compared = Computed(sql, expression.columns, ColumnType(substitute.type))
        has_scale = self.domain is Domain.INTEGER or self.roundings[side] is not None
        return KeyColumn(compared, self.domain, self.scale if has_scale else 0, text, self.roundings[side])


def nearest_comparable(left: ColumnType, right: ColumnType) -> Substitute | None:
    """A substitute for values that no code distinguishes; it keeps their order, but makes some values equal."""
    if all(kind.name in NUMBERS for kind in (left, right)):
        return _NEAREST
    are_times = all(isinstance(kind.arrow, pa.DataType) and pa.types.is_time(kind.arrow) for kind in (left, right))
    return _OF_DAY if are_times else None


def code_comparison(left: ColumnType, right: ColumnType, op: Op, *, is_band: bool) -> CodeComparison | None:
    """How an index compares two types; None if SQL needs a cast to compare them. NotIndexed if no index can."""
    kinds = left.name, right.name
    if (substitute := _common_substitute(left, right)) is not None:
        return CodeComparison(op, Domain.INTEGER, substitutes=(substitute, substitute))
    if kinds == (TypeName.CARRIED, TypeName.CARRIED):
        raise NotIndexed
    if all(kind in _EXACT for kind in kinds):
        return _at_scale(op, max(left.scale, right.scale))
    if all(kind in NUMBERS for kind in kinds):
        return _with_doubles(left, right, op, is_band=is_band)
    if all(kind in MOMENTS for kind in kinds):
        casts: tuple[Substitute | None, Substitute | None] = (None, None)
        if kinds[0] is not kinds[1]:
            casts = (_MIDNIGHT, None) if kinds[0] is TypeName.DATE else (None, _MIDNIGHT)
        return CodeComparison(op, Domain.INTEGER, substitutes=casts)
    return None if kinds[0] is not kinds[1] or is_band else _within_one_type(kinds[0], op)


def _within_one_type(kind: TypeName, op: Op) -> CodeComparison | None:
    """Compares booleans by order, UUIDs by equality only, and texts and bytes by equality or by their prefixes."""
    if kind is TypeName.BOOLEAN:
        return CodeComparison(op, Domain.INTEGER)
    if kind not in _ASSIGNED:
        return None
    if kind in BY_PREFIX and op in (Op.LT, Op.LE, Op.GT, Op.GE):
        return CodeComparison(OPERATORS[op].relaxed, Domain.INTEGER)
    if op not in (Op.EQ, Op.NE):
        raise NotIndexed
    return CodeComparison(op, Domain.ASSIGNED)


def _common_substitute(left: ColumnType, right: ColumnType) -> Substitute | None:
    """The exact substitute for the values of two columns of one Arrow type; None if there is none."""
    both = left.arrow, right.arrow
    if any(kind in _NANOSECONDS for kind in both):
        return None
    for is_type, substitute in _SUBSTITUTES:
        if all(isinstance(kind, pa.DataType) and is_type(kind) for kind in both):
            return substitute
    return None


def _at_scale(op: Op, scale: int) -> CodeComparison:
    if scale > SCALE_MAX:
        raise NotIndexed
    return CodeComparison(op, Domain.INTEGER, scale)


def _with_doubles(left: ColumnType, right: ColumnType, op: Op, *, is_band: bool) -> CodeComparison:
    """Compares doubles with values that doubles hold exactly, or else by integers that stand for the doubles."""
    beyond = [kind for kind in (left, right) if kind.name in (TypeName.LONG, TypeName.DECIMAL)]
    if not beyond or is_band:
        return CodeComparison(op, Domain.FLOAT)
    is_left = left.name in FLOATING
    if op is Op.NE:
        exact = (None, Rounding.DOUBLE) if is_left else (Rounding.DOUBLE, None)
        return CodeComparison(op, Domain.FLOAT, beyond[0].scale, roundings=exact)
    op, rounding = ROUNDED[op.flipped if is_left else op]
    roundings = (rounding, None) if is_left else (None, rounding)
    scale = beyond[0].scale
    if scale > SCALE_MAX:
        raise NotIndexed
    return CodeComparison(op.flipped if is_left else op, Domain.INTEGER, scale, roundings=roundings)


_CLOCKS = (TypeName.TIMESTAMP, TypeName.DATE)
#: Expressions that order, subtract or choose among their parts.
_TOGETHER = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.In,
    exp.Sub,
    exp.DateDiff,
    exp.Greatest,
    exp.Least,
    exp.Coalesce,
)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Greatest, exp.Least)
#: Gives the type of a part of an expression; None if it names no column, or if no column can have its type.
KindOf = Callable[[exp.Expression], ColumnType | None]


def check_zones(text: str, parts: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError if `text` compares a time with a zone and one without; parts: the compared parts with their types."""
    zoned = next(((part, kind.zone) for part, kind in parts if kind.zone is not None), None)
    naive = next(((part, kind.name) for part, kind in parts if kind.name in _CLOCKS and kind.zone is None), None)
    if zoned is None or naive is None:
        return
    (part, zone), (other, name) = zoned, naive
    moment = other if name is TypeName.TIMESTAMP else f"CAST({other} AS TIMESTAMP)"
    raise QueryError(
        f"'{text}' compares '{part}', which has a time zone, with '{other}', which has none: give '{other}' a zone, "
        f"such as ({moment}) AT TIME ZONE '{zone}', or take the local time of '{part}' in a zone, such as "
        f"({part}) AT TIME ZONE '{zone}'",
        line,
    )


def check_ranks(text: str, parts: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError if `text` orders categories, since statements don't know the order of categories."""
    ranked = next((part for part, kind in parts if kind.is_ranked), None)
    if ranked is not None:
        raise QueryError(
            f"'{text}' orders '{ranked}', whose categories have another order than their texts: write this order as "
            f"numbers, such as CASE {ranked} WHEN 'low' THEN 1 WHEN 'high' THEN 2 END, or compare texts, "
            f"CAST({ranked} AS VARCHAR)",
            line,
        )


def check_clocks(times: Sequence[tuple[str, ColumnType]], line: int) -> None:
    """QueryError if rows are ordered by event times with a zone and without; times: the columns with their types."""
    zoned = next(((name, kind.zone) for name, kind in times if kind.zone is not None), None)
    naive = next((name for name, kind in times if kind.name in _CLOCKS and kind.zone is None), None)
    if zoned is not None and naive is not None:
        raise QueryError(
            f"rows are ordered by {zoned[0]}, which has a time zone, and {naive}, which has none: declare its zone in "
            f"the schema, {naive.split('.')[-1]}: timestamptz({zoned[1]}), or join TABLE(...), which needs no order",
            line,
        )


def check_zones_within(
    node: exp.Expression, kind_of: KindOf, text_of: Callable[[exp.Expression], str], line: int
) -> None:
    """`check_zones` and `check_ranks` for all comparisons and differences within an expression."""
    for found in node.walk():
        if isinstance(found, _TOGETHER):
            parts = [part for part in found.iter_expressions() if part.find(exp.Column) is not None]
            kinds = [(text_of(part), kind_of(part)) for part in parts]
            known = [(part, kind) for part, kind in kinds if kind is not None]
            check_zones(text_of(found), known, line)
            if isinstance(found, _ORDERED):
                check_ranks(text_of(found), known, line)
