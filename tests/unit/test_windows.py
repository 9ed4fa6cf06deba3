"""Kinds of windows against their definition, row by row, and what each kind says of itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.window import window_begin
from spojoin.windows import AllRows, IntervalWindow, RowWindow, TimeWindow, WholeTable

KINDS = (RowWindow(6, 2), TimeWindow(6, 2), IntervalWindow(-2, 6), AllRows(), WholeTable())
SIZES = st.tuples(st.integers(1, 5), st.integers(1, 7)).map(lambda each: (each[0] * each[1], each[0]))
MOVING = st.builds(lambda kind, size: kind(*size), st.sampled_from((RowWindow, TimeWindow)), SIZES)
AT = st.integers(-60, 60)


def holds(window, earlier: int, at: int) -> bool:
    return earlier >= window_begin(at, window.length, window.slide)


@given(st.integers(1, 200), st.integers(1, 40))
def test_batches_are_equal_parts_of_a_slide_that_is_larger(slide, most):
    size = RowWindow(3 * slide, slide).batch_tuples(most)
    assert 1 <= size <= most
    if slide >= most:
        assert -(-slide // size) == -(-slide // most), "no more batches than necessary"
        assert size - (slide - 1) % size - 1 < -(-slide // size), "each lacks less than a row of the others"


def test_other_windows_have_no_part_in_the_size_of_batches():
    assert [window.batch_tuples(8) for window in (TimeWindow(60, 20), AllRows(), RowWindow(6, 2))] == [8, 8, 8]


@given(MOVING, AT)
def test_a_window_begins_with_the_first_that_it_holds(window, at):
    begin = window.begins(at)
    assert holds(window, begin, at)
    assert not holds(window, begin - 1, at)


@given(MOVING, AT)
def test_a_row_closes_with_the_last_window_that_holds_it(window, at):
    last = window.closes(at)
    assert holds(window, at, last)
    assert not any(holds(window, at, later) for later in range(last + 1, last + 2 * window.slide))
    assert window.read_ahead(at) > last


@given(MOVING, st.lists(AT, max_size=5))
def test_arrays_are_answered_as_numbers_are(window, values):
    many = np.array(values, np.int64)
    for ask in (window.begins, window.closes, window.slide_of):
        assert ask(many).tolist() == [ask(each) for each in values]
        assert ask(many).dtype == np.int64


@given(SIZES, st.lists(st.integers(0, 30), max_size=80))
def test_rows_that_later_windows_hold_are_needed(size, ranks):
    window = RowWindow(*size)
    needed, reach = window.needed_from(newest=31, known=0, ranks=np.array(ranks, np.int64)), sum(size)
    if needed is None:
        assert len(ranks) < reach
    else:
        assert sum(rank >= needed for rank in ranks) >= reach > sum(rank > needed for rank in ranks)


def test_times_that_later_windows_hold_are_needed_once_they_are_known():
    window, no_ranks = TimeWindow(10, 5), np.empty(0, np.int64)
    assert window.needed_from(newest=30, known=19, ranks=no_ranks) == 20
    assert window.needed_from(newest=30, known=20, ranks=no_ranks) is None


@given(st.integers(-9, 9), st.integers(0, 9))
def test_the_later_of_two_rows_finds_the_other_within_the_bounds(lower, more):
    window = IntervalWindow(lower, lower + more)
    lefts, rights = (window.over(stream, is_self=False) for stream in range(2))
    for apart in range(-20, 21):
        if window.lower_us <= apart <= window.upper_us:
            over = lefts if apart >= 0 else rights
            assert holds(over, -abs(apart), 0)
    if window.is_exact(is_self=False):
        assert (lefts.length, rights.length) == (window.upper_us, -window.lower_us)
    assert window.over(0, is_self=True).length == window.length


def test_nobody_finds_a_row_that_asks_about_a_table():
    assert WholeTable().over(0, is_self=False).length == 1
    assert WholeTable().over(1, is_self=False) == WholeTable()


@pytest.mark.parametrize("window", KINDS, ids=lambda each: type(each).__name__)
def test_a_window_is_the_same_where_it_is_sent(window):
    assert pickle.loads(pickle.dumps(window)) == window
    assert sum(window == other for other in KINDS) == 1
