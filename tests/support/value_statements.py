"""Statements over values of every kind, given by every door, drawn with their rows; DuckDB gives the answers.

Only event times bound which rows may join, so DuckDB answers the same text over the same finite rows. What it lacks
(`GROUP BY l`, ASOF with a tolerance) is written out. Of a file it gets only the valid lines. Kinds that DuckDB rounds
to compare aren't mixed.
"""

from __future__ import annotations

import base64
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import spojoin
from spojoin.errors import QueryError
from tests.support.by_duckdb import engine

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30")
UNITS = ("s", "ms", "us", "ns")
DOORS = ("Arrow", "Arrow", "pandas", "pandas of Arrow", "Polars", "Parquet", "CSV", "CSV", "JSON", "JSON")
_TEXTS = ("CSV", "JSON")
_BIG = (2**53, 2**53 + 1, -(2**53) - 1)
_MOMENTS = [
    datetime(2024, 3, 31, 0, 59),
    datetime(2024, 3, 31, 1),
    datetime(2024, 10, 27, 1, 30),
    datetime(1969, 12, 31),
]
_MOMENTS += [datetime(2024, 3, 31, 1) + timedelta(hours=hours) for hours in (1, 2, 24)]
_WIDE = ("12345678901234567890.0000000001", "12345678901234567890.0000000002", "0.1", "-0.1", "3", "9007199254740993")
_QUARTERS = (-1.5, -0.25, 0.0, 0.5, 1.0, 2.0)
_ODD = (math.nan, math.inf, -math.inf, -0.0)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, texts))


#: Each kind's Arrow type and values.
KINDS: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int": (pa.int32(), (0, 1, 2, 3, -1)),
    "long": (pa.int64(), (0, 1, 3, *_BIG, 2**63 - 1)),
    "uint64": (pa.uint64(), (0, 1, 3, *_BIG[:2], 2**64 - 1, 2**64 - 2)),
    "decimal(10,2)": (pa.decimal128(10, 2), _decimals("-1.50", "0.50", "1.00", "2.00")),
    "decimal(18,4)": (pa.decimal128(18, 4), _decimals("0.1", "-0.1", "3", "99999999999999.9999")),
    "decimal(20,0)": (pa.decimal128(20, 0), _decimals("3", "9007199254740993", "18446744073709551615", "-1")),
    "decimal(38,10)": (pa.decimal128(38, 10), _decimals(*_WIDE)),
    "decimal(38,18)": (pa.decimal128(38, 18), _decimals(*_WIDE[2:], "0.000000000000000001", "0.100000000000000001")),
    "decimal(38,0)": (pa.decimal128(38, 0), _decimals("9" * 38, "9" * 37 + "8", "-" + "9" * 38, "3", str(2**53 + 1))),
    "double": (pa.float64(), (*_QUARTERS, *_ODD)),
    "float": (pa.float32(), (*_QUARTERS, *_ODD)),
    "date": (pa.date32(), (date(2024, 3, 31), date(2024, 10, 27), date(1969, 12, 31), date(2261, 12, 31))),
    **{f"timestamp({unit})": (pa.timestamp(unit), _MOMENTS) for unit in UNITS},
    **{f"{unit} {zone}": (pa.timestamp(unit, zone), _MOMENTS) for unit in UNITS for zone in ZONES},
    "string": (pa.string(), ("", "a", "A", "b", "ß", "it's", "1", "a,b", 'say "hi"')),
    "large": (pa.large_string(), ("", "a", "A", "b", "日本", "low")),
    "category": (pa.dictionary(pa.int8(), pa.string()), ("low", "high", "a", "")),
    "time": (pa.time64("us"), (time(0), time(9, 30, 0, 5), time(23, 59, 59, 999_999))),
    "duration(us)": (pa.duration("us"), (timedelta(0), timedelta(seconds=90, microseconds=1), timedelta(days=-2))),
    "duration(ms)": (pa.duration("ms"), (timedelta(0), timedelta(seconds=90), timedelta(days=40))),
}
_ZONED = tuple(kind for kind in KINDS if " " in kind)
_NAIVE = tuple(kind for kind in KINDS if kind.startswith("timestamp"))
#: Kinds that are compared with each other without rounding.
FAMILIES = (
    ("int", "uint64", "decimal(10,2)", "decimal(18,4)", "decimal(20,0)", "decimal(38,10)", "decimal(38,18)"),
    ("int", "long", "uint64", "decimal(20,0)", "decimal(38,0)"),
    ("double", "float", "int", "decimal(10,2)"),
    _ZONED,
    _ZONED,
    (*_NAIVE, "date"),
    ("string", "large", "category"),
    ("time",),
    ("duration(us)", "duration(ms)"),
)
#: Families for which statements ask for the nearest row, each with a tolerance.
NEAREST = {0: "3", 2: "1.25", 3: "INTERVAL '2 hours'", 5: "INTERVAL '2 hours'"}
_UNTOLD = ("time", "duration(us)", "duration(ms)")
_COLUMNS = ("f", "g")
#: Conditions that bound two moments, so that a statement may take these as event times.
_BOUND = re.compile(r"l\.[fg] = r|BETWEEN l\.f|TOLERANCE|ASOF")


