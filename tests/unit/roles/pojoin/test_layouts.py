"""Which numbers a smaller layout leaves without a worker, and for how long."""

from __future__ import annotations

from spojoin.roles.pojoin.layouts import Layouts
from tests.support.frames import make_frame


def frame(frame_id, workers):
    return make_frame(frame_id=frame_id, workers=workers)


def followed(*frames):
    layouts = Layouts()
    return layouts, [list(layouts.note(frame(*each))) for each in frames]


def test_before_the_first_frame_nobody_is_waited_for():
    layouts = Layouts()
    assert (layouts.first, layouts.largest) == (0, 0)


def test_a_smaller_layout_leaves_numbers_behind_once():
    layouts, left = followed((0, 2), (1, 4), (2, 4), (3, 1), (4, 1))
    assert left == [[], [], [], [1, 2, 3], []]
    assert (layouts.first, layouts.largest) == (2, 4)


def test_frames_of_two_layouts_ago_may_still_wait():
    _, left = followed((0, 5), (1, 3), (2, 2), (3, 3))
    assert left == [[], [3, 4], [2, 3, 4], [3, 4]]


def test_what_is_answered_waits_for_nobody():
    layouts, _ = followed((0, 4), (5, 2), (9, 1))
    layouts.forget_before(5)
    assert (layouts.first, layouts.largest) == (2, 2)
    layouts.forget_before(8)
    assert layouts.largest == 2
    layouts.forget_before(9)
    assert layouts.largest == 1
    assert list(layouts.note(frame(10, 1))) == []
