"""The answers of left rows that ask, computed value by value from the definition.

It shares only the statement's text with the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from loadgen.simulate.conditions import Cell, SideColumn, Term, ordered

Row = dict[str, Any]
Values = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Reduced:
    """An aggregate of the partners' column: count, sum, avg, min, max, arg_min of `id`; without one, their number."""

    function: str
    column: SideColumn | None = None

    def sql(self) -> str:
        if self.column is None:
            return "COUNT(*)"
        given = f"r.id, {self.column.sql()}" if self.function == "arg_min" else self.column.sql()
        return f"{self.function.upper()}({given})"

    def value(self, partners: Sequence[Values]) -> Cell:
        """Its value over the partners' values; a partner without any values is a LEFT JOIN's row without partners."""
        if self.column is None:
            return len(partners)
        found = [(each[self.column.name], each) for each in partners if each.get(self.column.name) is not None]
        if self.function == "count":
            return len(found)
        return _REDUCED[self.function](found) if found else None


def _sum(values: Sequence[Cell]) -> Cell:
    if any(isinstance(value, float) for value in values):
        return _float_sum(values, 1)
    return sum(values)  # type: ignore[arg-type]


def _mean(values: Sequence[Cell]) -> float:
    if any(isinstance(value, float) for value in values):
        return _float_sum(values, len(values))
    return float(Fraction(sum(map(Fraction, values)), len(values)))  # type: ignore[arg-type]


def _float_sum(values: Sequence[Cell], divisor: int) -> float:
    """The exact sum divided by `divisor`, rounded once."""
    numbers = [float(value) for value in values]  # type: ignore[arg-type]
    odd = [number for number in numbers if not math.isfinite(number)]
    if odd:
        return sum(odd)
    exact = Fraction(sum(map(Fraction, numbers)), divisor)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


#: Values that aren't NULL, each with all columns of its row.
_Found = Sequence[tuple[Cell, Values]]
_REDUCED: Mapping[str, Callable[[_Found], Cell]] = {
    "sum": lambda found: _sum([value for value, _ in found]),
    "avg": lambda found: _mean([value for value, _ in found]),
    "min": lambda found: min((value for value, _ in found), key=ordered),
    "max": lambda found: max((value for value, _ in found), key=ordered),
    "arg_min": lambda found: min(found, key=lambda pair: ordered(pair[0]))[1]["id"],
}


@dataclass(frozen=True, slots=True)
class BestOf:
    """The first partners by a column, ties by number."""

    count: int
    column: SideColumn
    is_descending: bool

    def sql(self) -> str:
        order = f"{self.column.sql()}{' DESC' if self.is_descending else ''}"
        return f"ROW_NUMBER() OVER (PARTITION BY l ORDER BY {order}) <= {self.count}"

    def of(self, partners: Sequence[Values]) -> list[Values]:
        """The best of `partners`."""
        return sorted(partners, key=cmp_to_key(self._compare))[: self.count]

    def _compare(self, one: Values, other: Values) -> int:
        a, b = one[self.column.name], other[self.column.name]
        if (a is None) != (b is None):
            return 1 if a is None else -1
        if a is not None and ordered(a) != ordered(b):
            return (1 if ordered(a) > ordered(b) else -1) * (-1 if self.is_descending else 1)
        return 1 if one["seq"] > other["seq"] else -1  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class LeftQuestion:
    """The question of left rows; in a FULL join also of right rows.

    join: INNER, LEFT, FULL, SEMI or ANTI; at_close: whether the answer covers all partners, not only earlier ones
    aggregates: by name; having: the least number of pairs; best: the choice of partners to keep
    """

    join: str
    at_close: bool
    aggregates: tuple[tuple[str, Reduced], ...] = ()
    having: int | None = None
    best: BestOf | None = None

    def clauses(self) -> list[str]:
        """The statement's clauses after WHERE, except the window and EMIT."""
        found = ["GROUP BY l"] if self.aggregates else []
        if self.having is not None:
            found.append(f"HAVING COUNT(*) >= {self.having}")
        return found + ([f"QUALIFY {self.best.sql()}"] if self.best is not None else [])

    def emit(self) -> str:
        """The statement's last clause."""
        return f"EMIT ON {'CLOSE' if self.at_close else 'ARRIVAL'}"

    def rows(self, left: Values, partners: Sequence[Values], select: Sequence[tuple[str, Term]]) -> Iterator[Row]:
        """The answer to one left row; partners are in the order of their numbers."""
        if self.aggregates:
            yield from self._group(left, partners, select)
            return
        if self.join in ("SEMI", "ANTI"):
            if bool(partners) == (self.join == "SEMI"):
                yield _row(select, left, {})
            return
        kept = partners if self.best is None else self.best.of(partners)
        if not kept and self.join in ("LEFT", "FULL"):
            kept = [_nothing(1, select)]
        for partner in kept:
            yield _row(select, left, partner)

    def rows_of_right(
        self, right: Values, partners: Sequence[Values], select: Sequence[tuple[str, Term]]
    ) -> Iterator[Row]:
        """The answer to a right row of a FULL join; on close, left rows give the pairs."""
        if partners and self.at_close:
            return
        for partner in partners or [_nothing(0, select)]:
            yield _row(select, partner, right)

    def _group(self, left: Values, partners: Sequence[Values], select: Sequence[tuple[str, Term]]) -> Iterator[Row]:
        counted: Sequence[Values] = partners or ([{}] if self.join == "LEFT" else [])
        if not counted or len(counted) < (self.having or 0):
            return
        yield _row(select, left, {}) | {name: reduced.value(counted) for name, reduced in self.aggregates}


def _nothing(side: int, select: Sequence[tuple[str, Term]]) -> Values:
    """The columns of a side, all NULL."""
    return {name: None for _, term in select for name in term.names(side)}


def _row(select: Sequence[tuple[str, Term]], left: Values, right: Values) -> Row:
    return {name: term.value((left, right)) for name, term in select}
