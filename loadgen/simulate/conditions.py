"""Conditions on rows and pairs with SQL's three truth values: true, false, and NULL, here None.

The oracle evaluates them value by value; the product gets their text, and shares no code with this module.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Cell = int | float | Decimal | str | None
Truth = bool | None
#: The values of both sides of a pair, left first; for a single row, the same values twice.
Sides = tuple[Mapping[str, Cell], Mapping[str, Cell]]
ALIASES = ("l", "r")

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class SideColumn:
    """A column of one side, 0 left, 1 right; `seq` is the number of its row."""

    side: int
    name: str

    def value(self, sides: Sides) -> Cell:
        return sides[self.side][self.name]

    def sql(self) -> str:
        return f"{ALIASES[self.side]}.{self.name}"

    def names(self, side: int) -> Iterator[str]:
        yield from [self.name] if side == self.side else []


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a text as SQL writes it, with its value."""

    cell: Cell

    def value(self, _: Sides) -> Cell:
        return self.cell

    def sql(self) -> str:
        if isinstance(self.cell, str):
            return "'" + self.cell.replace("'", "''") + "'"
        return "NULL" if self.cell is None else str(self.cell)

    def names(self, side: int) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True, slots=True)
class Computation:
    """`left sign right` with the sign - or ||; NULL if a side is NULL."""

    sign: str
    left: SideColumn
    right: SideColumn

    def value(self, sides: Sides) -> Cell:
        left, right = self.left.value(sides), self.right.value(sides)
        if left is None or right is None:
            return None
        return left - right if self.sign == "-" else left + right  # type: ignore[operator]

    def sql(self) -> str:
        return f"{self.left.sql()} {self.sign} {self.right.sql()}"

    def names(self, side: int) -> Iterator[str]:
        """The columns of a side that it names."""
        yield from self.left.names(side)
        yield from self.right.names(side)


Term = SideColumn | Literal | Computation


@dataclass(frozen=True, slots=True)
class Compared:
    """`left sign right`, NULL if a side is NULL; NaN equals itself and is above all other numbers."""

    left: Term
    sign: str
    right: Term

    def truth(self, sides: Sides) -> Truth:
        left, right = self.left.value(sides), self.right.value(sides)
        if left is None or right is None:
            return None
        return _SIGNS[self.sign](ordered(left), ordered(right))

    def sql(self) -> str:
        return f"{self.left.sql()} {self.sign} {self.right.sql()}"

    def columns(self) -> Iterator[SideColumn]:
        """The columns that it names."""
        yield from (term for term in (self.left, self.right) if isinstance(term, SideColumn))


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, or `IS NOT NULL`."""

    column: SideColumn
    negated: bool

    def truth(self, sides: Sides) -> Truth:
        return (self.column.value(sides) is None) is not self.negated

    def sql(self) -> str:
        return f"{self.column.sql()} IS {'NOT ' if self.negated else ''}NULL"

    def columns(self) -> Iterator[SideColumn]:
        """The columns that it names."""
        yield self.column


@dataclass(frozen=True, slots=True)
class Among:
    """`column IN (literals)`."""

    column: SideColumn
    literals: tuple[Literal, ...]

    def truth(self, sides: Sides) -> Truth:
        found = self.column.value(sides)
        return None if found is None else any(ordered(found) == ordered(each.cell) for each in self.literals)

    def sql(self) -> str:
        return f"{self.column.sql()} IN ({', '.join(each.sql() for each in self.literals)})"

    def columns(self) -> Iterator[SideColumn]:
        """The columns that it names."""
        yield self.column


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT condition`, NULL if the condition is NULL."""

    condition: Condition

    def truth(self, sides: Sides) -> Truth:
        found = self.condition.truth(sides)
        return None if found is None else not found

    def sql(self) -> str:
        return f"NOT ({self.condition.sql()})"

    def columns(self) -> Iterator[SideColumn]:
        """The columns that it names."""
        yield from self.condition.columns()


@dataclass(frozen=True, slots=True)
class Either:
    """`one OR other`: true if either is true, otherwise NULL if either is NULL."""

    conditions: tuple[Condition, ...]

    def truth(self, sides: Sides) -> Truth:
        found = [each.truth(sides) for each in self.conditions]
        return True if True in found else None if None in found else False

    def sql(self) -> str:
        return f"({' OR '.join(each.sql() for each in self.conditions)})"

    def columns(self) -> Iterator[SideColumn]:
        """The columns that it names."""
        for each in self.conditions:
            yield from each.columns()


Condition = Compared | IsNull | Among | Negation | Either


def ordered(value: Cell) -> Any:  # noqa: ANN401  (only values of one type are compared)
    """A sort key for the value: NaN is above all numbers and equal to itself."""
    if isinstance(value, str):
        return value
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def are_true(conditions: Sequence[Condition], sides: Sides) -> bool:
    """Whether all conditions are true; NULL isn't true."""
    return all(each.truth(sides) is True for each in conditions)
