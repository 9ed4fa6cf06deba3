"""The figures' measurements count what a plain count gives, and their report tells ratios and refusals."""

import csv

import numpy as np
import pytest

from loadgen.figures import measure as measuring
from loadgen.figures.measure import Measured, measure
from loadgen.figures.report import Figure, ratios, write
from loadgen.figures.workloads import WORKLOADS
from spojoin.errors import ConfigurationError


def pairs(columns, first, count, window, slide):
    """Matches of the tuples [first, first + count) in both roles."""
    a, b, found = columns.a, columns.b, 0
    for i in range(first, first + count):
        members = slice(max(-(-i // slide) * slide - window, 0), i)
        found += int(np.sum((a[i] > a[members]) & (b[i] < b[members])))
        found += int(np.sum((a[i] < a[members]) & (b[i] > b[members])))
    return found


def test_a_side_is_measured_on_a_full_window():
    workload, window = WORKLOADS[0], 500
    found = measure("scan", workload, window, 0.01)
    first = window + measuring.FIRST_TUPLES
    columns = workload.columns(window + 64 * measuring.CHUNK_TUPLES_MAX)
    shown = min(found.tuples, 200)
    assert found.us > 0
    if shown == found.tuples:
        assert found.matches == pairs(columns, first, found.tuples, window, 50)
    assert found.matches / found.tuples == pytest.approx(pairs(columns, first, shown, window, 50) / shown, rel=0.3)


def test_the_products_own_is_measured_with_all_that_it_does():
    found = measure("spo", WORKLOADS[0], 500, 0.01)
    assert found.tuples >= measuring.FILL_TUPLES
    assert 0.2 < found.matches / found.tuples / 500 < 0.6


def test_a_method_that_refuses_says_why(monkeypatch):
    def refuse(spec):
        raise ConfigurationError("hash needs an equality")

    monkeypatch.setitem(measuring.SIDES, "scan", refuse)
    assert measure("scan", WORKLOADS[0], 100, 0.01).error == "hash needs an equality"


def test_the_report_has_ratios_refusals_and_csv(tmp_path):
    rows = [
        Measured("spo", "w", 100, 2.0, 10, 5, 24.0),
        Measured("scan", "w", 100, 30.0, 10, 5, 16.0),
        Measured("scan", "w", 1000, error="hash needs <an equality>"),
    ]
    assert ratios(rows) == {("spo", 100): 1.0, ("scan", 100): 15.0}
    page = write([Figure("fig", "A title", "what the paper shows", rows)], {"cpu": "some"}, tmp_path).read_text()
    assert "15.0" in page
    assert "hash needs &lt;an equality&gt;" in page
    with (tmp_path / "fig.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["method"] for row in found] == ["spo", "scan", "scan"]
    assert found[1]["us"] == "30.0"
