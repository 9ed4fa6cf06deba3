"""What the log says about answered and waiting rows."""

from __future__ import annotations

from spojoin.protocol.machine import START, ResultPosition
from spojoin.telemetry.due_frames import FrameTrail
from spojoin.wire.records import Barrier
from tests.support.frames import FRAME_TUPLES, TUPLES, log_of_frames, make_closing, make_frame, make_slice


def trail_of(records) -> FrameTrail:
    trail = FrameTrail()
    for record in records:
        trail.follow(record)
    return trail


def test_rows_and_refused_rows_count_since_the_log_began():
    trail = trail_of(log_of_frames())
    assert (trail.rows, trail.refused) == (TUPLES, 4)


def test_answered_rows_are_those_before_the_result_position():
    assert FrameTrail().answered(START) == 0
    for at in (START, ResultPosition(0, 5), ResultPosition(1, 0), ResultPosition(2, 3), ResultPosition(4, 0)):
        trail = trail_of(log_of_frames())
        assert trail.answered(at) == min(TUPLES, FRAME_TUPLES * at.frame_id + at.position)
    assert trail_of(log_of_frames()).answered(ResultPosition(7, 0)) is None


def test_after_a_restart_the_last_answered_frame_is_enough():
    """The log is trimmed up to the last frame that has its results (P9)."""
    *_, third, last = log_of_frames()
    assert trail_of([third, last]).answered(ResultPosition(3, 0)) == 3 * FRAME_TUPLES
    assert trail_of([last]).answered(ResultPosition(4, 0)) == TUPLES


def test_the_oldest_row_is_in_the_first_frame_without_all_its_results():
    trail = trail_of(log_of_frames())
    assert [trail.oldest_ms(ResultPosition(*at)) for at in ((0, 0), (0, 5), (1, 0), (3, 2), (4, 0))] == [
        0,
        0,
        1000,
        3000,
        None,
    ]


def test_void_frames_do_not_count():
    """A router that was replaced may still append."""
    records = log_of_frames()
    trail = trail_of([*records[:3], Barrier(9, "heir"), *records[3:]])
    assert trail.rows == 2 * FRAME_TUPLES
    assert trail.oldest_ms(ResultPosition(2, 0)) is None


def test_rows_count_as_answered_once_they_have_closed():
    """Of 10 left rows and 3 right ones, those that ask nothing, 6 left ones close with a frame that brings 4 more."""
    first = make_frame([make_slice([range(10)]), make_slice([range(3)])], closings=(make_closing(0),))
    right = make_slice([range(0)], first_index=3)
    fields = {"frame_id": 1, "first_seq": 13, "closings": (make_closing(6),)}
    second = make_frame([make_slice([range(4)], first_index=10), right], **fields)
    trail = trail_of([Barrier(0, "router"), first, second])
    assert [trail.answered(ResultPosition(*at)) for at in ((0, 0), (1, 0), (1, 3), (2, 0))] == [0, 3, 3, 9]
    assert trail.open.rows == 8
    assert trail_of([second]).answered(ResultPosition(1, 5)) == 3, "after a restart, the first frame being trimmed"
