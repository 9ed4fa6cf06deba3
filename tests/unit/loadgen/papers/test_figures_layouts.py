"""Layouts find the pairs that a plain loop counts; the papers' distributions have the documented shares."""

import numpy as np
import pytest

from loadgen.papers.layout_cost import LayoutFeed, LayoutRun, MeasuredLayout, cost, costs, rate_series
from loadgen.papers.ppoij.joins import self_similar
from loadgen.papers.run import FigureRun
from loadgen.papers.scale_join.merge import merge_rate
from loadgen.papers.sta.figures_32_35 import figure_33

WINDOW, TUPLES = 200, 1_200
TEXT = f"""\
name: figure
streams:
  rows:
    schema: {{a: double, b: double}}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r
  ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '20' ON '{WINDOW}')
order: arrival
"""


def feed():
    a, b = np.random.default_rng(4).integers(0, 30, (2, TUPLES)).astype(float)
    return LayoutFeed(TEXT, ({"a": a, "b": b},), (50,), WINDOW)


def pairs(columns, first, end):
    a, b = columns["a"], columns["b"]
    found = 0
    for i in range(first, end):
        members = slice(max(-(-i // 20) * 20 - WINDOW, 0), i)
        found += int(
            np.sum((a[i] > a[members]) & (b[i] < b[members])) + np.sum((a[i] < a[members]) & (b[i] > b[members]))
        )
    return found


@pytest.mark.parametrize("layout", ["split_join", "bchj", "sta", "handshake"])
def test_a_layout_agrees_with_a_plain_count(layout):
    given = feed()
    made = LayoutRun(MeasuredLayout("", layout), given, 3)
    done = 0
    for turns in ([50], [120], [30]):
        done += made.frame(turns)
    assert done == 200
    assert made.engine.matches == pairs(given.columns[0], 0, 200)


def test_costs_are_measured_on_full_windows():
    given = feed()
    found = cost(MeasuredLayout("SJ", "split_join"), given, 4, 60.0)
    assert found.tuples == TUPLES - WINDOW
    assert found.matches == pairs(given.columns[0], WINDOW, TUPLES)


def test_balanced_work_has_no_imbalance():
    a, b = np.random.default_rng(4).random((2, 9_000))
    found = cost(MeasuredLayout("SJ", "split_join"), LayoutFeed(TEXT, ({"a": a, "b": b},), (40,), WINDOW), 4, 0.0)
    assert found.tuples >= 20 * 40
    assert found.total("stored") == found.tuples
    assert found.total("asked") == 4 * found.tuples
    assert found.imbalance("stored") == 1.0
    assert found.deviation("stored") == 0.0
    assert found.p50_ms <= found.p99_ms <= found.max_ms
    assert found.rate == pytest.approx(1e6 / found.us)


def test_a_layout_that_refuses_is_omitted():
    run = FigureRun(5.0, is_quick=True)
    found = costs(
        run,
        (2,),
        (MeasuredLayout("by key", "kp"),),
        lambda _: LayoutFeed(TEXT.replace("l.a > r.a", "l.a < r.a + r.b"), feed().columns, (50,), 50),
        int,
    )
    assert rate_series(found) == []
    assert run.left_out[0].point == "by key at 2"


def test_self_similar_keys_have_their_share():
    keys = self_similar(0.2, 100, 100_000, 1)
    assert np.mean(keys < 20) == pytest.approx(0.8, abs=0.01)
    assert np.mean(keys < 4) == pytest.approx(0.64, abs=0.01)
    even = np.bincount(self_similar(0.5, 10, 100_000, 1))
    assert even.min() > 9_000


def test_simulated_figures_draw_themselves():
    aggregation = figure_33(FigureRun(5.0, is_quick=True))
    assert aggregation.panels[0].named("round robin").y == [100.0] * 4
    merged = merge_rate(3, 3_000)
    assert merged > 0
