"""A worker merges the batches of a slide when its last one comes: rows that close with the slide search few nodes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

SLIDE, BATCH = 20, 8
QUERY = """
name: q
streams: {rows: {schema: {id: long, a: long, b: long}}}
sql: |
  SELECT l.id, COUNT(*) AS n FROM rows AS l JOIN rows AS r ON l.a > r.a AND l.b < r.b
  GROUP BY l WINDOW AS (SLIDE INTERVAL '20' ON '60') EMIT ON ARRIVAL
order: arrival
"""


def nodes_after(rows: int, null_one_in: int = 1 << 30) -> list[int]:
    """The sizes of the index's nodes once a row has come behind `rows` rows; one in some has no place in the index."""
    config = RouterConfig("r", 1, frame_tuples=BATCH, batch_tuples=BATCH, handover_frames=1, credits_frames=UNLIMITED)
    engine = Engine(parse_query(QUERY), config)
    ids = np.arange(rows + 1)
    a = pa.array(ids % 7, mask=(ids + 1) % null_one_in == 0)
    for batch in pa.table({"id": ids, "a": a, "b": ids % 5}).to_batches():
        list(engine.feed(0, batch))
    list(engine.flush())
    (machine,) = engine._searching
    (batches,) = machine._batches.values()
    return [node.size for node in batches.index._nodes]


def test_the_batches_of_a_slide_that_has_ended_are_one_node():
    assert nodes_after(2 * SLIDE) == [2 * SLIDE]


def test_rows_that_are_not_in_the_index_count_for_a_slide():
    assert nodes_after(2 * SLIDE, null_one_in=9) == [2 * (SLIDE - 2)]


def test_those_of_a_slide_that_goes_on_are_not():
    part = 7  # of a slide, which has three batches
    assert nodes_after(2 * SLIDE + part) == [2 * SLIDE, part]
    assert nodes_after(2 * SLIDE - 4) == [SLIDE, part, part]
