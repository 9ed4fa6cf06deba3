"""Tables for drawn statements: every type, tiny domains, many ties, and values that are hard to compare.

Numbers are small and whole, or quarters, so that DuckDB, which compares whole numbers with doubles as doubles, rounds
nothing. Exact comparisons have their own tests.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

#: The origin of event times.
EPOCH = datetime(2024, 1, 31, 23, 59, 59)

ARROW: Mapping[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(18,4)": pa.decimal128(18, 4),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
}

_QUARTERS = [-1.5, -0.25, 0.0, 0.5, 1.0, 1.0, 1.75, 2.0, 3.0]
_SPECIAL = [math.nan, math.inf, -math.inf, -0.0]
_DAYS = [date(2024, 2, 29), date(2024, 3, 1), date(2023, 12, 31), date(1969, 12, 31), date(2024, 2, 28)]
_STRINGS = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "Ab ",
    "it's",
    '"',
    "ß",
    "é",
    "%",
    "_",
    "日本",
    "a;b--c",
    "NULL",
    "1",
    "2024-02-29",
]

_DOMAINS: Mapping[str, list[Any]] = {
    "int": [-2, -1, 0, 1, 1, 2, 3, 5],
    "long": [-3, 0, 1, 2, 2, 3, 4],
    "float": [*_QUARTERS, *_SPECIAL],
    "double": [*_QUARTERS, *_SPECIAL],
    "decimal(10,2)": [Decimal(text) for text in ("-1.50", "0.00", "0.25", "1.00", "1.75", "2.00", "3.00")],
    "decimal(18,4)": [Decimal(text) for text in ("-1.5000", "0.0000", "0.1250", "1.0000", "2.0000")],
    "date": _DAYS,
    "timestamp": [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 1), datetime(1969, 12, 31, 23), EPOCH],
    "string": _STRINGS,
    "boolean": [True, False],
    "uuid": [uuid.UUID(int=k << 90 | 7).bytes for k in range(4)],
    "binary": [b"", b"a", b"A", b"\x00", b"\x00\xff", b"it's"],
}

_PLAIN = ["a", "b", "price", "qty", "name", "k", "v2", "day_of", "x", "Größe", "MiXed", "label", "total", "kind"]
_QUOTED = [
    "Trip Id",
    "it's",
    'say "hi"',
    "select",
    "a.b",
    "from",
    "FLÄCHE m²",
    "1st",
    "semi;colon",
    "x--y",
    "日",
    "l",
    "r",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name and its declared type."""

    name: str
    type: str

    def sql(self, rng: Random) -> str:
        """The name as a user may write it: in quotes if needed, perhaps in another case if allowed."""
        if self.name in _PLAIN:
            return rng.choice([self.name] * 6 + [f'"{self.name}"', _other_case(self.name)])
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """A stream: its name, its columns and its rows; `time` is the column of event times, never NULL, ascending."""

    name: str
    fields: tuple[Field, ...]
    time: str
    table: pa.Table

    def of(self, *types: str) -> list[Field]:
        """The columns of these types."""
        return [field for field in self.fields if field.type in types]


def draw_tables(rng: Random, streams: int, rows: tuple[int, int] = (15, 45)) -> tuple[DrawnTable, ...]:
    """One or two streams; two streams share some columns' names and types."""
    names = rng.sample(["trips", "quotes", "Order-Lines", "t1"], streams)
    first = _fields(rng, [])
    found = [_table(rng, names[0], first, rows)]
    if streams == 2:
        shared = [field for field in first if rng.random() < 0.5]
        found.append(_table(rng, names[1], _fields(rng, shared), rows))
    return tuple(found)


def _fields(rng: Random, kept: list[Field]) -> list[Field]:
    """Six to ten columns in any order, at least two of them numbers."""
    used = {field.name.lower() for field in kept}
    names = [name for name in (*_PLAIN, *rng.sample(_QUOTED, 3)) if name.lower() not in used]
    rng.shuffle(names)
    types = [rng.choice(["int", "long", "double"]), rng.choice(["int", "long", "float", "decimal(10,2)"])]
    types += [rng.choice(list(ARROW)) for _ in range(rng.randrange(2, 6))]
    types += ["string"] * (rng.random() < 0.6)
    found = [*kept, *(Field(name, kind) for name, kind in zip(names, types, strict=False))][:10]
    rng.shuffle(found)
    return found


def _table(rng: Random, name: str, fields: list[Field], rows: tuple[int, int]) -> DrawnTable:
    count = rng.randint(*rows)
    time = next(text for text in ("at", "ts", "When") if text.lower() not in {f.name.lower() for f in fields})
    if rng.random() < 0.5:
        fields = [field for field in fields if field.type != "timestamp" or field.name != time]
    nulls = rng.choice([0.0, 0.1, 0.3])
    columns = {f.name: _values(rng, f.type, count, nulls) for f in fields}
    columns[time] = _times(rng, count)
    return DrawnTable(name, (*fields, Field(time, "timestamp")), time, pa.table(columns))


def _values(rng: Random, kind: str, count: int, nulls: float) -> pa.Array[Any]:
    domain = rng.sample(_DOMAINS[kind], min(len(_DOMAINS[kind]), rng.choice([2, 4, 20])))
    draw: Callable[[], Any] = lambda: None if rng.random() < nulls else rng.choice(domain)  # noqa: E731
    return pa.array([draw() for _ in range(count)], ARROW[kind])


def _times(rng: Random, count: int) -> pa.Array[Any]:
    """Event times that never fall and often repeat."""
    step = rng.choice([1, 1_000, 700_001])
    moments, now = [], EPOCH
    for _ in range(count):
        now += timedelta(microseconds=rng.choice([0, 0, 1, 2, 5]) * step)
        moments.append(now)
    return pa.array(moments, pa.timestamp("us"))


def _other_case(name: str) -> str:
    return name.upper() if name.upper().lower() == name.lower() and len(name.upper()) == len(name) else name
