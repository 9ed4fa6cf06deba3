"""Result, reject and report files: written piece by piece, JSON lines or Parquet by the file's extension."""

from __future__ import annotations

import base64
import contextlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spojoin.embedded.named_files import is_written_directly
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.errors import ConfigurationError
from spojoin.expressions.types import select_schema
from spojoin.model import Output, Query

#: Rows of one Parquet row group: enough for its encodings to pay, and 40 MB of pairs in memory.
ROW_GROUP_ROWS = 1 << 20

#: Rows turned to text at once: keeps the text of a slice far below the 2 GiB that Arrow strings can address.
TEXT_ROWS = 1 << 16

_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PARQUET_SUFFIXES = (".parquet", ".pq")
#: A stream's name, stored once a batch.
STREAM_NAME = pa.dictionary(pa.int8(), pa.string())

# The stubs of pyarrow don't know that arrays and scalars may be mixed.
_join: Any = pc.binary_join_element_wise

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


class TableWriter(WholeOrNothing):
    """A file that takes record batches of one schema; rows: those written so far."""

    rows: int

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""


def open_writer(path: Path, schema: pa.Schema, sink: pa.NativeFile | None = None) -> TableWriter:
    """A writer for `path` by its extension (.jsonl, .ndjson, .json; .parquet, .pq).

    `sink` takes the bytes instead of a file at `path`, and is closed with the writer.

    Raises ConfigurationError for any other extension.
    """
    kind = ParquetWriter if is_parquet(path) else JsonLinesWriter
    return kind(pa.OSFile(str(path), "wb") if sink is None else sink, schema)


def is_parquet(path: Path) -> bool:
    """Whether `path` is written as Parquet rather than as JSON lines. Raises ConfigurationError if unsure.

    A pipe, a device or /dev/stdout whose name has no extension takes JSON lines.
    """
    suffix = path.suffix.lower()
    if suffix in _PARQUET_SUFFIXES:
        return True
    if suffix in _JSON_SUFFIXES or (not suffix and is_written_directly(path)):
        return False
    raise ConfigurationError(
        f"{path}: can't tell the format to write from {path.suffix or 'a name without extension'!r}; "
        f"use one of {', '.join(_JSON_SUFFIXES + _PARQUET_SUFFIXES)}"
    )


def result_schema(query: Query, key_types: Sequence[pa.DataType]) -> pa.Schema:
    """Columns of a query's results; `key_types` are the types of the streams' keys, in stream order."""
    int64 = pa.int64()
    if query.output is Output.PAIRS:
        left, right = key_types[0], key_types[-1]
        columns = {"probe_seq": int64, "left_seq": int64, "right_seq": int64, "left_key": left, "right_key": right}
        columns |= {} if query.limit is None else {"cut": pa.bool_()}
    elif query.output is Output.ROWS:
        return select_schema(query.select)
    elif query.output is Output.BITMAP:
        columns = {"seq": int64, "as_left": pa.binary(), "as_right": pa.binary()}
    else:
        columns = {"seq": int64, "stream": STREAM_NAME, "key": common_key_type(key_types), "matches": int64}
        columns |= {"as_left": int64, "as_right": int64} if query.is_of_one_input else {}
    return pa.schema(list(columns.items()))


def common_key_type(key_types: Sequence[pa.DataType]) -> pa.DataType:
    """The one type that holds the keys of all streams: int64 where all are, else text."""
    return pa.int64() if all(pa.types.is_int64(t) for t in key_types) else pa.string()


def write_report(path: Path, report: Mapping[str, object]) -> None:
    """Write `report` as one indented JSON object."""
    path.write_bytes(report_bytes(report))


def report_bytes(report: Mapping[str, object]) -> bytes:
    """`report` as one indented JSON object."""
    return orjson.dumps(dict(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


class JsonLinesWriter(TableWriter):
    """One JSON object a line; binary columns as base64."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self.rows = 0
        self._schema = schema
        self._file = sink

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""
        for start in range(0, batch.num_rows, TEXT_ROWS):
            self._file.write(json_lines(batch.slice(start, TEXT_ROWS)))
        self.rows += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is."""
        with contextlib.suppress(OSError):  # the first error is the one to report
            self._file.close()


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The batch's rows as JSON lines, built column by column; at most TEXT_ROWS rows of moderate width."""
    pieces: list[pa.Array[Any] | pa.StringScalar] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces.append(pa.scalar(("," if pieces else "{") + orjson.dumps(name).decode() + ":"))
        pieces.append(_json_values(column))
    pieces.append(pa.scalar("}\n"))
    lines = _join(*pieces, "", null_handling="replace", null_replacement="null")
    return _text_of(lines)


def _text_of(lines: pa.StringArray) -> pa.Buffer:
    """The bytes of a string array that starts at its buffer's first byte, all strings in a row, without a copy."""
    return lines.buffers()[2] or pa.py_buffer(b"")


def _json_values(column: pa.Array[Any]) -> pa.Array[Any]:
    """Each cell as JSON text, null as null."""
    if pa.types.is_dictionary(column.type):
        return _json_values(column.cast(column.type.value_type))
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _per_cell(column, lambda value: f'"{base64.b64encode(value).decode()}"')
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _json_strings(column.cast(pa.string()))
    return column.cast(pa.string())


def _json_strings(column: pa.Array[Any]) -> pa.Array[Any]:
    if pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py():
        return _per_cell(column, lambda value: orjson.dumps(value).decode())
    quoted: pa.StringArray = _join('"', column, '"', "")
    return quoted


def _per_cell(column: pa.Array[Any], text: Callable[[Any], str]) -> pa.StringArray:
    """The slow path, for the rare columns without a vectorised one."""
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())


class ParquetWriter(TableWriter):
    """Row groups of ROW_GROUP_ROWS rows.

    Sequence numbers ascend or repeat, so the delta encoding shrinks them to about a byte and is faster than both a
    dictionary and plain values with a compressor; text keeps its dictionary.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self.rows = 0
        self._schema = schema
        self._sink = sink
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        texts = [field.name for field in schema if not pa.types.is_integer(field.type)]
        numbers = {field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_integer(field.type)}
        options: dict[str, Any] = {"use_dictionary": texts, "column_encoding": numbers}
        self._file = pq.ParquetWriter(sink, schema, compression="zstd", compression_level=1, **options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Hold the batch until a row group is full."""
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._held_rows >= ROW_GROUP_ROWS:
            self._write_held()

    def close(self) -> None:
        """Write the last row group and the footer, and close the file."""
        self._write_held()
        self._file.close()
        self._sink.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file without its footer."""
        with contextlib.suppress(OSError, ValueError):  # the footer can't be written to a closed file
            self._sink.close()
            self._file.close()

    def _write_held(self) -> None:
        if self._held_rows:
            self._file.write_table(pa.Table.from_batches(self._held, self._schema), row_group_size=ROW_GROUP_ROWS)
        self._held, self._held_rows = [], 0
