import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.load import workloads


@given(
    name=st.sampled_from(sorted(workloads.WORKLOADS)),
    seed=st.integers(0, 3),
    first=st.integers(0, 20_000),
    rows=st.integers(0, 20_000),
)
@settings(max_examples=30, deadline=None)
def test_any_piece_is_a_slice_of_the_whole(name, seed, first, rows):
    whole = workloads.generate(name, 40_000, seed=seed)
    assert workloads.generate(name, rows, seed=seed, first=first).equals(whole.slice(first, rows))


@pytest.mark.parametrize("name", sorted(workloads.WORKLOADS))
def test_the_seed_changes_the_values_only(name):
    one, two = workloads.generate(name, 100, seed=1), workloads.generate(name, 100, seed=2)
    assert one["id"].equals(two["id"])
    assert one["ts"].equals(two["ts"])
    assert not one["a"].equals(two["a"])


def match_rate(table: pa.Table) -> float:
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    return float(np.mean((a[:, None] > a[None, :]) & (b[:, None] < b[None, :])))


@pytest.mark.parametrize(("name", "rate"), [("uniform", 0.25), ("taxi", 0.07), ("selective", 0.001)])
def test_match_rates_are_as_documented(name, rate):
    assert match_rate(workloads.generate(name, 4000)) == pytest.approx(rate, rel=0.1)


def test_zipf_has_a_hot_key_and_a_long_tail():
    _, counts = np.unique(workloads.generate("zipf", 50_000)["a"].to_numpy(), return_counts=True)
    assert counts.max() > 0.1 * counts.sum()
    assert len(counts) > 1000


def test_drifting_moves_and_event_time_never_runs_back():
    table = workloads.generate("drifting", 400_000)
    a = table["a"].to_numpy()
    assert a[-1000:].mean() - a[:1000].mean() == pytest.approx(2000, rel=0.2)
    assert np.all(np.diff(table["ts"].to_numpy()) >= 0)


def test_flights_keep_every_row_and_null():
    table = workloads.flights()
    assert table.num_rows == 336_776
    assert table["air_time"].null_count == 9430
    assert table["time_hour"][0].as_py() == "2013-01-01T10:00:00Z"
    assert table["flight_id"].to_numpy().tolist() == list(range(336_776))


def test_flights_by_time_are_the_same_rows_in_time_order():
    ms = workloads.TimeFormat.MS
    plain, sorted_ = workloads.flights(ms), workloads.flights(ms, by_time=True)
    assert np.all(np.diff(sorted_["time_hour"].to_numpy()) >= 0)
    back = sorted_.take(np.argsort(sorted_["flight_id"].to_numpy()))
    assert back.equals(plain)


def test_flights_of_one_airport():
    assert set(workloads.flights(origin="JFK")["origin"].to_pylist()) == {"JFK"}
