"""Timestamps with a time zone and such without: each keeps its meaning, and no order mixes them."""

import datetime as dt
import json
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spojoin
from spojoin.columns.column_types import parse_type
from spojoin.columns.numbers import read_integers
from spojoin.columns.refusals import Refusals
from spojoin.embedded.writers import open_writer
from spojoin.errors import BadData, QueryError

NEW_YORK = ZoneInfo("America/New_York")
ORDERS = pa.table({"id": [1], "at": pa.array([dt.datetime(2024, 3, 1, 14, 30)], pa.timestamp("us", NEW_YORK.key))})
QUOTES = pa.table({"q": ["a", "b"], "at": pa.array([dt.datetime(2024, 3, 1, 9, 29), dt.datetime(2024, 3, 1, 14, 29)])})
ASOF = "SELECT l.at, r.q FROM orders AS l ASOF JOIN TABLE(quotes) AS r ON "


def test_a_zone_is_kept_to_the_output(tmp_path):
    statement = "SELECT l.at, l.at AT TIME ZONE 'America/New_York' AS clock FROM orders AS l JOIN TABLE(orders) AS r "
    found = spojoin.sql(statement + "ON l.id = r.id", orders=ORDERS).to_arrow()
    assert found.schema.types == [pa.timestamp("us", "America/New_York"), pa.timestamp("us")]
    assert found.to_pylist() == [
        {"at": dt.datetime(2024, 3, 1, 9, 30, tzinfo=NEW_YORK), "clock": dt.datetime(2024, 3, 1, 9, 30)}
    ]
    with open_writer(tmp_path / "x.jsonl", found.schema) as writer:
        writer.write(found.to_batches()[0])
    assert json.loads((tmp_path / "x.jsonl").read_text()) == {
        "at": "2024-03-01T14:30:00Z",
        "clock": "2024-03-01T09:30:00",
    }


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("l.at >= r.at AT TIME ZONE 'America/New_York'", "a"),
        ("l.at AT TIME ZONE 'America/New_York' >= r.at", "a"),
        ("l.at >= r.at AT TIME ZONE 'UTC'", "b"),
    ],
)
def test_a_cast_settles_what_no_order_puts_together(condition, expected):
    with pytest.raises(QueryError) as raised:
        spojoin.sql(ASOF + "l.at >= r.at", orders=ORDERS, quotes=QUOTES)
    assert "(r.at) AT TIME ZONE 'America/New_York'" in str(raised.value)
    assert "(l.at) AT TIME ZONE 'America/New_York'" in str(raised.value)
    found = spojoin.sql(ASOF + condition, orders=ORDERS, quotes=QUOTES).to_arrow()
    assert found["q"].to_pylist() == [expected]


@pytest.mark.parametrize(
    "condition",
    [
        "l.id = 1 AND l.at BETWEEN r.at AND r.at + INTERVAL '1 h'",
        "l.id = length(r.q) AND (l.at > r.at OR r.q = 'a')",
        "l.id = length(r.q) AND l.at - r.at < INTERVAL '1 h'",
        "l.id = length(r.q) AND date_diff('second', l.at, r.at) < 5",
        "l.id = length(r.q) AND GREATEST(l.at, r.at) > TIMESTAMP '2024-01-01'",
        "l.at = CAST(r.at AS DATE)",
    ],
)
def test_they_are_mixed_nowhere(condition):
    with pytest.raises(QueryError, match=r"which has a time zone, with .*which has none"):
        spojoin.sql(
            f"SELECT l.id FROM orders AS l JOIN TABLE(quotes) AS r ON {condition}", orders=ORDERS, quotes=QUOTES
        )


def test_event_times_of_two_inputs_are_alike():
    statement = (
        "SELECT l.id FROM orders AS l JOIN quotes AS r ON l.id = length(r.q) WINDOW AS (SLIDE INTERVAL '1' ON '9')"
    )
    with pytest.raises(QueryError, match=r"orders\.at, which has a time zone, and quotes\.at, which has none"):
        spojoin.sql(statement, orders=ORDERS, quotes=QUOTES)


def test_two_zones_are_compared_as_instants():
    berlin = ORDERS.set_column(1, "at", ORDERS["at"].cast(pa.timestamp("us", "Europe/Berlin")))
    found = spojoin.sql("SELECT r.at FROM a AS l JOIN TABLE(b) AS r ON l.at = r.at", a=ORDERS, b=berlin).to_arrow()
    assert found.schema.types == [pa.timestamp("us", "Europe/Berlin")]
    assert found.num_rows == 1


