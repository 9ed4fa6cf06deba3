"""FULL JOIN statements, drawn with their rows, and their answers by DuckDB.

It follows the definition: a pair counts if its conditions are true and the earlier row lies in the later one's window.
At arrival, the later row of a pair gives the pair, and a row without earlier partners answers alone. On close, a row
answers when no later row of the other side can have it in its window: by count, after the row of its own side that
moves the window past it; by time, at the last event time that reaches it. A left row then gives its pairs, and a row
without partners answers alone. Of rows that answer at the same moment, left rows come first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any

from loadgen.window import window_end
from tests.support.asking_statements import CONDITIONS, FILTERS, AskingStatement, Row, drawn_rows
from tests.support.by_duckdb import by_duckdb

#: The place after the last row.
END = 1 << 40
#: Select lists, each with the numbers of both rows first.
ITEMS = (
    "l.seq AS n, r.seq AS p",
    "l.seq AS n, r.seq AS p, l.id AS i, r.s",
    "l.seq AS n, r.seq AS p, coalesce(l.x, -1) + coalesce(r.y, -1) AS x, l.s IS NULL AS u",
)


@dataclass(frozen=True, slots=True)
class FullStatement(AskingStatement):
    """A FULL JOIN. bounds_ms: of right minus left time in an interval join, which has no window."""

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
        on = [self.condition]
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
        """When a row closes: the last event time, or the number of the last row, that reaches it."""
        reaches = int(window_end(row["at"] if self.is_time else place, self._length(side), self._step))
        if self.is_time:
            return reaches
        return members[reaches] if reaches < len(members) else END

    def of_closed(self) -> list[list[tuple[Any, ...]]]:
        """The rows of DuckDB's answer for each row of either side that closes, in order."""
        found = defaultdict(list)
        for row in self.answer():
            found[self.answering(*row[:2])].append(row)
        rows = {n: row for n, row, _, _ in self.numbered()}
        moments = [
            (self._closes(side, own, place, rows[n]) if self.at_close else n, side, n)
            for side, own in enumerate(self._members())
            for place, n in enumerate(own)
        ]
        return [found[tuple(answering)] for moment, *answering in sorted(moments) if moment < END]

    def answering(self, left: int | None, right: int | None) -> tuple[int, int]:
        """The side and the number of the row that gives a result: on close the left one, otherwise the later one."""
        if right is None or (left is not None and (self.at_close or left > right)):
            return 0, left
        return 1, right

    # -- DuckDB

    def answer(self) -> list[tuple[Any, ...]]:
        """DuckDB's answer to the same statement over the numbered rows."""
        on = self._where().removeprefix("ON ")
        left_is_earlier, right_is_earlier = self._windows()
        if self.at_close:
            when = "coalesce(l.closes, r.closes)", "l.seq IS NULL", "coalesce(l.seq, r.seq)", "r.seq"
            sql = self._of_kind("FULL", f"(({right_is_earlier}) OR ({left_is_earlier})) AND {on}", when)
        else:
            probe, partner = "greatest(l.seq, r.seq)", "least(l.seq, r.seq)"
            left = self._of_kind("LEFT", f"{right_is_earlier} AND {on}", (probe, "0", partner, "0"))
            right = self._of_kind("RIGHT", f"{left_is_earlier} AND {on}", (probe, "1", partner, "0"))
            sql = f"{left} UNION ALL {right}"
        left, right = self._tables()
        sql = f"SELECT * EXCLUDE (o1, o2, o3, o4) FROM ({sql}) ORDER BY o1, o2, o3, o4"
        return by_duckdb(sql, lefts=left, rights=right)

    def _of_kind(self, kind: str, on: str, when: tuple[str, ...]) -> str:
        order = ", ".join(f"{key} AS o{number}" for number, key in enumerate(when, 1))
        return f"SELECT {self.items}, {order} FROM lefts AS l {kind} JOIN rights AS r ON {on}"

    def _windows(self) -> tuple[str, str]:
        if self.bounds_ms is not None:
            return "l.seq < r.seq", "r.seq < l.seq"
        return AskingStatement._windows(self)

    def _numbers(self, side: int, own: list[int], other: list[int], place: int, row: Row) -> dict[str, int]:
        numbers = AskingStatement._numbers(self, side, own, other, place, row)
        return {**numbers, "closes": self._closes(side, own, place, row)}


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
