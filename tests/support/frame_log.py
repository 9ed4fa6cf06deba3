"""A log of some frames, as a router writes it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.embedded.engine import UNLIMITED, Engine
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import Barrier, Frame

QUERY = """
name: q
streams: {s: {schema: {a: long, b: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND l.b < r.b WINDOW AS (SLIDE INTERVAL '1' ON '20')
"""
FRAME_TUPLES, TUPLES = 8, 30


def log_of_frames() -> list[Frame | Barrier]:
    """Four frames of 8, 8, 8 and 6 tuples, behind their barrier; frame n was produced at 1000 * n."""
    records: list[Frame | Barrier] = []

    def note(record):
        if isinstance(record, Frame | Barrier):
            records.append(record)
        return record

    config = RouterConfig(router_id="r", credits_frames=UNLIMITED, frame_tuples=FRAME_TUPLES)
    engine = Engine(parse_query(QUERY), config, note)
    list(engine.feed(0, pa.record_batch({"a": np.arange(TUPLES), "b": np.arange(TUPLES)})))
    list(engine.end(0))
    list(engine.flush())
    for record in records:
        if isinstance(record, Frame):
            record.produced_ms = np.array([1000 * record.frame_id])
            record.rejected = {"null": record.frame_id, "nan": 1}
    return records
