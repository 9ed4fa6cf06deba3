"""Columns of types that can't be declared travel unchanged, expressions name them, and comparisons are DuckDB's."""

import datetime as dt
import json
from decimal import Decimal
from fractions import Fraction
from random import Random

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import spojoin
from spojoin.embedded.writers import open_writer
from spojoin.errors import BadData, ConfigurationError, QueryError
from tests.support.by_duckdb import asked

ROWS = 40
DRAWN = {
    "decimal(38,18)": (
        pa.decimal128(38, 18),
        lambda draw: Decimal(draw.choice(["0.5", "1.5", "9.3", "12345.678", "12345.678000000000000001"])),
    ),
    "decimal(38,20)": (pa.decimal128(38, 20), lambda draw: Decimal(draw.randrange(4)).scaleb(-20) + draw.randrange(2)),
    "decimal(38,9)": (pa.decimal128(38, 9), lambda draw: Decimal(draw.randrange(3)).scaleb(-9) + 10**18),
    "decimal(38,0)": (pa.decimal128(38, 0), lambda draw: Decimal(10**37 + draw.randrange(3))),
    "uint64": (pa.uint64(), lambda draw: draw.choice([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1])),
    "time64[us]": (pa.time64("us"), lambda draw: dt.time(9, draw.randrange(3), 0, draw.randrange(2))),
    "time32[s]": (pa.time32("s"), lambda draw: dt.time(9, 0, draw.randrange(4))),
    "time64[ns]": (pa.time64("ns"), lambda draw: 32_400_000_000_000 + draw.randrange(3) + 1000 * draw.randrange(2)),
    "duration[us]": (
        pa.duration("us"),
        lambda draw: dt.timedelta(hours=draw.randrange(3), microseconds=draw.randrange(2)),
    ),
    "duration[s]": (pa.duration("s"), lambda draw: dt.timedelta(days=draw.randrange(3))),
}


def drawn(kind, seed):
    """Rows with few values of a type, NULL among them."""
    arrow, value = DRAWN[kind]
    draw = Random(seed)
    cells = [None if draw.random() < 0.1 else value(draw) for _ in range(ROWS)]
    return pa.table({"id": pa.array(range(ROWS), pa.int64()), "v": pa.array(cells, arrow)})


def both(statement, **tables):
    """What spojoin and DuckDB give, in order."""
    found = spojoin.sql(statement, **tables).to_arrow()
    plain = statement
    for name in tables:
        plain = plain.replace(f"TABLE({name})", name)
    expected = asked(plain, **tables).to_arrow_table()
    keys = [(name, "ascending") for name in found.column_names]
    return found.sort_by(keys), expected.cast(found.schema).sort_by(keys)


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "<>"])
def test_they_are_compared_as_duckdb_compares_them(kind, sign):
    tables = {"a": drawn(kind, 1), "b": drawn(kind, 2)}
    extra = " AND l.id < r.id" if sign == "<>" else ""
    statement = f"SELECT l.id AS l, r.id AS r FROM a AS l JOIN TABLE(b) AS r ON l.v {sign} r.v{extra}"
    found, expected = both(statement, **tables)
    assert found.equals(expected)
    assert 0 < found.num_rows < ROWS * ROWS


@pytest.mark.parametrize("kind", [kind for kind in DRAWN if kind.startswith(("decimal", "uint"))])
@pytest.mark.parametrize("other", [pa.int64(), pa.float64(), pa.decimal128(10, 2)], ids=str)
def test_they_are_compared_with_other_numbers(kind, other):
    numbers = pa.table({"n": pa.array([0, 1, 2, 12346, -5], other)})
    statement = "SELECT l.id, r.n FROM a AS l JOIN TABLE(numbers) AS r ON l.v >= r.n"
    wide = drawn(kind, 3)
    found = spojoin.sql(statement, a=wide, numbers=numbers).to_arrow()
    rows = zip(wide["id"].to_pylist(), wide["v"].to_pylist(), strict=True)
    expected = [
        (a, n) for a, v in rows if v is not None for n in numbers["n"].to_pylist() if Fraction(v) >= Fraction(n)
    ]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(expected)
    assert expected


