"""Makes a statement with a finding smaller: fewer items, conditions, columns and rows, as long as the finding stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.support.statement_draw import DrawnStatement
from tests.support.statement_oracle import quoted
from tests.support.statement_tables import DrawnTable
from tests.support.statement_text import Clauses, Refusable, Undecided, clauses

Fails = Callable[[DrawnStatement], bool]


def shrunk(statement: DrawnStatement, fails: Fails) -> DrawnStatement:
    """The smallest statement found for which `fails` still returns True."""
    while True:
        smaller = next((each for each in _smaller(statement) if fails(each)), None)
        if smaller is None:
            return statement
        statement = smaller


def as_script(statement: DrawnStatement) -> str:
    """The statement and its tables as Python."""
    lines = [f"{table.name!r}: {table.table.to_pydict()!r}  # {table.table.schema.types}" for table in statement.tables]
    return "\n".join([*lines, f"time={statement.time!r}", statement.text])


def _smaller(statement: DrawnStatement) -> Iterator[DrawnStatement]:
    try:
        parts = clauses(statement.text)
    except (Refusable, Undecided):
        parts = None
    if parts is not None:
        plain = replace(statement, text=_written(parts))
        if len(plain.text) < len(statement.text):
            yield plain
        for items in _without_one(parts.items):
            yield replace(statement, text=_written(replace(parts, items=items)))
        for conjuncts in _without_one(parts.conjuncts):
            yield replace(statement, text=_written(replace(parts, conjuncts=conjuncts)))
    for k, table in enumerate(statement.tables):
        for smaller in (*_fewer_rows(table), *_fewer_columns(table)):
            yield replace(statement, tables=(*statement.tables[:k], smaller, *statement.tables[k + 1 :]))


def _written(parts: Clauses) -> str:
    sides = [f"{quoted(side.stream)} AS {quoted(side.alias)}" for side in (parts.left, parts.right)]
    window = parts.window
    unit = " us" if window and window.is_time else ""
    clause = f" WINDOW AS (SLIDE INTERVAL '{window.slide}{unit}' ON '{window.length}{unit}')" if window else ""
    condition = " AND ".join(f"({each})" if " or " in each.lower() else each for each in parts.conjuncts)
    return f"SELECT {', '.join(parts.items)} FROM {sides[0]} JOIN {sides[1]} ON {condition}{clause}"


def _without_one(values: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for k in range(len(values) if len(values) > 1 else 0):
        yield (*values[:k], *values[k + 1 :])


def _fewer_rows(table: DrawnTable) -> Iterator[DrawnTable]:
    count = table.table.num_rows
    size = count // 2
    while size:
        for start in range(0, count, size):
            kept = [k for k in range(count) if not start <= k < start + size]
            yield replace(table, table=table.table.take(kept))
        size //= 2


def _fewer_columns(table: DrawnTable) -> Iterator[DrawnTable]:
    for field in table.fields:
        if field.name != table.time and len(table.fields) > 1:
            fields = tuple(each for each in table.fields if each != field)
            yield replace(table, fields=fields, table=table.table.drop_columns([field.name]))
