"""One physical input: which rows were read and which are out (rule P4), and its rows on their way into the order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from spojoin.arrays import I64, Flags
from spojoin.protocol.answered import before
from spojoin.roles.router.queue import Origins, StreamColumns, concat_columns, concat_origins
from spojoin.wire.records import NEVER, DeadLetter, Place, Rows, SourcePosition

_NOTHING = np.empty(0, np.int64)


class InputLedger:
    """The rows of one input in its order, each out or not yet.

    After a restart, the input is read again from its first row that isn't out. Dead letters are counted when that place
    passes them, so each counts in exactly one frame.
    """

    def __init__(self, start: SourcePosition) -> None:
        self.high_time_us = start.high_time_us
        self.start: Place = start.place
        self._low = self.start
        self._low_high_us = start.high_time_us
        self._offsets = self._rows = self._times = _NOTHING
        self._out = np.empty(0, np.bool_)
        self._base = 0
        self._end: Place = self._low
        self._dead: deque[DeadLetter] = deque()
        self._late: deque[Place] = deque()

    @property
    def position_place(self) -> Place:
        """Where a restart resumes, without the largest event time before it."""
        return self._low

    @property
    def next_id(self) -> int:
        """The ledger's number for the next row entered."""
        return self._base + len(self._offsets)

    @property
    def passable(self) -> bool:
        """Whether `release_rows` would move on without rows, since dead letters or gaps wait for a frame."""
        return self._low < self._first_inside()

    def _first_inside(self) -> Place:
        return (int(self._offsets[0]), int(self._rows[0])) if len(self._offsets) else self._end

    def place_of(self, row_id: int) -> Place:
        """Offset and row of a row that was not passed."""
        return int(self._offsets[row_id - self._base]), int(self._rows[row_id - self._base])

    def places_of(self, ids: I64) -> tuple[I64, I64]:
        """Offsets and rows of rows (int64 ledger numbers) that were not passed."""
        return self._offsets[ids - self._base], self._rows[ids - self._base]

    def enter_rows(self, rows: Rows, dead: list[DeadLetter]) -> None:
        """Enter rows that may go out later, and the refused ones among them."""
        self._offsets = np.concatenate((self._offsets, rows.offsets))
        self._rows = np.concatenate((self._rows, rows.rows))
        self._out = np.concatenate((self._out, np.zeros(len(rows), np.bool_)))
        if rows.times_us is not None:
            self._times = np.concatenate((self._times, rows.times_us))
        self.note_times(rows)
        self._dead.extend(dead)
        self._end = max(self._end, rows.end)

    def note_times(self, rows: Rows) -> None:
        """Note rows' event times, if they have any, for the lateness of later rows."""
        if rows.times_us is not None and len(rows):
            self.high_time_us = max(self.high_time_us, int(rows.times_us.max()))

    def note_late(self, place: Place) -> None:
        """Remember a row that the merge had passed: otherwise its key would mark it as out after a restart."""
        self._late.append(place)

    def mark_out(self, ids: I64) -> None:
        """Mark rows as out (int64 ledger numbers)."""
        self._out[ids - self._base] = True

    def release_rows(self, ids: I64) -> list[DeadLetter]:
        """Mark rows as out (int64 ledger numbers, may be empty) and return the dead letters that are passed now."""
        self.mark_out(ids)
        passed = len(self._out) if self._out.all() else int(np.argmin(self._out))
        self._forget(passed)
        return self._take_dead()

    def _forget(self, passed: int) -> None:
        if passed and len(self._times):
            self._low_high_us = max(self._low_high_us, int(self._times[:passed].max()))
            self._times = self._times[passed:]
        self._offsets, self._rows, self._out = self._offsets[passed:], self._rows[passed:], self._out[passed:]
        self._base += passed
        self._low = self._first_inside()

    def _take_dead(self) -> list[DeadLetter]:  # P4.3
        taken = []
        while self._dead and (self._dead[0].offset, self._dead[0].row) < self._low:
            taken.append(self._dead.popleft())
        while self._late and self._late[0] < self._low:
            self._late.popleft()
        return taken

    def position(self) -> SourcePosition:
        """Where a restart resumes."""
        return SourcePosition(*self._low, self._low_high_us)

    def read_end(self) -> Place:
        """The place up to which rows were read."""
        return self._end

    def late_places(self) -> list[Place]:
        """Late rows at or after `position`."""
        return list(self._late)


