"""Numbers in a timestamp column: the unit in the schema, and numbers that look like another than milliseconds."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.columns import field, texts
from spojoin.columns.column_types import parse_type
from spojoin.columns.extract import extract
from spojoin.columns.numbers import read_times_us
from spojoin.columns.refusals import Refusals
from spojoin.model import ColumnType, TimeUnit, TypeName
from spojoin.query.load import parse_query
from tests.support.naive_extract import naive_extract
from tests.support.query_texts import TRIPS

UNITS = ["s", "ms", "us", "ns"]
KINDS = ["timestamp", *(f"timestamp({unit})" for unit in UNITS)]
SECONDS = [
    1_357_016_400,
    631_152_000,
    631_151_999,
    4_102_444_799,
    4_102_444_800,
    0,
    -1,
    2013,
    300_000_000,
    -1_357_016_400,
]
WHOLE = sorted({s * factor + extra for s in SECONDS for factor in (1, 10**3, 10**6, 10**9) for extra in (0, 1)})
TEXTS = [str(number) for number in WHOLE if abs(number) < 2**63]
TEXTS += [
    "1357016400.5",
    "1357016400.123456",
    "1357016400.1234567",
    "1357016400123.25",
    "1.357e9",
    "-0.5",
    "2013-01-01",
]
TEXTS += [
    "1357016400.",
    " 1357016400 ",
    "+5",
    "1e30",
    "1e-50",
    "2013-01-01T05:00:00Z",
    "x",
    "",
    "nan",
    "99999999999999999999",
]
DOUBLES = [float(number) for number in WHOLE] + [1357016400.123456, 1357016400.1234567, 0.25, 1e300, float("nan")]
DECIMALS = [Decimal(text) for text in ("1357016400.5", "1357016400123.25", "0.000001", "0.0000001", "-1.5", "7")]
SOURCES = [(pa.int64(), [n for n in WHOLE if abs(n) < 2**63]), (pa.string(), TEXTS), (pa.float64(), DOUBLES)]
SOURCES += [(pa.decimal128(30, 7), DECIMALS), (pa.timestamp("ns"), [0, 1, 1_357_016_400_000_000_000])]


def query_of(kind: str, **options: str):
    text = TRIPS.replace("distance: double, air_time: double", f"x: {kind}, y: {kind}")
    text = text.replace("l.distance > r.distance AND l.air_time < r.air_time", "l.x > r.x")
    for old, new in options.items():
        text = text.replace(f"{old}:", f"{old}: {new} #")
    return parse_query(text)


def batch_of(values, arrow):
    return pa.record_batch({"x": pa.array(values, arrow), "flight_id": np.arange(len(values))})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("arrow", "values"), SOURCES, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
def test_every_unit_from_every_source(kind: str, arrow: pa.DataType, values):
    stream = query_of(kind).streams[0]
    batch = batch_of([*values, None], arrow)
    got = extract(stream, batch, False)
    kept, codes, _, refused = naive_extract(stream, _rows(batch), False)
    assert [(r.row, r.reason) for r in got.refused] == refused
    assert got.kept.tolist() == kept
    assert got.joins.tolist() == [code is not None for (code,) in codes]
    assert not got.joins[-1]
    assert got.codes[0][got.joins == 1].tolist() == [code for (code,) in codes if code is not None]


def _rows(batch: pa.RecordBatch) -> list[dict]:
    """Rows for the twin, which has no nanoseconds: Arrow's become text that it reads or refuses."""
    rows = batch.to_pylist() if not pa.types.is_timestamp(batch.column(0).type) else None
    if rows is not None:
        return rows
    stamps = batch.column(0).cast(pa.int64()).to_pylist()
    fractions = [
        None if n is None else "x" if n % 1000 else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=n // 1000)
        for n in stamps
    ]
    return [{"x": value, "flight_id": i} for i, value in enumerate(fractions)]


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=60, deadline=None)
@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5 * 10**9), max_size=8))
def test_the_same_numbers_as_integers_and_as_text(unit: str, numbers: list[int]):
    stream = query_of(f"timestamp({unit})").streams[0]
    whole = extract(stream, batch_of(numbers, pa.int64()), False)
    text = extract(stream, batch_of([str(n) for n in numbers], pa.string()), False)
    assert whole.codes[0].tolist() == text.codes[0].tolist()
    assert whole.kept.tolist() == text.kept.tolist()


