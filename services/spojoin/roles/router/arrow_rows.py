"""A message that is an Arrow IPC stream or file as rows."""

from __future__ import annotations

from collections.abc import Sequence

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


class BadMessage(Exception):  # a signal within this room
    """A message none of whose rows can be used; the reason is the dead letter's."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def read_arrow(
    stream: Stream, needs_time: bool, number: int, value: bytes, add_headers: AddHeaders | None = None
) -> tuple[Readout, int]:
    """The rows of all batches of the stream or file, numbered on, and their count; BadMessage where it is neither.

    number: of the input in its query
    """
    needed = columns_needed(stream, needs_time)
    readout = Readout()
    if stream.envelope is None:
        batch = _batch(value, needed)
        ids, count = np.arange(batch.num_rows), batch.num_rows
    else:
        messages = _batch(value, [stream.envelope], [OPERATION])
        ids, batch = _taken_out(messages, stream.envelope, needed, readout)
        count = messages.num_rows
    batch = batch if add_headers is None else add_headers(batch, ids)
    try:
        readout.take_all(ids, extract(stream, batch, needs_time, number))
    except BadData as error:
        raise BadMessage("type", str(error)) from error
    return readout, count


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


def _batch(value: bytes, needed: list[str], optional: Sequence[str] = ()) -> pa.RecordBatch:
    """The columns `needed`, and those of `optional` that are there."""
    is_file = value.startswith(FILE_MAGIC)
    try:
        with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
            _check_names(reader.schema.names, needed)
            more = [name for name in optional if reader.schema.names.count(name) == 1]
            table = reader.read_all().select([*needed, *more]).combine_chunks()
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadMessage("malformed", f"no whole Arrow IPC {'file' if is_file else 'stream'}: {error}") from error
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _check_names(found: list[str], needed: list[str]) -> None:
    for name in needed:
        if found.count(name) != 1:
            reason = "malformed" if name in found else "missing-field"
            raise BadMessage(reason, f"field {name}: expected one such column, found {', '.join(found) or 'none'}")
