"""Statements whose left rows ask, drawn with their rows, and their answers by DuckDB.

DuckDB gets the same statement with the numbers of rows as columns and the windows as conditions: a pair counts if its
conditions are true and the earlier row lies in the later one's window. No code is shared with the product.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from loadgen.window import window_begin, window_of
from tests.support.by_duckdb import by_duckdb

Row = dict[str, Any]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us"))]
)


CONDITIONS = (
    "l.x < r.x",
    "l.x <= r.x AND l.y >= r.y",
    "ABS(l.x - r.x) <= 1",
    "l.s = r.s AND l.x < r.x",
    "l.s = r.s",
    "l.x <> r.x AND l.y < r.x AND l.y <= r.y",
    "l.x <= r.x AND l.y + r.y > 2",
)
FILTERS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("", lambda _: True),
    ("y > 0", lambda row: row["y"] is not None and row["y"] > 0),
    ("s IS NOT NULL", lambda row: row["s"] is not None),
)
#: Kind of join, select list with `seq` first, clauses after WHERE.
FORMS = (
    ("", "l.seq AS n, r.seq AS p, l.id, r.s", ""),
    ("LEFT ", "l.seq AS n, r.seq AS p, l.s AS ls, r.s AS rs, coalesce(r.x, -1) AS x", ""),
    ("SEMI ", "l.seq AS n, l.id, l.s", ""),
    ("ANTI ", "l.seq AS n, l.id, l.s", ""),
    ("", "l.seq AS n, COUNT(*) AS k, l.id", "GROUP BY l HAVING COUNT(*) >= 2"),
    ("LEFT ", "l.seq AS n, COUNT(*) AS k, COUNT(r.id) AS c", "GROUP BY l"),
    ("LEFT ", "l.seq AS n, COUNT(*) AS k, COUNT(r.x) AS c", "GROUP BY l"),
    (
        "",
        "l.seq AS n, SUM(r.y) AS s, AVG(r.y) AS a, MIN(r.y) AS i, MAX(r.s) AS m, COUNT(*) FILTER (WHERE r.y > 1) AS f",
        "GROUP BY l",
    ),
    ("LEFT ", "l.seq AS n, MEDIAN_DISC AS m, QUANTILE_DISC(r.x, 0.25) AS q, l.x + MAX(r.y) AS g", "GROUP BY l"),
    ("", "l.seq AS n, r.seq AS p", "QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.y DESC, r.seq) <= 2"),
    ("", "l.seq AS n, MIN(r.x) AS i, MAX(r.y) AS m", "GROUP BY l"),
    (
        "LEFT ",
        "l.seq AS n, MAX(r.y) AS m, COUNT(*) AS k, SUM(r.x) AS s, MIN(r.y - r.x) FILTER (WHERE r.y > 1) AS f",
        "GROUP BY l HAVING COUNT(*) < 5 OR MAX(r.y) > 1",
    ),
    (
        "LEFT ",
        "l.seq AS n, ARG_MAX(r.s, r.y * 1000 - r.seq) AS a, MAX(r.x) FILTER (WHERE r.s <> 'b1') AS m",
        "GROUP BY l",
    ),
    ("", "l.seq AS n, ARG_MIN(r.id, r.y * 1000 + r.seq) AS i, ARG_MAX(r.id, r.y * 1000 + r.seq) AS a", "GROUP BY l"),
    (
        "LEFT ",
        "l.seq AS n, ROUND(STDDEV(r.x), 9) AS d, ROUND(STDDEV_POP(r.y - l.y) FILTER (WHERE r.x > 1), 9) AS e",
        "GROUP BY l",
    ),
)


@dataclass(frozen=True, slots=True)
class AskingStatement:
    """A statement and its rows in order, each with its stream's number; `is_self`: whether there is only one stream."""

    kind: str
    items: str
    clauses: str
    condition: str
    filters: tuple[tuple[str, Callable[[Row], bool]], tuple[str, Callable[[Row], bool]]]
    is_self: bool
    is_time: bool
    slide: int
    length: int
    at_close: bool
    rows: tuple[tuple[int, Row], ...]

    schema: ClassVar = SCHEMA

    def sql(self) -> str:
        """The statement as the product reads it."""
        unit = " ms" if self.is_time else ""
        window = f"WINDOW AS (SLIDE INTERVAL '{self.slide}{unit}' ON '{self.length}{unit}')"
        emit = f"EMIT ON {'CLOSE' if self.at_close else 'ARRIVAL'}"
        return self._joined(f"{self._where()} {self.clauses} {window} {emit}")

    def _joined(self, rest: str) -> str:
        items = self.items.replace("MEDIAN_DISC", "MEDIAN(r.y)")
        return f"SELECT {items} FROM a AS l {self.kind}JOIN {self.names[-1]} AS r {rest}"

    @property
    def names(self) -> list[str]:
        """The streams."""
        return ["a"] if self.is_self else ["a", "b"]

    @property
    def is_timed(self) -> bool:
        """Whether event time orders the rows."""
        return self.is_time or not self.is_self

    def _where(self) -> str:
        left, right = self.filters
        on = self.condition + (f" AND r.{right[0]}" if right[0] else "")
        return f"ON {on}" + (f" WHERE l.{left[0]}" if left[0] else "")

    # -- the rows of both sides, numbered

    def _is_of(self, side: int, stream: int, row: Row) -> bool:
        return (self.is_self or stream == side) and self.filters[side][1](row)

    def numbered(self) -> list[tuple[int, Row, bool, bool]]:
        """Rows that pass a filter: number, row, whether it is a left row, whether it is a right row."""
        sides = [(row, self._is_of(0, stream, row), self._is_of(1, stream, row)) for stream, row in self.rows]
        return [(n, *each) for n, each in enumerate(each for each in sides if each[1] or each[2])]

    def _members(self) -> tuple[list[int], list[int]]:
        rows = self.numbered()
        return [n for n, _, is_left, _ in rows if is_left], [n for n, _, _, is_right in rows if is_right]

    # -- DuckDB

    def of_closed(self) -> list[list[tuple[Any, ...]]]:
        """The rows of DuckDB's answer for each left row that closes, in order."""
        lefts, _ = self._members()
        if self.at_close and not self.is_time:
            lefts = lefts[: window_of(len(lefts), self.length, self.slide).start]
        by_row = {number: list(rows) for number, rows in groupby(self.answer(), lambda row: row[0])}
        return [by_row.get(number, []) for number in lefts]

    def answer(self) -> list[tuple[Any, ...]]:
        """DuckDB's answer to the same statement over the numbered rows."""
        where = self._where().replace("ON ", f"ON ({self._inside()}) AND ", 1)
        return duckdb_answer(self.kind, self.items, f"{where} {self.clauses}", *self._tables())

    def _inside(self) -> str:
        """The condition that the earlier row of a pair lies in the later one's window."""
        left_is_earlier, right_is_earlier = self._windows()
        return f"({right_is_earlier}) OR ({left_is_earlier if self.at_close else 'false'})"

    def _windows(self) -> tuple[str, str]:
        """The conditions that the left, or the right, row is earlier and in the other's window."""
        place = "at_ms" if self.is_time else "place"
        return f"l.seq < r.seq AND l.{place} >= r.begins", f"r.seq < l.seq AND r.{place} >= l.begins"

    def _tables(self) -> list[pa.Table]:
        """The rows of both sides, each with its numbers."""
        sides, rows = self._members(), {n: row for n, row, _, _ in self.numbered()}
        found = []
        for side, own in enumerate(sides):
            numbers = [self._numbers(side, own, sides[1 - side], place, rows[n]) for place, n in enumerate(own)]
            names = numbers[0] if numbers else self._numbers(side, [0], [], 0, {"at": 0})
            schema = pa.schema([*self.schema, *((name, pa.int64()) for name in names)])
            both = [_in_us(rows[each["seq"]]) | each for each in numbers]
            found.append(pa.Table.from_pylist(both, schema))
        return found

    def _numbers(self, side: int, own: list[int], other: list[int], place: int, row: Row) -> dict[str, int]:
        """A row's numbers; at `begins` its window over the other side begins.

        own, other: the numbers of the rows of its side, and of the other; place: where it stands on its side
        """
        begins = window_begin(row["at"] if self.is_time else bisect_left(other, own[place]), self.length, self.slide)
        return {"seq": own[place], "place": place, "at_ms": row["at"], "begins": begins}


