"""Reads a scenario's rows as the product does: columns in, codes, payload, filters and refusals out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spojoin.model import Query, Stream
from spojoin.protocol.answered import before
from spojoin.query.extract import extract
from spojoin.query.schema import arrow_type
from spojoin.roles.router.physical_input import only
from spojoin.simulate.messages import ScenarioMessage, Source
from spojoin.simulate.oracle import SourceRow
from spojoin.wire.records import DeadLetter, Rows


class RowsReader:
    """Reads each input once, as a whole; what a row is read as doesn't depend on its neighbours."""

    def __init__(self, query: Query, inputs: Mapping[Source, Sequence[ScenarioMessage]]) -> None:
        self._query = query
        self._inputs = inputs
        self._whole: dict[Source, Rows] = {}

    def read(self, source: Source, messages: Sequence[ScenarioMessage], first_row: int) -> Rows:
        """The rows of consecutive messages, the first of them from `first_row` on."""
        if source not in self._whole:
            rows = [row for message in self._inputs[source] for row in message.rows]
            self._whole[source] = read_rows(self._query, source[0], rows)
        whole = self._whole[source]
        first, end = (messages[0].offset, first_row), messages[-1].offset + 1
        kept = (whole.offsets < end) & ~before(whole.offsets, whole.rows, first)
        return replace(
            only(whole, kept),
            dead=[letter for letter in whole.dead if first <= (letter.offset, letter.row) < (end, 0)],
            next_offset=end,
            heartbeat_us=max((m.heartbeat_us for m in messages if m.heartbeat_us is not None), default=None),
        )


def read_rows(query: Query, number: int, rows: Sequence[SourceRow]) -> Rows:
    """Rows of an input, read together."""
    stream = query.inputs[number]
    found = extract(stream, _batch(stream, rows), query.needs_time, number)
    taken = [rows[at] for at in found.kept.tolist()]
    offsets = np.array([row.offset for row in taken], np.int64)
    return Rows(
        offsets=offsets,
        rows=np.array([row.row for row in taken], np.int64),
        next_offset=0,
        codes=found.codes,
        times_us=found.times_us,
        keys=pa.array([row.key for row in taken], pa.int64()),
        produced_ms=offsets,
        dead=[DeadLetter(*rows[each.row].position, each.reason, each.detail, b"") for each in found.refused],
        payload=found.payload,
        members=found.members,
        joins=found.joins,
    )


def _batch(stream: Stream, rows: Sequence[SourceRow]) -> pa.RecordBatch:
    columns = {
        name: pa.array([row.values[name] for row in rows], arrow_type(kind))
        for name, kind in stream.schema.items()
        if name not in ("id", stream.time)
    }
    columns["id"] = pa.array([row.key for row in rows], pa.int64())
    columns["ts"] = pa.array([row.time_us for row in rows], pa.timestamp("us", "UTC"))
    return pa.record_batch(columns)
