"""Rows that are answered by the frame in which they come are sorted once, as stored and as asking ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.wire.records import Frame, Record

QUERY = """
name: q
streams: {rows: {schema: {id: long, a: long, b: long}}}
sql: |
  SELECT l.id, SUM(r.b) AS total FROM rows AS l JOIN rows AS r ON l.a > r.a AND l.b < r.b
  GROUP BY l WINDOW AS (SLIDE INTERVAL '4' ON '8') EMIT ON EMITS
order: arrival
"""


def frames_of(a: list[int | None], emits: str) -> list[Frame]:
    """The frames of rows with these values in their first column."""
    found: list[Frame] = []

    def noted(record: Record) -> Record:
        if isinstance(record, Frame) and record not in found:
            found.append(record)
        return record

    config = RouterConfig("r", 1, frame_tuples=8, batch_tuples=8, credits_frames=UNLIMITED)
    engine = Engine(parse_query(QUERY.replace("EMITS", emits)), config, noted)
    ids = np.arange(len(a))
    for batch in pa.table({"id": ids, "a": pa.array(a, pa.int64()), "b": ids % 5}).to_batches():
        list(engine.feed(0, batch))
    list(engine.flush())
    return found


def test_rows_that_answer_when_they_come_are_those_of_the_slice():
    (frame,) = frames_of([3, 1, 2], "ARRIVAL")
    assert frame.closings[0].sorted_columns is frame.slices[0].sorted_columns
    assert set(frame.closings[0].sorted_columns) == {0, 1}


@pytest.mark.parametrize(("a", "emits"), [([3, None, 2], "ARRIVAL"), (list(range(20)), "CLOSE")])
def test_others_are_sorted_by_themselves(a, emits):
    for frame in frames_of(a, emits):
        assert frame.closings[0].sorted_columns is not frame.slices[0].sorted_columns
