"""The load generator's queries: all are valid, and the interval join of flights equals its definition."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import spojoin
from loadgen.load import workloads
from spojoin.query.load import load_query

QUERIES = sorted((Path(workloads.__file__).parents[1] / "queries").glob("*.yaml"))
FLIGHTS = 1_500


@pytest.mark.parametrize("file", QUERIES, ids=lambda file: file.stem)
def test_every_query_is_valid_and_named_as_its_file(file):
    assert load_query(file).name == file.stem


@pytest.fixture(scope="module")
def departures() -> pa.Table:
    """The first flights by time, with text values as from a CSV file."""
    table = workloads.flights(by_time=True).slice(0, FLIGHTS)
    table = table.select(["flight_id", "distance", "arr_delay", "time_hour"])
    hours = pc.strptime(table["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "s")
    return table.set_column(3, "time_hour", hours)


def is_pair(left: dict, right: dict) -> bool:
    if None in (left["arr_delay"], right["arr_delay"]) or left["distance"] != right["distance"]:
        return False
    is_soon_after = timedelta(hours=1) <= right["time_hour"] - left["time_hour"] <= timedelta(hours=3)
    return is_soon_after and left["arr_delay"] > right["arr_delay"]


def test_the_interval_join_of_flights_equals_a_nested_loop(departures):
    rows = departures.to_pylist()
    expected = {(left["flight_id"], right["flight_id"]) for left in rows for right in rows if is_pair(left, right)}
    (file,) = (file for file in QUERIES if file.stem == "less-late-soon-after")
    with spojoin.Join(file) as join:
        found = pa.concat_tables([join.push(departures), join.flush()])
    pairs = list(zip(found["left_key"].to_pylist(), found["right_key"].to_pylist(), strict=True))
    assert len(expected) > 100
    assert sorted(pairs) == sorted(expected)