def test_a_band_of_wide_decimals_is_exact():
    condition = "ABS(l.v - r.v) < 0.00000000000000000002"
    statement = f"SELECT l.id AS l, r.id AS r FROM a AS l JOIN TABLE(b) AS r ON {condition}"
    found, expected = both(statement, a=drawn("decimal(38,20)", 4), b=drawn("decimal(38,20)", 5))
    assert found.equals(expected)
    assert 0 < found.num_rows < ROWS * ROWS


@pytest.mark.parametrize("kind", ["decimal(38,18)", "uint64", "time64[us]"])
@pytest.mark.parametrize("join", ["LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
def test_left_rows_ask_about_them(kind, join):
    select = "l.id AS l, r.id AS r" if join == "LEFT JOIN" else "l.id AS l"
    statement = f"SELECT {select} FROM a AS l {join} TABLE(b) AS r ON l.v > r.v AND l.id > r.id"
    found, expected = both(statement, a=drawn(kind, 6), b=drawn(kind, 7))
    assert found.equals(expected)


def test_hash_rings_of_unsigned_integers():
    ring = pa.table({"lo": pa.array([0, 2**63], pa.uint64()), "hi": pa.array([2**63 - 1, 2**64 - 1], pa.uint64())})
    keys = pa.table({"k": pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())})
    found = spojoin.sql(
        "SELECT l.k, r.lo FROM keys AS l JOIN TABLE(ring) AS r ON l.k BETWEEN r.lo AND r.hi", keys=keys, ring=ring
    )
    assert found.to_arrow().to_pydict() == {"k": [0, 2**63 - 1, 2**63, 2**64 - 1], "lo": [0, 0, 2**63, 2**63]}


EVERY = {
    "t": pa.array([dt.time(9, 30), None]),
    "tn": pa.array([1, 2], pa.time64("ns")),
    "d": pa.array([1, None], pa.duration("us")),
    "dn": pa.array([1, 2], pa.duration("ns")),
    "i": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "w": pa.array([Decimal("1.5"), None], pa.decimal256(76, 38)),
    "n": pa.array([1_709_287_200_000_000_500, None], pa.timestamp("ns")),
    "z": pa.array([1_709_287_200_000_000_500, None], pa.timestamp("ns", "Europe/Berlin")),
    "u": pa.array([2**64 - 1, None], pa.uint64()),
    "s": pa.array([{"a": [1]}, None]),
}


def test_star_gives_each_of_them_unchanged():
    table = pa.table({"id": [1, 2], **EVERY})
    keys = pa.table({"key": [1, 2]})
    found = spojoin.sql("SELECT l.* FROM rows AS l JOIN TABLE(keys) AS r ON l.id = r.key", rows=table, keys=keys)
    assert found.to_arrow().equals(table)


def test_expressions_name_them():
    table = pa.table({"id": [1, 2], **EVERY})
    select = (
        "CAST(l.n AS TIMESTAMP) AS n, l.t + INTERVAL '1 h' AS t, CAST(l.u::HUGEINT - 9223372036854775808 AS BIGINT) "
        "AS u, EPOCH_NS(l.z) AS z, l.s.a[1] AS s, DATE_TRUNC('hour', l.n) AS h"
    )
    statement = f"SELECT {select} FROM rows AS l JOIN TABLE(rows) AS r ON l.id = r.id AND l.d < INTERVAL '1 s'"
    found, expected = both(statement, rows=table.drop_columns(["w"]))
    assert found.equals(expected)
    assert found.num_rows == 1


@pytest.mark.parametrize("name", ["w", "dn"])
def test_two_of_them_have_no_way_into_expressions(name):
    table = pa.table({"id": [1, 2], **EVERY})
    with pytest.raises(
        QueryError, match=rf"'l\.{name}' is of type (decimal256\(76, 38\)|duration\[ns\]), which expressions can't use"
    ):
        spojoin.sql(
            f"SELECT l.id FROM rows AS l JOIN TABLE(rows) AS r ON l.id = r.id AND l.{name} = l.{name}", rows=table
        )


@pytest.mark.parametrize("select", ["*", "l.*", "l.e", "l.id + l.e AS x"])
def test_a_column_without_a_way_is_named_where_a_statement_covers_it(select):
    table = pa.table({"id": [1, 2], "e": pc.run_end_encode(pa.array([5, 5]))})
    with pytest.raises(QueryError, match=r"column 'e' has type run_end_encoded.*decode it first"):
        spojoin.sql(f"SELECT {select} FROM rows AS l JOIN TABLE(rows) AS r ON l.id = r.id", rows=table)


def test_nanoseconds_are_cut_nowhere_but_in_event_times():
    one = pa.table({"id": [1], "at": pa.array([500], pa.timestamp("ns"))})
    two = pa.table({"id": ["v1", "v2"], "at": pa.array([100, 900], pa.timestamp("ns"))})
    asof = "SELECT r.id FROM one AS l ASOF JOIN TABLE(two) AS r ON "
    with pytest.raises(BadData, match=r"digits below a microsecond.*EPOCH_NS"):
        spojoin.sql(asof + "l.at >= r.at", one=one, two=two).to_arrow()
    exact = spojoin.sql(asof + "EPOCH_NS(l.at) >= EPOCH_NS(r.at)", one=one, two=two)
    assert exact.to_arrow()["id"].to_pylist() == ["v1"]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_whole_microseconds_of_frames_are_compared(frame):
    stamps = pd.to_datetime(["2024-03-01", "2024-03-02", "2300-01-01"][:2]).astype("datetime64[ns]")
    rows = frame({"at": list(stamps)}) if frame is pl.DataFrame else frame({"at": stamps})
    ends = pa.table({"hi": pa.array([dt.datetime(2024, 3, 1, 12), dt.datetime(9999, 12, 31)])})
    found = spojoin.sql("SELECT l.at FROM rows AS l JOIN TABLE(ends) AS r ON l.at < r.hi", rows=rows, ends=ends)
    assert len(found.to_arrow()) == 3


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("write", [int, float])
def test_numbers_of_another_unit_are_refused_at_the_start(unit, write):
    ticks = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
    rows = pa.table({"ts": [write(1_709_287_200 * ticks), write(1_709_287_800 * ticks)]})
    statement = "SELECT l.ts FROM rows AS l JOIN rows AS r ON l.ts > r.ts WINDOW AS (SLIDE INTERVAL '1 s' ON '5 s')"
    with pytest.raises(ConfigurationError, match=rf"schema=\{{'ts': 'timestamp\({unit}\)'\}}"):
        spojoin.sql(statement, rows=rows, time="ts").to_arrow()


def test_every_format_writes_them(tmp_path):
    table = pa.table({"id": [1, 2], **EVERY})
    for name in ("x.jsonl", "x.csv", "x.arrow"):
        with open_writer(tmp_path / name, table.schema) as writer:
            writer.write(table.to_batches()[0])
    line = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    assert (line["t"], line["d"], line["i"]) == ("09:30:00", "PT0.000001S", "P1M2DT0.000000003S")
    assert (line["n"], line["z"]) == ("2024-03-01T10:00:00.000000500", "2024-03-01T10:00:00.000000500Z")
    with pytest.raises(ConfigurationError, match="'i' of results is an interval, for which Parquet has no type"):
        open_writer(tmp_path / "x.parquet", table.schema)
    table = table.drop_columns(["i"])
    with open_writer(tmp_path / "x.parquet", table.schema) as writer:
        writer.write(table.to_batches()[0])
    assert pq.read_table(tmp_path / "x.parquet").cast(table.schema).equals(table)
