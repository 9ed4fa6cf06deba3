"""When a worker answers in place of another, and for how long."""

from __future__ import annotations

import pytest

from spojoin.protocol.stand_in import PATIENCE_MS, STINT_MS, STINT_MS_MAX, ColumnPlace, StandIn
from tests.support.frames import make_frame


def kept(worker, *frames, workers=3, columns=1):
    """A stand-in that keeps frames, with results that have stood still since time 0."""
    found = StandIn(ColumnPlace(worker))
    for number in frames:
        found.keep_frame(frame(number, workers, columns))
    found.due_frames(0)
    return found


def frame(number, workers=3, columns=1):
    return make_frame(frame_id=number, workers=workers, columns=columns)


def due(stand_in, now_ms):
    return [frame.frame_id for frame in stand_in.due_frames(now_ms)]


@pytest.mark.parametrize(("worker", "patiences"), [(0, 2), (1, None), (2, 1)])
def test_rows_take_their_turns_behind_the_row_of_the_oldest_frame(worker, patiences):
    stand_in = kept(worker, 4, 5, 7)
    found = [due(stand_in, number * PATIENCE_MS) for number in range(4)]
    assert found == [[4, 7] if number == patiences else [] for number in range(4)]


def test_patience_begins_anew_when_results_move_and_when_a_frame_comes():
    stand_in = kept(1, 3)
    stand_in.note_progress(3)
    assert due(stand_in, PATIENCE_MS) == []
    stand_in.note_progress(4)
    due(stand_in, PATIENCE_MS)
    stand_in.keep_frame(frame(6))
    assert due(stand_in, 9 * PATIENCE_MS) == []
    assert due(stand_in, 10 * PATIENCE_MS) == [6]


def test_frames_of_a_stint_are_answered_at_once_and_none_of_them_again():
    stand_in = kept(1, 3)
    assert due(stand_in, PATIENCE_MS) == [3]
    assert [stand_in.covers(frame(number)) for number in (4, 5, 6)] == [True, False, True]
    for number in (4, 5, 6):
        stand_in.keep_frame(frame(number))
    assert due(stand_in, 2 * PATIENCE_MS + STINT_MS) == []


def test_stints_grow_while_a_worker_stays_away_and_begin_small_after_it_was_back():
    stand_in, now_ms, lengths = StandIn(ColumnPlace(1)), 0, []
    for number in range(0, 24, 3):
        now_ms, length = silence(stand_in, number, now_ms)
        lengths.append(length)
    assert lengths[:3] == [STINT_MS, 2 * STINT_MS, 4 * STINT_MS]
    assert lengths[-1] == STINT_MS_MAX
    assert silence(stand_in, 24, now_ms + 2 * STINT_MS_MAX)[1] == STINT_MS


def silence(stand_in, number, now_ms):
    """Results stand still at a frame, and move when it is answered; returns when the stint ends, and its length."""
    stand_in.keep_frame(frame(number))
    due(stand_in, now_ms)
    began_ms = now_ms + PATIENCE_MS
    assert due(stand_in, began_ms) == [number]
    stand_in.note_progress(number + 1)
    length = next(ms for ms in range(STINT_MS, STINT_MS_MAX + 1, STINT_MS) if is_over(stand_in, number, began_ms + ms))
    return began_ms + length, length


def is_over(stand_in, number, now_ms):
    due(stand_in, now_ms)
    return not stand_in.covers(frame(number))


def test_a_worker_that_answered_in_vain_begins_no_further_stint():
    stand_in = kept(1, 3)
    assert due(stand_in, PATIENCE_MS) == [3]
    assert due(stand_in, PATIENCE_MS + 2 * STINT_MS) == []
    assert not stand_in.covers(frame(6))


def test_a_worker_of_another_column_answers_none_of_the_frames_that_it_kept():
    stand_in = kept(2, 0, 1, workers=4, columns=2)
    stand_in.change_column()
    assert stand_in.oldest is None
    assert due(stand_in, 9 * PATIENCE_MS) == []
