"""Messages of an input partition to rows, their formats recognised message by message.

They are JSON, CSV lines, Arrow batches, or Avro, Protobuf and JSON of registered schemas.

A message's format is its Kafka header `content-type`, or else the given default, or else recognised by its first byte.
A first byte of zero means a registered schema whatever is said, since no text begins with it. The messages of one
format are read together; whether a row is good, and its codes, never depend on its neighbours. A message with an empty
value and the header `spojoin-heartbeat` promises that nothing earlier than so many milliseconds follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.errors import BadData
from spojoin.kernels.texts import path_bytes, write_paths
from spojoin.model import Stream
from spojoin.protocol.topology import HEARTBEAT
from spojoin.query.extract import Extracted, extract
from spojoin.query.payload import no_payload
from spojoin.roles.router.arrow_rows import ArrowMessages, BadMessage, by_schema, read_arrow
from spojoin.roles.router.as_they_came import AsTheyCame
from spojoin.roles.router.columns import columns_needed, needs_headers
from spojoin.roles.router.csv_lines import CsvLines
from spojoin.roles.router.decoded import Decoder, Wanted
from spojoin.roles.router.envelope import DELETE
from spojoin.roles.router.formats import Format, Kind, Message, by_kind
from spojoin.roles.router.json_lines import JsonLines
from spojoin.roles.router.line_reader import LineReader, Readout
from spojoin.roles.router.message_headers import AddHeaders, header_column, with_headers
from spojoin.roles.router.registered_rows import Bad, RegisteredSchemas
from spojoin.wire.columns import Keys
from spojoin.wire.keys import concat_keys
from spojoin.wire.records import U8, DeadLetter, Rows
from spojoin.wire.results import GENERATION

_TIME_MS_MAX = 253_402_300_799_999  # the end of the year 9999

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages are read: the format of those that don't name theirs, and what knows the registered schemas."""

    default: Format = Format.AUTO
    schemas: RegisteredSchemas = field(default_factory=RegisteredSchemas)


#: Without a registry.
PLAIN = Reading()


def parse(
    stream: Stream,
    needs_time: bool,
    index: int,
    partition: int,
    messages: Sequence[Message],
    reading: Reading = PLAIN,
) -> Rows:
    """The rows of at least one message, in order, and a dead letter for each row or message that can't take part.

    `index` is the stream's number in the query. Reasons: malformed, missing-field, type, null, nan, unit, overflow,
    time, schema (no schema reads the message), delete (it takes a row away). Where the stream names no key, a row's is
    "partition:offset", or "partition:offset:row" if its message has several.
    """
    if not messages:
        raise ValueError("parse() takes at least one message: without one there is no next offset")
    parsing = _Parsing(stream, needs_time, index, partition, messages, reading)
    for kind, places in by_kind(messages, reading.default).items():
        parsing.add(kind, places if kind is None else parsing.timed(places))
    return parsing.rows()


class _Piece(NamedTuple):
    """Rows (n,) by the place of their message among those given, and their number in it."""

    messages: I64
    rows: I64
    extracted: Extracted


