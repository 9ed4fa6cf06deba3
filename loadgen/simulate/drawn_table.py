"""Draws a join with a table: a statement whose left rows ask, the stream's rows, and versions of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from loadgen.simulate.drawn_query import DrawnQuery, as_yaml, schemas_of
from loadgen.simulate.drawn_statement import asking_join, draw_question, elaborate
from loadgen.simulate.feed import RowsReader, read_rows
from loadgen.simulate.oracle import SourceRow, takes_part
from loadgen.simulate.scenario import Scenario, draw_with_query, with_packings
from spojoin.model import RowOrder
from spojoin.query.load import parse_query
from spojoin.windows import RowWindow
from spojoin.wire.records import Rows

#: The number of different tables of a seed, of successive versions, and of a table's rows.
_TABLES, _TURNS, _SIZES = (1, 2, 2, 3), (2, 4, 8), (0, 1, 6, 12, 30)
#: Small frames, so that the log may hold part of a version.
_FRAMES = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class TableScenario:
    """A world with a table.

    whole: the scenario with the table's rows as an input
    tables: the rows of each different table; turns: the table of each version, in order
    """

    whole: Scenario
    tables: tuple[tuple[SourceRow, ...], ...]
    turns: tuple[int, ...]

    @property
    def served(self) -> Scenario:
        """The scenario without the table's rows."""
        left = {source: messages for source, messages in self.whole.inputs.items() if source[0] == 0}
        return replace(self.whole, inputs=left, reader=RowsReader(self.whole.query, left))

    def rows(self, table: int) -> Rows:
        """A table's rows as the router gets them."""
        return read_rows(self.whole.query, 1, self.tables[table])

    def numbered(self, table: int) -> list[SourceRow]:
        """A table's rows that take a number."""
        return [row for row in self.tables[table] if takes_part(self.whole.join, row)]


def draw_table(seed: int) -> TableScenario:
    """The world of a seed."""
    rng = Random(f"table {seed}")
    found = next(each for each in _drawn(rng) if each.query.has_table)
    scenario = with_packings(found)
    scenario = replace(scenario, config=replace(scenario.config, frame_tuples=rng.choice(_FRAMES)))
    rights = [row for row in scenario.rows() if row.stream == 1]
    dead = {(d.stream, d.partition, d.offset, d.row) for d in read_rows(scenario.query, 1, rights).dead}
    good = [row for row in rights if row.position not in dead]
    tables = tuple(  # some contain a row twice
        tuple(rng.choices(good, k=rng.choice(_SIZES)) if good else ()) for _ in range(rng.choice(_TABLES))
    )
    turns = tuple(rng.randrange(len(tables)) for _ in range(rng.choice(_TURNS)))
    return TableScenario(scenario, tables, turns)


def _drawn(rng: Random) -> Iterator[Scenario]:
    for _ in count():
        yield draw_with_query(rng.randrange(1 << 32), _with_table)[0]


def _with_table(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """The query with a table as its right side; unchanged if it can't have one."""
    if drawn.join.is_self or not drawn.join.comparisons:
        return drawn
    found = elaborate(rng, drawn)
    if not found.join.comparisons:
        return drawn
    asked = replace(draw_question(rng, found.attributes[-1]), at_close=False)
    join = replace(asking_join(rng, found, asked), interval_us=None, window=RowWindow(1, 1))
    text = as_yaml(join, schemas_of(found.attributes), RowOrder())
    return DrawnQuery(join, parse_query(_with_tables(text)), found.attributes)


def _with_tables(text: str) -> str:
    """A query file of two streams, with the second as a table."""
    lines = [line for line in text.splitlines() if not line.startswith("  WINDOW")]
    right = next(number for number, line in enumerate(lines) if line.startswith("  east: "))
    lines[right] = lines[right].replace("{schema", "{topic: east, schema", 1).replace(", key: id}", "}")
    return "\n".join([*lines[:right], "tables:", *lines[right:]]) + "\n"
