"""Extraction against the naive twin, for every declared type and every Arrow type of a column."""

import datetime as dt
import functools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.columns.extract import extract
from spojoin.errors import BadData
from spojoin.kernels.codes import fold_doubles, unfold_doubles
from spojoin.query import load
from tests.support.naive_extract import naive_extract
from tests.support.query_texts import TRIPS

parse_query = functools.cache(load.parse_query)

EXTREMES = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**8, 10**8 - 1]
DOUBLES = [
    0.0,
    -0.0,
    1.5,
    -2.25,
    0.1,
    12.34,
    5e-324,
    1.7976931348623157e308,
    2.0**53,
    2.0**63,
    -(2.0**63),
    1e300,
    3.4e38,
]
DOUBLES += [math.inf, -math.inf, math.nan, 16777217.0, 0.005, 1e15 + 0.5, 99999999.99, 1e8]
NUMBER_TEXTS = [
    "1",
    " 2 ",
    "-3",
    "+4",
    "007",
    "1.5",
    "-.5",
    "6.",
    "1e2",
    "1E-2",
    "",
    " ",
    "abc",
    "1_0",
    "nan",
    "inf",
    "-Infinity",
]
NUMBER_TEXTS += [
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1e400",
    "12.34",
]
NUMBER_TEXTS += [
    "2147483648",
    "99999999.99",
    "100000000",
    "0.001",
    "0.010",
    "1" * 40,
    "0x10",
    "1e",
    "--1",
    "٣",
    "12.3400",
]
DATES = [
    "2013-01-01",
    "1969-12-31",
    "0001-01-01",
    "9999-12-31",
    "2012-02-29",
    "2013-02-29",
    "2013-1-1",
    "20130101",
    "x",
    "",
]
MOMENTS = [
    "2013-01-01T05:00:00Z",
    "2013-01-01 05:00",
    "2013-01-01T05:00:00.123456",
    "2013-01-01T05:00:00.1+01:00",
    "x",
    "",
]
MOMENTS += [
    "2013-01-01T05:00:00-0530",
    "2013-01-01",
    "1357016400000",
    "-5",
    "2013-02-30T00:00:00",
    "2013-01-01T25:00",
    "2013",
]
MOMENTS += [
    "1969-12-31T23:59:59.999999Z",
    " 2013-01-01 05:00:00 ",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59.999999",
]


def fitting(values, arrow: pa.DataType):
    """The values that a column of this Arrow type can hold, and null."""
    held = []
    for value in values:
        try:
            held.append(pa.array([value], arrow)[0].as_py())
        except (pa.ArrowInvalid, OverflowError, TypeError):
            continue
    return st.sampled_from([*held, None])


