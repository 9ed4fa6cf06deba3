"""Rows as the values of Kafka messages."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.compute as pc


def ipc_bytes(batch: pa.RecordBatch) -> bytes:
    """A record batch as a complete Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def json_objects(batch: pa.RecordBatch) -> list[bytes]:
    """One JSON object per row, including nulls.

    Arrow converts columns of numbers, at a tenth of the cost of Python objects. It can't write JSON strings, or NaN as
    JSON needs it; rows with such values go through Python.
    """
    if batch.num_columns and all(_is_plain(column) for column in batch.columns):
        return _by_columns(batch)
    return [orjson.dumps(row) for row in batch.to_pylist()]


def _is_plain(column: pa.Array) -> bool:
    if pa.types.is_integer(column.type):
        return True
    return pa.types.is_float64(column.type) and bool(pc.all(pc.is_finite(column), min_count=0).as_py())


def _by_columns(batch: pa.RecordBatch) -> list[bytes]:
    parts: list[object] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        opening = "," if parts else "{"
        parts += [f"{opening}{orjson.dumps(name).decode()}:", pc.fill_null(column.cast(pa.string()), "null")]
    values: list[bytes] = pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary()).to_pylist()
    return values
