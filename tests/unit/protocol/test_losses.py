"""What the log has lost is noticed before anything follows from it (rule P9)."""

from __future__ import annotations

import pytest

from spojoin.errors import Stop
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.retention import PATIENCE_MS, LogBegin, log_ends_early
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.records import Frame
from tests.support.frames import make_frame, make_slice

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: double}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')
output: count
""")
CONFIG = RouterConfig("r", frame_tuples=4, batch_tuples=4)


def frame(frame_id: int, first: int, **bounds: int) -> Frame:
    return make_frame([make_slice([[1, 2]], first, **bounds)], frame_id=frame_id, first_seq=first, workers=1)


@pytest.mark.parametrize(
    ("position", "frames", "is_lost"),
    [((0, 0), 0, False), ((3, 0), 3, False), ((3, 0), 2, True), ((3, 1), 3, True), ((3, 1), 4, False)],
)
def test_a_log_must_go_on_to_where_results_end(position: tuple[int, int], frames: int, is_lost: bool) -> None:
    assert (log_ends_early(ResultPosition(*position), frames) is not None) == is_lost


def test_a_log_must_reach_back_to_where_results_end() -> None:
    begin = LogBegin()
    for frame_id in (4, 5, 6):
        begin.note_frame(frame_id)
    assert [begin.is_late(ResultPosition(number, 0)) for number in (3, 4, 5)] == [True, False, False]
    begin.check_reaches_back(START, 0)
    with pytest.raises(Stop, match="begins at frame 4: results are lost"):
        begin.check_reaches_back(START, PATIENCE_MS)


def test_a_router_ends_before_it_claims_a_log_without_the_frames_that_are_answered() -> None:
    router = RouterMachine(QUERY, ResultPosition(3, 0), CONFIG)
    list(router.on_caught_up())
    with pytest.raises(Stop, match=r"results are out for 3 frames, and topic frames ends after 0.*spojoin restore"):
        list(router.on_chosen())


def test_a_router_ends_before_it_claims_a_log_whose_windows_reach_batches_that_are_gone() -> None:
    router = RouterMachine(QUERY, START, CONFIG)
    list(router.on_record(Topic.FRAMES, 0, 0, frame(3, 8)))
    list(router.on_caught_up())
    with pytest.raises(Stop, match=r"partition 0, lacks tuples \d+ to 7, which windows still reach"):
        list(router.on_chosen())


def sink_at(position: ResultPosition, first: int) -> SinkMachine:
    sink = SinkMachine(QUERY, position)
    assert not list(sink.on_record(Topic.FRAMES, 0, 0, frame(first, 2 * first)))
    return sink


def test_a_sink_ends_where_the_log_begins_behind_the_results_unless_another_one_has_moved_them() -> None:
    sink = sink_at(ResultPosition(3, 0), 5)
    assert not list(sink.on_time(0))
    with pytest.raises(Stop, match="those between are lost"):
        list(sink.on_time(PATIENCE_MS))
    sink = sink_at(ResultPosition(3, 0), 5)
    assert not list(sink.on_time(0))
    sink.on_result_position(ResultPosition(5, 0))
    assert not list(sink.on_time(PATIENCE_MS))
