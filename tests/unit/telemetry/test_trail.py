"""What the log says about answered and waiting rows."""

from __future__ import annotations

from spojoin.protocol.machine import START, ResultPosition
from spojoin.telemetry.trail import FrameTrail
from spojoin.wire.records import Barrier
from tests.support.frames import FRAME_TUPLES, TUPLES, log_of_frames, make_closing, make_frame, make_slice


def trail_of(records) -> FrameTrail:
    trail = FrameTrail()
    for record in records:
        trail.saw(record)
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


def test_rows_that_close_are_not_the_rows_of_their_frame():
    """Of a frame that brings 4 rows and answers 6, its own count as through once all answers are out."""
    first = make_frame([make_slice([range(4)])], closings=(make_closing(6),))
    trail = trail_of([Barrier(0, "router"), first])
    assert [trail.answered(ResultPosition(*at)) for at in ((0, 0), (0, 3), (0, 5), (1, 0))] == [0, 0, 0, 4]