@dataclass(frozen=True, slots=True)
class Side:
    """A side: its door, the kinds of its columns, its valid rows, and invalid lines of a file, by place."""

    door: str
    kinds: Mapping[str, str]
    table: pa.Table
    broken: tuple[tuple[int, bytes], ...] = ()

    def given(self, name: str, folder: Path) -> tuple[str, dict[str, Any], dict[str, str]]:
        """The side's name in a statement, the tables to pass for it, and the schema if the door has none."""
        path = folder / f"{name}.{ {'CSV': 'csv', 'JSON': 'jsonl'}.get(self.door, 'parquet') }"
        if self.door == "Parquet":
            pq.write_table(self.table, path)
            return f"'{path}'", {}, {}
        if self.door in _TEXTS:
            path.write_bytes(b"".join(self._lines()))
            return f"'{path}'", {}, {column: _declared(kind) for column, kind in self.kinds.items()}
        return name, {name: self._frame()}, {}

    def _frame(self) -> Any:
        if self.door == "pandas":
            return self.table.to_pandas()
        if self.door == "pandas of Arrow":
            return self.table.to_pandas(types_mapper=pd.ArrowDtype)
        if self.door == "Polars":
            words = pl.Enum(["", "low", "high", "a"])
            found = pl.from_arrow(self.table)
            return found.with_columns([pl.col(n).cast(words) for n, kind in self.kinds.items() if kind == "category"])
        return self.table

    def _lines(self) -> Iterator[bytes]:
        broken = dict(self.broken)
        if self.door == "CSV":
            yield (",".join(self.table.column_names) + "\n").encode()
        for place, row in enumerate([*self.table.to_pylist(), None]):
            yield broken.get(place, b"")
            if row is not None:
                yield (_csv(row) if self.door == "CSV" else _json(row)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class ValueStatement:
    """A statement; in both texts `{l}` and `{r}` stand for the sides, and `{on}` for the condition.

    sql: the statement for spojoin; oracle: the same for DuckDB
    carried: the kind of a selected column by its name
    """

    sql: str
    oracle: str
    condition: str
    sides: tuple[Side, Side]
    carried: Mapping[str, str]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        sides = "; ".join(f"{side.door}: {dict(side.kinds)}, {side.table.num_rows} rows" for side in self.sides)
        return f"{self.sql.format(l='a', r='b', on=self.condition)} {dict(self.options)} over {sides}"

    def asked(self, folder: Path) -> tuple[pa.Table, dict[str, int]]:
        """spojoin's answer, and the rows that it refused, by reason."""
        left, right = (side.given(name, folder) for side, name in zip(self.sides, "ab", strict=True))
        text = self.sql.format(l=left[0], r=right[0], on=self.condition)
        schema = {each[0].strip("'"): each[2] for each in (left, right) if each[2]}
        options = {**self.options, **({"schema": schema} if schema else {}), "max_rejects": "100%"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = spojoin.sql(text, **options, **left[1], **right[1])
            return results.to_arrow(), dict(results.rejected)

    def expected(self) -> pa.Table:
        """DuckDB's answer."""
        db = engine().cursor()
        for name, side in zip("ab", self.sides, strict=True):
            db.register("arriving", side.table)
            casts = ", ".join(f"CAST({n} AS {_cast(kind)}) AS {n}" for n, kind in side.kinds.items() if _cast(kind))
            db.execute(
                f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *{casts and f' REPLACE ({casts})'} FROM arriving"
            )
        return db.execute(self.oracle.format(l="a", r="b", on=self.condition)).to_arrow_table()

    def put_right(self, refusal: QueryError) -> ValueStatement | None:
        """The refusal's proposal: a whole statement, or a cast in the condition; None if it has none."""
        if refusal.instead is not None:
            return replace(self, sql=refusal.instead.replace("{", "{{").replace("}", "}}"))
        found = re.search(r"such as (\((.+?)\) AT TIME ZONE '[^']+'), or take the local", str(refusal))
        found = found or re.search(r"or compare texts, (CAST\((.+?) AS VARCHAR\))", str(refusal))
        if found is None:
            return None
        column = found[2].removeprefix("CAST(").removesuffix(" AS TIMESTAMP)")
        sql, condition = (
            re.sub(rf"(?<![\w]){re.escape(column)}(?! A[ST] )", found[1], each) for each in (self.sql, self.condition)
        )
        return replace(self, sql=sql, condition=condition)

    def finding(self, folder: Path) -> str | None:
        """The fault of spojoin's answer, or None."""
        try:
            found, refused = self.asked(folder)
        except QueryError as error:
            if "the interval is empty" in str(error):
                return None
            righted = self.put_right(error)
            return f"refused: {error}" if righted is None or righted == self else righted.finding(folder)
        rows, expected = rows_of(found), rows_of(self.expected())
        if rows != expected:
            extra, lost = ([r for r in a if r not in b] for a, b in ((rows, expected), (expected, rows)))
            return f"{len(rows)} rows for {len(expected)}; more: {extra[:2]}, lacking: {lost[:2]}"
        lines = sum(len(side.broken) for side in self.sides)
        if refused != ({"malformed": lines} if lines else {}):
            return f"refused: {refused} of {lines} broken lines"
        wrong = {n: str(found.schema.field(n).type) for n, kind in self.carried.items() if not _keeps(found, n, kind)}
        return f"types {wrong} for {self.carried}" if wrong else None


def _cast(kind: str) -> str:
    """The type to which DuckDB casts a kind that it compares in another way; empty for other kinds."""
    return {"category": "VARCHAR", "uint64": "DECIMAL(20,0)"}.get(kind, "TIMESTAMPTZ" if kind in _ZONED else "")


def _keeps(found: pa.Table, name: str, kind: str) -> bool:
    """Whether a selected column has its kind's zone, digits and unit."""
    given, wanted = found.schema.field(name).type, KINDS[kind][0]
    if pa.types.is_timestamp(wanted):
        return given.tz == wanted.tz and (given.unit == "ns" or wanted.unit != "ns")
    return given == wanted if pa.types.is_decimal(wanted) else True


# --- values -----------------------------------------------------------------------------------------------------------


def rows_of(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows as texts of exact values, sorted."""
    return sorted(zip(*(map(_exact, _counted(column)) for column in table.columns), strict=True))


def _counted(column: pa.ChunkedArray) -> list[Any]:
    """The values; for times and durations, nanoseconds."""
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_date(kind) and not pa.types.is_interval(kind):
        factor = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return [None if each is None else each * factor for each in pc.cast(column, whole).to_pylist()]
    return column.to_pylist()


def _exact(value: Any) -> str:
    if isinstance(value, pa.MonthDayNano):
        value = (value.months * 30 + value.days) * 86_400 * 10**9 + value.nanoseconds
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isnan(value) or math.isinf(value) else repr(Fraction(value))
    return repr(Fraction(value)) if isinstance(value, int | Decimal) else str(value)


def _csv(row: Mapping[str, Any]) -> str:
    return ",".join(
        "" if v is None else '"' + v.replace('"', '""') + '"' if isinstance(v, str) else _text(v) for v in row.values()
    )


def _json(row: Mapping[str, Any]) -> str:
    def cell(value: Any) -> str:
        is_bare = isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value))
        return "null" if value is None else _text(value) if is_bare else json.dumps(_text(value))

    return "{" + ", ".join(f"{json.dumps(name)}: {cell(value)}" for name, value in row.items()) + "}"


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _declared(kind: str) -> str:
    """The kind's declaration in a schema."""
    if kind in _ZONED:
        return f"timestamptz({kind.partition(' ')[2]})"
    return "timestamp" if kind in _NAIVE else "string" if kind in ("large", "category") else kind


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_values(seed: int) -> ValueStatement:
    """The statement of a seed."""
    rng = Random(f"values {seed}")
    number = rng.randrange(len(FAMILIES))
    families = (FAMILIES[number], rng.choice(FAMILIES))
    untold = any(kind in _UNTOLD for family in families for kind in family)
    doors = tuple(rng.choice([door for door in DOORS if not (untold and door in _TEXTS)]) for _ in range(2))
    moments = rng.choice((_ZONED, _NAIVE)) if rng.random() < 0.4 else ()
    sides = tuple(_side(rng, door, families, moments) for door in doors)
    first = rng.choice((_paired, _paired, _asking, _grouped, _ranked))
    if number in NEAREST and rng.random() < 0.4 and not (moments and FAMILIES[number][0] in (*_ZONED, *_NAIVE)):
        first = _nearest
    written = first(rng, sides, number)
    condition = written.condition
    if moments:
        condition += f" AND r.ts BETWEEN l.ts - INTERVAL '{rng.choice((0, 2))} hours' AND l.ts + INTERVAL '90 min'"
    # Among equally near rows the latest counts, by ts, which a statement must name beside another moment.
    is_said = first is _nearest and any(_is_moment(KINDS[side.kinds[name]][0]) for side in sides for name in _COLUMNS)
    timed = {"time": "ts"} if moments and (rng.random() < 0.5 or is_said) else {}
    found = replace(written, condition=condition, options=timed)
    return (
        found if _BOUND.search(f"{found.sql} {condition}") is None else replace(found, sides=tuple(map(_timed, sides)))
    )


def _timed(side: Side) -> Side:
    """The side with a moment in each row, if the statement may take the column as the event time."""
    columns = [
        pc.fill_null(column, _values(Random(0), side.door, side.kinds[name], 1, 0.0)[0])
        if _is_moment(column.type)
        else column
        for name, column in zip(side.table.column_names, side.table.columns, strict=True)
    ]
    return replace(side, table=pa.table(dict(zip(side.table.column_names, columns, strict=True))))


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _side(rng: Random, door: str, families: Sequence[Sequence[str]], moments: Sequence[str]) -> Side:
    drawn = dict(zip(_COLUMNS, (rng.choice(_fitting(door, family)) for family in families), strict=True))
    kinds = {"id": "long", **drawn} | ({"ts": rng.choice(_fitting(door, moments))} if moments else {})
    count = rng.choice((0, 1, 6, 25)) if door not in _TEXTS else rng.choice((1, 6, 25))
    nulls = rng.choice((0.0, 0.2))
    columns = {
        name: _values(
            rng, door, kind, count, 0.0 if name == "ts" or (name == "f" and kind in (*_ZONED, *_NAIVE)) else nulls
        )
        for name, kind in kinds.items()
    }
    table = pa.table({**columns, "id": pa.array(range(count), pa.int64())})
    broken = ((place, _broken(rng, door, table.num_columns)) for place in range(count + 1) if rng.random() < 0.1)
    return Side(door, kinds, table, tuple(broken) if door in _TEXTS else ())


def _fitting(door: str, kinds: Sequence[str]) -> Sequence[str]:
    """The kinds of a family that a door supports."""
    if door in _TEXTS:
        return [kind for kind in kinds if not kind.startswith(("timestamp(ns", "ns "))]
    if door == "Polars":
        return [kind for kind in kinds if not kind.startswith(("s ", "timestamp(s")) and "+" not in kind]
    if door == "pandas":  # its decimals have the digits of their values, which 64 bits may hold, but not beside others
        return [kind for kind in kinds if kind != "decimal(20,0)"]
    return kinds


def _values(rng: Random, door: str, kind: str, count: int, nulls: float) -> pa.Array[Any]:
    arrow, domain = KINDS[kind]
    domain = rng.sample(list(domain), min(len(domain), rng.choice((2, 3, 20))))
    if door == "pandas" and (pa.types.is_floating(arrow) or pa.types.is_integer(arrow)):
        nulls, domain = 0.0, [each for each in domain if not math.isnan(each)]
    values = [None if rng.random() < nulls else rng.choice(domain or [0]) for _ in range(count)]
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.timestamp("us")).cast(pa.timestamp(arrow.unit)).cast(arrow)
    return (
        pa.array(values, pa.string()).dictionary_encode().cast(arrow) if kind == "category" else pa.array(values, arrow)
    )


def _broken(rng: Random, door: str, width: int) -> bytes:
    if door == "CSV":
        return rng.choice((b"1" + b"," * width + b"\n", b"7\n", b"\xff" + b"," * (width - 1) + b"\n", b"# a remark\n"))
    return rng.choice((b'{"id": 5, "f": \n', b'{"id": 5} {"id": 6}\n', b"[1, 2]\n", b'{"id": "\xff"}\n', b"id: 5\n"))


def _compared(rng: Random) -> str:
    """Comparisons of f, and sometimes of g."""
    found = f"l.f {rng.choice(('<', '<=', '>', '>=', '='))} r.f"
    if rng.random() < 0.15:
        return f"r.f BETWEEN l.f AND l.f AND {found}"
    return found + (f" AND l.g {rng.choice(('<', '>=', '=', '<>'))} r.g" if rng.random() < 0.3 else "")


def _statement(sides: Sequence[Side], condition: str, sql: str, oracle: str | None = None) -> ValueStatement:
    names = re.findall(r"([lr])\.([fg]) AS (\w+)", sql)
    carried = {alias: sides["lr".index(side)].kinds[column] for side, column, alias in names}
    exact = {a: k for (s, _, a), k in zip(names, carried.values(), strict=True) if _is_typed(sides["lr".index(s)])}
    return ValueStatement(sql, oracle or sql, condition, (sides[0], sides[1]), exact, {})


def _is_typed(side: Side) -> bool:
    """Whether the door keeps types with their digits and zones."""
    return side.door not in ("pandas", "Polars")


def _paired(rng: Random, sides: Sequence[Side], _number: int) -> ValueStatement:
    kind = rng.choice(("", "", "LEFT ", "FULL ", "RIGHT "))
    items = "l.id AS n, r.id AS p, l.f AS lf, r.g AS rg, r.f AS rf"
    return _statement(sides, _compared(rng), f"SELECT {items} FROM {{l}} AS l {kind}JOIN {{r}} AS r ON {{on}}")


def _asking(rng: Random, sides: Sequence[Side], _number: int) -> ValueStatement:
    kind, items = rng.choice(("SEMI", "ANTI")), "SELECT l.id AS n, l.f AS lf, l.g AS lg FROM {l} AS l"
    oracle = f"{items} WHERE l.id {'NOT ' * (kind == 'ANTI')}IN (SELECT l.id FROM {{l}} AS l JOIN {{r}} AS r ON {{on}})"
    return _statement(sides, _compared(rng), f"{items} {kind} JOIN {{r}} AS r ON {{on}}", oracle)


def _grouped(rng: Random, sides: Sequence[Side], _number: int) -> ValueStatement:
    untold = [sides[1].kinds[column] in _UNTOLD for column in _COLUMNS]
    items = "l.id AS n, COUNT(r.id) AS k" + ("" if untold[0] else ", MIN(r.f) AS i, ARG_MIN(r.f, r.id) AS a")
    items += "" if untold[1] else ", MAX(r.g) AS m"
    sql = f"SELECT {items} FROM {{l}} AS l {rng.choice(('', 'LEFT '))}JOIN {{r}} AS r ON {{on}} GROUP BY l"
    return _statement(sides, _compared(rng), sql, f"{sql}.id")


def _ranked(rng: Random, sides: Sequence[Side], _number: int) -> ValueStatement:
    order = f"r.{rng.choice(_COLUMNS)}{rng.choice(('', ' DESC'))}"
    sql = (
        "SELECT l.id AS n, r.id AS p, r.f AS rf FROM {l} AS l JOIN {r} AS r ON {on} "
        f"QUALIFY RANK() OVER (PARTITION BY l ORDER BY {order}) = 1"
    )
    return _statement(sides, _compared(rng), sql, sql.replace("BY l ", "BY l.id "))


def _nearest(rng: Random, sides: Sequence[Side], number: int) -> ValueStatement:
    """An ASOF join by f, in any notation."""
    sign, distance = rng.choice((">=", ">", "<=", "<")), NEAREST[number]
    is_past, is_left = sign[0] == ">", rng.random() < 0.5
    kind = rng.choice(("ASOF LEFT JOIN", "LEFT ASOF JOIN")) if is_left else "ASOF JOIN"
    nearest, far = f"l.f {sign} r.f", f"r.f >= l.f - {distance}" if is_past else f"r.f <= l.f + {distance}"
    is_near, order = rng.random() < 0.5, "r.ts DESC, " if "ts" in sides[0].kinds else ""
    is_bare = rng.random() < 0.4 and not order  # ambiguous beside a bound of time
    written = f"ON {{on}} AND {nearest}" if is_bare else f"MATCH_CONDITION ({nearest}) ON {{on}}"
    written += f" TOLERANCE {distance}" if is_near else ""
    rows = (
        "SELECT l.id AS n, r.id AS p, r.f AS rf, r.g AS rg, "
        f"row_number() OVER (PARTITION BY l.id ORDER BY r.f {'DESC' if is_past else 'ASC'}, {order}r.id DESC) AS k "
        f"FROM {{l}} AS l JOIN {{r}} AS r ON {{on}} AND {nearest}{f' AND {far}' if is_near else ''}"
    )
    oracle = (
        f"SELECT l.id AS n, r.p, l.f AS lf, r.rf, r.rg FROM {{l}} AS l {'LEFT ' if is_left else ''}JOIN ({rows}) AS r "
        "ON l.id = r.n AND r.k = 1"
    )
    sql = f"SELECT l.id AS n, r.id AS p, l.f AS lf, r.f AS rf, r.g AS rg FROM {{l}} AS l {kind} {{r}} AS r {written}"
    return _statement(sides, rng.choice(("l.id <> r.id", "l.id % 2 = r.id % 2", "l.g = r.g")), sql, oracle)