def some(values, arrow: pa.DataType):
    return fitting(values, arrow).map(lambda value: (arrow, value))


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()]
DECIMALS = [pa.decimal128(10, 2), pa.decimal128(20, 0), pa.decimal128(38, 10), pa.decimal256(50, 4)]
DECIMAL_VALUES = [
    Decimal(text) for text in ("0", "-1.5", "12.34", "0.001", "99999999.99", "1E8", "1E18", "-1E25", "0.10")
]
MOMENT_VALUES = [
    dt.datetime(2013, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2013, 1, 1, 5, 0, 0, 1000),
]
DATE_VALUES = [dt.date(2013, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]

NUMBERS = {
    **dict.fromkeys(INTEGERS, EXTREMES),
    **dict.fromkeys(DECIMALS, DECIMAL_VALUES),
    pa.float64(): DOUBLES,
    pa.float32(): DOUBLES,
    pa.string(): NUMBER_TEXTS,
    pa.large_string(): NUMBER_TEXTS,
    pa.dictionary(pa.int8(), pa.string()): NUMBER_TEXTS,
    pa.bool_(): [True, False],
    pa.null(): [],
}
STAMPS = {pa.timestamp(unit, zone): MOMENT_VALUES for unit in ("s", "ms", "us") for zone in (None, "UTC")}
DAYS = {pa.date32(): DATE_VALUES, pa.date64(): DATE_VALUES}
MOMENT_SOURCES = {
    **STAMPS,
    **DAYS,
    pa.string(): MOMENTS,
    pa.int64(): EXTREMES,
    pa.float64(): DOUBLES,
    pa.bool_(): [True],
}
DATE_SOURCES = {**STAMPS, **DAYS, pa.string(): DATES, pa.int64(): EXTREMES, pa.bool_(): [True]}
SOURCES = {
    **dict.fromkeys(("int", "long", "decimal(10,2)", "decimal(18,0)", "decimal(3,3)", "float", "double"), NUMBERS),
    "timestamp": MOMENT_SOURCES,
    "date": DATE_SOURCES,
}


def one_column(kind: str, expression: str = "COLUMN") -> str:
    left = expression.replace("COLUMN", "l.x").replace("OTHER", "l.y")
    text = TRIPS.replace("distance: double, air_time: double", f"x: {kind}, y: {kind}")
    return text.replace("l.distance > r.distance AND l.air_time < r.air_time", f"{left} > r.x")


def check(query, batch: pa.RecordBatch, needs_time: bool = False):
    """Compare the product with the twin on one batch of the query's first stream."""
    stream = query.streams[0]
    got = extract(stream, batch, needs_time)
    kept, codes, times, refused = naive_extract(stream, batch.to_pylist(), needs_time)
    assert [(r.row, r.reason) for r in got.refused] == refused, got.refused
    assert got.kept.tolist() == kept
    assert got.kept.dtype == np.int64
    assert len(got.codes) == len(stream.keys)
    assert all(column.dtype == np.int64 for column in got.codes)
    found = [list(row) for row in zip(*(column.tolist() for column in got.codes), strict=True)]
    joining = [None not in row for row in codes]
    assert (got.joins is None) == all(joining)
    assert (np.ones(len(kept), np.uint8) if got.joins is None else got.joins).tolist() == joining
    assert [row for row, joins in zip(found, joining, strict=True) if joins] == [
        row for row in codes if None not in row
    ]
    assert (got.times_us is None) == (not needs_time)
    if got.times_us is not None:
        assert got.times_us.tolist() == times
    return got


def batch_of(draw_values, arrow, name="x"):
    values = [value for _, value in draw_values] if draw_values else []
    return pa.record_batch({name: pa.array(values, arrow), "flight_id": pa.array(range(len(values)), pa.int64())})


@pytest.mark.parametrize(
    ("kind", "arrow"), [(kind, arrow) for kind, sources in SOURCES.items() for arrow in sources], ids=str
)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_type_from_every_source(kind: str, arrow: pa.DataType, data):
    query = parse_query(one_column(kind))
    rows = data.draw(st.lists(some(SOURCES[kind][arrow], arrow), max_size=12))
    check(query, batch_of(rows, arrow))


@pytest.mark.parametrize("kind", SOURCES)
def test_all_hard_values_at_once(kind: str):
    query = parse_query(one_column(kind))
    for arrow, values in SOURCES[kind].items():
        held = fitting(values, arrow).elements if hasattr(fitting(values, arrow), "elements") else []
        check(query, batch_of([(arrow, value) for value in held], arrow))


EXPRESSIONS = {
    "long": ["COLUMN + 1", "2 * COLUMN - OTHER", "COLUMN + OTHER", "-COLUMN", "0.5 * COLUMN + 3", "COLUMN - COLUMN"],
    "int": ["COLUMN * 2000000000 * 4", "3 * (COLUMN - 2 * OTHER)"],
    "decimal(10,2)": ["COLUMN + 0.001", "0.25 * COLUMN - OTHER", "1000000000 * COLUMN"],
    "double": [
        "COLUMN + 5",
        "COLUMN - OTHER",
        "2 * COLUMN + OTHER / 3",
        "0 * COLUMN",
        "-COLUMN",
        "1e308 * COLUMN - OTHER",
    ],
    "float": ["COLUMN + 0.1", "COLUMN * 3 - OTHER"],
    "timestamp": ["COLUMN + INTERVAL '5 min'"],
    "date": ["COLUMN - INTERVAL '2 days'"],
}
EXPRESSION_VALUES = {
    "long": (pa.int64(), EXTREMES),
    "int": (pa.int32(), EXTREMES),
    "decimal(10,2)": (pa.decimal128(10, 2), DECIMAL_VALUES),
    "double": (pa.float64(), DOUBLES),
    "float": (pa.float32(), DOUBLES),
    "timestamp": (pa.timestamp("us"), MOMENT_VALUES),
    "date": (pa.date32(), DATE_VALUES),
}


@pytest.mark.parametrize(
    ("kind", "expression"), [(kind, expression) for kind, several in EXPRESSIONS.items() for expression in several]
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_expressions(kind: str, expression: str, data):
    arrow, values = EXPRESSION_VALUES[kind]
    query = parse_query(one_column(kind, expression))
    rows = data.draw(st.lists(st.tuples(fitting(values, arrow), fitting(values, arrow)), max_size=10))
    columns = {name: pa.array([row[k] for row in rows], arrow) for k, name in enumerate("xy")}
    check(query, pa.record_batch({**columns, "flight_id": pa.array(range(len(rows)), pa.int64())}))


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=20))
def test_random_longs_never_wrap(rows):
    query = parse_query(one_column("long", "3 * COLUMN - 2 * OTHER + 7"))
    columns = {name: pa.array([row[k] for row in rows], pa.int64()) for k, name in enumerate("xy")}
    check(query, pa.record_batch({**columns, "flight_id": pa.array(range(len(rows)), pa.int64())}))


