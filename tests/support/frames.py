"""Frames of a chained log, with nothing in them but what the predictor reads."""

import numpy as np
import pyarrow as pa

from spojoin.query.load import parse_query
from spojoin.wire.records import Barrier, Frame, StreamSlice

QUERY = """
name: {name}
streams:
  s: {{schema: {{a: long, b: long}}, key: id}}
sql: |
  SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND ABS(l.b - r.b) <= 1
  WINDOW AS (SLIDE INTERVAL '10' ON '100')
"""


def make_query(name="q"):
    return parse_query(QUERY.format(name=name))


def log_of(columns, size, epoch=0):
    """A barrier, and frames of `size` tuples of the columns (k, n)."""
    yield Barrier(epoch, "router")
    count = len(columns[0])
    for frame_id, first in enumerate(range(0, count, size)):
        piece = [np.array(column[first : first + size], np.int64) for column in columns]
        yield make_frame(epoch, frame_id, first, piece)


def make_frame(epoch, frame_id, first, codes, previous_link=None):
    n = len(codes[0])
    piece = StreamSlice(
        first_index=first,
        positions=np.arange(n, dtype=np.uint16),
        codes=tuple(codes),
        lower=np.zeros(1, np.int64),
        times_us=None,
        keys=pa.array(np.arange(first, first + n)),
        batch_id=0,
        batch_first=0,
        seals=False,
        group=-1,
        handover_batch=0,
        handover_index=0,
        live_batch=0,
    )
    return Frame(
        epoch=epoch,
        frame_id=frame_id,
        first_seq=first,
        count=n,
        slices=(piece,),
        workers=1,
        previous_link=frame_id if previous_link is None else previous_link,
        link=frame_id + 1,
        source={},
        rejected={},
        produced_ms=np.zeros(1, np.int64),
        produced_runs=np.array([n], np.uint32),
        checkpoint=b"",
    )
