"""Ordered rows that wait for their frame, column by column."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.wire.keys import concat_keys
from spojoin.wire.records import I64, U8


@dataclass(slots=True)
class StreamColumns:
    """Columns of one input's rows, all of one length; keys is an Arrow array, payload None where the query has none."""

    codes: tuple[I64, ...]
    times_us: I64 | None
    keys: pa.Array
    payload: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, first: int, end: int) -> StreamColumns:
        """Rows [first, end) as views."""
        times = None if self.times_us is None else self.times_us[first:end]
        payload = None if self.payload is None else self.payload.slice(first, end - first)
        codes = tuple(c[first:end] for c in self.codes)
        return StreamColumns(codes, times, self.keys.slice(first, end - first), payload)

    def take(self, rows: I64 | NDArray[np.bool_]) -> StreamColumns:
        """Rows picked by an index array or a mask, copied."""
        times = None if self.times_us is None else self.times_us[rows]
        picked = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        payload = None if self.payload is None else self.payload.take(pa.array(picked))
        return StreamColumns(tuple(c[rows] for c in self.codes), times, self.keys.take(pa.array(picked)), payload)


def concat(pieces: list[StreamColumns]) -> StreamColumns:
    """Rows of all pieces, in order; a single piece is given back as it is."""
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
    """A queue of one input's rows that gives views wherever a piece holds all that is asked."""

    def __init__(self) -> None:
        self._pieces: deque[StreamColumns] = deque()
        self._skip = 0

    def push(self, piece: StreamColumns) -> None:
        """Add rows at the end."""
        if len(piece):
            self._pieces.append(piece)

    def times(self, count: int) -> I64:
        """Event times of the first `count` rows."""
        found = [p.times_us for p in self._peek(count) if p.times_us is not None]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def take(self, count: int) -> list[StreamColumns]:
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
            part = piece.slice(skip, min(len(piece), skip + count))
            pieces.append(part)
            count -= len(part)
            skip = 0
        return pieces


@dataclass(slots=True)
class Origins:
    """Where rows came from, in their order: physical input, ledger number, input of the query, time of production.

    members, joins: a bit for each stream of the query, as in `Rows`; a row that is a member of none takes no number
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

    def slice(self, first: int, end: int) -> Origins:
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

    def take(self, rows: I64) -> Origins:
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
    def numbered(self) -> NDArray[np.bool_]:
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
    """Rows of all inputs in their total order, waiting for a frame; `numbered` counts those that take a number."""

    def __init__(self, inputs: int) -> None:
        self._origins: Origins | None = None
        self._pending: list[Origins] = []
        self.numbered = 0
        self.inputs = [InputQueue() for _ in range(inputs)]

    def __len__(self) -> int:
        return (0 if self._origins is None else len(self._origins)) + sum(len(p) for p in self._pending)

    def push(self, origins: Origins, columns: list[StreamColumns | None]) -> None:
        """Add rows that follow all others in the order; `columns` by input, in the same order."""
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
        return self._origins.slice(0, count)

    def drop(self, count: int) -> None:
        """Forget the first `count` origins; the inputs' columns are taken separately."""
        if self._origins is not None:
            self.numbered -= self._origins.slice(0, count).numbers
            self._origins = self._origins.slice(count, len(self._origins))