@pytest.mark.parametrize("arrow", MOMENT_SOURCES, ids=str)
def test_event_times(arrow: pa.DataType):
    text = TRIPS.replace("order: arrival", "order: event_time")
    values = list(fitting(MOMENT_SOURCES[arrow], arrow).elements)
    n = len(values)
    batch = pa.record_batch(
        {
            "distance": np.ones(n),
            "air_time": np.ones(n),
            "time_hour": pa.array(values, arrow),
            "flight_id": np.arange(n),
        }
    )
    got = check(parse_query(text), batch, needs_time=True)
    assert {r.reason for r in got.refused} - {"unit"} == {"time"}


def test_nanoseconds():
    stamps = pa.array([1_999, -1, 2_000, None], pa.timestamp("ns"))
    query = parse_query(TRIPS.replace("order: arrival", "order: event_time"))
    batch = pa.record_batch(
        {"distance": np.ones(4), "air_time": np.ones(4), "time_hour": stamps, "flight_id": np.arange(4)}
    )
    got = extract(query.streams[0], batch, True)
    assert (got.times_us.tolist(), got.kept.tolist()) == ([1, -1, 2], [0, 1, 2])
    compared = parse_query(one_column("timestamp"))
    got = extract(compared.streams[0], pa.record_batch({"x": stamps, "flight_id": np.arange(4)}), False)
    assert [(r.row, r.reason) for r in got.refused] == [(0, "type"), (1, "type")]
    assert got.refused[0].detail.startswith(
        "field x: value 1970-01-01T00:00:00.000001999 has digits below a microsecond, the finest unit that is compared"
    )
    assert got.codes[0].tolist()[:1] == [2]
    assert (got.kept.tolist(), got.joins.tolist()) == ([2, 3], [1, 0])


def test_a_refusal_states_value_and_reason():
    query = parse_query(one_column("double"))
    batch = pa.record_batch({"x": ["1", "abc", None, "nan", "1e999"], "flight_id": ["a", "b", "c", "d", "e"]})
    got = extract(query.streams[0], batch, False)
    assert [(r.row, r.reason, r.detail) for r in got.refused] == [
        (1, "type", "field x: value 'abc' is not a double"),
        (4, "overflow", "field x: value '1e999' is out of range of double"),
    ]
    assert got.keys.to_pylist() == ["a", "c", "d"]
    assert got.joins.tolist() == [1, 0, 1]
    assert got.codes[0].tolist()[2] > fold_doubles(np.array([math.inf]))[0]


def test_a_null_joins_nothing_and_hides_no_overflow_of_another_row():
    """What fills the place of NULL is no value: a sum with it isn't refused."""
    query = parse_query(one_column("long", "COLUMN + OTHER"))
    columns = {"x": [None, 2**63 - 1, 2**63 - 1, 5], "y": [2**63 - 1, None, 1, 7]}
    got = check(query, pa.record_batch({**columns, "flight_id": range(4)}))
    assert [(r.row, r.reason) for r in got.refused] == [(2, "overflow")]
    assert got.joins.tolist() == [0, 0, 1]


