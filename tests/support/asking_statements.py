"""Statements whose left rows ask, drawn with their rows, and their answers by a plain nested loop and by DuckDB.

The nested loop follows the definition: a pair counts if its conditions are true and the earlier row lies in the later
one's window. DuckDB gets the same statement with the numbers of rows as columns and the windows written out. Neither
shares anything with the product, nor with the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

Row = dict[str, Any]
Truth = bool | None

SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us"))]
)
COLUMNS = {"id": "long", "x": "long", "y": "long", "s": "string", "at": "timestamp"}
MILLISECOND_US = 1_000


def _and(*truths: Truth) -> Truth:
    return False if False in truths else None if None in truths else True


def _compared(sign: Callable[[Any, Any], bool], a: Any, b: Any) -> Truth:
    return None if a is None or b is None else sign(a, b)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as text, and its truth for a left and a right row."""

    sql: str
    holds: Callable[[Row, Row], Truth]


CONDITIONS = (
    Condition("l.x < r.x", lambda a, b: _compared(int.__lt__, a["x"], b["x"])),
    Condition(
        "l.x <= r.x AND l.y >= r.y",
        lambda a, b: _and(_compared(int.__le__, a["x"], b["x"]), _compared(int.__ge__, a["y"], b["y"])),
    ),
    Condition("ABS(l.x - r.x) <= 1", lambda a, b: _compared(lambda p, q: abs(p - q) <= 1, a["x"], b["x"])),
    Condition(
        "l.s = r.s AND l.x < r.x",
        lambda a, b: _and(_compared(str.__eq__, a["s"], b["s"]), _compared(int.__lt__, a["x"], b["x"])),
    ),
    Condition("l.s = r.s", lambda a, b: _compared(str.__eq__, a["s"], b["s"])),
    Condition(
        "l.x <> r.x AND l.y < r.x AND l.y <= r.y",
        lambda a, b: _and(
            _compared(int.__ne__, a["x"], b["x"]),
            _compared(int.__lt__, a["y"], b["x"]),
            _compared(int.__le__, a["y"], b["y"]),
        ),
    ),
    Condition(
        "l.x <= r.x AND l.y + r.y > 2",
        lambda a, b: _and(_compared(int.__le__, a["x"], b["x"]), _compared(lambda p, q: p + q > 2, a["y"], b["y"])),
    ),
)
FILTERS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("", lambda _: True),
    ("y > 0", lambda row: row["y"] is not None and row["y"] > 0),
    ("s IS NOT NULL", lambda row: row["s"] is not None),
)
#: Kind of join, select list with `seq` first, clauses behind WHERE.
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
    (
        "",
        "l.seq AS n, r.seq AS p",
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.y DESC, r.seq) <= 2",
    ),
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
)


