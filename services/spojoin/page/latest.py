"""The latest results and dead letters as rows of short texts, from what stands in their topics."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyroaring import BitMap64

from spojoin.errors import WireError
from spojoin.model import Output
from spojoin.page.avro_results import AvroResults
from spojoin.ports.interfaces import LogRecord
from spojoin.protocol.topology import REPLAYED
from spojoin.wire.codec import decode
from spojoin.wire.records import WorkerCount
from spojoin.wire.registered import PREFIX_BYTES, schema_id_of
from spojoin.wire.results import CONTENT_TYPE, JSON, REGISTERED_AVRO, REGISTERED_JSON, SEQ, result_from_message

#: how many of each are shown
ROWS = 20
#: how many of the last worker counts are read; the one with the largest version counts
COUNTS = 16
#: longer texts are cut
TEXT_MAX = 60
VALUE_MAX = 160
#: A reason is shown whole, unless it quotes a whole message.
DETAIL_MAX = 1_000
_UTF8 = codecs.getincrementaldecoder("utf-8")

Row = dict[str, Any]


class ResultRows(NamedTuple):
    """Results, the latest first, one text for each of `columns`."""

    columns: list[str]
    rows: list[list[str]]


class Letter(NamedTuple):
    """A refused message: when it came, why it was refused, where it stands, and how its value begins."""

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
    if headers.get(CONTENT_TYPE) == JSON:
        return _json_rows(record.value, record.offset, output)
    if headers.get(CONTENT_TYPE) == REGISTERED_JSON:
        return _json_rows(record.value[PREFIX_BYTES:], record.offset, output)
    if headers.get(CONTENT_TYPE) == REGISTERED_AVRO:
        return _avro_rows(headers, record.value, avro)
    rows: pa.RecordBatch = result_from_message(headers, record.value).rows
    found: list[Row] = rows.slice(max(0, rows.num_rows - ROWS)).to_pylist()
    return found


def _avro_rows(headers: Mapping[str, bytes], value: bytes, avro: AvroResults | None) -> list[Row]:
    """A message is a row, or none; without the registry that has its schema, what can be said of it."""
    if not value:
        return []
    row = None if avro is None else avro.row(value)
    return (
        [row]
        if row is not None
        else [{"seq": int(headers.get(SEQ, b"0")), "Avro": f"{len(value):,} bytes, schema {schema_id_of(value)}"}]
    )


def _json_rows(value: bytes, offset: int, output: Output) -> list[Row]:
    """A message is a probe, or a probe with its pairs, or a row; the value is empty where there is none."""
    if not value:
        return []
    try:
        probe = orjson.loads(value)
        pairs = probe.pop("pairs", None) if output is Output.PAIRS else None
        return [probe] if pairs is None else [{**probe, **pair} for pair in pairs[-ROWS:]]
    except (ValueError, AttributeError, TypeError) as error:
        raise WireError(f"the result at offset {offset} is no JSON object of ours: {error}") from error


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
    """How a message begins: text as it is, else its length and its bytes, in hex where they are not ASCII."""
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
    """A sentence about a message may quote what no screen shows."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