class _Parsing:
    """What has been read of the messages so far."""

    def __init__(
        self,
        stream: Stream,
        needs_time: bool,
        index: int,
        partition: int,
        messages: Sequence[Message],
        reading: Reading,
    ) -> None:
        self.stream = stream
        self.needs_time = needs_time
        self.schemas = reading.schemas
        self.index = index
        self.partition = partition
        self.messages = messages
        self.pieces: list[_Piece] = []
        self._headers: pa.MapArray | None = None
        self.dead: list[DeadLetter] = []
        self.heartbeat_us: int | None = None
        self.row_counts = np.zeros(len(messages), np.int64)
        self.as_they_came = AsTheyCame(messages, self.row_counts, reading.default)

    def timed(self, places: list[int]) -> list[int]:
        """The messages but those that are refused because they have no timestamp, where it is the rows' time."""
        if not (self.needs_time and self.stream.is_record_timed):
            return places
        good = [at for at in places if 0 <= self.messages[at].timestamp_ms <= _TIME_MS_MAX]
        for at in sorted({*places} - {*good}):
            timestamp_ms = self.messages[at].timestamp_ms
            self.bury(at, 0, "time", f"time: record: the record's timestamp is {timestamp_ms} ms since 1970")
        return good

    def add(self, kind: Kind, places: list[int]) -> None:
        """Read all messages of one kind."""
        read = _READERS.get(kind)
        if read is not None:
            read(self, places)
        else:
            for at in places:
                self.bury(at, 0, "malformed", f"content-type {kind!r} is none of {', '.join(map(str, _READERS))}")

    def add_registered(self, places: list[int]) -> None:
        for alike in self.schemas.sort([(at, self.messages[at].value or b"") for at in places]):
            if isinstance(alike, Bad):
                for at in alike.places:
                    self.bury(at, 0, alike.reason, alike.detail)
            elif alike.decoder is None:
                self.add_lines(alike.places, JsonLines(self.stream, self.needs_time, self.index), alike.data)
            else:
                self.add_decoded(alike.places, alike.decoder, alike.data)

    def add_decoded(self, places: list[int], decoder: Decoder, data: list[bytes]) -> None:
        """Messages of one schema, each a row."""
        readout = Readout()
        try:
            wanted = Wanted(columns_needed(self.stream, self.needs_time), self.stream.envelope)
            decoded = decoder.read(data, wanted)
            readout.faults += decoded.faults
            add_headers = self._headers_of(np.array(places, np.int64))
            rows = decoded.rows if add_headers is None else add_headers(decoded.rows, decoded.ids)
            readout.take_all(decoded.ids, extract(self.stream, rows, self.needs_time, self.index))
        except BadMessage as error:
            readout = Readout.of_none(len(places), error.reason, error.detail)
        except BadData as error:
            readout = Readout.of_none(len(places), "type", str(error))
        self.row_counts[places] = 1
        self._take(readout, np.array(places, np.int64), np.zeros(len(places), np.int64))

    def add_lines(self, places: list[int], reader: LineReader, data: Sequence[bytes] | None = None) -> None:
        """Messages of text, which `data` holds where they don't begin with it."""
        texts = [self.messages[at].value or b"" for at in places] if data is None else data
        lines, counts = reader.split_all(texts)
        for blank in np.flatnonzero(counts == 0).tolist():
            self.bury(places[blank], 0, "malformed", "the message holds nothing but white space")
        self.row_counts[places] = counts
        owners, row_of = np.repeat(np.array(places, np.int64), counts), _numbered(counts)
        reader.add_headers = self._headers_of(owners)
        self._take(reader.read(lines), owners, row_of)

    def add_batches(self, places: list[int]) -> None:
        """Arrow messages, small ones of one schema together."""
        for messages in by_schema(places, [self.messages[at].value or b"" for at in places]):
            self._add_alike(messages)

    def _add_alike(self, messages: ArrowMessages) -> None:
        places = np.array(messages.places, np.int64)
        try:
            readout, counts = read_arrow(self.stream, self.needs_time, self.index, messages, self._headers_of)
        except BadMessage as error:
            if len(places) > 1:
                for each in messages.parted():
                    self._add_alike(each)
            else:
                self.bury(messages.places[0], 0, error.reason, error.detail)
            return
        self.row_counts[places] = counts
        self._take(readout, np.repeat(places, counts), _numbered(counts))

    def _take(self, readout: Readout, owners: I64, row_of: I64) -> None:
        """Keep what was read of rows, by the message of each (n,) and its number in it (n,)."""
        self.pieces += [_Piece(owners[ids], row_of[ids], extracted) for ids, extracted in readout.taken]
        for fault in readout.faults:
            at, row = int(owners[fault.id]), int(row_of[fault.id])
            self.bury(at, row, fault.reason, fault.detail)

    def _headers_of(self, owners: I64) -> AddHeaders | None:
        """What adds the headers of messages to rows, by the message of each (n,), where they are needed."""
        if not needs_headers(self.stream, self.needs_time):
            return None
        if self._headers is None:
            self._headers = header_column([message.headers for message in self.messages])
        column = self._headers
        return lambda rows, ids: with_headers(rows, column, owners[ids])

    def add_heartbeats(self, places: list[int]) -> None:
        for at in places:
            headers = dict(self.messages[at].headers)
            text = headers.get(HEARTBEAT)
            if GENERATION in headers:  # the progress of another query, without a result
                continue
            if self.stream.table is not None:  # the row of its key is gone
                continue
            if text is None and self.stream.envelope is not None:
                self.bury(at, 0, DELETE, "a tombstone: no value, so the row of its key is gone")
            elif text is None:
                self.bury(at, 0, "malformed", f"an empty value, and no header {HEARTBEAT}")
            elif not text.isdigit() or int(text) > _TIME_MS_MAX:
                self.bury(at, 0, "malformed", f"header {HEARTBEAT} is {text!r}, expected milliseconds since 1970")
            else:
                self.heartbeat_us = max(self.heartbeat_us or 0, int(text) * 1000)

    def bury(self, at: int, row: int, reason: str, detail: str) -> None:
        """A dead letter about a row, or about the whole message where no rows of it are known."""
        offset = self.messages[at].offset
        came = self.as_they_came(offset, row)
        self.dead.append(DeadLetter(self.index, self.partition, offset, row, reason, detail, *came))

    def rows(self) -> Rows:
        """Everything read, in order."""
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
        """Which streams take each row; None where every row joins in all that the input feeds."""
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


def _numbered(counts: I64) -> I64:
    """0..c-1 for each count c, one after the other."""
    starts = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)


def _joined(arrays: list[I64]) -> I64:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _order(messages: I64, rows: I64) -> I64 | slice:
    """What brings rows into the order of their messages; a slice of all where they are."""
    rises = (messages[1:] > messages[:-1]) | ((messages[1:] == messages[:-1]) & (rows[1:] > rows[:-1]))
    return slice(None) if rises.all() else np.lexsort((rows, messages))


def _add_json(parsing: _Parsing, places: list[int]) -> None:
    parsing.add_lines(places, JsonLines(parsing.stream, parsing.needs_time, parsing.index))


def _add_csv(parsing: _Parsing, places: list[int]) -> None:
    if parsing.stream.envelope is not None:
        for at in places:
            parsing.bury(at, 0, "malformed", f"envelope {parsing.stream.envelope}: a CSV line has no such field")
        return
    parsing.add_lines(places, CsvLines(parsing.stream, parsing.needs_time, parsing.index))


_READERS: dict[Any, Callable[[_Parsing, list[int]], None]] = {
    Format.JSON: _add_json,
    Format.CSV: _add_csv,
    Format.ARROW: _Parsing.add_batches,
    Format.ARROW_FILE: _Parsing.add_batches,
    Format.REGISTERED: _Parsing.add_registered,
    None: _Parsing.add_heartbeats,
}
