"""Small statements drawn as trees, and their meaning as a plain nested loop: what checks the oracle of statements.

Only comparisons, NULL, NaN, strings and the Boolean words, by three-valued logic in Python; numbers compare by value,
without rounding. Neither DuckDB nor the product takes part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

Truth = bool | None
Row = dict[str, Any]


# --- trees ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Named:
    """A column of a side, 'l' or 'r'."""

    side: str
    name: str

    def sql(self) -> str:
        return f'{self.side}."{self.name}"'

    def value(self, rows: dict[str, Row]) -> Any:
        return rows[self.side][self.name]


@dataclass(frozen=True, slots=True)
class Plus:
    """A column of whole numbers or decimals, times a whole number, plus a whole number."""

    column: Named
    factor: int
    added: int

    def sql(self) -> str:
        return f"{self.factor} * {self.column.sql()} + {self.added}"

    def value(self, rows: dict[str, Row]) -> Any:
        found = self.column.value(rows)
        return None if found is None else self.factor * Fraction(found) + self.added


@dataclass(frozen=True, slots=True)
class Written:
    """A literal."""

    text: str
    meaning: Any

    def sql(self) -> str:
        return self.text

    def value(self, rows: dict[str, Row]) -> Any:
        return self.meaning


Term = Named | Plus | Written


@dataclass(frozen=True, slots=True)
class Compared:
    """`left op right`."""

    left: Term
    op: str
    right: Term

    def sql(self) -> str:
        return f"{self.left.sql()} {self.op} {self.right.sql()}"

    def truth(self, rows: dict[str, Row]) -> Truth:
        left, right = self.left.value(rows), self.right.value(rows)
        if left is None or right is None:
            return None
        order = _order(left, right)
        return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}.get(
            self.op, (order == 0) == (self.op == "=")
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """`x IS NULL`, or `x IS NOT NULL`."""

    term: Term
    is_not: bool

    def sql(self) -> str:
        return f"{self.term.sql()} IS {'NOT ' * self.is_not}NULL"

    def truth(self, rows: dict[str, Row]) -> Truth:
        return (self.term.value(rows) is None) != self.is_not


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions joined by AND or OR, in parentheses."""

    word: str
    parts: tuple[Condition, ...]

    def sql(self) -> str:
        return "(" + f" {self.word} ".join(part.sql() for part in self.parts) + ")"

    def truth(self, rows: dict[str, Row]) -> Truth:
        found = [part.truth(rows) for part in self.parts]
        deciding = self.word == "OR"
        if deciding in found:
            return deciding
        return None if None in found else not deciding


@dataclass(frozen=True, slots=True)
class Negated:
    """`NOT (x)`."""

    condition: Condition

    def sql(self) -> str:
        return f"NOT ({self.condition.sql()})"

    def truth(self, rows: dict[str, Row]) -> Truth:
        found = self.condition.truth(rows)
        return None if found is None else not found


Condition = Compared | Missing | Joined | Negated


def _order(left: Any, right: Any) -> int:
    """-1, 0 or 1; NaN equals itself and is greater than every number."""
    if isinstance(left, int | float | Decimal | Fraction):
        left, right = _rank(left), _rank(right)
    return (left > right) - (left < right)


def _rank(value: float | Decimal | Fraction) -> tuple[int, Fraction]:
    """An order of all doubles, whole numbers and decimals by value."""
    if isinstance(value, float) and not math.isfinite(value):
        return (2 if math.isnan(value) else 1 if value > 0 else -1), Fraction(0)
    return 0, Fraction(value)


