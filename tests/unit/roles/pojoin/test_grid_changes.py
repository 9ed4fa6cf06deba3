"""Which worker numbers a grid of fewer workers abandons, and for how long."""

from __future__ import annotations

from spojoin.protocol.grid import Grid
from spojoin.roles.pojoin.worker import GridChanges
from tests.support.frames import make_frame


def frame(frame_id, workers, columns=0, by_key=False):
    return make_frame(frame_id=frame_id, workers=workers, columns=columns, columns_by_key=by_key)


def followed(*frames):
    grids = GridChanges()
    return grids, [list(grids.accept_frame(frame(*each))) for each in frames]


def test_before_the_first_frame_no_worker_is_awaited():
    grids = GridChanges()
    assert (grids.first, grids.workers_max) == (None, 0)


def test_a_smaller_count_abandons_numbers_once():
    grids, left = followed((0, 2), (1, 4), (2, 4), (3, 1), (4, 1))
    assert left == [[], [], [], [1, 2, 3], []]
    assert (grids.first, grids.workers_max) == (Grid(1, 2), 4)


def test_frames_of_two_counts_ago_may_still_wait():
    _, left = followed((0, 5), (1, 3), (2, 2), (3, 3))
    assert left == [[], [3, 4], [2, 3, 4], [3, 4]]


def test_rows_that_leave_are_not_abandoned_while_columns_stay():
    _, left = followed((0, 6, 2), (1, 4, 2), (2, 2, 2), (3, 2, 1), (4, 1, 1))
    assert left == [[], [], [], [2, 3, 4, 5], [1, 2, 3, 4, 5]]


def test_rows_that_leave_while_columns_become_columns_by_key_are_abandoned():
    _, left = followed((0, 6, 2), (1, 4, 2, True), (2, 2, 2, True), (3, 2, 2))
    assert left == [[], [4, 5], [2, 3, 4, 5], [2, 3, 4, 5]]


def test_workers_that_fill_no_row_are_abandoned():
    grids, left = followed((0, 5, 1), (1, 5, 2), (2, 5, 3), (3, 5, 9))
    assert left == [[], [4], [3, 4], []]
    assert (grids.first, grids.last) == (Grid(5, 1), Grid(1, 5))


def test_answered_frames_await_no_worker():
    grids, _ = followed((0, 4), (5, 2), (9, 1))
    grids.forget_before(5)
    assert (grids.first, grids.workers_max) == (Grid(1, 2), 2)
    grids.forget_before(8)
    assert grids.workers_max == 2
    grids.forget_before(9)
    assert grids.workers_max == 1
    assert list(grids.accept_frame(frame(10, 1))) == []
