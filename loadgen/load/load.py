"""A load's schedule: the time at which each row is due."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.load.formats import MessageFormat
from loadgen.load.load_streams import LoadStream, LoadWorkload
from loadgen.load.messages import ipc_bytes, json_objects
from loadgen.load.open_loop import Packet
from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.topology import input_topic


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows at `rate` a second on average, all of them within the first `on_share` of each period of `period_s`."""

    rate: float
    on_share: float = 1.0
    period_s: float = 2.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.period_s > 0 and 0 < self.on_share <= 1):
            raise ValueError(f"{self}: a rate and a period are above 0, a share is above 0 and at most 1")

    @property
    def peak(self) -> float:
        """Rows per second while rows come."""
        return self.rate / self.on_share

    def due_s(self, row: int) -> float:
        """Seconds from the start to the moment at which row number `row` is due."""
        period, within = divmod(row / self.rate, self.period_s)
        return period * self.period_s + within * self.on_share

    def rows_due(self, seconds: float) -> float:
        """The number of rows due `seconds` after the start."""
        period, within = divmod(max(0.0, seconds), self.period_s)
        return self.rate * (period * self.period_s + min(within / self.on_share, self.period_s))


#: A batch message holds the rows of this time, up to a maximum.
BATCH_S = 0.01
BATCH_ROWS_MAX = 4_096
#: Single messages within this time are handed over together; it is the resolution of Kafka's timestamps.
TICK_S = 0.001
#: The number of rows made and hashed at once.
CHUNK_ROWS = 8_192
#: The number of rows written as JSON at once, in half a millisecond.
WRITTEN_ROWS = 1_024


class Digest:
    """SHA-256 of each column's values and nulls, in order and regardless of batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns: dict[str, Any] = {}
        self._hashed = 0
        self._waiting: list[pa.RecordBatch] = []

    def update(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._waiting.append(batch)
        if self.rows - self._hashed >= CHUNK_ROWS:
            self._hash()

    def hex(self) -> str:
        """The digest of all rows so far."""
        self._hash()
        whole = hashlib.sha256(b"%d" % self.rows)
        for name in sorted(self._columns):
            whole.update(name.encode() + self._columns[name].digest())
        return whole.hexdigest()

    def _hash(self) -> None:
        """Hash the waiting rows together, since small pieces would cost more than their rows."""
        if not self._waiting:
            return
        batch = pa.concat_batches(self._waiting)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            sha = self._columns.setdefault(name, hashlib.sha256())
            if column.null_count:
                # Each null's place; without nulls the values suffice.
                sha.update((np.flatnonzero(column.is_null()) + self._hashed).tobytes())
            sha.update(np.ascontiguousarray(pc.fill_null(column, 0)))
        self._hashed = self.rows
        self._waiting.clear()


@dataclass(frozen=True, slots=True)
class Load:
    """Rows `first` to `first + rows - 1` of every stream of a workload (`rows` None: without end).

    arrivals: of the rows of all streams, which alternate
    batch_rows: rows of a packet; the default depends on the rate (see `packet_rows`)
    topics: by stream; default in.<stream>; partitions: of each; packets go to them in turn
    digests: by stream, of the sent rows
    """

    workload: LoadWorkload
    arrivals: Arrivals
    seed: int = 0
    first: int = 0
    rows: int | None = None
    message: MessageFormat = MessageFormat.ARROW
    batch_rows: int | None = None
    partitions: int = 1
    topics: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, Digest] = field(default_factory=dict)

    def topic_of(self, stream: str) -> str:
        return self.topics.get(stream, input_topic(stream))

    @property
    def packet_rows(self) -> int:
        """Rows of a packet, which is one batch message or single messages that are due together."""
        if self.batch_rows is not None:
            return self.batch_rows
        per_stream = self.arrivals.peak / len(self.workload.streams)
        seconds, most = (BATCH_S, BATCH_ROWS_MAX) if self.message is MessageFormat.ARROW else (TICK_S, BATCH_ROWS_MAX)
        return min(max(1, round(per_stream * seconds)), most)

    def packets(self) -> Iterator[Packet]:
        """All packets of all streams, ordered by the time at which their last row is due.

        When the next packet is requested, the previous one counts as sent and goes into the digests.
        """
        lanes = [(stream.name, self._packets_of(number, stream)) for number, stream in enumerate(self.workload.streams)]
        while True:
            for name, lane in lanes:
                packet, batch = next(lane, (None, None))
                if packet is None or batch is None:
                    return
                yield packet
                if name in self.digests:
                    self.digests[name].update(batch)

    def _packets_of(self, number: int, stream: LoadStream) -> Iterator[tuple[Packet, pa.RecordBatch]]:
        streams, topic = len(self.workload.streams), self.topic_of(stream.name)
        sent = 0
        for packet, (values, batch) in enumerate(self._messages(stream)):
            sent += batch.num_rows
            due_s = self.arrivals.due_s(sent * streams - streams + number)
            yield Packet(due_s, LogPartition(topic, packet % self.partitions), values, batch.num_rows), batch

    def _messages(self, stream: LoadStream) -> Iterator[tuple[Sequence[bytes], pa.RecordBatch]]:
        """The messages of each packet, and its rows."""
        size = self.packet_rows
        for chunk in self._chunks(stream, size):
            # Write many rows together: for a few, Arrow's calls would cost more than the rows.
            objects = json_objects(chunk) if self.message is MessageFormat.JSON else ()
            for at in range(0, chunk.num_rows, size):
                batch = chunk.slice(at, size)
                yield objects[at : at + size] or (ipc_bytes(batch),), batch

    def _chunks(self, stream: LoadStream, size: int) -> Iterator[pa.RecordBatch]:
        """The stream's rows in pieces of whole packets, except the last, each small enough not to delay packets."""
        most = WRITTEN_ROWS if self.message is MessageFormat.JSON else CHUNK_ROWS
        chunk_rows = max(1, most // size) * size
        for begin in count(0, chunk_rows) if self.rows is None else range(0, self.rows, chunk_rows):
            wanted = chunk_rows if self.rows is None else min(chunk_rows, self.rows - begin)
            yield stream.batch(self.first + begin, wanted, self.seed)
