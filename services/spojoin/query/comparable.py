"""Which types an index compares with which, and how their values become codes."""

from __future__ import annotations

from dataclasses import dataclass

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


class NotIndexed(Exception):  # a signal within this room
    """A comparison that no index can answer, though it is one of both sides."""


@dataclass(frozen=True, slots=True)
class CodeComparison:
    """How values of two types are compared as codes.

    op: of the left side's code with the right side's; casts: the type to which each side is cast first, if any
    roundings: of each side, where it is of doubles and the other is exact
    """

    op: Op
    domain: Domain
    scale: int = 0
    casts: tuple[str | None, str | None] = (None, None)
    roundings: tuple[Rounding | None, Rounding | None] = (None, None)

    def key(self, side: int, expression: Computed, column: str | None, text: str) -> KeyColumn:
        """The key column of a side; column: its name, where the expression is just one."""
        found: Expression = expression if column is None else Column(column)
        cast = self.casts[side]
        if cast is not None:
            found = Computed(f"CAST({expression.sql} AS {cast})", expression.columns, ColumnType(TypeName.TIMESTAMP))
        has_scale = self.domain is Domain.INTEGER or self.roundings[side] is not None
        return KeyColumn(found, self.domain, self.scale if has_scale else 0, text, self.roundings[side])


def compared(left: ColumnType, right: ColumnType, op: Op, *, is_band: bool) -> CodeComparison | None:
    """How an index compares two types; None where SQL doesn't without a cast. NotIndexed where only a pair can tell."""
    kinds = left.name, right.name
    if all(kind in _EXACT for kind in kinds):
        return _of_scale(op, max(left.scale, right.scale))
    if all(kind in (*_EXACT, *_FLOATING) for kind in kinds):
        return _of_doubles(left, right, op, is_band=is_band)
    if all(kind in _MOMENTS for kind in kinds):
        casts = (None, None) if kinds[0] is kinds[1] else tuple(_moment(kind) for kind in kinds)
        return CodeComparison(op, Domain.INTEGER, casts=(casts[0], casts[1]))
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


def _moment(kind: TypeName) -> str | None:
    return "TIMESTAMP" if kind is TypeName.DATE else None


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
