import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.load.load_streams import LOADS
from spojoin.query.load import load_query


@given(
    name=st.sampled_from(sorted(LOADS)),
    seed=st.integers(0, 3),
    first=st.integers(0, 20_000),
    rows=st.integers(1, 20_000),
)
@settings(max_examples=30, deadline=None)
def test_any_piece_is_a_slice_of_the_whole(name, seed, first, rows):
    for stream in LOADS[name].streams:
        assert stream.batch(first, rows, seed).equals(stream.batch(0, 40_000, seed).slice(first, rows))


@pytest.mark.parametrize("load", LOADS.values(), ids=lambda load: load.name)
def test_a_workloads_query_joins_its_rows(load):
    query = load_query(load.query_path)
    assert [stream.name for stream in query.streams] == [stream.name for stream in load.streams]
    for declared, sent in zip(query.streams, load.streams, strict=True):
        named = {*declared.schema, declared.key, declared.time} - {None}
        assert named <= set(sent.batch(0, 1, 0).schema.names)


@pytest.mark.parametrize("name", sorted(LOADS.keys() - {"flights"}))
def test_the_seed_changes_values_only_and_time_never_runs_back(name):
    for stream in LOADS[name].streams:
        one, two = stream.batch(0, 20_000, 1), stream.batch(0, 20_000, 2)
        assert one.columns[0].to_pylist() == list(range(20_000))
        assert one.columns[:2] == two.columns[:2]
        assert one.columns[2] != two.columns[2]
        assert np.all(np.diff(one["ts"]) >= 0)


def columns(stream, *names, rows=3_000):
    batch = stream.batch(0, rows, 0)
    return [np.asarray(batch[name]) for name in names]


def test_q1_and_q3_match_at_their_stated_rates():
    (far, fare), (near, cheap) = (columns(stream, "distance", "fare") for stream in LOADS["q1"].streams)
    assert np.mean((far[:, None] > near) & (fare[:, None] < cheap)) == pytest.approx(0.07, rel=0.15)
    power, cooling = columns(LOADS["q3"].streams[0], "power", "cooling")
    assert np.mean((power[:, None] < power) & (cooling[:, None] > cooling)) == pytest.approx(0.05, rel=0.15)


def test_the_streams_of_a_cross_join_differ():
    yellow, green = (columns(stream, "distance")[0] for stream in LOADS["q1"].streams)
    assert not np.array_equal(yellow, green)


def test_some_pickups_are_close():
    longitude, latitude = columns(LOADS["q2"].streams[0], "longitude", "latitude")
    near = (abs(longitude[:, None] - longitude) < 0.002) & (abs(latitude[:, None] - latitude) < 0.002)
    assert 0.0005 < (near.sum() - len(near)) / near.size < 0.05


def test_flights_start_over_with_other_keys():
    stream = LOADS["flights"].streams[0]
    whole = 336_776
    seam = stream.batch(whole - 2, 4, 0)
    assert seam["flight_id"].to_pylist() == [whole - 2, whole - 1, whole, whole + 1]
    assert seam["distance"].to_pylist()[2:] == stream.batch(0, 2, 0)["distance"].to_pylist()
