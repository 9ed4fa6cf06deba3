"""What was read from the messages of an input partition: rows, dead letters and the latest heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64, U8
from spojoin.columns.extract import Extracted
from spojoin.columns.stream_columns import no_payload
from spojoin.kernels.texts import path_bytes, write_paths
from spojoin.model import Stream
from spojoin.reading.readout import (
    AddHeaders,
    Headers,
    Readout,
    header_column,
    needs_headers,
    with_headers,
)
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.wire.columns import Keys, concat_keys
from spojoin.wire.records import Came, DeadLetter, Rows

#: the end of the year 9999
TIME_MS_MAX = 253_402_300_799_999


class Message(Protocol):
    """A message from the broker; `timestamp_ms`: when it was produced; `value`: b"" or None if it has none."""

    @property
    def offset(self) -> int:
        """The offset in the partition."""
        ...

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Headers:
        """Names and values, in order; a name may occur several times."""
        ...


class _Piece(NamedTuple):
    """Rows (n,) by the place of their message among the given ones, and their number in it."""

    messages: I64
    rows: I64
    extracted: Extracted


class Parsing:
    """The rows and faults that were read from the messages so far.

    original_rows: (messages, int64 (n,) how many rows of each were read) -> the function that returns a row as it came
    """

    def __init__(
        self,
        stream: Stream,
        needs_time: bool,
        index: int,
        partition: int,
        messages: Sequence[Message],
        schemas: RegisteredSchemas,
        original_rows: Callable[[Sequence[Message], I64], Callable[[int, int], Came]],
    ) -> None:
        self.stream = stream
        self.needs_time = needs_time
        self.schemas = schemas
        self.index = index
        self.partition = partition
        self.messages = messages
        self.pieces: list[_Piece] = []
        self._headers: pa.MapArray | None = None
        self.dead: list[DeadLetter] = []
        self.heartbeat_us: int | None = None
        self.row_counts = np.zeros(len(messages), np.int64)
        self.as_they_came = original_rows(messages, self.row_counts)

    def timed(self, places: list[int]) -> list[int]:
        """The messages, without those refused because they lack a timestamp, if that is the rows' event time."""
        if not (self.needs_time and self.stream.is_record_timed):
            return places
        good = [at for at in places if 0 <= self.messages[at].timestamp_ms <= TIME_MS_MAX]
        for at in sorted({*places} - {*good}):
            timestamp_ms = self.messages[at].timestamp_ms
            self.bury(at, 0, "time", f"time: record: the record's timestamp is {timestamp_ms} ms since 1970")
        return good

    def take(self, readout: Readout, owners: I64, row_of: I64) -> None:
        """Keep rows and faults, by each row's message (n,) and its number in it (n,)."""
        self.pieces += [_Piece(owners[ids], row_of[ids], extracted) for ids, extracted in readout.taken]
        for fault in readout.faults:
            at, row = int(owners[fault.id]), int(row_of[fault.id])
            self.bury(at, row, fault.reason, fault.detail)

    def headers_of(self, owners: I64) -> AddHeaders | None:
        """The function that adds messages' headers to rows, by each row's message (n,), if they are needed."""
        if not needs_headers(self.stream, self.needs_time):
            return None
        if self._headers is None:
            self._headers = header_column([message.headers for message in self.messages])
        column = self._headers
        return lambda rows, ids: with_headers(rows, column, owners[ids])

    def bury(self, at: int, row: int, reason: str, detail: str) -> None:
        """Add a dead letter for a row, or for the whole message if its rows aren't known."""
        offset = self.messages[at].offset
        came = self.as_they_came(offset, row)
        self.dead.append(DeadLetter(self.index, self.partition, offset, row, reason, detail, *came))

    def rows(self) -> Rows:
        """All rows and dead letters, in order."""
        messages, rows = (_joined([getattr(p, name) for p in self.pieces]) for name in ("messages", "rows"))
        order = _order(messages, rows)
        messages, rows = messages[order], rows[order]
        offsets, produced_ms = (
            np.fromiter(map(attrgetter(name), self.messages), np.int64, len(self.messages))[messages]
            for name in ("offset", "timestamp_ms")
        )
        return Rows(
            offsets=offsets,
            rows=rows,
            next_offset=self.messages[-1].offset + 1,
            codes=tuple(self._codes(slot)[order] for slot in range(len(self.stream.keys))),
            times_us=self._times(order, produced_ms) if self.needs_time else None,
            keys=self._keys(order, offsets, rows, self.row_counts[messages] > 1),
            produced_ms=produced_ms,
            dead=sorted(self.dead, key=lambda letter: (letter.offset, letter.row)),
            heartbeat_us=self.heartbeat_us,
            payload=self._payload(order),
            members=self._bits("members", order),
            joins=self._bits("joins", order),
            latest_ms=self.messages[-1].timestamp_ms,
            as_it_came=self.as_they_came,
        )

    def _payload(self, order: I64 | slice) -> pa.RecordBatch | None:
        found = [p.extracted.payload for p in self.pieces if p.extracted.payload is not None]
        whole = pa.concat_batches(found) if found else no_payload(self.stream)
        if whole is None:
            return None
        return whole if isinstance(order, slice) else whole.take(pa.array(order))

    def _bits(self, name: str, order: I64 | slice) -> U8 | None:
        """The bits of the streams that take each row; None if every row joins in all streams that the input feeds."""
        found = [getattr(piece.extracted, name) for piece in self.pieces]
        if all(bits is None for bits in found):
            return None
        everywhere = np.uint8(sum(1 << member.stream for member in self.stream.fed(self.index)))
        whole = [
            np.full(len(piece.rows), everywhere) if bits is None else bits
            for piece, bits in zip(self.pieces, found, strict=True)
        ]
        return np.concatenate(whole)[order]

    def _codes(self, slot: int) -> I64:
        return _joined([piece.extracted.codes[slot] for piece in self.pieces])

    def _times(self, order: I64 | slice, produced_ms: I64) -> I64:
        if self.stream.is_record_timed:
            return produced_ms * 1000
        return _joined([p.extracted.times_us for p in self.pieces if p.extracted.times_us is not None])[order]

    def _keys(self, order: I64 | slice, offsets: I64, rows: I64, is_one_of_several: NDArray[np.bool_]) -> Keys:
        if self.stream.key is None:
            return positions_as_keys(self.partition, offsets, rows, is_one_of_several)
        keys = concat_keys([p.extracted.keys for p in self.pieces if p.extracted.keys is not None])
        return keys if isinstance(order, slice) else keys.take(order)


def positions_as_keys(partition: int, offsets: I64, rows: I64, is_one_of_several: NDArray[np.bool_]) -> Keys:
    """Strings (n,): "partition:offset", or "partition:offset:row" for the rows of a message that has several."""
    ends = np.empty(len(offsets) + 1, np.int32)
    texts = np.empty(path_bytes(partition, offsets, rows, is_one_of_several, ends), np.uint8)
    write_paths(partition, offsets, rows, is_one_of_several, ends, texts)
    return pa.StringArray.from_buffers(len(offsets), pa.py_buffer(ends), pa.py_buffer(texts))


def _joined(arrays: list[I64]) -> I64:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _order(messages: I64, rows: I64) -> I64 | slice:
    """The indexes that bring rows into the order of their messages; a slice of all if they are in it."""
    rises = (messages[1:] > messages[:-1]) | ((messages[1:] == messages[:-1]) & (rows[1:] > rows[:-1]))
    return slice(None) if rises.all() else np.lexsort((rows, messages))
