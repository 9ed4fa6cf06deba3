"""Statements whose right side is a table, drawn with rows and versions, and their answers by DuckDB.

By definition, a left row is answered about all rows of the last table version that was loaded before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from tests.support.asking_statements import CONDITIONS, FILTERS, FORMS, SCHEMA, Row, duckdb_answer

#: Sizes of versions: none, one row, few, and more than a frame or batch of any test holds.
SIZES = (0, 1, 5, 20, 150)


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A statement and its input in order: lists of rows, each a version of the table (True) or rows of the stream."""

    kind: str
    items: str
    clauses: str
    condition: str
    filters: tuple[tuple[str, Any], tuple[str, Any]]
    emit: str
    steps: tuple[tuple[bool, tuple[Row, ...]], ...]

    names: ClassVar = ("a", "b")
    is_timed: ClassVar = False

    def sql(self) -> str:
        """The statement as the product reads it."""
        items = self.items.replace("MEDIAN_DISC", "MEDIAN(r.y)")
        return f"SELECT {items} FROM a AS l {self.kind}JOIN TABLE(b) AS r {self._where()} {self.clauses} {self.emit}"

    def _where(self) -> str:
        left, right = self.filters
        on = self.condition + (f" AND r.{right[0]}" if right[0] else "")
        return f"ON {on}" + (f" WHERE l.{left[0]}" if left[0] else "")

    def numbered(self) -> Iterator[tuple[list[tuple[int, Row]], list[tuple[int, Row]]]]:
        """Runs of left rows with the version that they are answered about, all with their numbers."""
        number, version = 0, []
        for is_table, rows in self.steps:
            passing = [row for row in rows if self.filters[int(is_table)][1](row)]
            here = list(enumerate(passing, number))
            number += len(here)
            if is_table:
                version = here
            else:
                yield here, version

    def answer(self) -> list[tuple[Any, ...]]:
        """DuckDB's answer for each run of left rows and its version."""
        return [row for run in self.numbered() for row in self.answer_about(*run)]

    def answer_about(self, lefts: list[tuple[int, Row]], version: list[tuple[int, Row]]) -> list[tuple[Any, ...]]:
        """DuckDB's answer for left rows about one version."""
        rest = f"{self._where()} {self.clauses}"
        return duckdb_answer(self.kind, self.items, rest, _numbered_table(lefts), _numbered_table(version))


def _numbered_table(rows: list[tuple[int, Row]]) -> pa.Table:
    return pa.Table.from_pylist(
        [{**row, "seq": number} for number, row in rows], pa.schema([*SCHEMA, ("seq", pa.int64())])
    )


def draw(seed: int, versions: int | None = None) -> TableStatement:
    """The statement of a seed: tie-dense rows, NULLs, versions of all sizes, some directly after one another.

    versions: 1 draws one version before all rows
    """
    rng = Random(f"table {seed}")
    kind, items, clauses = rng.choice(FORMS)
    domain, nulls = rng.choice((2, 4, 9)), rng.choice((0, 0, 0.2))
    steps = [(True, _rows(rng, rng.choice(SIZES), domain, nulls))]
    for _ in range(rng.choice((1, 3, 8))):
        is_table = rng.random() < 0.4
        steps.append((is_table, _rows(rng, rng.choice(SIZES if is_table else (1, 6, 40)), domain, nulls)))
    if versions == 1:
        steps = [steps[0], (False, _rows(rng, rng.choice((1, 6, 40)), domain, nulls))]
    return TableStatement(
        kind,
        items,
        clauses,
        rng.choice(CONDITIONS),
        (rng.choice(FILTERS), rng.choice(FILTERS)),
        "" if versions == 1 else rng.choice(("", "EMIT ON ARRIVAL", "EMIT ON CLOSE")),
        tuple(steps),
    )


def stretches(statement: TableStatement) -> list[bool]:
    """Whether each run of equal steps consists of versions, for tests that need certain draws."""
    return [is_table for is_table, _ in groupby(statement.steps, key=lambda step: step[0])]


def _rows(rng: Random, count: int, domain: int, nulls: float) -> tuple[Row, ...]:
    rows = []
    for number in range(count):
        values = [None if rng.random() < nulls else rng.randrange(domain) for _ in range(3)]
        text = None if values[2] is None else f"{'ab'[values[2] % 2]}{values[2]}"
        rows.append({"id": number, "x": values[0], "y": values[1], "s": text, "at": 0})
    return tuple(rows)
