"""Ordered rows that wait for their frame, column by column, and where the next frame ends (rule P5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64, U8, Flags
from spojoin.roles.router.stream_book import StreamBook
from spojoin.wire.columns import concat_keys


@dataclass(slots=True)
class StreamColumns:
    """Columns of one input's rows, of equal length; keys: an Arrow array; payload: None if the query needs none."""

    codes: tuple[I64, ...]
    times_us: I64 | None
    keys: pa.Array
    payload: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def rows_between(self, first: int, end: int) -> StreamColumns:
        """Rows [first, end) as views."""
        times = None if self.times_us is None else self.times_us[first:end]
        payload = None if self.payload is None else self.payload.slice(first, end - first)
        codes = tuple(c[first:end] for c in self.codes)
        return StreamColumns(codes, times, self.keys.slice(first, end - first), payload)

    def rows_at(self, rows: I64 | NDArray[np.bool_]) -> StreamColumns:
        """Rows picked by an index array or a mask, copied."""
        times = None if self.times_us is None else self.times_us[rows]
        picked = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        payload = None if self.payload is None else self.payload.take(pa.array(picked))
        return StreamColumns(tuple(c[rows] for c in self.codes), times, self.keys.take(pa.array(picked)), payload)


def concat_columns(pieces: list[StreamColumns]) -> StreamColumns:
    """The rows of all pieces, in order; a single piece is returned itself."""
    if len(pieces) == 1:
        return pieces[0]
    times = (
        None if pieces[0].times_us is None else np.concatenate([p.times_us for p in pieces if p.times_us is not None])
    )
    codes = tuple(np.concatenate(column) for column in zip(*(p.codes for p in pieces), strict=True))
    payloads = [p.payload for p in pieces if p.payload is not None]
    payload = pa.concat_batches(payloads) if payloads else None
    return StreamColumns(codes, times, concat_keys([p.keys for p in pieces]), payload)


class InputQueue:
    """A queue of one input's rows; it returns views if a single piece holds all requested rows."""

    def __init__(self) -> None:
        self._pieces: deque[StreamColumns] = deque()
        self._skip = 0

    def push(self, piece: StreamColumns) -> None:
        """Add rows at the end."""
        if len(piece):
            self._pieces.append(piece)

    def times_of_first(self, count: int) -> I64:
        """Event times of the first `count` rows."""
        found = [p.times_us for p in self._peek(count) if p.times_us is not None]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def pop_rows(self, count: int) -> list[StreamColumns]:
        """Remove and return the first `count` rows as pieces."""
        pieces = self._peek(count)
        self._skip += count
        while self._pieces and self._skip >= len(self._pieces[0]):
            self._skip -= len(self._pieces.popleft())
        return pieces

    def _peek(self, count: int) -> list[StreamColumns]:
        pieces, skip = [], self._skip
        for piece in self._pieces:
            if count == 0:
                break
            part = piece.rows_between(skip, min(len(piece), skip + count))
            pieces.append(part)
            count -= len(part)
            skip = 0
        return pieces


@dataclass(slots=True)
class Origins:
    """Where rows came from, in order: physical input, ledger number, input of the query, time of production.

    members, joins: a bit for each stream of the query, as in `Rows`; a row that is in no stream takes no number
    is_plain: whether it is known that the query has one input, and that every row joins in all streams
    """

    inputs: I64
    ids: I64
    streams: U8
    produced_ms: I64
    members: U8
    joins: U8
    is_plain: bool = False

    def __len__(self) -> int:
        return len(self.inputs)

    def rows_between(self, first: int, end: int) -> Origins:
        """Rows [first, end) as views."""
        rows = slice(first, end)
        return Origins(
            self.inputs[rows],
            self.ids[rows],
            self.streams[rows],
            self.produced_ms[rows],
            self.members[rows],
            self.joins[rows],
            self.is_plain,
        )

    def rows_at(self, rows: I64) -> Origins:
        """Rows picked by an index array, copied."""
        inputs, ids, streams, produced_ms, members, joins = self.columns
        return Origins(
            inputs[rows], ids[rows], streams[rows], produced_ms[rows], members[rows], joins[rows], self.is_plain
        )

    @property
    def columns(self) -> tuple[I64, I64, U8, I64, U8, U8]:
        """All columns, in order."""
        return self.inputs, self.ids, self.streams, self.produced_ms, self.members, self.joins

    @property
    def numbered(self) -> NDArray[np.bool_]:  # P5.3
        """Which rows take a number, (n,)."""
        return np.not_equal(self.members, 0)

    @property
    def numbers(self) -> int:
        """How many rows take a number."""
        return len(self) if self.is_plain else int(np.count_nonzero(self.members))


