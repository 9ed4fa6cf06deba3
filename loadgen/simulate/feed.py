"""The users' inputs of one seed: written messages, each router's position, and the product's reading of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from loadgen.simulate.oracle import SourceRow
from spojoin.columns.extract import extract
from spojoin.columns.stream_columns import arrow_type
from spojoin.model import Query, Stream
from spojoin.protocol.answered import before
from spojoin.protocol.machine import InputMachine
from spojoin.roles.router.physical_input import rows_where
from spojoin.wire.records import DeadLetter, Rows

#: An input partition: stream and partition.
Source = tuple[int, int]
#: The number of times that an input's final promise is repeated at rest. A generation in event-time order that follows
#: one in arrival order doesn't know earlier promises.
ENDS_AGAIN = 2
#: A message of an input, and a row in it.
Cursor = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ScenarioMessage:
    """One message of an input partition: rows, or a promise of silence up to `heartbeat_us`."""

    offset: int
    rows: tuple[SourceRow, ...]
    heartbeat_us: int | None


class InputsFeed:
    """Messages that users have written so far, read by routers from the positions in the log."""

    def __init__(self, inputs: Mapping[Source, tuple[ScenarioMessage, ...]]) -> None:
        self.available = dict.fromkeys(inputs, 0)
        self._inputs = inputs
        # The promises that are repeated at rest aren't written before.
        self._ends = {
            source: len(messages) - (ENDS_AGAIN if messages and messages[-1].heartbeat_us is not None else 0)
            for source, messages in inputs.items()
        }
        self._cursors: dict[str, dict[Source, Cursor]] = {}

    def grow(self, source: Source) -> None:
        """Write one more message of an input, if there is one."""
        self.available[source] = min(self.available[source] + 1, self._ends[source])

    @property
    def is_complete(self) -> bool:
        """Whether everything is written."""
        return all(count >= self._ends[source] for source, count in self.available.items())

    def complete(self) -> None:
        self.available = dict(self._ends)

    def end_again(self) -> None:
        """Repeat the promise at the end of each input, if it may be repeated."""
        self.available = {source: min(end + 1, len(self._inputs[source])) for source, end in self.available.items()}

    def readable(self, name: str, router: InputMachine) -> list[Source]:
        """Inputs with a message that the router instance `name` wants now."""
        if not router.active:
            return []
        cursors = self._cursors_of(name, router)
        for source, (offset, _) in cursors.items():
            taken = router.taken_to(*source)
            router.on_input_end(*source, ended=(offset if taken is None else taken) == self.available[source])
        return [s for s, (offset, _) in cursors.items() if offset < self.available[s] and router.wants_rows(*s)]

    def take(self, name: str, source: Source, messages_max: int) -> tuple[tuple[ScenarioMessage, ...], int]:
        """The next messages of an input for the router instance `name`, and the row of the first to begin with."""
        cursors = self._cursors[name]
        offset, row = cursors[source]
        end = min(offset + messages_max, self.available[source])
        cursors[source] = (end, 0)
        return self._inputs[source][offset:end], row

    def _cursors_of(self, name: str, router: InputMachine) -> dict[Source, Cursor]:
        if name not in self._cursors:
            at = router.sources()
            read = [source for source in self._inputs if router.reads_input(*source)]
            self._cursors[name] = {s: (at[s].offset, at[s].row) if s in at else (0, 0) for s in read}
        return self._cursors[name]


class RowsReader:
    """Reads each input once, as a whole; neighbours don't affect how a row is read."""

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
            rows_where(whole, kept),
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