@dataclass(frozen=True, slots=True)
class BoundStatement(AskingStatement):
    """A statement whose left rows ask within bounds of right minus left event time, in milliseconds.

    It names the time of answers only if that is at arrival; the default, on close, is SQL's meaning over all rows.
    """

    bounds: tuple[int, int] = (0, 0)

    def sql(self) -> str:
        """The statement as the product reads it."""
        lower, upper = (f"l.at {'-' if at < 0 else '+'} INTERVAL '{abs(at)} ms'" for at in self.bounds)
        where = self._where().replace("ON ", f"ON r.at BETWEEN {lower} AND {upper} AND ", 1)
        emit = "" if self.at_close else "EMIT ON ARRIVAL"
        return self._joined(f"{where} {self.clauses} {emit}")

    def _inside(self) -> str:
        order = "<>" if self.at_close else "<"
        return f"r.at_ms - l.at_ms BETWEEN {self.bounds[0]} AND {self.bounds[1]} AND r.seq {order} l.seq"


def duckdb_answer(kind: str, items: str, rest: str, left: pa.Table, right: pa.Table) -> list[tuple[Any, ...]]:
    """DuckDB's ordered answer to a join of numbered rows. rest: everything after the two sides."""
    if kind in ("SEMI ", "ANTI "):  # by the number of partners: DuckDB 2.0 loses pairs if `<>` is a condition
        grouped = ", ".join(item.partition(" AS ")[0] for item in items.split(", "))
        counted = f"SELECT {items} FROM lefts AS l LEFT JOIN rights AS r {rest} GROUP BY {grouped}"
        counted += f" HAVING COUNT(r.seq) {'> 0' if kind == 'SEMI ' else '= 0'} ORDER BY n"
        return by_duckdb(counted, lefts=left, rights=right)
    rest = rest.replace("GROUP BY l", f"GROUP BY {', '.join(f'l.{name}' for name in left.column_names)}")
    items = items.replace("MEDIAN_DISC", "QUANTILE_DISC(r.y, 0.5)")
    order = "n, p" if " AS p" in items else "n"
    order = "n, r.y DESC NULLS LAST, r.seq" if "QUALIFY" in rest else order
    sql = f"SELECT {items} FROM lefts AS l {kind}JOIN rights AS r {rest} ORDER BY {order}"
    return by_duckdb(sql, lefts=left, rights=right)


