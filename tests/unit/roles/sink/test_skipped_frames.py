"""A sink that waits while another one answers: it goes on behind what is out, without waiting for a record."""

from __future__ import annotations

from spojoin.protocol.machine import START, Emit, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.records import Barrier, Frame
from tests.support.frames import make_frame, make_slice

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: double}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')
output: count
""")


def frame(frame_id: int, first: int, ranks: list[int]) -> Frame:
    return make_frame([make_slice([ranks], first)], frame_id=frame_id, first_seq=first, workers=0)


def test_an_empty_frame_behind_one_that_another_sink_has_answered_is_answered():
    sink = SinkMachine(QUERY, START)
    log = [Barrier(0, "r"), frame(0, 0, [1, 2]), frame(1, 2, [])]
    actions = [
        action for offset, record in enumerate(log) for action in sink.on_record(Topic.FRAMES, 0, offset, record)
    ]
    assert not actions, "the first frame waits for its parts"
    sink.on_result_position(ResultPosition(1, 0))
    (action,) = sink.on_time(0)
    assert isinstance(action, Emit)
    assert (action.record.frame_id, action.record.is_last) == (1, True)
