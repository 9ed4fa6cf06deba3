"""Small statements drawn as trees, and their meaning by the oracle of streams, which checks the oracle of statements.

They use only comparisons, NULL, NaN, strings and Boolean words; numbers compare by value, without rounding. Neither
DuckDB nor the product is involved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from loadgen.simulate.conditions import Compared, Condition, Either, IsNull, Literal, Negation, SideColumn, Sides, Truth
from loadgen.simulate.oracle import OracleJoin, SourceRow, merge_by_time, nested_loop, takes_part
from spojoin.model import Output
from spojoin.windows import RowWindow, TimeWindow

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plus:
    """A column of whole numbers or decimals, times a whole number, plus a whole number."""

    column: SideColumn
    factor: int
    added: int

    def sql(self) -> str:
        return f"{self.factor} * {self.column.sql()} + {self.added}"

    def value(self, sides: Sides) -> Any:
        found = self.column.value(sides)
        return None if found is None else self.factor * Fraction(found) + self.added


@dataclass(frozen=True, slots=True)
class Both(Either):
    """`one AND other`: false if either is false, otherwise NULL if either is NULL."""

    def truth(self, sides: Sides) -> Truth:
        found = [each.truth(sides) for each in self.conditions]
        return False if False in found else None if None in found else True

    def sql(self) -> str:
        return f"({' AND '.join(each.sql() for each in self.conditions)})"


# --- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlainStatement:
    """A join of one stream with itself or of two streams: filters of sides, conditions on pairs, a window of rows.

    rows: the streams, one or two; with two, every row's `at` is its event time
    """

    rows: tuple[tuple[Row, ...], ...]
    left: tuple[Condition, ...]
    right: tuple[Condition, ...]
    pair: tuple[Condition, ...]
    length: int
    slide: int
    is_time: bool = False
    chosen: tuple[SideColumn, ...] = field(default=())

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
        """The left and right number and the chosen columns of every pair, in order."""
        window = (TimeWindow if self.is_time else RowWindow)(self.length, self.slide)
        filters = self.left, self.right
        join = OracleJoin(len(self.rows) == 1, (), window, Output.PAIRS, None, filters=filters, residuals=self.pair)
        rows = [
            SourceRow(stream, 0, place, 0, row["at"], place, row)
            for stream, rows in enumerate(self.rows)
            for place, row in enumerate(rows)
        ]
        order = [row for row in (rows if join.is_self else merge_by_time(rows)) if takes_part(join, row)]
        found = []
        for probe in nested_loop(join, order):
            pairs = [(probe.seq, other) for other in probe.as_left] + [(other, probe.seq) for other in probe.as_right]
            for pair in sorted(pairs):
                sides = order[pair[0]].values, order[pair[1]].values
                found.append((*pair, *(each.value(sides) for each in self.chosen)))
        return found


# --- drawing ----------------------------------------------------------------------------------------------------------

_INTEGERS = (None, 0, 1, 1, 2, 3, 3, 4)
_DOUBLES = (None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 1.5, 2.0)
_STRINGS = (None, "", "a", "a", "A", "b", "it's", "ß")
_OPERATORS = ("<", "<=", ">", ">=", "=", "<>", "!=")
_LITERALS = {
    "n": [Literal(1), Literal(2), Literal(None)],
    "d": [Literal(Decimal("1.5")), Literal(0), Literal(1e20)],
    "s": [Literal("a"), Literal(""), Literal("it's")],
}


def draw_plain(rng: Random) -> PlainStatement:
    """A statement over the columns n (whole numbers), d (doubles), s (strings) and at (event times)."""
    streams = tuple(_rows(rng) for _ in range(rng.choice([1, 2])))
    slide = rng.choice([1, 1, 2, 3])
    return PlainStatement(
        streams,
        tuple(_condition(rng, (0,)) for _ in range(rng.choice([0, 0, 1, 2]))),
        tuple(_condition(rng, (1,)) for _ in range(rng.choice([0, 0, 1, 2]))),
        (_index(rng), *(_index(rng) for _ in range(rng.choice([0, 0, 1]))), *_residuals(rng)),
        slide * rng.choice([2, 5, 20]),
        slide,
        rng.random() < 0.3,
        tuple(SideColumn(rng.choice((0, 1)), rng.choice("nds")) for _ in range(rng.randrange(3))),
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


#: Three times these, and these with four decimal places, fit in 64-bit integers.
_SMALL = (None, 0, 1, -1, 2**31, -(2**31) - 1, 2**46, 2**46 + 1, -(2**46) - 1)
_SMALL_DECIMALS = tuple(
    None if t is None else Decimal(t) for t in (None, "0.1000", "-0.1000", "1.0000", "70368744177664.0000")
)


def draw_exact(rng: Random) -> PlainStatement:
    """A statement over numbers that doubles can't represent or distinguish; one to three index conditions, no filters.

    Columns: n (long), i (int), d (double), m (decimal(18,4)), f (float), at. If n is used with decimals or arithmetic,
    its values fit in 64 bits; the product refuses other rows, as documented.
    """
    names = rng.sample("nidmf", rng.choice([1, 2, 2, 3]))
    conditions = tuple(_exact_index(rng, name, rng.choice([*names, *"nd"])) for name in names)
    text = " ".join(each.sql() for each in conditions)
    is_small = ".m" in text or "*" in text
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
        Compared(SideColumn(0, name), rng.choice(signs), SideColumn(1, rng.choice([*names, *"uwzndif"])))
        for name in names
    ]
    streams = tuple(_exact_rows(rng, is_small=False, wide=_WIDE) for _ in range(rng.choice([1, 2])))
    slide = rng.choice([1, 2])
    return PlainStatement(streams, (), (), tuple(conditions), slide * rng.choice([5, 40]), slide)


def _exact_index(rng: Random, left: str, right: str) -> Compared:
    terms: list[Any] = [SideColumn(0, left), SideColumn(1, right)]
    if left in "nim" and right in "nim" and rng.random() < 0.5:
        k = rng.randrange(2)
        side = terms[k]
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
    left, right = SideColumn(0, kind), SideColumn(1, rng.choice("nd") if kind in "nd" else "s")
    swapped = rng.random() < 0.2
    return Compared(
        right if swapped else left, rng.choice(_OPERATORS if kind != "s" else ("=", "=")), left if swapped else right
    )


def _residuals(rng: Random) -> list[Condition]:
    """Conditions that evidently concern both sides: an OR over them, or its negation."""
    if rng.random() < 0.6:
        return []
    either = Either((_leaf(rng, (0,)), _leaf(rng, (1,)), *(_condition(rng, (0, 1)) for _ in range(2))))
    return [Negation(either) if rng.random() < 0.3 else either]


def _condition(rng: Random, sides: tuple[int, ...], depth: int = 2) -> Condition:
    if depth == 0 or rng.random() < 0.5:
        return _leaf(rng, sides)
    if rng.random() < 0.3:
        return Negation(_condition(rng, sides, depth - 1))
    joined = Either if len(sides) == 2 else rng.choice([Both, Either])
    return joined(tuple(_condition(rng, sides, depth - 1) for _ in range(2)))


def _leaf(rng: Random, sides: tuple[int, ...]) -> Condition:
    kind = rng.choice("nds")
    column = SideColumn(rng.choice(sides), kind)
    if rng.random() < 0.3:
        return IsNull(column, rng.random() < 0.5)
    left = Plus(column, rng.choice([-1, 2]), rng.randrange(-2, 3)) if kind == "n" and rng.random() < 0.4 else column
    other = SideColumn(rng.choice(sides), kind) if rng.random() < 0.4 else rng.choice(_LITERALS[kind])
    return Compared(left, rng.choice(_OPERATORS), other)
