"""Messages that are Arrow IPC streams or files as rows.

Arrow's work on a message costs as much as on a hundred rows. So small streams of one schema are read as if they were
one; where something is wrong with any of them, each is read by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spojoin.errors import BadData
from spojoin.model import Stream
from spojoin.query.extract import extract
from spojoin.roles.router.columns import columns_needed
from spojoin.roles.router.envelope import OPERATION, no_row, not_a_row
from spojoin.roles.router.line_reader import BadLine, Ids, Readout
from spojoin.roles.router.message_headers import AddHeaders

#: What an Arrow IPC file begins with, and a stream doesn't.
FILE_MAGIC = b"ARROW1\0\0"
#: What an Arrow IPC stream begins with; the size of its schema follows.
ARROW_CONTINUATION = b"\xff\xff\xff\xff"
#: A larger stream is read by itself, and so many bytes of smaller ones together.
SMALL_BYTES_MAX, TOGETHER_BYTES_MAX = 1 << 16, 1 << 22

#: (the message of each row, int64 (n,)) -> what adds their headers, where they are needed
HeadersOf = Callable[[Ids], AddHeaders | None]


class BadMessage(Exception):  # a signal within this room
    """A message none of whose rows can be used; the reason is the dead letter's."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class ArrowMessages(NamedTuple):
    """Messages that are read as one, by their numbers among those given: streams of one schema, or a single message."""

    places: list[int]
    values: list[bytes]

    def parted(self) -> Iterator[ArrowMessages]:
        """Each by itself."""
        return (ArrowMessages([place], [value]) for place, value in zip(self.places, self.values, strict=True))

    def table(self) -> tuple[pa.Table, Ids]:
        """All rows, and how many each message has, int64 (n,). Raises what Arrow raises where one isn't whole."""
        if len(self.values) > 1:
            return _joined(self.values)
        (value,) = self.values
        with (pa.ipc.open_file if self.is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
            table = reader.read_all()
        return table, np.array([table.num_rows])

    @property
    def is_file(self) -> bool:
        """Whether it is the one kind that isn't a stream."""
        return self.values[0].startswith(FILE_MAGIC)


def by_schema(places: Sequence[int], values: Sequence[bytes]) -> Iterator[ArrowMessages]:
    """Messages, by their numbers (n,) and values (n,), as they are best read: small streams of one schema together."""
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
    """The bytes that a small stream begins with, which say its schema; None of any other message."""
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
    """The rows of all batches, numbered on, and how many each message has, int64 (n,).

    number: of the input in its query; headers_of: gives what adds headers, by the message of each row

    Raises BadMessage where a message is no stream or file, or has other columns or types.
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
        readout.take_all(ids, extract(stream, batch, needs_time, number))
    except BadData as error:
        raise BadMessage("type", str(error)) from error
    return readout, counts


def _taken_out(
    messages: pa.RecordBatch, envelope: str, needed: list[str], readout: Readout
) -> tuple[Ids, pa.RecordBatch]:
    """The rows in a column of structs, and the numbers of those that are there."""
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
    """The columns `needed`, and those of `optional` that are there; and how many rows each message has."""
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
