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


def columns(stream, *names, rows=3_000):
    batch = stream.batch(0, rows, 0)
    return [np.asarray(batch[name]) for name in names]


def test_q1_and_q3_match_at_their_stated_rates():
    (far, fare), (near, cheap) = (columns(stream, "distance", "fare") for stream in LOADS["q1"].streams)
    assert np.mean((far[:, None] > near) & (fare[:, None] < cheap)) == pytest.approx(0.07, rel=0.15)
    power, cooling = columns(LOADS["q3"].streams[0], "power", "cooling")
    assert np.mean((power[:, None] < power) & (cooling[:, None] > cooling)) == pytest.approx(0.05, rel=0.15)
