"""`until`: the answers of the rows before it, as `spojoin.sql` gives them over rows that are cut by hand."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import spojoin
from loadgen.load import spark as local
from spojoin import spark
from spojoin.errors import ConfigurationError

pytestmark = pytest.mark.spark

ROWS, BEGIN = 20_000, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ARRIVAL = """
SELECT l.id, r.id AS other FROM trips AS l JOIN trips AS r ON l.miles = r.miles AND l.fare > r.fare
WINDOW AS (SLIDE INTERVAL '10' ON '500')
"""
#: Rows ask, and are answered when none can come any more that they find.
CLOSES = """
SELECT l.id, COUNT(r.id) AS found FROM trips AS l LEFT JOIN trips AS r
ON l.miles = r.miles AND r.at BETWEEN l.at AND l.at + INTERVAL '3 min'
GROUP BY l
EMIT ON CLOSE
"""
TWO = """
SELECT l.id, r.id AS other FROM trips AS l JOIN rides AS r ON l.miles = r.miles AND l.fare > r.fare
WINDOW AS (SLIDE INTERVAL '1 s' ON '2 min')
"""


@pytest.fixture(scope="module")
def session():
    found = local.start()
    found.conf.set("spark.spojoin.shares", "3")
    yield found
    found.stop()


def rows(seed: int, count: int = ROWS) -> pa.Table:
    """Rows by number, several of one event time."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.integers(0, count // 3, count))
    return pa.table(
        {
            "id": np.arange(count) * 3,
            "miles": random.integers(0, 200, count),
            "fare": random.integers(0, 1_000, count),
            "at": pa.array([BEGIN + dt.timedelta(seconds=int(each)) for each in seconds], pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("until", [0, 24_577])
def test_rows_before_a_number_answer(session, until: int) -> None:
    trips = rows(1)
    cut = trips.filter(pa.compute.less(trips["id"], until))
    frame = session.createDataFrame(trips)
    found = spark.sql(session, ARRIVAL, trips=frame, order_by="id", until=until).toArrow()
    assert found.to_pylist() == spojoin.sql(ARRIVAL, trips=cut).to_arrow().to_pylist()


def test_unordered_rows_are_cut_where_they_stand_in_the_order(session) -> None:
    trips = rows(2)
    frame = session.createDataFrame(trips.take(np.random.default_rng(3).permutation(ROWS)))
    found = spark.sql(session, ARRIVAL, trips=frame, order_by="id", until=30_000).toArrow()
    assert found.to_pylist() == spojoin.sql(ARRIVAL, trips=trips.slice(0, 10_000)).to_arrow().to_pylist()


@pytest.mark.parametrize("as_text", [True, False])
def test_rows_behind_it_are_found_by_those_that_answer_on_close(session, as_text: bool) -> None:
    trips, moment = rows(4), BEGIN + dt.timedelta(seconds=3_001)
    frame = session.createDataFrame(trips)
    until = moment.isoformat() if as_text else moment
    found = spark.sql(session, CLOSES, trips=frame, order_by=["at", "id"], until=until).toArrow()
    everything = spojoin.sql(CLOSES, trips=trips).to_arrow().to_pylist()
    answering = pa.compute.sum(pa.compute.less(trips["at"], pa.scalar(moment, trips["at"].type))).as_py()
    assert found.to_pylist() == [row for row in everything if row["id"] < 3 * answering]
    alone = spojoin.sql(CLOSES, trips=trips.slice(0, answering)).to_arrow().to_pylist()
    assert found.to_pylist() != alone, "rows behind the cut must matter here"


@pytest.mark.parametrize("second", [777, 10**6])
def test_two_inputs_are_cut_at_one_event_time(session, second: int) -> None:
    trips, rides, moment = rows(5, 9_000), rows(6, 9_000), BEGIN + dt.timedelta(seconds=second)
    frames = {"trips": session.createDataFrame(trips), "rides": session.createDataFrame(rides)}
    by = {name: ["at", "id"] for name in frames}
    found = spark.sql(session, TWO, order_by=by, until=moment, **frames).toArrow()
    cut = [each.filter(pa.compute.less(each["at"], pa.scalar(moment, each["at"].type))) for each in (trips, rides)]
    assert found.to_pylist() == spojoin.sql(TWO, trips=cut[0], rides=cut[1]).to_arrow().to_pylist()


def test_the_plan_says_how_many_answer(session) -> None:
    frame = session.createDataFrame(rows(1))
    said = spark.explain(session, ARRIVAL, trips=frame, order_by="id", until=30_000)
    assert "in the order of id as they are; 10,000 answer, those before `until`" in said
    assert spark.explain(session, ARRIVAL, trips=frame, order_by="id", until=0) == "no rows before `until`"


@pytest.mark.parametrize(
    ("statement", "order_by", "until", "sentence"),
    [
        (ARRIVAL, "id", "soon", "until is 'soon': expected a whole number, as the rows are ordered by trips.id"),
        (ARRIVAL, "id", True, "expected a whole number"),
        (CLOSES, "at", 17, "until is 17: expected a time, such as 2024-02-29T12:00:00Z"),
        (CLOSES, "at", "soon", "until is 'soon': expected a time"),
    ],
)
def test_a_value_that_the_order_column_cannot_have_is_refused(session, statement, order_by, until, sentence) -> None:
    frame = session.createDataFrame(rows(1, 10))
    with pytest.raises(ConfigurationError, match=sentence):
        spark.sql(session, statement, trips=frame, order_by=order_by, until=until)
