"""Messages that are Arrow IPC streams or files as rows.

For Arrow, each message costs as much as a hundred rows. So small streams of one schema are read as if they were one; if
any of them is faulty, each is read by itself.
"""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from spojoin.columns.extract import extract
from spojoin.errors import BadData
from spojoin.model import Stream
from spojoin.reading.readout import (
    OPERATION,
    AddHeaders,
    BadLine,
    BadMessage,
    Ids,
    Readout,
    columns_needed,
    no_row,
    not_a_row,
)

#: The first bytes of an Arrow IPC file, with which no stream begins.
FILE_MAGIC = b"ARROW1\0\0"
#: The first bytes of an Arrow IPC stream; the size of its schema follows.
ARROW_CONTINUATION = b"\xff\xff\xff\xff"
#: A larger stream is read by itself; smaller ones are read together up to this many bytes.
SMALL_BYTES_MAX, TOGETHER_BYTES_MAX = 1 << 16, 1 << 22

#: (the message of each row, int64 (n,)) -> the function that adds their headers, if they are needed
HeadersOf = Callable[[Ids], AddHeaders | None]


class ArrowMessages(NamedTuple):
    """Messages that are read as one: streams of one schema, or a single message; `places` among the given messages."""

    places: list[int]
    values: list[bytes]

    def one_by_one(self) -> Iterator[ArrowMessages]:
        """Each message by itself."""
        return (ArrowMessages([place], [value]) for place, value in zip(self.places, self.values, strict=True))

    def table(self) -> tuple[pa.Table, Ids]:
        """All rows, and how many each message has, int64 (n,). Raises what Arrow raises for an incomplete message."""
        if len(self.values) > 1:
            return _joined(self.values)
        (value,) = self.values
        with (pa.ipc.open_file if self.is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
            table = reader.read_all()
        return table, np.array([table.num_rows])

    @property
    def is_file(self) -> bool:
        """Whether the message is a file, not a stream."""
        return self.values[0].startswith(FILE_MAGIC)


def by_schema(places: Sequence[int], values: Sequence[bytes]) -> Iterator[ArrowMessages]:
    """Messages, given by numbers (n,) and values (n,), grouped for reading: small streams of one schema together."""
    found: dict[bytes, ArrowMessages] = {}
    sizes: dict[bytes, int] = defaultdict(int)
    for place, value in zip(places, values, strict=True):
        schema = _schema_of(value)
        if schema is None:
            yield ArrowMessages([place], [value])
            continue
        sizes[schema] += len(value)
        if sizes[schema] > TOGETHER_BYTES_MAX and schema in found:
            sizes[schema] = len(value)
            yield found.pop(schema)
        same = found.setdefault(schema, ArrowMessages([], []))
        same.places.append(place)
        same.values.append(value)
    yield from found.values()


def _schema_of(value: bytes) -> bytes | None:
    """The first bytes of a small stream, which contain its schema; None for any other message."""
    if len(value) > SMALL_BYTES_MAX or not value.startswith(ARROW_CONTINUATION):
        return None
    size = int.from_bytes(value[4:8], "little")
    return value[: 8 + size] if 0 < size <= len(value) - 8 else None


def _joined(values: Sequence[bytes]) -> tuple[pa.Table, Ids]:
    """The rows of streams of one schema, and how many each has."""
    schema, batches, counts = None, [], []
    for value in values:
        head, *rest = pa.ipc.MessageReader.open_stream(pa.py_buffer(value))
        schema = schema or pa.ipc.read_schema(head)
        own = [pa.ipc.read_record_batch(message, schema) for message in rest]
        counts.append(sum([batch.num_rows for batch in own]))
        batches += own
    return pa.Table.from_batches(batches, schema), np.array(counts, np.int64)


def read_arrow(
    stream: Stream, needs_time: bool, number: int, messages: ArrowMessages, headers_of: HeadersOf
) -> tuple[Readout, Ids]:
    """The rows of all batches, numbered consecutively, and how many each message has, int64 (n,).

    number: the input's number in its query; headers_of: returns the function that adds headers, by each row's message

    Raises BadMessage if a message is no stream or file, or has other columns or types.
    """
    needed = columns_needed(stream, needs_time)
    readout = Readout()
    if stream.envelope is None:
        batch, counts = _batch(messages, needed)
        ids = np.arange(batch.num_rows)
    else:
        holders, counts = _batch(messages, [stream.envelope], [OPERATION])
        ids, batch = _taken_out(holders, stream.envelope, needed, readout)
    add_headers = headers_of(np.repeat(np.array(messages.places, np.int64), counts))
    batch = batch if add_headers is None else add_headers(batch, ids)
    try:
        readout.keep_rows_and_faults(ids, extract(stream, batch, needs_time, number))
    except BadData as error:
        raise BadMessage("type", str(error)) from error
    return readout, counts


def _taken_out(
    messages: pa.RecordBatch, envelope: str, needed: list[str], readout: Readout
) -> tuple[Ids, pa.RecordBatch]:
    """The rows in a column of structs, and the numbers of those that aren't null."""
    holder = messages.column(envelope)
    if not pa.types.is_struct(holder.type):
        raise BadMessage(*not_a_row(envelope, f"the Arrow type {holder.type}"))
    _check_names([each.name for each in holder.type], needed)
    is_row = np.asarray(holder.is_valid().to_numpy(zero_copy_only=False))
    for at in np.flatnonzero(~is_row).tolist():
        operation = messages.column(OPERATION)[at].as_py() if OPERATION in messages.schema.names else None
        readout.faults.append(BadLine(at, *no_row(envelope, operation)))
    ids = np.flatnonzero(is_row)
    rows = pa.RecordBatch.from_struct_array(holder.take(pa.array(ids)))
    return ids, rows.select(needed)


def _batch(messages: ArrowMessages, needed: list[str], optional: Sequence[str] = ()) -> tuple[pa.RecordBatch, Ids]:
    """The columns `needed` and the present ones of `optional`; and how many rows each message has."""
    try:
        table, counts = messages.table()
        names = table.schema.names
        _check_names(names, needed)
        table = table.select([*needed, *(name for name in optional if names.count(name) == 1)])
        table.validate(full=True)
        batches = table.combine_chunks().to_batches()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        kind = "file" if messages.is_file else "stream"
        raise BadMessage("malformed", f"no whole Arrow IPC {kind}: {error}") from error
    if len(batches) > 1:
        raise BadMessage("malformed", "a column holds more than 2 GiB of text")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema), counts


