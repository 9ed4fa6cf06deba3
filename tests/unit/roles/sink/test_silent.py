"""No output repeats an earlier generation's answers; such rows only advance the result position."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap64

from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.records import Barrier, Frame, Matches, Part, Result
from tests.support.frames import make_frame, make_slice

TEXT = """
name: q
streams: {s: {schema: {a: double}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')
output: OUTPUT
"""
NOTHING = np.empty(0, np.int64)
FIRST = 100


def frame(frame_id: int, first: int, silent: list[int], previous_link: int) -> Frame:
    bounds = {"lower": np.array([FIRST]), "batch_first": FIRST, "handover_index": FIRST}
    return make_frame(
        [make_slice([[0] * len(silent)], first, **bounds)],
        frame_id=frame_id,
        first_seq=first,
        workers=0,
        previous_link=previous_link,
        silent=np.array(silent if any(silent) else [], np.uint8),
    )


def part(of: Frame) -> Part:
    """A part in which each probe has one partner as left, the very first tuple, and none as right."""
    n = of.count
    left = Matches(np.ones(n, np.int64), np.arange(n + 1, dtype=np.int64), np.full(n, FIRST))
    return Part(0, of.frame_id, 0, 0, n, (left, Matches(np.zeros(n, np.int64), np.zeros(n + 1, np.int64), NOTHING)))


def results_of(output: str) -> tuple[SinkMachine, list[Result]]:
    """Frames of silent tuples only, of both kinds, and of others only; no part reports on the first."""
    sink = SinkMachine(parse_query(TEXT.replace("OUTPUT", output)), START, 2)
    frames = [frame(0, FIRST, [1, 1], 0), frame(1, FIRST + 2, [1, 0, 1], 1), frame(2, FIRST + 5, [0, 0], 2)]
    actions = list(sink.on_record(Topic.FRAMES, 0, 0, Barrier(0, "r", first_indexes=(FIRST,))))
    for number, each in enumerate(frames):
        actions += sink.on_record(Topic.FRAMES, 0, 1 + number, each)
    for number, each in enumerate(frames[1:]):
        actions += sink.on_record(Topic.MATCHES, 0, number, part(each))
    assert all(isinstance(action, Emit) for action in actions)
    return sink, [action.record for action in actions]


@pytest.mark.parametrize("output", ["count", "pairs", "bitmap"])
def test_only_rows_after_the_cut_are_answered(output):
    _, results = results_of(output)
    assert [(r.frame_id, r.begin, r.end, r.is_last, r.generation) for r in results] == [
        (0, 0, 2, True, 2), (1, 0, 3, True, 2), (2, 0, 2, True, 2),
    ]  # fmt: skip
    assert [r.rows.column(0).to_pylist() for r in results] == [[], [103], [105, 106]]
    assert len({str(r.rows.schema) for r in results}) == 1
    rows = [row for r in results for row in r.rows.to_pylist()]
    if output == "count":
        assert [(row["key"], row["as_left"], row["as_right"]) for row in rows] == [(n, 1, 0) for n in (103, 105, 106)]
    elif output == "pairs":
        assert [(row["left_key"], row["right_key"]) for row in rows] == [(n, FIRST) for n in (103, 105, 106)]
    else:
        found = [(list(BitMap64.deserialize(row["as_left"])), BitMap64.deserialize(row["as_right"])) for row in rows]
        assert found == [([FIRST], BitMap64())] * 3


@pytest.mark.parametrize("output", ["count", "pairs", "bitmap"])
def test_matches_of_silent_tuples_are_not_counted(output):
    sink, _ = results_of(output)
    assert sink.matches == 3
    assert sink.state_tuples() == (0 if output != "pairs" else 7)
