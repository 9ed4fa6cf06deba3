"""Writes result, reject and report files piece by piece; an option or the file's extension gives the format."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.embedded.cell_text import csv_strings, csv_values, json_values
from spojoin.embedded.file_paths import NamedFile, check_outputs
from spojoin.embedded.formats import ResultFormat, compression_of, format_of, is_stream, real_path
from spojoin.embedded.outputs import Outputs, TableWriter
from spojoin.errors import ConfigurationError
from spojoin.expressions.types import select_schema
from spojoin.model import Output, Query

#: Rows of one Parquet row group: enough to encode well, and at most 40 MB of pairs in memory.
ROW_GROUP_ROWS = 1 << 20

#: Rows turned into text at once: their text stays far below the 2 GiB that Arrow strings can address.
TEXT_ROWS = 1 << 16

#: The type of stream names: each name is stored once per batch.
STREAM_NAME = pa.dictionary(pa.int8(), pa.string())

# pyarrow's type stubs don't allow mixing arrays and scalars.
_join: Any = pc.binary_join_element_wise


def open_writer(
    path: Path, schema: pa.Schema, sink: pa.NativeFile | None = None, chosen: ResultFormat | None = None
) -> TableWriter:
    """A writer for `path` by its extension (.jsonl, .ndjson, .json, .csv, also .gz, .bz2, .zst; .parquet; .arrow).

    `sink` takes the bytes instead of a file at `path`, and is closed with the writer; `chosen` overrides the extension.

    Raises ConfigurationError for any other extension.
    """
    kind = format_of(path, chosen)
    path = real_path(path)
    sink = pa.OSFile(str(path), "wb") if sink is None else sink
    match kind:
        case ResultFormat.PARQUET:
            return ParquetWriter(sink, schema)
        case ResultFormat.ARROW:
            return ArrowWriter(sink, schema, is_stream=is_stream(path))
        case ResultFormat.TABLE:
            from spojoin.embedded.table_for_people import TableForPeople  # noqa: PLC0415  (loads rich)

            return TableForPeople(sink, schema)
    lines = packed(path, sink)
    return JsonLinesWriter(lines, schema) if kind is ResultFormat.JSON else CsvWriter(lines, schema)


def packed(path: Path, sink: pa.NativeFile) -> pa.NativeFile:
    """A sink for the text of `path`: the sink of its bytes, or a compressor that writes to this sink and closes it."""
    codec = compression_of(path)
    return sink if codec is None else pa.CompressedOutputStream(sink, codec)


def result_schema(query: Query, key_types: Sequence[pa.DataType]) -> pa.Schema:
    """Columns of a query's results; `key_types` are the types of the streams' keys, in stream order."""
    int64 = pa.int64()
    if query.results.output is Output.PAIRS:
        left, right = key_types[0], key_types[-1]
        columns = {"probe_seq": int64, "left_seq": int64, "right_seq": int64, "left_key": left, "right_key": right}
        columns |= {} if query.results.limit is None else {"cut": pa.bool_()}
    elif query.results.output is Output.ROWS:
        return select_schema(query.results.select)
    elif query.results.output is Output.BITMAP:
        columns = {"seq": int64, "as_left": pa.binary(), "as_right": pa.binary()}
    else:
        columns = {"seq": int64, "stream": STREAM_NAME, "key": common_key_type(key_types), "matches": int64}
        columns |= {"as_left": int64, "as_right": int64} if query.is_of_one_input else {}
    return pa.schema(list(columns.items()))


def common_key_type(key_types: Sequence[pa.DataType]) -> pa.DataType:
    """The type that holds the keys of all streams: int64 if all keys are, otherwise text."""
    return pa.int64() if all(pa.types.is_int64(t) for t in key_types) else pa.string()


def write_report(path: Path, report: Mapping[str, object]) -> None:
    """Write `report` as one indented JSON object."""
    path.write_bytes(report_bytes(report))


def report_bytes(report: Mapping[str, object]) -> bytes:
    """`report` as one indented JSON object."""
    return orjson.dumps(dict(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


class LinesWriter(TableWriter):
    """Rows as lines of text."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self.rows = 0
        self._file = sink

    @abstractmethod
    def lines(self, batch: pa.RecordBatch) -> pa.Buffer:
        """The text of at most TEXT_ROWS rows."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""
        for start in range(0, batch.num_rows, TEXT_ROWS):
            self._file.write(self.lines(batch.slice(start, TEXT_ROWS)))
        self.rows += batch.num_rows

    def close(self) -> None:
        self._file.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is."""
        with contextlib.suppress(OSError):  # the first error is the one to report
            self._file.close()


