"""Which worker numbers a smaller worker count abandons, and for how long."""

from __future__ import annotations

from spojoin.roles.pojoin.worker import WorkerCounts
from tests.support.frames import make_frame


def frame(frame_id, workers):
    return make_frame(frame_id=frame_id, workers=workers)


def followed(*frames):
    counts = WorkerCounts()
    return counts, [list(counts.accept_frame(frame(*each))) for each in frames]


def test_before_the_first_frame_no_worker_is_awaited():
    counts = WorkerCounts()
    assert (counts.first, counts.largest) == (0, 0)


def test_a_smaller_count_abandons_numbers_once():
    counts, left = followed((0, 2), (1, 4), (2, 4), (3, 1), (4, 1))
    assert left == [[], [], [], [1, 2, 3], []]
    assert (counts.first, counts.largest) == (2, 4)


def test_frames_of_two_counts_ago_may_still_wait():
    _, left = followed((0, 5), (1, 3), (2, 2), (3, 3))
    assert left == [[], [3, 4], [2, 3, 4], [3, 4]]


def test_answered_frames_await_no_worker():
    counts, _ = followed((0, 4), (5, 2), (9, 1))
    counts.forget_before(5)
    assert (counts.first, counts.largest) == (2, 2)
    counts.forget_before(8)
    assert counts.largest == 2
    counts.forget_before(9)
    assert counts.largest == 1
    assert list(counts.accept_frame(frame(10, 1))) == []
