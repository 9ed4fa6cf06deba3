"""Frames and logs of frames: a test gives the relevant fields; the rest is derived or empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from spojoin.model import Query
from spojoin.query.load import parse_query
from spojoin.wire.records import NO_GROUP, Barrier, Closing, Frame, StreamSlice

QUERY = """
name: {name}
streams:
  s: {{schema: {{a: long, b: long}}, key: id}}
sql: |
  SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND ABS(l.b - r.b) <= 1
  WINDOW AS (SLIDE INTERVAL '10' ON '100')
"""


def make_query(name: str = "q") -> Query:
    """A self join of two conditions over the columns a and b."""
    return parse_query(QUERY.format(name=name))


def make_slice(codes: Sequence[Sequence[int] | np.ndarray], first_index: int = 0, **fields: object) -> StreamSlice:
    """One stream's tuples by their key columns, at the first places of the frame unless `positions` says otherwise."""
    columns = tuple(np.asarray(column, np.int64) for column in codes)
    n = len(columns[0])
    defaults = {
        "positions": np.arange(n, dtype=np.uint16),
        "lower": np.zeros(1, np.int64),
        "times_us": None,
        "keys": pa.array(range(first_index, first_index + n), pa.int64()),
        "batch_id": 0,
        "batch_first": 0,
        "seals": False,
        "group": NO_GROUP,
        "handover_batch": 0,
        "handover_index": 0,
        "live_batch": 0,
    }
    return StreamSlice(first_index=first_index, codes=columns, **{**defaults, **fields})


def make_frame(slices: Sequence[StreamSlice] = (), **fields: object) -> Frame:
    """A frame of these slices, by default the first of its log, with the links of a log of `log_of`."""
    count = fields.get("count", sum(map(len, slices)))
    previous_link = fields.get("previous_link", fields.get("frame_id", 0))
    defaults = {
        "epoch": 0,
        "frame_id": 0,
        "first_seq": 0,
        "count": count,
        "workers": 1,
        "previous_link": previous_link,
        "link": previous_link + 1,
        "source": {},
        "checkpoint": b"",
        "rejected": {},
        "produced_ms": np.zeros(1, np.int64),
        "produced_runs": np.array([count], np.uint32),
    }
    return Frame(slices=tuple(slices), **{**defaults, **fields})


def log_of(columns: Sequence[np.ndarray], size: int, epoch: int = 0) -> Iterator[Frame | Barrier]:
    """A barrier, and frames of `size` tuples of one stream's columns (k, n).

    Frame i was produced at 1,000 * i ms, when 1 + i rows had been rejected.
    """
    yield Barrier(epoch, "router")
    for frame_id, first in enumerate(range(0, len(columns[0]), size)):
        piece = make_slice([column[first : first + size] for column in columns], first)
        yield make_frame(
            [piece],
            epoch=epoch,
            frame_id=frame_id,
            first_seq=first,
            produced_ms=np.array([1_000 * frame_id]),
            rejected={"null": frame_id, "nan": 1},
        )


FRAME_TUPLES, TUPLES = 8, 30


def log_of_frames() -> list[Frame | Barrier]:
    """A barrier, and four frames of 8, 8, 8 and 6 tuples."""
    return list(log_of([np.arange(TUPLES)] * 2, FRAME_TUPLES))


def make_closing(answers: int) -> Closing:
    """A Closing in which `answers` left rows get their answer and none searches."""
    none = np.empty(0, np.int64)
    nothing = none.astype(np.uint16), none.astype(np.uint32)
    return Closing(0, np.arange(answers), *nothing, codes=(none,), lower=none, own=None, reached=0)