@dataclass(slots=True)
class PhysicalInput:
    """One physical input (a Kafka partition of an input's topic).

    stream: the number of the query's input; mask: the streams that it feeds, a bit for each
    is_of_only: whether the query has no other input
    heartbeat_us: a promise that no row after the place `promised_at` is earlier
    is_ended: whether it was at its end when last read; is_over: whether nothing waits for its rows any more
    latest_ms: the timestamp of the last record that this router read
    ended_at_ms: the latest timestamp of all inputs' records when it was last at its end
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
        return self.stream, self.partition

    def held_rows(self) -> int:
        """Rows held for the merge."""
        return sum(len(each) for each in self.origins)

    def late_ahead(self) -> list[Place]:
        """Late rows from before a restart that were not yet read again."""
        return [place for place in self.late_before if place >= self.ledger.read_end()]


#: Rows of one input on their way into the order.
ReadyRows = tuple[PhysicalInput, Origins, StreamColumns]


def take_ready(source: PhysicalInput, ready: Flags) -> ReadyRows | None:
    """Take an input's held rows that a mask picks; None if it picks none."""
    if not source.pieces:
        return None
    columns, origins = concat_columns(source.pieces), concat_origins(source.origins)
    source.pieces, source.origins = [columns], [origins]
    if not ready.any():
        return None
    if ready.all():
        source.pieces, source.origins = [], []
        return source, origins, columns
    source.pieces, source.origins = [columns.rows_at(~ready)], [origins.rows_at(np.flatnonzero(~ready))]
    return source, origins.rows_at(np.flatnonzero(ready)), columns.rows_at(ready)


def queued_rows(source: PhysicalInput, rows: Rows, ids: I64 | None = None) -> tuple[Origins, StreamColumns]:
    """Rows in the form in which they wait in order, numbered by their input's ledger."""
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


def rows_where(rows: Rows, kept: Flags) -> Rows:
    """The rows that a mask keeps, with all dead letters."""
    columns = StreamColumns(rows.codes, rows.times_us, rows.keys, rows.payload).rows_at(kept)
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


def rows_before(rows: Rows, place: Place) -> Rows:
    """The rows and dead letters before a place, as if nothing behind it had been read."""
    dead = [letter for letter in rows.dead if (letter.offset, letter.row) < place]
    next_offset, next_row = min(rows.end, place)
    kept = rows_where(rows, before(rows.offsets, rows.rows, place))
    return replace(kept, dead=dead, next_offset=next_offset, next_row=next_row)


def rows_behind(rows: Rows, place: Place) -> Rows:
    """The rows and dead letters from a place on."""
    dead = [letter for letter in rows.dead if (letter.offset, letter.row) >= place]
    return replace(rows_where(rows, ~before(rows.offsets, rows.rows, place)), dead=dead)


def merge_inputs(taken: list[ReadyRows], times: list[I64], streams: int) -> tuple[Origins, list[StreamColumns | None]]:
    """Rows of several inputs in one order: by their `times`, ties by stream, partition and place."""
    origins = concat_origins([each for _, each, _ in taken]).rows_at(_order(taken, np.concatenate(times)))
    return origins, [_stream_columns(taken, times, stream) for stream in range(streams)]


def _stream_columns(taken: list[ReadyRows], times: list[I64], stream: int) -> StreamColumns | None:
    own = [number for number, part in enumerate(taken) if part[0].stream == stream]
    if not own:
        return None
    columns = concat_columns([taken[number][2] for number in own])
    order = _order([taken[number] for number in own], np.concatenate([times[number] for number in own]))
    return columns if (order[:-1] < order[1:]).all() else columns.rows_at(order)


def _order(taken: list[ReadyRows], times: I64) -> I64:
    ids = np.concatenate([origins.ids for _, origins, _ in taken])
    streams = np.concatenate([np.full(len(origins), source.stream) for source, origins, _ in taken])
    partitions = np.concatenate([np.full(len(origins), source.partition) for source, origins, _ in taken])
    return np.lexsort((ids, partitions, streams, times)).astype(np.int64)