def test_text_has_a_zone_if_it_says_so(tmp_path):
    (tmp_path / "z.csv").write_text("id,at\n1,2024-03-01T14:30:00Z\n2,2024-03-01T10:30:00-05:00\n")
    (tmp_path / "n.csv").write_text("id,at\n1,2024-03-01T14:30:00\n")
    statement = "SELECT l.at FROM '{}' AS l JOIN TABLE('{}') AS r ON l.at > r.at"
    with pytest.raises(QueryError, match="which has a time zone"):
        spojoin.sql(statement.format(tmp_path / "z.csv", tmp_path / "n.csv"))
    found = spojoin.sql(statement.format(tmp_path / "z.csv", tmp_path / "z.csv")).to_arrow()
    assert found["at"].to_pylist() == [dt.datetime(2024, 3, 1, 15, 30, tzinfo=dt.UTC)]


def test_a_schema_says_the_zone_of_a_clock():
    kind = parse_type("timestamptz(Europe/Berlin)", "at", 1)
    expected = [dt.datetime(2024, 7, 1, 10), dt.datetime(2024, 1, 1, 11), dt.datetime(2024, 7, 1, 12)]
    for array in (
        pa.array(
            ["2024-07-01T12:00", "2024-01-01 12:00:00", "2024-07-01T12:00Z", "2024-10-27 02:30", "2024-03-31 02:30"]
        ),
        pa.array([dt.datetime(2024, 7, 1, 12), dt.datetime(2024, 1, 1, 12), None, dt.datetime(2024, 10, 27, 2, 30)]),
    ):
        refusals, nulls = Refusals(len(array)), np.zeros(len(array), np.bool_)
        found = read_integers("at", kind, array, refusals, nulls=nulls)
        known = pa.array(found[~nulls], pa.timestamp("us")).to_pylist()
        assert known[:2] == expected[:2]
        assert [row for row in range(len(array)) if row in refusals.by_row] == list(range(3, len(array)))
        assert "occurred twice or never in Europe/Berlin" in refusals.by_row[3][1]


def test_text_with_nine_digits_is_a_moment(tmp_path):
    lines = [f"{k},2024-03-01T10:00:0{k}.123456789" for k in range(2)]
    (tmp_path / "a.csv").write_text("id,at\n" + "\n".join(lines) + "\n")
    sides = f"FROM '{tmp_path}/a.csv' AS l JOIN '{tmp_path}/a.csv' AS r"
    window = " WINDOW AS (SLIDE INTERVAL '1 s' ON '5 s')"
    found = spojoin.sql(f"SELECT l.id, r.id AS r {sides} ON l.id > r.id{window}").to_arrow()
    assert found.to_pylist() == [{"id": 1, "r": 0}]
    with pytest.raises(BadData, match="has digits below a microsecond"):
        spojoin.sql(f"SELECT l.id {sides} ON l.at > r.at{window}").to_arrow()


def test_a_day_is_24_hours_across_a_change_of_clocks():
    berlin = ZoneInfo("Europe/Berlin")
    left = pa.table({"at": pa.array([dt.datetime(2024, 3, 30, 12, tzinfo=berlin)], pa.timestamp("us", berlin.key))})
    times = [dt.datetime(2024, 3, 31, 12, 30), dt.datetime(2024, 3, 31, 13), dt.datetime(2024, 3, 31, 13, 0, 0, 1)]
    right = pa.table({"x": ["x", "y", "z"], "at": pa.array([t.replace(tzinfo=berlin) for t in times])})
    statement = "SELECT r.x FROM a AS l JOIN TABLE(b) AS r ON r.at BETWEEN l.at AND l.at + INTERVAL '1 day'"
    assert spojoin.sql(statement, a=left, b=right).to_arrow()["x"].to_pylist() == ["x", "y"]


def test_int96_reaches_as_far_as_its_years(tmp_path):
    ends = [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10)]
    table = pa.table({"name": ["std", "old", "gap"], "hi": pa.array(ends)})
    pq.write_table(table, tmp_path / "r.parquet", use_deprecated_int96_timestamps=True)
    day = pa.table({"at": pa.array([dt.datetime(2024, 6, 1)])})
    statement = f"SELECT r.name, r.hi FROM day AS l JOIN TABLE('{tmp_path}/r.parquet') AS r ON l.at {{}} r.hi"
    assert spojoin.sql(statement.format("<"), day=day).to_arrow().to_pylist() == [{"name": "std", "hi": ends[0]}]
    assert sorted(spojoin.sql(statement.format(">"), day=day).to_arrow()["hi"].to_pylist()) == sorted(ends[1:])
