"""Rows in a batch as a router takes them: of a stream, or all of a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.query.extract import Extracted, extract
from spojoin.wire.records import DeadLetter, Rows


def table_rows(query: Query, batch: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None) -> Rows:
    """All rows of a query's table. Raises BadData where one can't be used; named: what the table is, for that.

    malformed: by position, why what stands there is no row; such and others that can't be used are refused then
    """
    number = len(query.inputs) - 1
    found = extract(query.inputs[number], batch, False, number, malformed or {})
    if found.refused and malformed is None:
        first = found.refused[0]
        raise BadData(f"{named}, row {first.row}: {first.detail}: a table is taken as a whole")
    return _rows(found, number, 0, batch.num_rows)


def stream_rows(
    query: Query,
    stream: int,
    batch: pa.RecordBatch,
    first: int,
    malformed: Mapping[int, str],
    places: NDArray[np.int64] | None = None,
) -> Rows:
    """The rows of a stream's input from position `first` on; malformed, places: as of `Engine.feed`."""
    found = extract(query.inputs[stream], batch, query.needs_time, stream, malformed)
    return _rows(found, stream, first, batch.num_rows, places)


def _rows(found: Extracted, number: int, first: int, count: int, places: NDArray[np.int64] | None = None) -> Rows:
    """What was found among `count` rows of input `number`, of which the first stands at position `first`."""
    positions = found.kept + first
    keys = found.keys
    if keys is None:
        keys = pa.array(positions if places is None else places[found.kept])
    return Rows(
        offsets=positions,
        rows=np.zeros(len(positions), np.int64),
        next_offset=first + count,
        codes=found.codes,
        times_us=found.times_us,
        keys=keys,
        produced_ms=np.zeros(len(positions), np.int64),
        dead=[DeadLetter(number, 0, first + each.row, 0, each.reason, each.detail, b"") for each in found.refused],
        payload=found.payload,
        members=found.members,
        joins=found.joins,
    )
