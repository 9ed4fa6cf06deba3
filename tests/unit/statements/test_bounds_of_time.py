"""Differences of times in every spelling: a stream bounded by them answers what DuckDB does over the same rows."""

import datetime as dt
import re
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spojoin
from spojoin.errors import QueryError
from tests.support.by_duckdb import by_duckdb

BEGIN = dt.datetime(2024, 1, 28, 23, 59, 50)
DAY_US = 86_400_000_000
#: Near borders of units, so that counts of boundaries differ from lengths, and over the end of a leap February.
STEPS_US = [0, 1, 999, 1_000, 500_000, 1_000_000, 30_000_000, 3_600_000_000, DAY_US, 29 * DAY_US, 31 * DAY_US]
#: Far off, the double of a moment's seconds has lost microseconds.
BEGINS = [BEGIN, dt.datetime(2023, 12, 31), dt.datetime(9000, 1, 31, 0, 0, 0, 7)]
LENGTHS = ["5 min", "90 sec", "1 hr", "1.5 s", "0.5 day", "2 hrs 3 mins", "00:00:07", "1 day", "1 week", "250 msec"]
LENGTHS += ["-5 min", "1 month", "2 mons", "1 quarter", "1 year", "1 month 3 days", "31 days"]
UNITS = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]


@st.composite
def intervals(draw):
    """A constant interval, in one of its spellings."""
    length, count = draw(st.sampled_from(LENGTHS)), draw(st.integers(-3, 40))
    named = st.sampled_from(["minutes", "seconds", "hours", "days", "months"])
    return draw(
        st.sampled_from(
            [
                f"INTERVAL '{length}'",
                f"CAST('{length}' AS INTERVAL)",
                f"{count} * INTERVAL '1 min'",
                f"INTERVAL '{length}' * 2",
                f"to_{draw(named)}({count})",
                f"INTERVAL {abs(count)} {draw(named).upper()}",
                f"(INTERVAL '{length}' + INTERVAL '3 s')",
                f"-INTERVAL '{length}'",
            ]
        )
    )


@st.composite
def numbers(draw):
    """A difference of the two times as a number, and about how many of it a day has."""
    unit = draw(st.sampled_from(UNITS))
    return draw(
        st.sampled_from(
            [
                ("epoch(r.at) - epoch(l.at)", 86_400),
                ("epoch(r.at - l.at)", 86_400),
                ("(epoch(r.at) - epoch(l.at)) / 60", 1_440),
                ("extract(epoch FROM r.at - l.at)", 86_400),
                ("date_part('epoch', r.at - l.at)", 86_400),
                ("epoch_ms(r.at) - epoch_ms(l.at)", 86_400_000),
                ("epoch_us(r.at) - epoch_us(l.at)", 86_400_000_000),
                (f"date_diff('{unit}', l.at, r.at)", 30),
                (f"-datediff('{unit}', r.at, l.at)", 30),
                (f"date_sub('{unit}', l.at, r.at)", 30),
            ]
        )
    )


