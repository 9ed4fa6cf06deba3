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


def match_rate(table: pa.Table) -> float:
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    return float(np.mean((a[:, None] > a[None, :]) & (b[:, None] < b[None, :])))


@pytest.mark.parametrize(("name", "rate"), [("uniform", 0.25), ("taxi", 0.07), ("selective", 0.001)])
def test_match_rates_are_as_documented(name, rate):
    assert match_rate(workloads.generate(name, 4000)) == pytest.approx(rate, rel=0.1)


def test_flights_keep_every_row_and_null():
    table = workloads.flights()
    assert table.num_rows == 336_776
    assert table["air_time"].null_count == 9430
    assert table["time_hour"][0].as_py() == "2013-01-01T10:00:00Z"
    assert table["flight_id"].to_numpy().tolist() == list(range(336_776))
