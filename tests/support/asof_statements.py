"""ASOF joins in all their notations, drawn with their rows, and their answers by DuckDB.

DuckDB evaluates the definition: all pairs that satisfy ON and the tolerance, then each left row's nearest pair, then
WHERE. If DuckDB's own ASOF JOIN takes the statement, it also gives the nearest value; its choice among equal rows is
undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from tests.support.asking_statements import table_of
from tests.support.by_duckdb import by_duckdb

#: Signs between left and right, and whether the greatest right value is nearest.
SIGNS = {">=": True, ">": True, "<=": False, "<": False}
WHERES = (
    "",
    "",
    "",
    "",
    "r.y > 1",
    "l.y > 0",
    "r.y IS NULL",
    "l.y <= r.y AND l.x IS NOT NULL",
    "r.id IS NULL OR l.y <> r.y",
)


@dataclass(frozen=True, slots=True)
class AsofStatement:
    """A statement, its rows, and its meaning.

    on: conditions that choose pairs; key: the order in which the nearest comes first; ties: the order of equal ones
    plain: the inequality alone, if DuckDB's ASOF JOIN takes the statement
    """

    sql: str
    lefts: pa.Table
    rights: pa.Table
    is_left: bool
    on: str
    key: str
    ties: str
    where: str
    plain: str | None = None

    def answer(self) -> list[tuple[Any, ...]]:
        """The numbers of the left and right rows of results."""
        kind = "LEFT JOIN" if self.is_left else "JOIN"
        return self._asked(f"""
            SELECT l.seq, r.seq FROM lefts AS l {kind} (
                SELECT l.seq AS n, r.*,
                       row_number() OVER (PARTITION BY l.seq ORDER BY {self.key}, r.seq {self.ties}) AS k
                FROM lefts AS l JOIN rights AS r ON {self.on}
            ) AS r ON r.n = l.seq AND r.k = 1
            WHERE {self.where or "true"} ORDER BY l.seq""")

    def answer_of_asof(self) -> list[tuple[Any, ...]] | None:
        """The nearest value by left row, from DuckDB's ASOF JOIN."""
        if self.plain is None:
            return None
        kind = "ASOF LEFT JOIN" if self.is_left else "ASOF JOIN"
        return self._asked(f"SELECT l.seq, r.x FROM lefts AS l {kind} rights AS r ON {self.plain} ORDER BY l.seq")

    def _asked(self, sql: str) -> list[tuple[Any, ...]]:
        sides = {"lefts": self.lefts, "rights": self.rights}
        numbers = {name: pa.array(range(len(each)), pa.int64()) for name, each in sides.items()}
        return by_duckdb(sql, **{name: each.append_column("seq", numbers[name]) for name, each in sides.items()})


def draw(seed: int) -> AsofStatement:
    """The statement of a seed."""
    rng = Random(seed)
    is_timed = rng.random() < 0.5
    column, near, unit = ("at", rng.choice((1, 3, 20)), " ms") if is_timed else ("x", rng.choice((0, 1, 3)), "")
    distance = f"INTERVAL '{near}{unit}'" if is_timed else str(near)
    form = rng.choice((_either_side, _by_using) if rng.random() < 0.3 else (_bare, _ranged, _matched, _tolerated))
    equal = ("l.s = r.s",) if form is _by_using else rng.choice((("l.s = r.s",), ()))
    written, on, key = form(rng, column, distance)
    right = rng.choice(((), ("r.y IS NOT NULL",))) if form is not _by_using else ()
    is_left, where = rng.random() < 0.5, rng.choice(WHERES)
    is_table = not is_timed or rng.random() < 0.3
    joined = written.format(also=" AND ".join((*equal, *right)) or "true", equal="s, " if equal else "")
    kind = rng.choice(("ASOF LEFT JOIN", "LEFT ASOF JOIN")) if is_left else "ASOF JOIN"
    sql = f"SELECT l.id AS n, r.id AS p FROM a AS l {kind} {'TABLE(b)' if is_table else 'b'} AS r {joined}"
    conditions = " AND ".join((*equal, *right, *on))
    is_plain = form is _bare and not is_timed and not right and not where
    return AsofStatement(
        sql + (f" WHERE {where}" if where else ""),
        *(_table(rng, size) for size in (rng.choice((0, 1, 30)), rng.choice((0, 1, 12, 60)))),
        is_left,
        conditions,
        key,
        "ASC" if "abs" in key else "DESC",
        where,
        conditions if is_plain else None,
    )