@st.composite
def conditions(draw):
    """A condition that bounds the difference of the times on both sides."""
    less, more = draw(st.sampled_from([("<", ">"), ("<=", ">="), ("<", ">=")]))
    kind = draw(st.sampled_from(["moved", "apart", "number", "absolute"]))
    low, high = draw(intervals()), draw(intervals())
    if kind == "moved":
        return f"r.at {more} l.at - {low} AND r.at {less} l.at + {high}"
    if kind == "apart":
        return draw(st.sampled_from([
            f"r.at - l.at BETWEEN {low} AND {high}",
            f"l.at - r.at {less} {high} AND {low} {less} l.at - r.at",
        ]))  # fmt: skip
    number, a_day = draw(numbers())
    size = draw(st.sampled_from([0, 1, 5, a_day // 24, a_day, 31 * a_day]))
    if kind == "absolute":
        return f"ABS({number}) {less} {size}"
    return f"{number} {more} {draw(st.integers(-2, 2))} AND {number} {less} {size}"


@st.composite
def tables(draw):
    """Two tables, sorted by their times, from the same begin on."""
    begin = draw(st.sampled_from(BEGINS))
    return [table(begin, draw(st.lists(st.sampled_from(STEPS_US), min_size=1, max_size=9))) for _ in range(2)]


def table(begin, steps):
    times = [begin + dt.timedelta(microseconds=us) for us in accumulate(steps)]
    return pa.table({"id": pa.array(range(len(times)), pa.int64()), "at": pa.array(times, pa.timestamp("us"))})


@given(conditions(), tables())
def test_a_bound_in_any_spelling_gives_the_pairs_of_duckdb(condition, drawn):
    a, b = drawn
    statement = f"SELECT l.id, r.id AS partner FROM a AS l JOIN b AS r ON {condition}"
    expected = sorted(by_duckdb(statement, a=a, b=b))
    try:
        found = spojoin.sql(statement, a=a, b=b, time="at").to_arrow()
    except QueryError as error:
        why = re.search("the interval is empty|band width .* must be|at most 10 years", str(error))
        if why is None or (expected and "10 years" not in why[0]):
            raise
        return
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == expected, condition


@pytest.mark.parametrize(
    "clause",
    [
        "SELECT l.id, r.at - l.at < INTERVAL '5 min' AS v FROM a AS l JOIN b AS r ON l.at <= r.at + to_minutes(5)",
        "SELECT l.id, l.at + INTERVAL '1 hr' AS v FROM a AS l JOIN b AS r ON l.at >= r.at AND l.at < r.at + to_hours(1)",  # noqa: E501
        "SELECT l.id, r.id AS v FROM a AS l JOIN b AS r ON l.id <= r.id WHERE l.at < l.at + INTERVAL '5 sec'",
        "SELECT l.id, r.id AS v FROM a AS l JOIN b AS r ON l.id <= r.id AND (l.at <> r.at - INTERVAL '5 mins' OR r.id = 0)",  # noqa: E501
    ],
)
def test_an_interval_is_read_in_every_clause(clause):
    a = pa.table({"id": [0, 1, 2], "at": [BEGIN + dt.timedelta(minutes=4 * k) for k in range(3)]})
    found = spojoin.sql(clause.replace("JOIN b", "JOIN TABLE(b)"), a=a, b=a).to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(by_duckdb(clause, a=a, b=a))


def test_an_interval_in_a_filter_of_aggregates():
    a = pa.table({"id": [0, 1, 2], "at": [BEGIN + dt.timedelta(minutes=4 * k) for k in range(3)]})
    statement = (
        "SELECT l.id, COUNT(r.id) FILTER (WHERE r.at - l.at <= INTERVAL '5 min') AS near FROM a AS l JOIN TABLE(b) AS r "  # noqa: E501
        "ON l.at <= r.at GROUP BY l"
    )
    assert spojoin.sql(statement, a=a, b=a).to_arrow().to_pylist() == [
        {"id": 0, "near": 2},
        {"id": 1, "near": 2},
        {"id": 2, "near": 1},
    ]


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("r.at - l.at <= INTERVAL '5 min'", (1, 0)),
        ("date_diff('second', l.at, r.at) <= 5", (1, 1)),
        ("r.id - l.id BETWEEN 1 AND 2", (2, 0)),
        ("2 * l.id + r.id > 7", (1, 0)),
        ("ABS(r.id - 2 * l.id + 1) <= 3", (2, 0)),
    ],
)
def test_where_a_difference_is_evaluated(condition, places):
    schema = {"id": "long", "at": "timestamp"}
    with spojoin.Join(f"SELECT l.id FROM a AS l JOIN TABLE(b) AS r ON {condition}", {"a": schema, "b": schema}) as join:
        assert (len(join.query.predicates), len(join.query.residuals)) == places
