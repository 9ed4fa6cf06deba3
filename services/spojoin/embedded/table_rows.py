"""The rows of a table in one batch, as a router takes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.query.extract import extract
from spojoin.wire.records import Rows


def table_rows(query: Query, batch: pa.RecordBatch, named: str) -> Rows:
    """All rows of a query's table. Raises BadData where one can't be used; named: what the table is, for that."""
    number = len(query.inputs) - 1
    found = extract(query.inputs[number], batch, False, number)
    if found.refused:
        first = found.refused[0]
        raise BadData(f"{named}, row {first.row}: {first.detail}: a table is taken as a whole")
    places = found.kept
    return Rows(
        offsets=places,
        rows=np.zeros(len(places), np.int64),
        next_offset=batch.num_rows,
        codes=found.codes,
        times_us=None,
        keys=pa.array(places) if found.keys is None else found.keys,
        produced_ms=np.zeros(len(places), np.int64),
        payload=found.payload,
        members=found.members,
        joins=found.joins,
    )