def draw_bound(seed: int) -> BoundStatement:
    """A seed's statement with bounds in place of a window."""
    drawn, rng = draw(seed), Random(f"bounds {seed}")
    bounds = sorted((rng.choice((-20, -3, -1, 0)), rng.choice((-2, -1, 0, 0, 1, 5, 20))))
    asks = bool(drawn.kind or drawn.clauses)
    found = {each.name: getattr(drawn, each.name) for each in fields(drawn)} | {"is_time": True}
    if not asks:  # pairs about which no row asks come at arrival
        found["kind"] = "LEFT "
    return BoundStatement(**found, bounds=(bounds[0], bounds[1]))


def draw(seed: int) -> AskingStatement:
    """The statement of a seed: tie-dense rows, few or none, NULLs, jumps in time."""
    rng = Random(seed)
    kind, items, clauses = rng.choice(FORMS)
    at_close = rng.random() < 0.7 or not (kind or clauses)
    is_self = rng.random() < 0.5
    slide = rng.choice((1, 1, 2, 3, 5, 10))
    return AskingStatement(
        kind,
        items,
        clauses,
        rng.choice(CONDITIONS),
        (rng.choice(FILTERS), rng.choice(FILTERS)),
        is_self,
        rng.random() < 0.5,
        slide,
        slide * rng.choice((1, 2, 3, 7)),
        at_close,
        tuple(drawn_rows(rng, is_self=is_self)),
    )


def drawn_rows(rng: Random, *, is_self: bool) -> list[tuple[int, Row]]:
    """Rows in order, each with the number of its stream."""
    domain, nulls, time = rng.choice((2, 4, 9)), rng.choice((0, 0, 0.2)), 0
    rows = []
    for number in range(rng.choice((0, 5, 40, 150))):
        time += rng.choice((0, 0, 1, 1, 2)) if rng.random() < 0.95 else rng.choice((20, 100))
        values = [None if rng.random() < nulls else rng.randrange(domain) for _ in range(3)]
        text = None if values[2] is None else f"{'ab'[values[2] % 2]}{values[2]}"
        row = {"id": number, "x": values[0], "y": values[1], "s": text, "at": time}
        rows.append((0 if is_self else rng.randrange(2), row))
    return sorted(rows, key=lambda each: (each[1]["at"], each[0]))


def table_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as the product reads them."""
    return pa.RecordBatch.from_pylist([*map(_in_us, rows)], schema=SCHEMA)


def _in_us(row: Row) -> Row:
    return {**row, "at": row["at"] * 1_000}