def _bare(rng: Random, column: str, _distance: str) -> tuple[str, tuple[str, ...], str]:
    sign = rng.choice(list(SIGNS))
    nearest = f"l.{column} {sign} r.{column}"
    bound = () if column == "x" else (f"ABS(l.{column} - r.{column}) <= INTERVAL '30 ms'",)
    on = " AND ".join(("{also}", *bound, nearest))
    limit = () if column == "x" else ("abs(epoch_ms(l.at) - epoch_ms(r.at)) <= 30",)
    return f"ON {on}", (nearest, *limit), _key(column, sign)


def _ranged(rng: Random, column: str, distance: str) -> tuple[str, tuple[str, ...], str]:
    """The tolerance before or after the condition that defines the nearest row, or both as BETWEEN."""
    is_from_above = rng.random() < 0.5
    near, far = ("<=", ">=") if is_from_above else (">=", "<=")
    end = f"l.{column} {'-' if is_from_above else '+'} {distance}"
    two = [f"r.{column} {near} l.{column}", f"r.{column} {far} {end}"]
    ends = (end, f"l.{column}") if is_from_above else (f"l.{column}", end)
    written = rng.choice((f"r.{column} BETWEEN {ends[0]} AND {ends[1]}", " AND ".join(two), " AND ".join(two[::-1])))
    joined = rng.choice((f"{written} AND {{also}}", f"{{also}} AND {written}"))
    return f"ON {joined}", tuple(two), _key(column, ">=" if is_from_above else "<=")


def _matched(rng: Random, column: str, distance: str) -> tuple[str, tuple[str, ...], str]:
    """MATCH_CONDITION beside a further inequality, which restricts the candidates."""
    sign, also = rng.choice(list(SIGNS)), rng.choice(("l.y <= r.y", "l.y >= r.y", "l.y <> r.y"))
    nearest = rng.choice((f"l.{column} {sign} r.{column}", _turned(column, sign)))
    bounds = f"r.{column} BETWEEN l.{column} - {distance} AND l.{column} + {distance}"
    on = (f"l.{column} {sign} r.{column}", also, bounds)
    return f"MATCH_CONDITION ({nearest}) ON {also} AND {bounds} AND {{also}}", on, _key(column, sign)


def _tolerated(rng: Random, column: str, distance: str) -> tuple[str, tuple[str, ...], str]:
    sign = rng.choice(list(SIGNS))
    nearest = f"l.{column} {sign} r.{column}"
    far = f"r.{column} >= l.{column} - {distance}" if SIGNS[sign] else f"r.{column} <= l.{column} + {distance}"
    said = distance if rng.random() < 0.5 else distance.removeprefix("INTERVAL ")
    joined = rng.choice((f"ON {nearest} AND {{also}}", f"MATCH_CONDITION ({nearest}) ON {{also}}"))
    return f"{joined} TOLERANCE {said}", (nearest, far), _key(column, sign)


def _by_using(_rng: Random, column: str, distance: str) -> tuple[str, tuple[str, ...], str]:
    on = (f"l.{column} >= r.{column}", f"r.{column} >= l.{column} - {distance}")
    return f"USING ({{equal}}{column}) TOLERANCE {distance}", on, _key(column, ">=")


def _either_side(rng: Random, column: str, distance: str) -> tuple[str, tuple[str, ...], str]:
    apart = f"ABS({rng.choice((f'l.{column} - r.{column}', f'r.{column} - l.{column}'))})"
    written = rng.choice(
        (
            f"ON {apart} <= {distance} AND {{also}}",
            f"MATCH_CONDITION ({apart} <= {distance}) ON {{also}}",
            f"MATCH_CONDITION ({apart}) ON {{also}} TOLERANCE {distance}",
        )
    )
    value = "abs(l.x - r.x)" if column == "x" else "abs(epoch_us(l.at) - epoch_us(r.at))"
    bounds = f"r.{column} BETWEEN l.{column} - {distance} AND l.{column} + {distance}"
    return written, (bounds,), f"{value} ASC"


def _key(column: str, sign: str) -> str:
    return f"r.{column} {'DESC' if SIGNS[sign] else 'ASC'} NULLS LAST"


def _turned(column: str, sign: str) -> str:
    return f"r.{column} {sign.translate(str.maketrans('<>', '><'))} l.{column}"


def _table(rng: Random, size: int) -> pa.Table:
    """Rows in time order, with few values and NULLs."""
    at, rows = 0, []
    for number in range(size):
        at += rng.choice((0, 0, 1, 2, 5))
        x, y, s = (None if rng.random() < 0.1 else rng.randrange(each) for each in (8, 4, 2))
        row = {"id": number, "x": x, "y": y, "s": None if s is None else "ab"[s], "at": at}
        rows.append(row)
    return pa.Table.from_batches([table_of(rows)])
