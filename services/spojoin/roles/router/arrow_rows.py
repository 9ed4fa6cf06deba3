"""A message that is an Arrow IPC stream or file as rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.errors import BadData
from spojoin.model import Stream
from spojoin.query.extract import extract
from spojoin.roles.router.columns import columns_needed
from spojoin.roles.router.line_reader import Readout

#: What an Arrow IPC file begins with, and a stream doesn't.
FILE_MAGIC = b"ARROW1\0\0"


class BadMessage(Exception):  # a signal within this room
    """A message none of whose rows can be used; the reason is the dead letter's."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def read_arrow(stream: Stream, needs_time: bool, number: int, value: bytes) -> tuple[Readout, int]:
    """The rows of all batches of the stream or file, numbered on, and their count; BadMessage where it is neither.

    number: of the input in its query
    """
    batch = _batch(value, columns_needed(stream, needs_time))
    readout = Readout()
    try:
        readout.take_all(np.arange(batch.num_rows), extract(stream, batch, needs_time, number))
    except BadData as error:
        raise BadMessage("type", str(error)) from error
    return readout, batch.num_rows


def _batch(value: bytes, needed: list[str]) -> pa.RecordBatch:
    is_file = value.startswith(FILE_MAGIC)
    try:
        with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
            _check_names(reader.schema.names, needed)
            table = reader.read_all().select(needed).combine_chunks()
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
