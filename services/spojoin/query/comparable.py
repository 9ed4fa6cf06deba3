"""Which types an index compares with which, and how their values become codes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spojoin.model import Column, ColumnType, Computed, Domain, Expression, KeyColumn, Op, Rounding, TypeName

#: Decimal digits after the point of a code: 10**18 is the largest power of ten in an int64.
SCALE_MAX = 18

#: `x op d` of an exact x and a double d, as `x op i` of the integer that stands for d.
ROUNDED: dict[Op, tuple[Op, Rounding]] = {
    Op.LT: (Op.LE, Rounding.BELOW),
    Op.LE: (Op.LE, Rounding.AT_MOST),
    Op.GT: (Op.GE, Rounding.ABOVE),
    Op.GE: (Op.GE, Rounding.AT_LEAST),
    Op.EQ: (Op.EQ, Rounding.EQUAL),
}

_EXACT = (TypeName.INT, TypeName.LONG, TypeName.DECIMAL)
_FLOATING = (TypeName.FLOAT, TypeName.DOUBLE)
_ASSIGNED = (TypeName.STRING, TypeName.UUID, TypeName.BINARY)
_MOMENTS = (TypeName.DATE, TypeName.TIMESTAMP)
#: Whose order an index knows by the first bytes, and what it compares these by.
BY_PREFIX = (TypeName.STRING, TypeName.BINARY)
RELAXED = {Op.LT: Op.LE, Op.LE: Op.LE, Op.GT: Op.GE, Op.GE: Op.GE}


@dataclass(frozen=True, slots=True)
class Made:
    """An expression of a value, written {}, that is compared in its place, and the type that it has."""

    sql: str
    type: TypeName


_MIDNIGHT = Made("CAST({} AS TIMESTAMP)", TypeName.TIMESTAMP)
#: A time of day as a moment of one day, in microseconds.
_OF_DAY = Made("DATE '1970-01-01' + CAST({} AS TIME)", TypeName.TIMESTAMP)
#: A duration without months in microseconds.
_OF_DURATION = Made("EPOCH_US({})", TypeName.LONG)
#: An unsigned 64-bit integer as the signed one at the same place of their order.
_SIGNED = Made("CAST(CAST({} AS HUGEINT) - 9223372036854775808 AS BIGINT)", TypeName.LONG)
#: A number as the nearest double.
_NEAREST = Made("CAST({} AS DOUBLE)", TypeName.DOUBLE)
_EXACTLY = [(pa.types.is_uint64, _SIGNED), (pa.types.is_time, _OF_DAY), (pa.types.is_duration, _OF_DURATION)]
_NANOSECONDS = (pa.time64("ns"), pa.duration("ns"))


class NotIndexed(Exception):  # a signal within this room
    """A comparison that no index can answer, though it is one of both sides."""


@dataclass(frozen=True, slots=True)
class CodeComparison:
    """How values of two types are compared as codes.

    op: of the left side's code with the right side's; made: what each side is compared as, if not as itself
    roundings: of each side, where it is of doubles and the other is exact
    """

    op: Op
    domain: Domain
    scale: int = 0
    made: tuple[Made | None, Made | None] = (None, None)
    roundings: tuple[Rounding | None, Rounding | None] = (None, None)

    def key(self, side: int, expression: Computed, column: str | None, text: str) -> KeyColumn:
        """The key column of a side; column: its name, where the expression is just one."""
        found: Expression = expression if column is None else Column(column)
        made = self.made[side]
        if made is not None:
            found = Computed(made.sql.format(f"({expression.sql})"), expression.columns, ColumnType(made.type))
        has_scale = self.domain is Domain.INTEGER or self.roundings[side] is not None
        return KeyColumn(found, self.domain, self.scale if has_scale else 0, text, self.roundings[side])


def nearly(left: ColumnType, right: ColumnType) -> Made | None:
    """What values that no code tells apart are compared as, in the same order but for some that become equal."""
    if all(kind.name in (*_EXACT, *_FLOATING) for kind in (left, right)):
        return _NEAREST
    are_times = all(isinstance(kind.arrow, pa.DataType) and pa.types.is_time(kind.arrow) for kind in (left, right))
    return _OF_DAY if are_times else None


def compared(left: ColumnType, right: ColumnType, op: Op, *, is_band: bool) -> CodeComparison | None:
    """How an index compares two types; None where SQL doesn't without a cast. NotIndexed where only a pair can tell."""
    kinds = left.name, right.name
    if (made := _alike(left, right)) is not None:
        return CodeComparison(op, Domain.INTEGER, made=(made, made))
    if kinds == (TypeName.CARRIED, TypeName.CARRIED):
        raise NotIndexed
    if all(kind in _EXACT for kind in kinds):
        return _of_scale(op, max(left.scale, right.scale))
    if all(kind in (*_EXACT, *_FLOATING) for kind in kinds):
        return _of_doubles(left, right, op, is_band=is_band)
    if all(kind in _MOMENTS for kind in kinds):
        casts = (None, None) if kinds[0] is kinds[1] else (_moment(kinds[0]), _moment(kinds[1]))
        return CodeComparison(op, Domain.INTEGER, made=casts)
    return None if kinds[0] is not kinds[1] or is_band else _of_one_kind(kinds[0], op)


def _of_one_kind(kind: TypeName, op: Op) -> CodeComparison | None:
    """Booleans in their order; UUIDs for equality alone; texts and bytes for it, or by how they begin."""
    if kind is TypeName.BOOLEAN:
        return CodeComparison(op, Domain.INTEGER)
    if kind not in _ASSIGNED:
        return None
    if kind in BY_PREFIX and op in RELAXED:
        return CodeComparison(RELAXED[op], Domain.INTEGER)
    if op not in (Op.EQ, Op.NE):
        raise NotIndexed
    return CodeComparison(op, Domain.ASSIGNED)


def _moment(kind: TypeName) -> Made | None:
    return _MIDNIGHT if kind is TypeName.DATE else None


def _alike(left: ColumnType, right: ColumnType) -> Made | None:
    """What the values of two columns of one Arrow type are compared as, exactly; None where nothing is known."""
    both = left.arrow, right.arrow
    found = (
        made for is_type, made in _EXACTLY if all(isinstance(each, pa.DataType) and is_type(each) for each in both)
    )
    return None if any(each in _NANOSECONDS for each in both) else next(found, None)


def _of_scale(op: Op, scale: int) -> CodeComparison:
    if scale > SCALE_MAX:
        raise NotIndexed
    return CodeComparison(op, Domain.INTEGER, scale)


def _of_doubles(left: ColumnType, right: ColumnType, op: Op, *, is_band: bool) -> CodeComparison:
    """Doubles with doubles or anything that is exactly one; else by the integers that stand for them."""
    beyond = [kind for kind in (left, right) if kind.name in (TypeName.LONG, TypeName.DECIMAL)]
    if not beyond or is_band:
        return CodeComparison(op, Domain.FLOAT)
    is_left = left.name in _FLOATING
    if op is Op.NE:
        exact = (None, Rounding.DOUBLE) if is_left else (Rounding.DOUBLE, None)
        return CodeComparison(op, Domain.FLOAT, beyond[0].scale, roundings=exact)
    op, rounding = ROUNDED[op.flipped if is_left else op]
    roundings = (rounding, None) if is_left else (None, rounding)
    scale = beyond[0].scale
    if scale > SCALE_MAX:
        raise NotIndexed
    return CodeComparison(op.flipped if is_left else op, Domain.INTEGER, scale, roundings=roundings)