class JsonLinesWriter(LinesWriter):
    """One JSON object a line; see `json_values` for the form of values."""

    def lines(self, batch: pa.RecordBatch) -> pa.Buffer:
        """The text of at most TEXT_ROWS rows."""
        return json_lines(batch)


class CsvWriter(LinesWriter):
    """CSV with a header line; see `csv_values` for the form of values. NULL is an empty cell."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        super().__init__(sink, schema)
        names: list[str] = csv_strings(pa.array(schema.names, pa.string())).to_pylist()
        self._file.write((",".join(names) + "\n").encode())

    def lines(self, batch: pa.RecordBatch) -> pa.Buffer:
        """The text of at most TEXT_ROWS rows."""
        return csv_lines(batch)


def csv_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The batch's rows as CSV lines, built column by column; at most TEXT_ROWS rows of moderate width.

    NULL in the only column is written as quoted empty text, since an empty line is not a row.
    """
    pieces: list[pa.Array[Any] | pa.StringScalar] = []
    for column in batch.columns:
        pieces += [pa.scalar(","), csv_values(column)] if pieces else [csv_values(column)]
    nothing = '""' if batch.num_columns == 1 else ""
    return _text_of(_join(*pieces, pa.scalar("\n"), "", null_handling="replace", null_replacement=nothing))


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The batch's rows as JSON lines, built column by column; at most TEXT_ROWS rows of moderate width."""
    pieces: list[pa.Array[Any] | pa.StringScalar] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces.append(pa.scalar(("," if pieces else "{") + orjson.dumps(name).decode() + ":"))
        pieces.append(json_values(column))
    pieces.append(pa.scalar("}\n"))
    lines = _join(*pieces, "", null_handling="replace", null_replacement="null")
    return _text_of(lines)


def _text_of(lines: pa.StringArray) -> pa.Buffer:
    """The bytes of all strings in a row, without a copy; the array must start at its buffer's first byte."""
    return lines.buffers()[2] or pa.py_buffer(b"")


class ArrowWriter(TableWriter):
    """An Arrow IPC file or stream; columns of dictionaries are written as plain values."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, *, is_stream: bool) -> None:
        self.rows = 0
        self._schema = pa.schema(
            [
                field.with_type(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
                for field in schema
            ]
        )
        self._sink = sink
        self._file = (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(sink, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""
        self._file.write_batch(batch.cast(self._schema))
        self.rows += batch.num_rows

    def close(self) -> None:
        """Write the end, and close the file."""
        self._file.close()
        self._sink.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file without its end."""
        with contextlib.suppress(OSError, ValueError):  # the end can't be written to a closed file
            self._sink.close()
            self._file.close()


class ParquetWriter(TableWriter):
    """Row groups of ROW_GROUP_ROWS rows.

    Sequence numbers ascend or repeat: delta encoding shrinks each to about a byte, and is faster than a dictionary
    or compressed plain values. Text keeps its dictionary.
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
        from pyarrow.parquet import ParquetWriter as ArrowParquetWriter  # noqa: PLC0415  (few runs write Parquet)

        for field in schema:
            if pa.types.is_interval(field.type):
                raise ConfigurationError(
                    f"column {field.name!r} of results is an interval, for which Parquet has no type: CAST it AS "
                    "VARCHAR in the statement, or write Arrow or JSON"
                )
        self._file = ArrowParquetWriter(sink, schema, compression="zstd", compression_level=1, **options)

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


@contextmanager
def open_output(path: Path, schema: pa.Schema, chosen: ResultFormat | None = None) -> Iterator[TableWriter]:
    """A writer for standard output (`-`), or for a file that appears at the end of the block, whole or not at all.

    chosen: the format; None means the extension's, or without one, a table for people on a terminal, JSON lines in a
    pipe.

    Raises ConfigurationError if the format is unknown or nothing can be written there.
    """
    format_of(path, chosen)
    file = NamedFile("", real_path(path))
    check_outputs([file])
    with Outputs() as outputs, open_writer(path, schema, outputs.open(file), chosen) as writer:
        yield writer
