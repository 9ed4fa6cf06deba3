"""FULL JOIN statements, drawn with their rows, and their answers by a plain nested loop and by DuckDB.

Either follows the definition: a pair counts if its conditions are true and the earlier row lies in the later one's
window. At arrival the later row of a pair gives it, and a row without earlier partners answers alone. On close a left
row gives its pairs, and a row without partners answers alone, when no row to come of the other side can have it in its
window: by count behind the row of its own side that moves the window past it, by time at the last event time that
reaches it. Of rows that answer at once the left ones come first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from tests.support.asking_statements import CONDITIONS, FILTERS, SCHEMA, AskingStatement, Row, drawn_rows

#: The numbers of both rows of some results.
Numbers = list[tuple[int | None, int | None]]
#: What is behind the last row.
END = 1 << 40
#: Select lists, each with the numbers of both rows first.
ITEMS = (
    "l.seq AS n, r.seq AS p",
    "l.seq AS n, r.seq AS p, l.id AS i, r.s",
    "l.seq AS n, r.seq AS p, coalesce(l.x, -1) + coalesce(r.y, -1) AS x, l.s IS NULL AS u",
)
_COLUMNS = ("id", "x", "y", "s")
_NUMBERS = ("seq", "place", "at_ms", "before", "begins", "closes")


@dataclass(frozen=True, slots=True)
class FullStatement(AskingStatement):
    """A FULL JOIN. bounds_ms: of an interval join, right time minus left time; then it has no window."""

    bounds_ms: tuple[int, int] | None = None

    def sql(self) -> str:
        """The statement as the product reads it."""
        text = AskingStatement.sql(self)
        if self.bounds_ms is None:
            return text
        head, _, tail = text.partition(" WINDOW")
        emit = " EMIT" + tail.partition(" EMIT")[2]
        return head if self.at_close else head + emit

    def _where(self) -> str:
        on = [self.condition.sql]
        on += [f"{alias}.{one[0]}" for alias, one in zip("lr", self.filters, strict=True) if one[0]]
        if self.bounds_ms is not None:
            lower, upper = (f"l.at {'-' if at < 0 else '+'} INTERVAL '{abs(at)} ms'" for at in self.bounds_ms)
            on.append(f"r.at BETWEEN {lower} AND {upper}")
        return f"ON {' AND '.join(on)}"

    def _is_of(self, side: int, stream: int, row: Row) -> bool:
        return self.is_self or stream == side

    def _length(self, side: int) -> int:
        """The length of the window over a side's rows."""
        if self.bounds_ms is None:
            return self.length
        return max(-self.bounds_ms[0] if side else self.bounds_ms[1], 0)

    @property
    def _step(self) -> int:
        return self.slide if self.bounds_ms is None else 1

    def _closes(self, side: int, members: list[int], place: int, row: Row) -> int:
        """When a row closes on close: the event time, or the number of the row, that is the last to reach it."""
        reaches = ((row["at"] if self.is_time else place) + self._length(side)) // self._step * self._step
        if self.is_time:
            return reaches
        return members[reaches] if reaches < len(members) else END

    # -- the nested loop

    def pairs(self) -> set[tuple[int, int]]:
        """All pairs, whichever of their rows is the later one."""
        rows = {n: row for n, row, _, _ in self.numbered()}
        lefts, rights = self._members()
        return {(a, b) for a in lefts for b in rights if a != b and self._is_pair(rows, (lefts, rights), a, b)}

    def _is_pair(self, rows: dict[int, Row], members: tuple[list[int], list[int]], left: int, right: int) -> bool:
        a, b = rows[left], rows[right]
        if not (self.condition.holds(a, b) is True and self.filters[0][1](a) and self.filters[1][1](b)):
            return False
        if self.bounds_ms is not None:
            return self.bounds_ms[0] <= b["at"] - a["at"] <= self.bounds_ms[1]
        earlier, later = min(left, right), max(left, right)
        if self.is_time:
            return bool(rows[earlier]["at"] >= self._begin(rows[later]["at"]))
        same_side = members[0] if earlier == left else members[1]
        return bisect_left(same_side, earlier) >= self._begin(bisect_left(same_side, later))

    def looped(self) -> list[tuple[int | None, int | None]]:
        """The numbers of both rows of each result, in order."""
        return [row for _, rows in self._looped() for row in rows]

    def _looped(self) -> Iterator[tuple[int, Numbers]]:
        """When each row answers, and the numbers of both rows of its results; in order."""
        pairs, rows = self.pairs(), {n: row for n, row, _, _ in self.numbered()}
        answering = []
        for side, own in enumerate(self._members()):
            for place, n in enumerate(own):
                moment = self._closes(side, own, place, rows[n]) if self.at_close else n
                answering.append((moment, side, n))
        for moment, side, n in sorted(answering):
            own_pairs = sorted(pair for pair in pairs if pair[side] == n and (self.at_close or n == max(pair)))
            alone: Numbers = [(None, n) if side else (n, None)]
            yield moment, [] if own_pairs and side and self.at_close else [*own_pairs] or alone

    def by_answer(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """When each row answers, and its rows of DuckDB's answer; in order."""
        found = iter(self.answer())
        for moment, rows in self._looped():
            yield moment, [next(found) for _ in rows]

    # -- DuckDB

    def answer(self) -> list[tuple[Any, ...]]:
        """What DuckDB gives for the same statement over the numbered rows."""
        db = duckdb.connect(config={"threads": 1})
        for name, table in zip(("lefts", "rights"), self._tables(), strict=True):
            db.register(name, table)
        on = self._where().removeprefix("ON ").replace("l.at ", "l.at_of ").replace("r.at ", "r.at_of ")
        left_is_earlier, right_is_earlier = self._windows()
        if self.at_close:
            when = "coalesce(l.closes, r.closes)", "l.seq IS NULL", "coalesce(l.seq, r.seq)", "r.seq"
            sql = self._joined("FULL", f"(({right_is_earlier}) OR ({left_is_earlier})) AND {on}", when)
        else:
            probe, partner = "greatest(l.seq, r.seq)", "least(l.seq, r.seq)"
            left = self._joined("LEFT", f"{right_is_earlier} AND {on}", (probe, "0", partner, "0"))
            right = self._joined("RIGHT", f"{left_is_earlier} AND {on}", (probe, "1", partner, "0"))
            sql = f"{left} UNION ALL {right}"
        return db.execute(f"SELECT * EXCLUDE (o1, o2, o3, o4) FROM ({sql}) ORDER BY o1, o2, o3, o4").fetchall()

    def _joined(self, kind: str, on: str, when: tuple[str, ...]) -> str:
        order = ", ".join(f"{key} AS o{number}" for number, key in enumerate(when, 1))
        return f"SELECT {self.items}, {order} FROM lefts AS l {kind} JOIN rights AS r ON {on}"

    def _windows(self) -> tuple[str, str]:
        """That the left, or the right, row is the earlier one and in the other's window."""
        if self.bounds_ms is not None:
            return "l.seq < r.seq", "r.seq < l.seq"
        place = "at_ms" if self.is_time else "place"
        return f"l.seq < r.seq AND l.{place} >= r.begins", f"r.seq < l.seq AND r.{place} >= l.begins"

    def _tables(self) -> tuple[pa.Table, pa.Table]:
        """The rows of both sides, with their numbers, and where the windows of each begin over the other side."""
        sides, rows = self._members(), {n: row for n, row, _, _ in self.numbered()}
        schema = pa.schema(
            [
                *(SCHEMA.field(name) for name in _COLUMNS),
                ("at_of", pa.timestamp("us")),
                *((name, pa.int64()) for name in _NUMBERS),
            ]
        )
        found = [
            pa.Table.from_pylist(
                [self._numbers(side, own, sides[1 - side], place, rows[n]) for place, n in enumerate(own)], schema
            )
            for side, own in enumerate(sides)
        ]
        return found[0], found[1]

    def _numbers(self, side: int, own: list[int], other: list[int], place: int, row: Row) -> dict[str, Any]:
        before = bisect_left(other, own[place])
        return {
            **{name: row[name] for name in _COLUMNS},
            "at_of": row["at"] * 1_000,
            "seq": own[place],
            "place": place,
            "at_ms": row["at"],
            "before": before,
            "begins": self._begin(row["at"] if self.is_time else before),
            "closes": self._closes(side, own, place, row),
        }


def draw_full(seed: int) -> FullStatement:
    """The statement of a seed: windows by count and time, interval joins; tie-dense rows, few or none, NULLs."""
    rng = Random(f"full {seed}")
    is_self, slide = rng.random() < 0.5, rng.choice((1, 1, 2, 3, 5, 10))
    bounds = (rng.randint(-12, 3), rng.randint(3, 12)) if rng.random() < 0.3 else None
    return FullStatement(
        "FULL ",
        rng.choice(ITEMS),
        "",
        rng.choice(CONDITIONS),
        (rng.choice(FILTERS), rng.choice(FILTERS)) if rng.random() < 0.4 else (FILTERS[0], FILTERS[0]),
        is_self,
        bounds is not None or rng.random() < 0.5,
        slide,
        slide * rng.choice((1, 2, 3, 7)),
        rng.random() < 0.65,
        tuple(drawn_rows(rng, is_self=is_self)),
        bounds,
    )