@dataclass(frozen=True, slots=True)
class AskingStatement:
    """A statement and its rows in their order, each with the number of its stream; `is_self`: whether there is one."""

    kind: str
    items: str
    clauses: str
    condition: Condition
    filters: tuple[tuple[str, Callable[[Row], bool]], tuple[str, Callable[[Row], bool]]]
    is_self: bool
    is_time: bool
    slide: int
    length: int
    at_close: bool
    rows: tuple[tuple[int, Row], ...]

    def sql(self) -> str:
        """The statement as the product reads it."""
        unit = " ms" if self.is_time else ""
        window = f"WINDOW AS (SLIDE INTERVAL '{self.slide}{unit}' ON '{self.length}{unit}')"
        emit = f"EMIT ON {'CLOSE' if self.at_close else 'ARRIVAL'}"
        items = self.items.replace("MEDIAN_DISC", "MEDIAN(r.y)")
        right = "a" if self.is_self else "b"
        return f"SELECT {items} FROM a AS l {self.kind}JOIN {right} AS r {self._where()} {self.clauses} {window} {emit}"

    def _where(self) -> str:
        left, right = self.filters
        on = self.condition.sql + (f" AND r.{right[0]}" if right[0] else "")
        return f"ON {on}" + (f" WHERE l.{left[0]}" if left[0] else "")

    # -- the rows of both sides, numbered

    def _is_of(self, side: int, stream: int, row: Row) -> bool:
        return (self.is_self or stream == side) and self.filters[side][1](row)

    def numbered(self) -> list[tuple[int, Row, bool, bool]]:
        """Rows that pass a filter: number, row, whether it is a left and a right one."""
        sides = [(row, self._is_of(0, stream, row), self._is_of(1, stream, row)) for stream, row in self.rows]
        return [(n, *each) for n, each in enumerate(each for each in sides if each[1] or each[2])]

    def _members(self) -> tuple[list[int], list[int]]:
        rows = self.numbered()
        return [n for n, _, is_left, _ in rows if is_left], [n for n, _, _, is_right in rows if is_right]

    def _begin(self, position: int) -> int:
        return -(-position // self.slide) * self.slide - self.length

    # -- the nested loop

    def partners(self) -> Iterator[tuple[int, list[int]]]:
        """Of each left row its number, and the numbers of its partners."""
        rows = {n: row for n, row, _, _ in self.numbered()}
        lefts, rights = self._members()
        for left in lefts:
            yield left, [right for right in rights if self._joins(rows, (lefts, rights), left, right)]

    def _joins(self, rows: dict[int, Row], members: tuple[list[int], list[int]], left: int, right: int) -> bool:
        if left == right or (right > left and not self.at_close):
            return False
        earlier, later = min(left, right), max(left, right)
        same_side = members[0] if earlier == left else members[1]
        if self.is_time:
            inside = rows[earlier]["at"] >= self._begin(rows[later]["at"])
        else:
            inside = bisect_left(same_side, earlier) >= self._begin(bisect_left(same_side, later))
        return inside and self.condition.holds(rows[left], rows[right]) is True

    # -- DuckDB

    def answer(self) -> list[tuple[Any, ...]]:
        """What DuckDB gives for the same statement over the numbered rows."""
        db = duckdb.connect(config={"threads": 1})
        left, right = self._tables()
        db.register("lefts", left)
        db.register("rights", right)
        where = self._where().replace("ON ", f"ON ({self._inside()}) AND ", 1)
        if self.kind in ("SEMI ", "ANTI "):
            return self._answer_by_count(db, where)
        clauses = self.clauses.replace("GROUP BY l", f"GROUP BY {', '.join(f'l.{n}' for n in left.column_names)}")
        items = self.items.replace("MEDIAN_DISC", "QUANTILE_DISC(r.y, 0.5)")
        order = "ORDER BY n" + (", p" if " AS p" in items and "QUALIFY" not in clauses else "")
        if "QUALIFY" in clauses:
            order = "ORDER BY n, r.y DESC NULLS LAST, r.seq"
        sql = f"SELECT {items} FROM lefts AS l {self.kind}JOIN rights AS r {where} {clauses} {order}"
        return db.execute(sql).fetchall()

    def _inside(self) -> str:
        """That the earlier row of a pair lies in the later one's window."""
        later = "r.before_l" if not self.is_time else "r.at_ms"
        place = "l.place" if not self.is_time else "l.at_ms"
        as_earlier = f"r.seq < l.seq AND {'r.at_ms' if self.is_time else 'r.place'} >= l.begins"
        as_later = f"r.seq > l.seq AND {place} >= {self._upward(later)}" if self.at_close else "false"
        return f"({as_earlier}) OR ({as_later})"

    def _answer_by_count(self, db: duckdb.DuckDBPyConnection, where: str) -> list[tuple[Any, ...]]:
        """SEMI and ANTI joins by the number of partners: DuckDB 2.0 leaves out pairs where `<>` is among conditions."""
        grouped = ", ".join(item.partition(" AS ")[0] for item in self.items.split(", "))
        bound = "> 0" if self.kind == "SEMI " else "= 0"
        sql = f"SELECT {self.items} FROM lefts AS l LEFT JOIN rights AS r {where} GROUP BY {grouped}"
        return db.execute(f"{sql} HAVING COUNT(r.seq) {bound} ORDER BY n").fetchall()

    def _upward(self, place: str) -> str:
        return f"({place} + ((-{place}) % {self.slide} + {self.slide}) % {self.slide}) - {self.length}"

    def _tables(self) -> tuple[pa.Table, pa.Table]:
        """The rows of both sides, with their numbers, and the rows of the other side before each."""
        lefts, rights = self._members()
        rows = {n: row for n, row, _, _ in self.numbered()}
        found = []
        for own, other in ((lefts, rights), (rights, lefts)):
            found.append(
                pa.Table.from_pylist(
                    [
                        {
                            **{name: rows[n][name] for name in ("id", "x", "y", "s")},
                            "seq": n,
                            "place": place,
                            "at_ms": rows[n]["at"],
                            "before_l": bisect_left(other, n),
                            "begins": self._begin(rows[n]["at"] if self.is_time else bisect_left(other, n)),
                        }
                        for place, n in enumerate(own)
                    ],
                    pa.schema(
                        [*((SCHEMA.field(name)) for name in ("id", "x", "y", "s"))]
                        + [(name, pa.int64()) for name in ("seq", "place", "at_ms", "before_l", "begins")]
                    ),
                )
            )
        return found[0], found[1]


@dataclass(frozen=True, slots=True)
class BoundStatement(AskingStatement):
    """One whose left rows ask between bounds of event time: right time minus left time, in milliseconds.

    It doesn't say when they answer unless that is at arrival: on close is what SQL means, over all rows.
    """

    bounds: tuple[int, int] = (0, 0)

    def sql(self) -> str:
        """The statement as the product reads it."""
        items = self.items.replace("MEDIAN_DISC", "MEDIAN(r.y)")
        lower, upper = (f"l.at {'-' if at < 0 else '+'} INTERVAL '{abs(at)} ms'" for at in self.bounds)
        where = self._where().replace("ON ", f"ON r.at BETWEEN {lower} AND {upper} AND ", 1)
        emit = "" if self.at_close else "EMIT ON ARRIVAL"
        right = "a" if self.is_self else "b"
        return f"SELECT {items} FROM a AS l {self.kind}JOIN {right} AS r {where} {self.clauses} {emit}"

    def _inside(self) -> str:
        order = "<>" if self.at_close else "<"
        return f"r.at_ms - l.at_ms BETWEEN {self.bounds[0]} AND {self.bounds[1]} AND r.seq {order} l.seq"


def draw_bound(seed: int) -> BoundStatement:
    """The statement of a seed that has bounds for a window."""
    drawn, rng = draw(seed), Random(f"bounds {seed}")
    bounds = sorted((rng.choice((-20, -3, -1, 0)), rng.choice((-2, -1, 0, 0, 1, 5, 20))))
    asks = bool(drawn.kind or drawn.clauses)
    found = {each.name: getattr(drawn, each.name) for each in fields(drawn)} | {"is_time": True}
    if not asks:  # pairs that nobody asks about come at arrival
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
    """Rows in their order, each with the number of its stream."""
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
    return pa.RecordBatch.from_pylist([{**row, "at": row["at"] * MILLISECOND_US} for row in rows], schema=SCHEMA)