def concat_origins(pieces: list[Origins]) -> Origins:
    """Origins of all pieces, in order."""
    if len(pieces) == 1:
        return pieces[0]
    inputs, ids, streams, produced_ms, members, joins = map(
        np.concatenate, zip(*[p.columns for p in pieces], strict=True)
    )
    return Origins(inputs, ids, streams, produced_ms, members, joins, all(p.is_plain for p in pieces))


class OrderedQueue:
    """Rows of all inputs in their total order that wait for a frame; `numbered` counts those that take a number."""

    def __init__(self, inputs: int) -> None:
        self._origins: Origins | None = None
        self._pending: list[Origins] = []
        self.numbered = 0
        self.inputs = [InputQueue() for _ in range(inputs)]

    def __len__(self) -> int:
        return (0 if self._origins is None else len(self._origins)) + sum(len(p) for p in self._pending)

    def push(self, origins: Origins, columns: list[StreamColumns | None]) -> None:
        """Add rows at the end of the order; `columns` by input, in the same order."""
        if not len(origins):
            return
        self._pending.append(origins)
        self.numbered += origins.numbers
        for queue, piece in zip(self.inputs, columns, strict=True):
            if piece is not None:
                queue.push(piece)

    def head(self, count: int) -> Origins:
        """The first `count` origins."""
        if self._pending:
            self._origins = concat_origins(([] if self._origins is None else [self._origins]) + self._pending)
            self._pending = []
        if self._origins is None:
            raise IndexError("the queue is empty")
        return self._origins.rows_between(0, count)

    def drop(self, count: int) -> None:
        """Drop the first `count` origins; the inputs' columns are taken separately."""
        if self._origins is not None:
            self.numbered -= self._origins.rows_between(0, count).numbers
            self._origins = self._origins.rows_between(count, len(self._origins))


@dataclass(slots=True)
class Cut:
    """How much of the queue the next frame takes, and which streams' slides of time end with it.

    ends: for each side that asks, its first row that stays open after the frame
    until: for each such side, int64 (count,), its first row that stays open after each row of the frame
    """

    count: int
    ends_slide: list[bool]
    ends: list[int] = field(default_factory=list)
    until: list[I64] = field(default_factory=list)


class FrameCutter:
    """Cuts frames of at most `frame_tuples` numbered rows off the queue.

    inputs: by stream, the number of the input that feeds it; by_time: whether windows are measured in event time
    """

    def __init__(
        self,
        queue: OrderedQueue,
        books: Sequence[StreamBook],
        inputs: Sequence[int],
        frame_tuples: int,
        *,
        by_time: bool,
    ) -> None:
        self._queue = queue
        self._books = books
        self._inputs = inputs
        self._frame_tuples = frame_tuples
        self._by_time = by_time

    def cut_frame(self) -> Cut:  # P5.1
        """The longest head of the queue that fits a frame and crosses no end of a batch or of a large slide."""
        origins = self._head()
        count = len(origins)
        for stream, book in enumerate(self._books):
            if origins.is_plain:
                count = min(count, book.batch_room(), book.slide_room())
                continue
            count = min(count, _first_of(has_stream_bit(origins.joins, stream), book.batch_room()))
            count = min(count, _first_of(has_stream_bit(origins.members, stream), book.slide_room()))
        if self._by_time:
            return self._cut_at_slides(origins.rows_between(0, count))
        return Cut(count, [False] * len(self._books))

    def cut_nothing(self) -> Cut:
        """A frame without tuples."""
        return Cut(0, [False] * len(self._books))

    def _head(self) -> Origins:
        """The queue's head, up to a frame's number of numbered rows."""
        origins = self._queue.head(len(self._queue))
        if self._queue.numbered == len(origins):
            return origins.rows_between(0, self._frame_tuples)
        return origins.rows_between(0, _first_of(origins.numbered, self._frame_tuples))

    def _cut_at_slides(self, origins: Origins) -> Cut:
        ends = []
        for stream, book in enumerate(self._books):
            joins = has_stream_bit(origins.joins, stream)
            times_us = self._times(origins, stream, joins)
            fits = book.time_cut(times_us) if len(times_us) else 0
            ends.append(_first_of(joins, fits) if fits < len(times_us) else len(origins) + 1)
        best = min(len(origins), *ends)
        return Cut(best, [end == best for end in ends])

    def _times(self, origins: Origins, stream: int, joins: Flags) -> I64:
        """The event times of the rows that join in a stream."""
        number = self._inputs[stream]
        own = origins.streams == number
        times_us: I64 = self._queue.inputs[number].times_of_first(int(np.count_nonzero(own)))[joins[own]]
        return times_us


def has_stream_bit(bits: U8, stream: int) -> Flags:
    """Which rows have the bit of a stream, (n,)."""
    flags: Flags = (bits >> stream) & 1 == 1
    return flags


def _first_of(flags: Flags, fits: int) -> int:
    """The length of the longest head of the rows with at most `fits` flagged rows."""
    own = np.flatnonzero(flags)
    return len(flags) if len(own) <= fits else int(own[fits])
