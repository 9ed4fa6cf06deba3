"""Loads from workers' reports: processor time over a span, never across two processes."""

from __future__ import annotations

import pytest

from spojoin.roles.controller.loads import AGE_MS_MAX, SPAN_MS, LoadMeter
from spojoin.roles.controller.policy import WorkerLoad


def said(wall_ms, cpu_s, lag=0, pid=1):
    return {"wall_ms": str(wall_ms), "cpu_s": str(cpu_s), "lag": str(lag), "pid": str(pid), "host": "h"}


def test_cores_are_processor_time_over_a_span():
    meter = LoadMeter()
    assert meter.read({"pojoin-0": said(1_000, 5.0)}, 1_000) == {}
    assert meter.read({"pojoin-0": said(2_000, 5.9)}, 2_000) == {}
    assert meter.read({"pojoin-0": said(5_000, 7.0, lag=9)}, 5_000) == {0: WorkerLoad(pytest.approx(0.5), 9)}


def test_old_samples_leave_the_span():
    meter = LoadMeter()
    meter.read({"pojoin-0": said(0, 0.0)}, 0)
    for second in range(1, 30):
        loads = meter.read({"pojoin-0": said(1000 * second, 0.0 if second < 15 else second - 15.0)}, 1000 * second)
    assert SPAN_MS < 14_000
    assert loads == {0: WorkerLoad(pytest.approx(1.0), 0)}


def test_a_new_process_starts_from_zero():
    meter = LoadMeter()
    meter.read({"pojoin-1": said(0, 100.0)}, 0)
    assert meter.read({"pojoin-1": said(4_000, 0.5, pid=2)}, 4_000) == {}


def test_old_reports_and_other_services_do_not_count():
    meter = LoadMeter()
    for wall_ms in (0, 3_000):
        statuses = {"pojoin-0": said(wall_ms, 0.0), "sink": said(wall_ms, 0.0), "pojoin-1": {"lag": "0"}}
        loads = meter.read(statuses, wall_ms)
    assert loads.keys() == {0}
    assert meter.read({"pojoin-0": said(3_000, 0.0)}, 3_000 + AGE_MS_MAX + 1) == {}