# --- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainStatement:
    """A join of one stream with itself, or of two: filters a side, conditions of a pair, a window of rows.

    rows: the streams, one or two; with two, every row's `at` is its event time
    """

    rows: tuple[tuple[Row, ...], ...]
    left: tuple[Condition, ...]
    right: tuple[Condition, ...]
    pair: tuple[Condition, ...]
    length: int
    slide: int
    is_time: bool = False
    chosen: tuple[Named, ...] = field(default=())

    def sql(self) -> str:
        """The statement over the streams `a` and `b`."""
        names = ("a", "a") if len(self.rows) == 1 else ("a", "b")
        size = [f"{each}{' us' * self.is_time}" for each in (self.slide, self.length)]
        listed = ", ".join(["l.seq", "r.seq", *(f"{c.sql()} AS c{k}" for k, c in enumerate(self.chosen))])
        return (
            f"SELECT {listed} FROM {names[0]} AS l JOIN {names[1]} AS r "
            f"ON {' AND '.join(each.sql() for each in (*self.pair, *self.left, *self.right))} "
            f"WINDOW AS (SLIDE INTERVAL '{size[0]}' ON '{size[1]}')"
        )

    def answer(self) -> list[tuple[Any, ...]]:
        """Left's and right's number and the chosen columns of every pair, in order, by a nested loop."""
        numbered = self._numbered()
        found = []
        for probe in range(len(numbered)):
            for left, right in [(u, probe) for u in range(probe)] + [(probe, u) for u in range(probe)]:
                if self._is_pair(numbered, left, right):
                    rows = {"l": numbered[left][1], "r": numbered[right][1]}
                    found.append((probe, left, right, *(each.value(rows) for each in self.chosen)))
        return [row[1:] for row in sorted(found, key=lambda row: row[:3])]

    def _numbered(self) -> list[tuple[int, Row, bool, bool]]:
        """Stream, row, whether it stands on the left, whether on the right; in the order of their numbers."""
        order = [(stream, place, row) for stream, rows in enumerate(self.rows) for place, row in enumerate(rows)]
        if len(self.rows) == 2:
            order.sort(key=lambda each: (each[2]["at"], each[0], each[1]))
        found = []
        for stream, _, row in order:
            is_left = stream == 0 and all(c.truth({"l": row}) is True for c in self.left)
            is_right = stream == len(self.rows) - 1 and all(c.truth({"r": row}) is True for c in self.right)
            if is_left or is_right:
                found.append((stream, row, is_left, is_right))
        return found

    def _is_pair(self, numbered: Sequence[tuple[int, Row, bool, bool]], left: int, right: int) -> bool:
        if not (numbered[left][2] and numbered[right][3]):
            return False
        earlier, later, flag = (left, right, 2) if left < right else (right, left, 3)
        rows = {"l": numbered[left][1], "r": numbered[right][1]}
        if not all(condition.truth(rows) is True for condition in self.pair):
            return False
        if self.is_time:
            return numbered[earlier][1]["at"] >= self._low(numbered[later][1]["at"])
        index, count = (sum(each[flag] for each in numbered[:place]) for place in (earlier, later))
        return index >= self._low(count)

    def _low(self, place: int) -> int:
        return math.ceil(Fraction(place, self.slide)) * self.slide - self.length


# --- drawing ----------------------------------------------------------------------------------------------------------

_INTEGERS = (None, 0, 1, 1, 2, 3, 3, 4)
_DOUBLES = (None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, 2.0)
_STRINGS = (None, "", "a", "a", "A", "b", "it's", "ß")
_OPERATORS = ("<", "<=", ">", ">=", "=", "<>", "!=")
_LITERALS = {
    "n": [Written("1", 1), Written("2", 2), Written("NULL", None)],
    "d": [Written("1.5", Fraction(3, 2)), Written("0", 0), Written("1e0", 1.0)],
    "s": [Written("'a'", "a"), Written("''", ""), Written("'it''s'", "it's")],
}


