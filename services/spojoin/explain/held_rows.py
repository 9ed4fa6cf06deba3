"""What a release holds of each row of a window besides the index: its number, its key and its payload, in bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.model import ColumnType, Query, Stream, TypeName
from spojoin.query.payload import carried

#: The length that is assumed of a text, a byte string or a row's headers where no sample tells it.
TEXT_MEAN_BYTES = 16
OFFSET_BYTES = 8
UUID_BYTES = 36  # as text
_FIXED = {
    TypeName.INT: 4,
    TypeName.LONG: 8,
    TypeName.FLOAT: 4,
    TypeName.DOUBLE: 8,
    TypeName.DECIMAL: 16,
    TypeName.DATE: 4,
    TypeName.TIMESTAMP: 8,
    TypeName.BOOLEAN: 1,
}


@dataclass(frozen=True, slots=True)
class PayloadColumn:
    """A column that travels with a stream's rows, and its mean bytes a row.

    source: "exact" for types of one width, else "measured" on a sample or "assumed"
    """

    name: str
    type: ColumnType
    bytes_row: float
    source: str


def payload_columns(stream: Stream, sample: pa.Table | None = None) -> tuple[PayloadColumn, ...]:
    """The payload of a stream's rows; a column with NULLs takes one more byte a row."""
    return tuple(_column(name, kind, sample) for name, kind in carried(stream).items())


def payload_bytes(stream: Stream, sample: pa.Table | None = None) -> float:
    """The payload of one row, in bytes."""
    return sum(column.bytes_row for column in payload_columns(stream, sample))


def _column(name: str, kind: ColumnType, sample: pa.Table | None) -> PayloadColumn:
    if kind.name in _FIXED:
        return PayloadColumn(name, kind, _FIXED[kind.name], "exact")
    if kind.name is TypeName.UUID:
        return PayloadColumn(name, kind, OFFSET_BYTES + UUID_BYTES, "exact")
    if sample is not None and name in sample.column_names and sample.num_rows and kind.name is not TypeName.MAP:
        values = sample.column(name)
        length = values.nbytes / len(values) if kind.name is TypeName.CARRIED else _mean_length(values)
        return PayloadColumn(name, kind, OFFSET_BYTES + length, "measured")
    return PayloadColumn(name, kind, OFFSET_BYTES + TEXT_MEAN_BYTES, "assumed")


def _mean_length(values: pa.ChunkedArray) -> float:
    texts = values.cast(pa.string()) if not pa.types.is_binary(values.type) else values
    return float(pc.sum(pc.binary_length(texts)).as_py() or 0) / len(values)


def names_rows(query: Query) -> bool:
    """Whether the sink holds the rows of the windows, because results or conditions on pairs name them."""
    return query.carries_keys or query.has_pair_payload