SAID = [
    (1_357_016_400, "2013-01-01T05:00:00Z in seconds", "1970-01-16T16:56:56.400000Z in milliseconds"),
    (1_357_016_400_000_000, "2013-01-01T05:00:00Z in microseconds", "beyond the year 9999 in milliseconds"),
    (1_357_016_400_000_000_000, "2013-01-01T05:00:00Z in nanoseconds", "beyond the year 9999 in milliseconds"),
]


@pytest.mark.parametrize(("number", "meant", "read"), SAID)
@pytest.mark.parametrize("write", [int, str, lambda n: f" {n} ", lambda n: f"+{n}", float])
def test_a_number_in_doubt_is_refused_with_its_value_its_moments_and_what_to_declare(number, meant, read, write):
    got = extract(query_of("timestamp").streams[0], pa.record_batch({"x": [write(number)], "flight_id": [1]}), False)
    (refused,) = got.refused
    assert refused.reason == "unit"
    unit = {10: "s", 16: "us", 19: "ns"}[len(str(number))]
    for part in (str(write(number)).strip(), meant, read, f"--schema 'x=timestamp({unit})'", "field x: value"):
        assert part in refused.detail, refused.detail


@pytest.mark.parametrize(("number", "unit"), [(1_357_016_400, "s"), (1_357_016_400_000_000, "us")])
def test_a_declared_unit_settles_it(number: int, unit: str):
    for kind in (f"timestamp({unit})", f"TIMESTAMP( {unit} )"):
        got = extract(query_of(kind).streams[0], pa.record_batch({"x": [number], "flight_id": [1]}), False)
        assert got.codes[0].tolist() == [1_357_016_400_000_000]
    got = extract(query_of("timestamp(ms)").streams[0], pa.record_batch({"x": [number], "flight_id": [1]}), False)
    assert got.codes[0].tolist() == [number * 1000]


@pytest.mark.parametrize("number", [0, 5, 2013, 604_800_000, -1_357_016_400, 1_357_016_400_000, 4_102_444_800])
def test_other_numbers_are_milliseconds(number: int):
    got = extract(query_of("timestamp").streams[0], pa.record_batch({"x": [number], "flight_id": [1]}), False)
    assert (got.codes[0].tolist(), got.refused) == ([number * 1000], [])


def test_an_event_time_without_a_type_is_a_plain_timestamp():
    for write in (int, str):
        refusals = Refusals(2)
        times = read_times_us("t", pa.array([write(1_357_016_400), write(1_357_016_400_000)]), refusals)
        assert [(row, reason) for row, (reason, _) in refusals.by_row.items()] == [(0, "unit")]
        assert times[1] == 1_357_016_400_000_000


@pytest.mark.parametrize("name", [TypeName.INT, TypeName.LONG])
def test_event_times_declared_as_whole_numbers_are_milliseconds(name: TypeName):
    refusals = Refusals(2)
    times = read_times_us("t", pa.array([1_357_016_400, 1_357_016_400_000]), refusals, ColumnType(name))
    assert times[1] == 1_357_016_400_000_000
    assert refusals.by_row[0][0] == "unit"


@pytest.mark.parametrize("write", [lambda n: n, str], ids=["numbers", "text"])
def test_below_a_microsecond_event_times_are_truncated_and_compared_ones_refused(write):
    nanoseconds = [1_357_016_400_000_001_999, 1_357_016_400_000_002_000]
    kind = ColumnType(TypeName.TIMESTAMP, unit=TimeUnit.NANOSECONDS)
    array, refusals = pa.array([write(n) for n in nanoseconds]), Refusals(2)
    assert read_times_us("t", array, refusals, kind).tolist() == [1_357_016_400_000_001, 1_357_016_400_000_002]
    assert not refusals.by_row
    got = extract(query_of("timestamp(ns)").streams[0], pa.record_batch({"x": array, "flight_id": [1, 2]}), False)
    assert [(r.row, r.reason) for r in got.refused] == [(0, "type")]
    assert "has digits below a microsecond" in got.refused[0].detail