def draw_plain(rng: Random) -> PlainStatement:
    """A statement over the columns n (whole numbers), d (doubles), s (strings) and at (event times)."""
    streams = tuple(_rows(rng) for _ in range(rng.choice([1, 2])))
    slide = rng.choice([1, 1, 2, 3])
    return PlainStatement(
        streams,
        tuple(_condition(rng, ("l",)) for _ in range(rng.choice([0, 0, 1, 2]))),
        tuple(_condition(rng, ("r",)) for _ in range(rng.choice([0, 0, 1, 2]))),
        (_index(rng), *(_index(rng) for _ in range(rng.choice([0, 0, 1]))), *_residuals(rng)),
        slide * rng.choice([2, 5, 20]),
        slide,
        rng.random() < 0.3,
        tuple(Named(rng.choice("lr"), rng.choice("nds")) for _ in range(rng.randrange(3))),
    )


_BIG = 2**53
_ODD_DOUBLES = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1.0, float(_BIG), -float(_BIG), 2.0**63, -(2.0**63)]
_ODD_DOUBLES += [1e300, 4_503_599_627_370_496.5, 5e-324, 2147483647.5, 16_777_216.0]
_EXACT = {
    "n": (
        None,
        0,
        1,
        -1,
        _BIG,
        _BIG + 1,
        -_BIG - 1,
        2**63 - 1,
        2**63 - 2,
        -(2**63),
        -(2**63) + 1,
        4_503_599_627_370_497,
    ),
    "i": (None, 0, 1, -1, 2**31 - 1, -(2**31), 16_777_217),
    "d": (None, *_ODD_DOUBLES),
    "m": tuple(None if t is None else Decimal(t) for t in (None, "0.0000", "0.1000", "-0.1000", "1.0000", "0.5000"))
    + tuple(map(Decimal, ("90071992547409.9300", "99999999999999.9999", "16777217.0000"))),
    "f": (None, math.nan, math.inf, -0.0, 0.5, 0.10000000149011612, 16_777_216.0, 3.4028234663852886e38),
}


#: Three times these, and these at four digits after the point, are 64-bit integers.
_SMALL = (None, 0, 1, -1, 2**31, -(2**31) - 1, 2**46, 2**46 + 1, -(2**46) - 1)
_SMALL_DECIMALS = tuple(
    None if t is None else Decimal(t) for t in (None, "0.1000", "-0.1000", "1.0000", "70368744177664.0000")
)


def draw_exact(rng: Random) -> PlainStatement:
    """A statement over numbers that a double can't hold or tell apart; one to three index conditions, no filters.

    Columns: n (long), i (int), d (double), m (decimal(18,4)), f (float), at. Where n meets decimals or arithmetic, its
    values stay small enough for 64 bits: rows beyond are refused, as the pages say.
    """
    names = rng.sample("nidmf", rng.choice([1, 2, 2, 3]))
    conditions = tuple(_exact_index(rng, name, rng.choice([*names, *"nd"])) for name in names)
    text = " ".join(each.sql() for each in conditions)
    is_small = '"m"' in text or "*" in text
    streams = tuple(_exact_rows(rng, is_small) for _ in range(rng.choice([1, 2])))
    slide = rng.choice([1, 2])
    return PlainStatement(streams, (), (), conditions, slide * rng.choice([5, 40]), slide)


_WIDE = {
    "u": (None, 0, 1, _BIG, _BIG + 1, 2**63, 2**64 - 1, 2**64 - 2),
    "w": tuple(
        None if t is None else Decimal(t)
        for t in (None, "0", "0.1", "-0.1", "12345678901234567890.0000000001", "12345678901234567890.0000000002")
    )
    + tuple(map(Decimal, (_BIG, _BIG + 1, 2**64, -_BIG, "0.1000000001", "9999999999999999999999999999"))),
    "z": tuple(None if t is None else Decimal(t) for t in (None, "0", "1", "0.1", str(_BIG + 1)))
    + tuple(map(Decimal, ("0.10000000000000000001", "0.10000000000000000555", "-0.10000000000000000001"))),
}


