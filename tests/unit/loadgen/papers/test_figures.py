"""Measurements agree with a plain count; claims, time limits and the report are as documented."""

import csv
import re
from itertools import count

import numpy as np
import pytest

from loadgen.papers import catalog, data
from loadgen.papers.claims import ClaimVerdict, checked, claim, falls, rises
from loadgen.papers.joins import INEQUALITIES, cross_join, self_join, timed_join
from loadgen.papers.latency import waited
from loadgen.papers.measurable import MethodWork, Sides, StoredPart, Whole
from loadgen.papers.meter import measure
from loadgen.papers.methods import promise
from loadgen.papers.model import Figure, LeftOut, Panel, Series
from loadgen.papers.page import write
from loadgen.papers.run import NO_TIME, FigureRun
from loadgen.papers.sweep import Line, sweep
from spojoin.errors import ConfigurationError

WINDOW, SLIDE, SIZE = 300, 30, 700


def holds(x, y):
    return (x[0] > y[0]) & (x[1] < y[1])


def pairs(join, first, end):
    """Matches of turns [first, end) in both directions, one by one."""
    found = 0
    for turn in range(first, end):
        stream = int(join.stream[turn])
        a, b = (column[join.before[stream][turn]] for column in join.columns[stream])
        target = 0 if len(join.columns) == 1 else 1 - stream
        upper = int(join.before[target][turn])
        window = join.windows[target]
        lower = max(-(-upper // window.slide) * window.slide - window.length, 0)
        u, v = (column[lower:upper] for column in join.columns[target])
        as_left, as_right = (a > u) & (b < v), (a < u) & (b > v)
        if len(join.columns) == 2:
            found += int(np.sum(as_left if stream == 0 else as_right))
        else:
            found += int(np.sum(as_left)) + int(np.sum(as_right))
    return found


def columns(seed, rows=SIZE):
    a, b = np.random.default_rng(seed).integers(0, 40, (2, rows)).astype(float)
    return a, b


def own_join():
    return self_join(INEQUALITIES, *columns(1), WINDOW, SLIDE)


def two_joins(share=0.5):
    return cross_join(INEQUALITIES, (columns(1), columns(2)), (WINDOW, 200), (SLIDE, 1), share)


@pytest.mark.parametrize("make", [own_join, two_joins, lambda: two_joins(0.7)])
@pytest.mark.parametrize("name", ["scan", "spo_paper"])
def test_sides_agree_with_a_plain_count(make, name):
    join = make()
    sides = Sides(join, MethodWork(name))
    sides.fill(0, join.fill)
    first = join.fill
    for end in (first + 1, first + 60, first + 130):
        assert sides.take(first, end)[1] == pairs(join, first, end)
        first = end


def test_shares_of_workers_add_up_to_the_whole():
    join = own_join()
    whole = pairs(join, join.fill, join.fill + 100)
    for block in (1, SLIDE):
        found = []
        for worker in range(3):
            sides = Sides(join, MethodWork("scan", share=StoredPart(worker, 3, block)))
            sides.fill(0, join.fill)
            found.append(sides.take(join.fill, join.fill + 100)[1])
        assert sum(found) == whole
        assert max(found) < whole


def test_the_products_own_method_counts_the_same():
    join = own_join()
    whole = Whole(join, 64)
    whole.fill(0, join.fill)
    assert whole.take(join.fill, join.fill + 100)[1] == pairs(join, join.fill, join.fill + 100)


def test_search_time_is_measured_on_the_full_window():
    join = own_join()
    sides = Sides(join, MethodWork("scan", is_storing=False))
    sides.fill(0, join.fill)
    a, b = join.columns[0]
    stored = slice(join.fill - WINDOW, join.fill)
    expected = sum(
        int(np.sum((a[i] > a[stored]) & (b[i] < b[stored])) + np.sum((a[i] < a[stored]) & (b[i] > b[stored])))
        for i in (join.fill, join.fill + 1)
    )
    assert sides.take(join.fill, join.fill + 2)[1] == expected
    assert sides.take(join.fill, join.fill + 2)[1] == expected


def test_time_windows_follow_event_time():
    join = timed_join(INEQUALITIES, *columns(3), 3, 3, 100)
    lower = join.lower(0, 0, 450, 452, np.array([450, 451]))
    assert join.times_us[0][450] == 4_500_000
    assert lower.tolist() == [200, 200]  # the window of 4.5 s begins at 5 s - 3 s


def test_a_method_that_refuses_says_why():
    run = FigureRun(1.0, is_quick=True)
    table = sweep(run, (WINDOW,), [Line("a hash join", "hash")], lambda _: own_join())
    assert table.series(lambda point: point.us) == []
    assert run.left_out[0].point == "a hash join at 300"
    assert "equality" in measure(own_join(), MethodWork("hash"), 0.01).error


def test_a_figure_out_of_time_omits_its_remaining_points():
    now = iter(range(0, 1000, 10))
    run = FigureRun(20.0, is_quick=True, clock=lambda: float(next(now)))
    assert list(run.each([1, 2, 3, 4, 5])) == [1, 2, 3]
    assert run.left_out == [("4", NO_TIME), ("5", NO_TIME)]


@pytest.mark.parametrize("name", ["pim-tree-13", "scale-join-05", "scale-join-07", "spo-join-20"])
def test_a_figure_out_of_time_after_its_first_point_is_drawn(name):
    now = count(0, 100)
    run = FigureRun(1.0, is_quick=True, clock=lambda: float(next(now)))
    (entry,) = catalog.chosen([name])
    drawn = entry.draw(run)
    assert run.left_out
    assert {point.why for point in run.left_out} == {NO_TIME}
    assert ClaimVerdict.UNKNOWN in {claim.verdict for claim in drawn.claims}


def test_a_panel_compares_its_series():
    one, two = Series("one", [1, 2, 4], [3.0, 9.0, 6.0]), Series("two", [2, 4], [3.0, 0.0])
    panel = Panel("", "", "", (one, two))
    assert panel.times("one", "two") == [3.0]
    assert panel.times_at(2, "one", "two") == [3.0]
    assert panel.times_at(1, "one", "two") == panel.times_at(4, "one", "two") == panel.times_at(2, "one", "x") == []
    assert panel.growth("one") == [2.0]
    assert (panel.best_x("one"), panel.best_x("x")) == (2, None)


def test_claims_compare_direction_and_size():
    assert claim("", [14.0, 20.0], 12, 31, "").verdict is ClaimVerdict.AGREES
    assert claim("", [1.5, 2.0], 12, 31, "").verdict is ClaimVerdict.OTHER_SIZE
    assert claim("", [0.9, 20.0], 12, 31, "").verdict is ClaimVerdict.DISAGREES
    assert claim("", [1.02, 1.1], 1.5, 1.5, "").verdict is ClaimVerdict.OTHER_SIZE
    assert claim("", [0.4], 0.5, 0.9, "").verdict is ClaimVerdict.AGREES
    assert claim("", [0.1], 0.5, 0.9, "").verdict is ClaimVerdict.OTHER_SIZE
    assert claim("", [1.1], 0.5, 0.9, "").verdict is ClaimVerdict.DISAGREES
    assert claim("", [3.0], 0.9, 1.1, "").verdict is ClaimVerdict.DISAGREES
    assert claim("", [], 1, 2, "").verdict is ClaimVerdict.UNKNOWN
    assert rises("", [1.01, 50.0], "").verdict is ClaimVerdict.AGREES
    assert rises("", [0.99], "").verdict is ClaimVerdict.DISAGREES
    assert falls("", [0.2], "").verdict is ClaimVerdict.AGREES
    assert falls("", [1.01], "").verdict is ClaimVerdict.DISAGREES
    assert checked("", "", holds=None).verdict is ClaimVerdict.UNKNOWN


def test_waiting_times_are_those_of_one_server():
    service, every = np.array([3.0, 1.0, 1.0, 0.5]), 1.0
    ends, free = [], 0.0
    for i, took in enumerate(service):
        free = max(free, i * every) + took
        ends.append(free - i * every)
    assert waited(service, every).tolist() == ends


def test_a_bands_width_gives_the_requested_matches():
    keys = data.uniform(4_000, 3)
    width = data.band_width(data.uniform, 4_000, 8.0)
    found = np.sum(np.abs(keys[:, None] - keys[None]) <= width) - len(keys)
    assert found / len(keys) == pytest.approx(8.0, rel=0.2)


def figure():
    panel = Panel("a <panel>", "tuples", "us", (Series("one", [1, 2], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]),))
    words = Panel("bars", "", "MB", (Series("one", ["x", "y"], [1.0, 2.0]), Series("two", ["y"], [3.0])))
    claims = (claim("faster & better", [0.5], 2, 3, "because <so>"), claim("as fast", [1.0], 0.9, 1.1, "never told"))
    left = [LeftOut("three at 4", NO_TIME), LeftOut("two at 4", "it refuses"), LeftOut("three at 5", NO_TIME)]
    return Figure("fig-1", "A title", "How", (panel, words), claims, left)


def test_the_report_has_plots_claims_and_csv(tmp_path):
    page = write([figure()], {"cpu": "some"}, tmp_path).read_text()
    assert re.findall("<svg", page) == ["<svg"]
    assert "faster &amp; better" in page
    assert "because &lt;so&gt;" in page
    assert "never told" not in page
    assert "Left out: three at 4; three at 5: for lack of time." in page
    assert "Left out: two at 4: it refuses." in page
    assert "of 2 claims of the papers: 1 agrees" in page
    assert (tmp_path / "fig-1.svg").read_text().startswith("<svg")
    with (tmp_path / "fig-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    written = [(row["series"], row["x"], row["y"]) for row in rows[:3]]
    assert written == [("one", "1", "3.0"), ("one", "2", "4.0"), ("one", "x", "1.0")]


def test_figures_are_chosen_by_name():
    names = [entry.name for entry in catalog.ENTRIES]
    assert len(names) == len(set(names))
    assert [entry.name for entry in catalog.chosen(["pim-tree-09"])] == ["pim-tree-09"]
    assert catalog.chosen([]) == list(catalog.ENTRIES)
    with pytest.raises(ConfigurationError, match="pim-tree-09"):
        catalog.chosen(["pim-tree-99"])


@pytest.mark.parametrize(
    ("scan", "verdict", "here"),
    [(20.0, ClaimVerdict.AGREES, "scan 50"), (21.0, ClaimVerdict.DISAGREES, "too few: scan")],
)
def test_the_promise_is_held_to_each_method(scan, verdict, here):
    windows = [10_000, 1_000_000]
    rates = {"spo": [9.0, 1_000.0], "scan": [9.0, scan], "im_tree": [9.0, 10.0], "hash": [9.0]}
    series = [Series(name, windows[: len(y)], y) for name, y in rates.items()]
    found = promise(Panel("", "", "", series))
    assert found.verdict == verdict
    assert here in found.here


def test_without_its_window_the_promise_is_not_measured():
    assert promise(Panel("", "", "", [Series("spo", [1_000], [1.0])])).verdict == ClaimVerdict.UNKNOWN
