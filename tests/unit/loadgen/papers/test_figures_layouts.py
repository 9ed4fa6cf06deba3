"""Layouts are measured on what a plain loop counts; papers' distributions are what they are said to be."""

import numpy as np
import pytest

from loadgen.papers import ppoij, scale_join, sta
from loadgen.papers.laid import Fed, Laid, Steps, cost, costs, panel
from loadgen.papers.run import FigureRun

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


def fed():
    a, b = np.random.default_rng(4).integers(0, 30, (2, TUPLES)).astype(float)
    return Fed(TEXT, ({"a": a, "b": b},), (50,), WINDOW)


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
def test_a_layout_counts_what_a_plain_count_gives(layout):
    given = fed()
    steps = Steps(Laid("", layout), given, 3)
    done = 0
    for turns in ([50], [120], [30]):
        done += steps.frame(turns)
    assert done == 200
    assert steps.engine.matches == pairs(given.columns[0], 0, 200)


def test_costs_are_of_full_windows():
    given = fed()
    found = cost(Laid("SJ", "split_join"), given, 4, 60.0)
    assert found.tuples == TUPLES - WINDOW
    assert found.matches == pairs(given.columns[0], WINDOW, TUPLES)


def test_balanced_work_has_no_imbalance():
    a, b = np.random.default_rng(4).random((2, 9_000))
    found = cost(Laid("SJ", "split_join"), Fed(TEXT, ({"a": a, "b": b},), (40,), WINDOW), 4, 0.0)
    assert found.tuples >= 20 * 40
    assert found.total("stored") == found.tuples
    assert found.total("asked") == 4 * found.tuples
    assert found.imbalance("stored") == 1.0
    assert found.deviation("stored") == 0.0
    assert found.p50_ms <= found.p99_ms <= found.max_ms
    assert found.rate == pytest.approx(1e6 / found.us)


def test_a_layout_that_refuses_is_left_out():
    run = FigureRun(5.0, is_quick=True)
    found = costs(
        run,
        (2,),
        (Laid("by key", "kp"),),
        lambda _: Fed(TEXT.replace("l.a > r.a", "l.a < r.a + r.b"), fed().columns, (50,), 50),
        int,
    )
    assert panel(found, "", "", "", lambda each: each.rate).series == []
    assert run.left_out[0].point == "by key at 2"


def test_self_similar_keys_have_their_share():
    keys = ppoij.self_similar(0.2, 100, 100_000, 1)
    assert np.mean(keys < 20) == pytest.approx(0.8, abs=0.01)
    assert np.mean(keys < 4) == pytest.approx(0.64, abs=0.01)
    even = np.bincount(ppoij.self_similar(0.5, 10, 100_000, 1))
    assert even.min() > 9_000


def test_simulated_figures_draw_themselves():
    aggregation = sta.figure_33(FigureRun(5.0, is_quick=True))
    assert aggregation.panels[0].named("round robin").y == [100.0] * 4
    merged = scale_join._merged(3, 3_000)
    assert merged > 0
