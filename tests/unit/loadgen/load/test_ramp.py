"""Which rates are tried, and when one is sustained."""

import time
from dataclasses import dataclass

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.load.load import Arrivals, Load
from loadgen.load.load_streams import LOADS
from loadgen.load.ramp.measure import Bench, StepTimes
from loadgen.load.ramp.session import climb, fill_windows, table, write
from loadgen.load.ramp.step import LagPoint, Measured, Search, highest_that_holds, judge
from spojoin.errors import ConfigurationError
from spojoin.query.load import load_query


@dataclass
class Tried:
    rate: float
    holds: bool


def searched(search, limit):
    tried = []
    while (rate := search.next_rate(tried)) is not None:
        assert rate not in [step.rate for step in tried], "a rate is tried once"
        tried.append(Tried(rate, rate <= limit))
        assert len(tried) < 100
    return tried


@given(start=st.floats(1_000, 1e6), limit=st.floats(1_000, 4e6))
def test_the_limit_is_found_from_above_and_below(start, limit):
    search = Search(start, precision=0.1)
    best = highest_that_holds(searched(search, limit))
    # Rates are rounded to three digits.
    assert limit / 1.12 <= best <= limit


def measured(**changes):
    usual = {
        "rate": 1_000.0,
        "produced": 1_000.0,
        "answered": 1_000.0,
        "lag": [LagPoint(s / 10, 50.0) for s in range(100)],
        "latencies_ms": np.linspace(10.0, 110.0, 1_001),
        "behind_s": 0.0,
        "is_drained": True,
    }
    return Measured(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lag": [LagPoint(s / 10, 5.0 * s) for s in range(100)]}, "lag grows by 50 rows/s"),
        ({"latencies_ms": np.full(1_000, 201.0)}, "p99 201 ms is above 150 ms"),
        ({"behind_s": 2.0}, "the load generator was 2.0 s late"),
        ({"is_drained": False}, "not all rows were answered"),
        ({"latencies_ms": np.zeros(0)}, "no results"),
    ],
)
def test_why_a_rate_does_not_hold_is_reported(changes, said):
    assert said in judge(measured(**changes), 150.0).verdict


class Silent:
    def send(self, target, values, timestamp_ms):
        pass

    def flush(self, timeout_s):
        pass

    def close(self):
        pass


class Services:
    """A tap on services that answer everything due at once, or nothing at all."""

    def __init__(self, is_up=True):
        self.tuples = self.refused = 0
        self.asked = []
        self.due = lambda: 0
        self._is_up = is_up

    def read(self):
        time.sleep(0.005)
        self.tuples = self.due() if self._is_up else 0

    def forget(self):
        self.asked.clear()

    def latencies_between(self, begin_ms, end_ms):
        self.asked.append((begin_ms, end_ms))
        return np.array([1.0, 2.0])


class Overseen(Bench):
    """A sender that reports to the services how many rows have come, as their input topic would."""

    def measure(self, rate):
        load, base, began_s = self._load(rate), self.tap.tuples, time.time()
        self.tap.due = lambda: base + min(int(load.arrivals.rows_due(time.time() - began_s)), 2 * load.rows)
        return super().measure(rate)


def bench(services):
    plan = StepTimes(settle_s=0.2, measure_s=1.0, drain_s=60.0)
    return Overseen(Load(LOADS["q1"], Arrivals(1.0)), services, Silent, plan)


def test_a_rate_is_measured_between_settling_and_the_tail():
    overseen = bench(Services())
    began_ms = time.time() * 1000
    found = overseen.measure(400.0)
    assert (found.rate, found.is_drained, found.latencies_ms.tolist()) == (400.0, True, [1.0, 2.0])
    assert all(0.2 <= point.seconds <= 1.2 for point in found.lag)
    ((begin, end),) = overseen.tap.asked
    assert begin >= began_ms + 200
    assert end - begin == pytest.approx(1_000)
    assert overseen.rows == 440, "of each of two streams, at 400 a second for 2.2 seconds"
    assert overseen.tap.tuples == 880
    assert overseen._load(800.0).first == 440, "the next rate goes on where this one ended"


def test_services_that_take_rows_and_answer_none_are_reported(tmp_path):
    overseen = bench(Services(is_up=False))
    overseen.plan = StepTimes(drain_s=0.2)
    with pytest.raises(ConfigurationError, match="produced no result for 0 s"):
        fill_windows(overseen, load_query(LOADS["q1"].query_path), 10, lambda _: None)
    fill_windows(overseen, load_query(LOADS["q1"].query_path), 0, lambda _: None)


class Limited:
    """A bench whose services handle 20,000 rows a second."""

    def measure(self, rate):
        growth = max(0.0, rate - 20_000)
        lag = [LagPoint(s / 10, 50.0 + growth * s / 10) for s in range(100)]
        return measured(rate=rate, lag=lag, is_drained=rate < 100_000)


def test_the_ramp_reports_what_holds_and_draws_it(tmp_path):
    reported = []
    ramp = climb(Limited(), Search(5_000.0, factor=8.0), 150.0, reported.append)
    assert [step.rate for step in ramp.steps][:2] == [5_000, 40_000]
    assert 18_000 <= ramp.best <= 20_000
    assert reported == ramp.steps
    about = {"workload": "q3", "cpu": "a cpu", "cores": 2, "load_average_1min": 0.5}
    write(ramp, tmp_path / "out", about, 150.0)
    page = (tmp_path / "out" / "ramp.html").read_text()
    assert "lag grows by 20,000 rows/s" in page
    assert page.count("<td>holds</td>") == sum(step.holds for step in ramp.steps) > 1
    assert orjson.loads((tmp_path / "out" / "ramp.json").read_bytes())["highest_rate"] == ramp.best
    assert f"{ramp.best:,.0f}" in str(table(ramp, "q3").title)
