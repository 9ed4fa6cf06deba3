"""The latency shown is that of the last minute."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.telemetry.hop_times import SLICE_MS, SPAN_MS, RecentCounts
from spojoin.telemetry.metrics import LatencyHistogram


def observe(histogram: LatencyHistogram, latency_ms: int, now_ms: float, tuples: int = 10) -> None:
    histogram.observe(np.array([latency_ms]), np.array([tuples], np.uint32), now_ms)


def test_earlier_slowness_does_not_affect_a_settled_flow():
    histogram = LatencyHistogram()
    observe(histogram, 15_600, 0, tuples=1_000_000)
    observe(histogram, 90, SPAN_MS + SLICE_MS)
    assert 90 <= histogram.recent_ms(0.99, SPAN_MS + SLICE_MS) < 130


def test_in_a_stall_of_a_minute_there_is_no_latency():
    histogram = LatencyHistogram()
    observe(histogram, 140, 0)
    assert 140 <= histogram.recent_ms(0.5, SPAN_MS - 1) < 190
    assert np.isnan(histogram.recent_ms(0.5, SPAN_MS + SLICE_MS))


def test_a_stall_of_minutes_is_reported_at_full_length():
    histogram = LatencyHistogram()
    observe(histogram, 600_000, 0)
    assert 600_000 <= histogram.recent_ms(0.5, 0) <= 800_000


def test_prometheus_still_counts_all():
    histogram = LatencyHistogram()
    for now_ms in (0, SPAN_MS, 5 * SPAN_MS):
        observe(histogram, 7, now_ms)
    (family,) = histogram.collect()
    assert {s.name: s.value for s in family.samples}["spojoin_result_latency_seconds_count"] == 30


@pytest.mark.parametrize("step_ms", [10, 700, SLICE_MS, 3 * SLICE_MS])
def test_counts_are_those_of_the_last_minute_to_within_a_slice(step_ms):
    counts, times = RecentCounts(2), list(range(0, 3 * SPAN_MS, step_ms))
    for now_ms in times:
        counts.add(np.array([1, 2]), now_ms)
    least, most = (sum(times[-1] - at < SPAN_MS + more for at in times) for more in (0, SLICE_MS))
    once, twice = counts.total(times[-1]).tolist()
    assert least <= once <= most
    assert twice == 2 * once
    assert len(counts._slices) <= SPAN_MS // SLICE_MS + 1
