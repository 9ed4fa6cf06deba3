"""The latest results and dead letters: the ends of their topics, as rows of short texts."""

from __future__ import annotations

import base64
import codecs
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
import pyarrow as pa
import structlog
from pyroaring import BitMap64

from spojoin.errors import SpoJoinError, WireError
from spojoin.model import Output
from spojoin.ports.interfaces import Bounds, Clock, Log, LogPartition, LogReader, LogRecord, LogUnavailable
from spojoin.protocol.topology import REPLAYED
from spojoin.runtime.registry import RegisteredResults
from spojoin.wire.codec import decode
from spojoin.wire.records import WorkerCount
from spojoin.wire.registered import PREFIX_BYTES, schema_id_of
from spojoin.wire.result_forms import AVRO, JSON, JSON_SCHEMA
from spojoin.wire.results import CONTENT_TYPE, SEQ, result_from_message

#: A registry that failed isn't asked again for this long, since each request may take seconds.
PAUSE_MS = 30_000

_log = structlog.get_logger(__name__)

T = TypeVar("T")
DEPTH_STEP = 4

#: how long a look may read; it keeps what it has found by then
READ_S_MAX = 2.0
POLL_S = 0.1
RECORDS_MAX = 64

#: how many results and dead letters are shown
ROWS = 20

#: how many of the last worker counts are read; the one with the largest version counts
COUNTS = 16

#: longer texts are cut
TEXT_MAX = 60
VALUE_MAX = 160

#: The longest reason that is shown whole; only one that quotes a whole message is longer.
DETAIL_MAX = 1_000
_UTF8 = codecs.getincrementaldecoder("utf-8")
Row = dict[str, Any]


class AvroResults:
    """Reads rows by their registered schemas."""

    def __init__(self, results: RegisteredResults, clock: Clock) -> None:
        self._results = results
        self._clock = clock
        self._again_ms = 0.0

    def row(self, value: bytes) -> dict[str, Any] | None:
        """The columns of a row; None while its schema is unavailable."""
        if self._clock.monotonic_ms() < self._again_ms:
            return None
        try:
            return self._results.row(value)
        except SpoJoinError as error:
            self._again_ms = self._clock.monotonic_ms() + PAUSE_MS
            _log.warning("rows in Avro can't be read", reason=str(error))
            return None


#: how many offsets before the end are read at first, and at most; some hold no record (transaction markers)
DEPTH_MIN, DEPTH_MAX = 4, 1_024


class TopicTail(Generic[T]):
    """Keeps the latest `wanted` items that `items_of` makes of one partition's records, the oldest first.

    Only the topic's end is read, not all that passes: a look costs the same at any rate.
    """

    def __init__(
        self,
        log: Log[bytes],
        source: LogPartition,
        wanted: int,
        items_of: Callable[[LogRecord[bytes]], Sequence[T]],
    ) -> None:
        self.items: list[T] = []
        #: the offset after the last record; None while there is no such topic
        self.end: int | None = None
        self._log = log
        self._source = source
        self._wanted = wanted
        self._items_of = items_of
        self._depth = DEPTH_MIN

    def look(self, reader: LogReader[bytes]) -> None:
        """Read what is new; nothing else may be open in `reader`. Raises LogUnavailable, and what `items_of` raises."""
        bounds = self._bounds()
        if bounds is None:
            self.end, self.items = None, []
            return
        deadline = time.monotonic() + READ_S_MAX
        while bounds.end != self.end:
            start = max(bounds.earliest, bounds.end - self._depth)
            found = self._read(reader, start, bounds.end, deadline)
            is_enough = len(found) >= self._wanted or start == bounds.earliest or self._depth >= DEPTH_MAX
            if is_enough or time.monotonic() > deadline:
                self.end, self.items = bounds.end, found
            else:
                self._depth *= DEPTH_STEP

    def _bounds(self) -> Bounds | None:
        try:
            return self._log.bounds(self._source)
        except LogUnavailable:
            if self._log.partitions(self._source.topic):
                raise
            return None

    def _read(self, reader: LogReader[bytes], start: int, end: int, deadline: float) -> list[T]:
        found: deque[T] = deque(maxlen=self._wanted)
        if start == end:
            return []
        reader.open(self._source, start)
        try:
            while reader.position(self._source) < end and not reader.at_end(self._source):
                for record in reader.poll(RECORDS_MAX, POLL_S):
                    found.extend(self._items_of(record))
                if time.monotonic() > deadline:
                    break
        finally:
            reader.drop(self._source)
        return list(found)


class ResultRows(NamedTuple):
    """Results, the latest first, one text for each of `columns`."""

    columns: list[str]
    rows: list[list[str]]