def test_each_row_is_refused_once_with_its_first_reason():
    query = parse_query(TRIPS)
    batch = pa.record_batch(
        {"distance": ["x", "1", None, "y"], "air_time": ["1e999", "1e999", "z", "1"], "flight_id": [None, None, 3, 4]}
    )
    got = extract(query.streams[0], batch, False)
    assert [(r.row, r.reason) for r in got.refused] == [(0, "type"), (1, "overflow"), (2, "type"), (3, "type")]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (pa.array([3, 1, None], pa.int8()), pa.array([3, 1], pa.int64())),
        (pa.array(["a", " ", None]), pa.array(["a", " "])),
        (pa.array(["a", "b", ""]), pa.array(["a", "b"])),
        (pa.array(["a", "b", ""], pa.large_string()).dictionary_encode(), pa.array(["a", "b"])),
        (pa.array(["a", "b", None]).dictionary_encode(), pa.array(["a", "b"])),
        (pa.array([1.5, 2.0, None]), pa.array(["1.5", "2"])),
        (pa.array([b"a", b"b", None]), pa.array(["a", "b"])),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None]), pa.array(["1.50", "2.00"])),
        (pa.array([2**63 - 1, 5, 2**63], pa.uint64()), pa.array([2**63 - 1, 5], pa.int64())),
    ],
)
def test_keys(keys, expected):
    batch = pa.record_batch({"distance": np.ones(3), "air_time": np.ones(3), "flight_id": keys})
    got = extract(parse_query(TRIPS).streams[0], batch, False)
    assert got.keys.equals(expected)
    assert [r.row for r in got.refused] == [2]


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), max_size=8))
def test_doubles_mean_the_decimals_that_they_print_as(numbers: list[int]):
    """Beyond 15 digits several decimals share a double, which then means the one that it prints as."""
    doubles = [number / 1000 for number in numbers] + [123456789012345.67, 0.001, 1e14 + 0.125]
    check(parse_query(one_column("decimal(18,3)")), pa.record_batch({"x": doubles, "flight_id": range(len(doubles))}))


def test_no_key_column():
    stream = parse_query(TRIPS.replace("    key: flight_id", "    #")).streams[0]
    got = extract(stream, pa.record_batch({"distance": np.ones(2), "air_time": np.ones(2)}), False)
    assert got.keys is None


@pytest.mark.parametrize("missing", ["distance", "time_hour", "flight_id"])
def test_a_missing_column(missing: str):
    query = parse_query(TRIPS.replace("order: arrival", "order: event_time"))
    columns = {"distance": [1.0], "air_time": [1.0], "time_hour": [0], "flight_id": [1]}
    del columns[missing]
    with pytest.raises(BadData, match=f"stream trips: expected one column '{missing}', but the input has the columns "):
        extract(query.streams[0], pa.record_batch(columns), True)


def test_unneeded_columns_may_be_missing():
    batch = pa.record_batch({"distance": [1.0], "air_time": [None], "flight_id": [1]})
    query = parse_query(TRIPS.replace(" AND l.air_time < r.air_time", ""))
    assert extract(query.streams[0], batch, False).kept.tolist() == [0]


def test_a_slice_of_a_batch():
    query = parse_query(one_column("decimal(10,2)"))
    whole = pa.record_batch(
        {"x": pa.array([Decimal(k) / 4 for k in range(10)], pa.decimal128(10, 2)), "flight_id": np.arange(10)}
    )
    assert extract(query.streams[0], whole.slice(3, 4), False).codes[0].tolist() == [75, 100, 125, 150]
    assert extract(query.streams[0], whole.slice(3, 0), False).codes[0].tolist() == []


def test_results_are_writable_although_arrow_buffers_are_not():
    longs = extract(
        parse_query(one_column("long")).streams[0], pa.record_batch({"x": [1, 2], "flight_id": [1, 2]}), False
    )
    assert longs.codes[0].flags.writeable
    assert longs.codes[0].flags.c_contiguous


@given(st.lists(st.floats(allow_nan=False), max_size=30))
def test_folded_doubles_order_as_doubles_and_come_back(values: list[float]):
    doubles = np.array(values, np.float64)
    codes = fold_doubles(doubles)
    assert codes.dtype == np.int64
    assert ((codes[:, None] < codes[None, :]) == (doubles[:, None] < doubles[None, :])).all()
    assert ((codes[:, None] == codes[None, :]) == (doubles[:, None] == doubles[None, :])).all()
    assert (unfold_doubles(codes) == doubles).all()


def test_fold_of_known_bits():
    values = np.array([-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf])
    codes = fold_doubles(values)
    assert codes[3] == codes[4] == 0
    assert codes.tolist() == sorted(codes.tolist())
    assert codes[2] == -2
    assert codes[5] == 1
    assert values[3] == 0.0
    assert np.signbit(values[3])  # the caller's array is untouched
