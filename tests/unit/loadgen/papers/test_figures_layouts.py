"""Layouts find the pairs that a plain loop counts; the papers' distributions have the documented shares."""

import numpy as np
import pytest

from loadgen.papers.layout_cost import LayoutFeed, LayoutRun, MeasuredLayout, cost
from tests.support.nested_loop import counts

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
    asked = [columns["a"], columns["b"]], lambda one, two: (one[0] > two[0]) & (one[1] < two[1])
    return sum(left + right for _, left, right in counts(*asked, WINDOW, 20, range(first, end)))


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