@given(st.lists(st.floats(0, 2.0**33), min_size=2, max_size=20))
def test_event_times_of_doubles_keep_their_order(seconds: list[float]):
    kind = ColumnType(TypeName.TIMESTAMP, unit=TimeUnit.SECONDS)
    times = read_times_us("t", pa.array(sorted(seconds)), Refusals(len(seconds)), kind)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("timestamp(s)", ["1357016400"] * 3),
        ("timestamp(s)", ["1357016400.25", "2013-01-01", "5"]),
        ("timestamp(ns)", ["1357016400000000000"] * 3),
        ("timestamp(s)", [1357016400.123456, 2147483647.999999, 0.1]),
        ("timestamp(ms)", [1357016400123.456, 0.001, 7.0]),
        ("long", ["1.0", "2.00", "-3."]),
        ("int", ["1.0", "2", " 3 "]),
    ],
)
def test_common_spellings_need_no_loop_over_rows(kind: str, values: list, monkeypatch):
    def never(*_: object) -> int:
        raise AssertionError("read one by one")

    for name in ("read_moment_us", "read_integer", "read_decimal"):
        monkeypatch.setattr(texts, name, never)
    assert field.texts is texts
    batch = pa.record_batch({"x": values, "flight_id": [1, 2, 3]})
    assert not extract(query_of(kind).streams[0], batch, False).refused


@pytest.mark.parametrize(
    ("texts_", "expected"),
    [(["1.0", "1e3", "-2.000", "5."], [1, 1000, -2, 5]), (["12e-1", "1.5", "1.00000000000000000001"], [])],
)
@pytest.mark.parametrize("kind", ["int", "long"])
def test_whole_numbers_in_text_may_be_written_as_decimals(kind: str, texts_: list[str], expected: list[int]):
    batch = pa.record_batch({"x": texts_, "flight_id": range(len(texts_))})
    got = extract(query_of(kind).streams[0], batch, False)
    assert got.codes[0].tolist() == expected
    assert {r.reason for r in got.refused} <= {"type"}
    assert len(got.refused) + len(expected) == len(texts_)


DIALECTS = {
    "int": ["integer", "INT32", "int4", "smallint", "int16", "TinyInt", "uint16"],
    "long": ["bigint", "int64", "BIGINT", "int8", "uint32"],
    "float": ["real", "float32"],
    "double": ["float64", "float8", "double precision", "Double  Precision"],
    "date": ["date32"],
    "timestamp": ["datetime", "TIMESTAMP_NTZ"],
    "timestamp(ns)": ["datetime64[ns]", "timestamp[ns]", "timestamp_ns", "Timestamp(NS)"],
    "timestamptz": ["timestamp with time zone", "TIMESTAMP_LTZ", "timestamptz(UTC)"],
    "timestamptz(ns)": ["timestamp[ns, tz=UTC]", "datetime64[ns, UTC]"],
    "timestamptz(us, Europe/Berlin)": ["timestamp[us, tz=Europe/Berlin]", "datetime64[us, Europe/Berlin]"],
    "timestamptz(+05:30)": ["timestamptz(+05:30)"],
    "timestamp(s)": ["timestamp(s)", "timestamp_s"],
    "decimal(10,2)": ["numeric(10,2)", "NUMBER(10, 2)", "decimal128(10, 2)", "dec(10,2)"],
    "decimal(9,0)": ["numeric(9)"],
}


@pytest.mark.parametrize(("own", "other"), [(own, other) for own, others in DIALECTS.items() for other in others])
def test_names_of_other_dialects(own: str, other: str):
    assert parse_type(other, "x", 1) == parse_type(own, "x", 1)
    assert str(parse_type(other, "x", 1)) == own


def test_numerics_within_braces():
    text = TRIPS.replace("distance: double", "distance: numeric(10, 2), at: timestamp(s)")
    schema = parse_query(text).streams[0].schema
    assert [str(kind) for kind in schema.values()] == ["decimal(10,2)", "timestamp(s)", "double"]