def _check_names(found: list[str], needed: list[str]) -> None:
    for name in needed:
        if found.count(name) != 1:
            reason = "malformed" if name in found else "missing-field"
            raise BadMessage(reason, f"field {name}: expected one such column, found {', '.join(found) or 'none'}")


def sound_table(value: bytes) -> pa.Table:
    """The rows, without columns whose bytes don't match their type, which may not have been checked before."""
    table, _ = ArrowMessages([0], [value]).table()
    return table.select([at for at, column in enumerate(table.columns) if _is_sound(column)])


def _is_sound(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def json_line(row: pa.Table) -> bytes:
    """The only row of a table as a JSON object."""
    return orjson.dumps(
        {name: _plain(column[0]) for name, column in zip(row.column_names, row.columns, strict=True)},
        default=lambda value: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value),
        option=orjson.OPT_NON_STR_KEYS,
    )


def _plain(scalar: pa.Scalar) -> object:
    """A Python value, or text for values that Python can't represent, such as nanoseconds."""
    if isinstance(scalar, pa.StructScalar) and scalar.is_valid:
        return {field.name: _plain(scalar[at]) for at, field in enumerate(scalar.type)}
    if isinstance(scalar, pa.ListScalar) and scalar.is_valid:
        return [_plain(each) for each in scalar.values]
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.cast(pa.string()))
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