class Letter(NamedTuple):
    """A refused message: when it came, why it was refused, its place, and the beginning of its value."""

    time_ms: int
    reason: str
    detail: str
    place: str
    value: str


def rows_of(record: LogRecord[bytes], output: Output = Output.PAIRS, avro: AvroResults | None = None) -> list[Row]:
    """At most the last `ROWS` results of a record of the results topic, in any form. Raises WireError.

    avro: reads rows in Avro; without it, their sizes are shown
    """
    headers = dict(record.headers)
    if headers.get(CONTENT_TYPE) == JSON.content_type:
        return _json_rows(record.value, record.offset, output)
    if headers.get(CONTENT_TYPE) == JSON_SCHEMA.content_type:
        return _json_rows(record.value[PREFIX_BYTES:], record.offset, output)
    if headers.get(CONTENT_TYPE) == AVRO.content_type:
        return _avro_rows(headers, record.value, avro)
    rows: pa.RecordBatch = result_from_message(headers, record.value).rows
    found: list[Row] = rows.slice(max(0, rows.num_rows - ROWS)).to_pylist()
    return found


def _avro_rows(headers: Mapping[str, bytes], value: bytes, avro: AvroResults | None) -> list[Row]:
    """A message as a row, if it is one; if the registry has no schema for it, what is known about it."""
    if not value:
        return []
    row = None if avro is None else avro.row(value)
    return (
        [row]
        if row is not None
        else [{"seq": int(headers.get(SEQ, b"0")), "Avro": f"{len(value):,} bytes, schema {schema_id_of(value)}"}]
    )


def _json_rows(value: bytes, offset: int, output: Output) -> list[Row]:
    """A message as rows: it is a probe, a probe with its pairs, or a row; an empty value gives none."""
    if not value:
        return []
    try:
        probe = orjson.loads(value)
        pairs = probe.pop("pairs", None) if output is Output.PAIRS else None
        return [probe] if pairs is None else [{**probe, **pair} for pair in pairs[-ROWS:]]
    except (ValueError, AttributeError, TypeError) as error:
        raise WireError(f"the result at offset {offset} is no JSON.content_type object of ours: {error}") from error


def result_rows(rows: Sequence[Row], output: Output) -> ResultRows:
    """The table of `rows`, which come in the topic's order."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    texts = [[_cell(row.get(name), name, output) for name in columns] for row in reversed(rows)]
    return ResultRows(columns, texts)


def _cell(value: object, name: str, output: Output) -> str:
    if output is Output.BITMAP and name in ("as_left", "as_right") and isinstance(value, bytes | str):
        return f"{_partners(value):,} partners"
    if isinstance(value, bytes):
        return _cut(base64.b64encode(value).decode(), TEXT_MAX)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else _cut(str(value), TEXT_MAX)


def _partners(bitmap: bytes | str) -> int:
    return len(BitMap64.deserialize(base64.b64decode(bitmap) if isinstance(bitmap, str) else bitmap))


def letters_of(record: LogRecord[bytes]) -> list[Letter]:
    """The letter that a record of a dead-letter topic is, if it is one."""
    headers = dict(record.headers)
    return [] if REPLAYED in headers else [_letter_of(record, headers)]


def _letter_of(record: LogRecord[bytes], headers: Mapping[str, bytes]) -> Letter:
    source = f"{_said(headers, 'source-topic')}[{_said(headers, 'source-partition')}]"
    return Letter(
        time_ms=record.timestamp_ms,
        reason=_said(headers, "reason"),
        detail=_cut(_escaped(_said(headers, "detail")), DETAIL_MAX),
        place=f"offset {_said(headers, 'source-offset')} of {source}",
        value=readable(record.value),
    )


def readable(value: bytes) -> str:
    """The beginning of a message: its text, or its length and its bytes, in hex if they are not ASCII."""
    start = value[: 4 * VALUE_MAX]
    try:
        text = _UTF8().decode(start, final=len(start) == len(value))
    except UnicodeDecodeError:
        text = ""
    if value and not all(char.isprintable() or char in "\t\r\n" for char in text or "\0"):
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in start)
        return _cut(f"{len(value):,} bytes: {shown}", VALUE_MAX)
    return _cut(text, VALUE_MAX)


def worker_counts_of(record: LogRecord[bytes]) -> list[WorkerCount]:
    """The worker count that a record of the control topic requests. Raises WireError."""
    found = decode(record.value)
    return [found] if isinstance(found, WorkerCount) else []


def _said(headers: Mapping[str, bytes], name: str) -> str:
    return headers.get(f"spojoin-{name}", b"?").decode(errors="replace")


def _escaped(text: str) -> str:
    """A sentence about a message, with unprintable characters escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
