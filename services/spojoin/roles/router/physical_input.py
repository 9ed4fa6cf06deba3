"""One physical input of the router, and the rows it holds on their way into the order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spojoin.protocol.answered import NEVER, Place
from spojoin.roles.router.ledger import InputLedger
from spojoin.roles.router.queue import Origins, StreamColumns, concat, concat_origins
from spojoin.wire.records import I64, Rows, SourcePosition

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class PhysicalInput:
    """One physical input (a Kafka partition of an input's topic).

    stream: the number of the query's input; mask: the streams that it feeds, a bit for each
    is_of_only: whether the query has no other input
    heartbeat_us: no row behind the place `promised_at` is earlier, as was promised
    is_ended: whether it was at its end when last looked at; is_over: whether nothing in it is waited for any more
    latest_ms: the timestamp of the last record read, by this router
    ended_at_ms: it was at its end when all inputs' records had come to this timestamp
    """

    stream: int
    partition: int
    ledger: InputLedger
    index: int
    mask: int
    is_of_only: bool
    heartbeat_us: int = NEVER
    promised_at: Place = (0, 0)
    is_ended: bool = False
    is_over: bool = False
    latest_ms: int | None = None
    ended_at_ms: int = NEVER
    pieces: list[StreamColumns] = field(default_factory=list)
    origins: list[Origins] = field(default_factory=list)
    read_before: Place = (-1, 0)
    late_before: frozenset[Place] = frozenset()

    @property
    def key(self) -> tuple[int, int]:
        """Stream and partition."""
        return self.stream, self.partition

    def pending(self) -> int:
        """Rows held for the merge."""
        return sum(len(each) for each in self.origins)

    def late_ahead(self) -> list[Place]:
        """Late rows from before a restart that have not been read again yet."""
        return [place for place in self.late_before if place >= self.ledger.read_end()]


#: Rows of one input on their way into the order.
Taken = tuple[PhysicalInput, Origins, StreamColumns]


def take_ready(source: PhysicalInput, ready: Flags) -> Taken | None:
    """Take those of an input's held rows that a mask picks; None where it picks none."""
    if not source.pieces:
        return None
    columns, origins = concat(source.pieces), concat_origins(source.origins)
    source.pieces, source.origins = [columns], [origins]
    if not ready.any():
        return None
    if ready.all():
        source.pieces, source.origins = [], []
        return source, origins, columns
    source.pieces, source.origins = [columns.take(~ready)], [origins.take(np.flatnonzero(~ready))]
    return source, origins.take(np.flatnonzero(ready)), columns.take(ready)


def columns_of(source: PhysicalInput, rows: Rows, ids: I64 | None = None) -> tuple[Origins, StreamColumns]:
    """Rows as they wait in order, numbered by their input's ledger."""
    count = len(rows)
    if ids is None:
        ids = np.arange(source.ledger.next_id, source.ledger.next_id + count, dtype=np.int64)
    everywhere = np.full(count, source.mask, np.uint8)
    origins = Origins(
        inputs=np.full(count, source.index, np.int64),
        ids=ids,
        streams=np.full(count, source.stream, np.uint8),
        produced_ms=rows.produced_ms,
        members=everywhere if rows.members is None else rows.members,
        joins=everywhere if rows.joins is None else rows.joins,
        is_plain=source.is_of_only and rows.members is None and rows.joins is None,
    )
    return origins, StreamColumns(rows.codes, rows.times_us, rows.keys, rows.payload)


def only(rows: Rows, kept: Flags) -> Rows:
    """The rows that a mask keeps; dead letters stay."""
    columns = StreamColumns(rows.codes, rows.times_us, rows.keys, rows.payload).take(kept)
    return replace(
        rows,
        offsets=rows.offsets[kept],
        rows=rows.rows[kept],
        codes=columns.codes,
        times_us=columns.times_us,
        keys=columns.keys,
        produced_ms=rows.produced_ms[kept],
        payload=columns.payload,
        members=None if rows.members is None else rows.members[kept],
        joins=None if rows.joins is None else rows.joins[kept],
    )


def start_of(positions: dict[tuple[int, int], SourcePosition], stream: int, partition: int) -> SourcePosition:
    """Where reading of an input resumes; one that no frame has seen starts at its beginning."""
    return positions.get((stream, partition), SourcePosition(0, 0, NEVER))
