"""How long the router gathers rows for a frame: not at all while results keep up, and longer the more are under way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from spojoin.protocol.machine import START, Action, Emit, ResultPosition
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import FRAMES_UNDER_WAY_FEW, LINGER_STRETCH, RouterMachine
from spojoin.wire.records import Barrier, Frame, Rows

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '20')
order: arrival
""")
LINGER_MS = 5


class Bench:
    """A router whose log is read back at once; results come when they are asked for."""

    def __init__(self) -> None:
        self.router = RouterMachine(QUERY, START, RouterConfig("r", frame_tuples=100, linger_ms=LINGER_MS))
        self.frames = 0
        self.offset = 0
        self._records = 0
        self._do(self.router.on_caught_up())
        self._do(self.router.on_chosen())
        self.router.on_inputs([(0, 0)])

    def rows(self, count: int) -> None:
        offsets = np.arange(self.offset, self.offset + count)
        self.offset += count
        self._do(
            self.router.on_rows(
                0, 0, Rows(offsets, offsets * 0, self.offset, (offsets,), None, pa.array(offsets), offsets * 0)
            )
        )

    def framed_at(self, times_ms: Sequence[int]) -> list[int]:
        """At which of these times a frame was written."""
        found = []
        for now_ms in times_ms:
            before = self.frames
            self._do(self.router.on_time(now_ms))
            found += [now_ms] * (self.frames - before)
        return found

    def results(self, frames: int) -> None:
        self.router.on_result_position(ResultPosition(frames, 0))

    def _do(self, actions: Iterable[Action]) -> None:
        for action in list(actions):
            if isinstance(action, Emit) and isinstance(action.record, Frame | Barrier):
                self.frames += isinstance(action.record, Frame)
                offset, self._records = self._records, self._records + 1
                self._do(self.router.on_record(action.topic, action.partition, offset, action.record))


def test_a_row_goes_out_at_once_while_no_frame_is_under_way():
    bench = Bench()
    for now_ms in (10, 20, 30):
        bench.rows(1)
        assert bench.framed_at([now_ms]) == [now_ms]
        bench.results(bench.frames)


@pytest.mark.parametrize(
    ("under_way", "patience_ms"), [(1, LINGER_MS), (FRAMES_UNDER_WAY_FEW + 1, LINGER_MS * LINGER_STRETCH)]
)
def test_rows_gather_while_frames_are_under_way(under_way: int, patience_ms: int):
    bench = Bench()
    bench.rows(100 * under_way)
    assert bench.frames == under_way
    bench.rows(1)
    assert bench.framed_at(range(10, 200)) == [10 + patience_ms]


def test_rows_left_by_a_full_frame_gather_from_then_on():
    bench = Bench()
    bench.rows(100)
    bench.rows(99)
    assert bench.framed_at([10]) == []
    bench.rows(2)
    assert bench.frames == 2
    assert bench.framed_at(range(10 + LINGER_MS, 100)) == [10 + 2 * LINGER_MS]


def test_what_gathers_goes_out_when_the_last_result_is_there():
    bench = Bench()
    bench.rows(100)
    bench.rows(1)
    assert bench.framed_at([10, 11]) == []
    bench.results(1)
    assert bench.framed_at([12]) == [12]