def draw_wide(rng: Random) -> PlainStatement:
    """A statement over numbers of more than 18 digits, compared with one another and with all others.

    Columns: u (uint64), w (decimal(38,10)), z (decimal(38,20)), and those of `draw_exact`.
    """
    names = rng.sample("uwz", rng.choice([1, 1, 2]))
    signs = ("<", "<=", ">", ">=", "=")
    conditions = [
        Compared(Named("l", name), rng.choice(signs), Named("r", rng.choice([*names, *"uwzndif"]))) for name in names
    ]
    streams = tuple(_exact_rows(rng, is_small=False, wide=_WIDE) for _ in range(rng.choice([1, 2])))
    slide = rng.choice([1, 2])
    return PlainStatement(streams, (), (), tuple(conditions), slide * rng.choice([5, 40]), slide)


def _exact_index(rng: Random, left: str, right: str) -> Compared:
    terms: list[Term] = [Named("l", left), Named("r", right)]
    if left in "nim" and right in "nim" and rng.random() < 0.5:
        k = rng.randrange(2)
        side = terms[k]
        assert isinstance(side, Named)
        terms[k] = Plus(side, rng.choice([1, 2, -3]), rng.choice([0, 1, -5, 2**40]))
    return Compared(terms[0], rng.choice(_OPERATORS), terms[1])


def _exact_rows(rng: Random, is_small: bool, wide: Mapping[str, tuple[Any, ...]] | None = None) -> tuple[Row, ...]:
    count = rng.randrange(5, 30)
    domains = {**_EXACT, **(wide or {}), **({"n": _SMALL, "m": _SMALL_DECIMALS} if is_small else {})}
    return tuple({**{c: rng.choice(values) for c, values in domains.items()}, "at": at} for at in range(count))


def _rows(rng: Random) -> tuple[Row, ...]:
    times = sorted(rng.randrange(-10, 20) for _ in range(rng.randrange(30)))
    return tuple(
        {"n": rng.choice(_INTEGERS), "d": rng.choice(_DOUBLES), "s": rng.choice(_STRINGS), "at": at} for at in times
    )


def _index(rng: Random) -> Compared:
    kind = rng.choice("nnndds")
    left, right = Named("l", kind), Named("r", rng.choice("nd") if kind in "nd" else "s")
    swapped = rng.random() < 0.2
    return Compared(
        right if swapped else left, rng.choice(_OPERATORS if kind != "s" else ("=", "=")), left if swapped else right
    )


def _residuals(rng: Random) -> list[Condition]:
    """Conditions that the text itself shows to be of both sides: an OR over them, or its negation."""
    if rng.random() < 0.6:
        return []
    either = Joined("OR", (_leaf(rng, ("l",)), _leaf(rng, ("r",)), *(_condition(rng, ("l", "r")) for _ in range(2))))
    return [Negated(either) if rng.random() < 0.3 else either]


def _condition(rng: Random, sides: tuple[str, ...], depth: int = 2) -> Condition:
    if depth == 0 or rng.random() < 0.5:
        return _leaf(rng, sides)
    if rng.random() < 0.3:
        return Negated(_condition(rng, sides, depth - 1))
    word = "OR" if len(sides) == 2 else rng.choice(["AND", "OR"])
    return Joined(word, tuple(_condition(rng, sides, depth - 1) for _ in range(2)))


def _leaf(rng: Random, sides: tuple[str, ...]) -> Condition:
    kind = rng.choice("nds")
    column = Named(rng.choice(sides), kind)
    if rng.random() < 0.3:
        return Missing(column, rng.random() < 0.5)
    left = Plus(column, rng.choice([-1, 2]), rng.randrange(-2, 3)) if kind == "n" and rng.random() < 0.4 else column
    other = Named(rng.choice(sides), kind) if rng.random() < 0.4 else rng.choice(_LITERALS[kind])
    return Compared(left, rng.choice(_OPERATORS), other)
