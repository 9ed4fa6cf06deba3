"""Measurements agree with a plain count; claims, time limits and the report are as documented."""

import numpy as np
import pytest

from loadgen.papers import session as catalog
from loadgen.papers.figure import NO_TIME, ClaimVerdict, FigureRun, checked, claim, falls, rises
from loadgen.papers.joins import INEQUALITIES, cross_join, self_join
from loadgen.papers.measurable import MethodWork, Sides, StoredPart, Whole, measure
from loadgen.papers.sweep import Line, sweep
from loadgen.window import window_of
from spojoin.errors import ConfigurationError

WINDOW, SLIDE, SIZE = 300, 30, 700


def pairs(join, first, end):
    """Matches of turns [first, end) in both directions, one by one."""
    found = 0
    for turn in range(first, end):
        stream = int(join.stream[turn])
        a, b = (column[join.before[stream][turn]] for column in join.columns[stream])
        target = 0 if len(join.columns) == 1 else 1 - stream
        upper = int(join.before[target][turn])
        window = join.windows[target]
        inside = window_of(upper, window.length, window.slide)
        u, v = (column[inside] for column in join.columns[target])
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


def test_figures_are_chosen_by_name():
    names = [entry.name for entry in catalog.ENTRIES]
    assert len(names) == len(set(names))
    assert [entry.name for entry in catalog.chosen(["pim-tree-09"])] == ["pim-tree-09"]
    assert catalog.chosen([]) == list(catalog.ENTRIES)
    with pytest.raises(ConfigurationError, match="pim-tree-09"):
        catalog.chosen(["pim-tree-99"])
