"""Reads the inputs of a run, one for each stream and table, so that no input gets far ahead of another."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.field import plain_value
from spojoin.columns.numbers import read_times_us
from spojoin.columns.refusals import Refusals
from spojoin.columns.stream_columns import arrow_schema, arrow_type
from spojoin.embedded.batches import one_batch
from spojoin.embedded.coded_rows import table_rows
from spojoin.embedded.file_paths import files_of
from spojoin.embedded.file_reader import Reader
from spojoin.embedded.python_rows import ReadOnce, RowsLike, tables_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.sorted_reader import SortedReader, is_in_order
from spojoin.embedded.writers import common_key_type
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import HEADERS, ColumnType, Output, Query, Stream
from spojoin.protocol.machine import TableRows

#: How many rows are kept at least, to show refused ones. The engine refuses a row when its frame closes: some
#: thousand rows later, or later still if the other stream must catch up first.
KEPT_ROWS = 1 << 17

_BEGINNING = -(2**63)

#: Rows given to the join at once.
BATCH_ROWS = 1 << 16


@dataclass(slots=True)
class InputFile:
    """The file or table of one stream while it is read. rows, first and last time: of all rows that `read` returned.

    refused: why lines of the last batch are not rows, by their positions in the batch
    """

    index: int
    stream: Stream
    reader: Reader
    batches: Iterator[pa.RecordBatch]
    key_type: pa.DataType
    needs_time: bool
    rows: int = 0
    first_time_us: int | None = None
    last_time_us: int | None = None
    kept: deque[pa.RecordBatch] = field(default_factory=deque)
    is_done: bool = False
    refused: Mapping[int, str] = field(default_factory=dict)

    def read(self) -> pa.RecordBatch | None:
        """The next rows, or None at the end of the file."""
        batch = next((batch for batch in self.batches if batch.num_rows), None)
        if batch is None:
            self.is_done = True
            return None
        if self.stream.key:
            batch = with_key_type(batch, self.stream.key, self.key_type, str(self.reader.path))
        if self.needs_time and self.stream.time_column:
            if not self.rows:
                _check_unit(batch, self.stream)
            self._note_times(batch, self.stream.time_column)
        self.refused = self.reader.why_malformed(self.rows, batch.num_rows)
        self.rows += batch.num_rows
        self._keep(batch)
        return batch

    def place(self, position: int) -> int:
        """The file position of the row that was read at `position`; they differ if rows are sorted."""
        return position if self.reader.places is None else int(self.reader.places[position])

    def places(self, rows: int) -> NDArray[np.int64] | None:
        """The positions in the file of the last `rows` rows; None if rows are read in the order of the file."""
        places = self.reader.places
        return None if places is None else places[self.rows - rows : self.rows]

    def row(self, position: int) -> Mapping[str, object] | str | None:
        """The values of the row at a position, or the text of a line that is not a row; None if no longer kept."""
        if position in self.reader.malformed:
            return self.reader.malformed.pop(position)
        begin = self.rows
        for batch in reversed(self.kept):
            begin -= batch.num_rows
            if begin <= position < begin + batch.num_rows:
                at = position - begin
                return {name: plain_value(batch.column(name)[at]) for name in batch.schema.names}
        return None

    def _keep(self, batch: pa.RecordBatch) -> None:
        self.kept.append(batch)
        while sum(each.num_rows for each in self.kept) - self.kept[0].num_rows >= KEPT_ROWS:
            self.kept.popleft()

    def _note_times(self, batch: pa.RecordBatch, time: str) -> None:
        declared = self.stream.schema.get(time)
        last = _time_of(batch.slice(batch.num_rows - 1), time, declared)
        self.last_time_us = self.last_time_us if last is None else last
        if self.first_time_us is None:
            self.first_time_us = _time_of(batch.slice(0, 1), time, declared)


def _check_unit(batch: pa.RecordBatch, stream: Stream) -> None:
    """Raise ConfigurationError if the first event times all look like numbers in another unit than declared."""
    time = stream.time_column
    assert time is not None
    refusals = Refusals(batch.num_rows)
    read_times_us(time, batch.column(time), refusals, stream.schema.get(time))
    first = next(iter(refusals.by_row.values()), None)
    if first is not None and first[0] == "unit" and not len(refusals.kept()):
        raise ConfigurationError(f"event time of {stream.name}: {first[1]}")


def open_inputs(
    query: Query, sources: Mapping[str, object], *, sorts: bool = False, whole: bool = False
) -> list[InputFile]:
    """Open the file or table of each input. Raises ConfigurationError if these and the query's streams don't fit.

    sorts: whether to sort the rows of event-time queries first
    whole: whether to read all columns of a stream's schema that its file has, not only those that the query reads
    """
    check_stream_names(query, sources)
    readers = [_reader(sources[stream.name], stream, _columns(stream, query)) for stream in query.inputs]
    if whole:
        readers = [
            _whole_reader(each, sources[each.name], reader) for each, reader in zip(query.inputs, readers, strict=True)
        ]
    for reader, stream in zip(readers, query.inputs, strict=True):
        if stream.time_column:  # not read in arrival order, but if it is missing, its name is probably misspelled
            reader.check_has(stream.time_column)
    types = [reader.key_type for reader in readers]
    if query.results.output is Output.COUNT:  # one column holds the keys of all streams
        types = [common_key_type(types)] * len(types)
    if sorts:
        readers = [_sorted_reader(reader, stream, query) for reader, stream in zip(readers, query.inputs, strict=True)]
    return [
        InputFile(i, stream, readers[i], iter(readers[i]), types[i], query.needs_time)
        for i, stream in enumerate(query.inputs)
    ]


def _columns(stream: Stream, query: Query) -> pa.Schema:
    """The columns to read. `headers`, if not declared, means the headers of Kafka messages, which files lack."""
    found = arrow_schema(stream, query.needs_time)
    return pa.schema([field for field in found if field.name != HEADERS or HEADERS in stream.schema])


def _whole_reader(stream: Stream, source: object, reader: Reader) -> Reader:
    """A reader of the same source that also reads the other columns of the stream's schema that the source has."""
    others = [name for name in stream.schema if name in reader.found and name not in reader.schema.names]
    declared = [pa.field(name, arrow_type(stream.schema[name])) for name in others]
    return _reader(source, stream, pa.schema([*reader.schema, *declared])) if declared else reader


def may_be_sorted(query: Query) -> bool:
    """Whether rows are ordered by event time and the query sets no lateness, so that files may be sorted."""
    return query.needs_time and not query.order.has_lateness and any(map(_is_timed, query.inputs))


def is_sorted(query: Query, sources: Mapping[str, object]) -> bool:
    """Whether all rows are in the order of their event times; False for a source that can be read only once."""
    for stream in filter(_is_timed, query.inputs):
        source = sources[stream.name]
        if isinstance(source, ReadOnce):
            return False
        schema = arrow_schema(stream, needs_time=True)
        time = str(stream.time_column)
        reader = _reader(source, stream, pa.schema([schema.field(time)]), with_key=False)
        if not is_in_order(reader, time, stream.schema.get(time)):
            return False
    return True


def _is_timed(stream: Stream) -> bool:
    return stream.table is None and stream.time_column is not None


def _sorted_reader(reader: Reader, stream: Stream, query: Query) -> Reader:
    time = stream.time_column
    if time is None or not may_be_sorted(query):
        return reader
    return SortedReader(reader, time, stream.schema.get(time))


def _reader(source: object, stream: Stream, schema: pa.Schema, *, with_key: bool = True) -> Reader:
    if isinstance(source, str | Path):
        return open_reader(Path(source), schema, stream.key if with_key else None, stream.file.csv)
    return TableReader(stream.name, cast("RowsLike", source), schema)


def read_balanced(inputs: Sequence[InputFile]) -> Iterator[tuple[InputFile, pa.RecordBatch | None]]:
    """Yield each input with its next batch, or with None when the input has ended.

    The next batch always comes from the input that is furthest behind in event time, so that few rows wait. Inputs
    without an order are read one after the other.
    """
    while left := [each for each in inputs if not each.is_done]:
        behind = min(
            left,
            key=lambda each: (
                _BEGINNING if each.last_time_us is None else each.last_time_us,
                each.reader.fraction if each.needs_time else each.index,
            ),
        )
        batch = behind.read()
        if batch is not None or behind.is_done:
            yield behind, batch


def with_key_type(batch: pa.RecordBatch, key: str, wanted: pa.DataType, source: str) -> pa.RecordBatch:
    """The batch with its key column cast to `wanted`. Raises BadData with the first key that can't be cast."""
    at = batch.schema.get_field_index(key)
    column = batch.column(at)
    if column.type == wanted:
        return batch
    try:
        return batch.set_column(at, key, column.cast(wanted))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadData(
            f"{source}: the key column {key!r} holds {column.type} where {wanted} was expected ({error}); "
            "make all keys whole numbers, or all text"
        ) from error


def _time_of(row: pa.RecordBatch, time: str, declared: ColumnType | None) -> int | None:
    refusals = Refusals(1)
    times_us = read_times_us(time, row.column(row.schema.get_field_index(time)), refusals, declared)
    return int(times_us[0]) if len(refusals.kept()) else None


def check_stream_names(query: Query, paths: Mapping[str, object]) -> None:
    """Raise ConfigurationError if a stream has no file, or a file is given for a stream that the query doesn't have."""
    streams = [stream.name for stream in query.inputs]
    for name in paths:
        if name not in streams:
            known = ", ".join(streams)
            raise ConfigurationError(f"--input {name}={paths[name]}: the query has no stream {name!r}, it has {known}")
    for stream in query.inputs:
        if stream.name not in paths:
            what = "stream" if stream.table is None else "table"
            raise ConfigurationError(f"no file for the {what} {stream.name!r}: add --input {stream.name}=FILE")


class TableReader(Reader):
    """Reads a table, data frame, reader or generator. name: its name in the statement, for errors."""

    def __init__(self, name: str, rows: RowsLike | ReadOnce, schema: pa.Schema) -> None:
        super().__init__(Path(name), schema, None)
        self._rows = rows
        self._is_done = False
        self.found = schema.names

    @property
    def key_type(self) -> pa.DataType:
        """int64: the keys are positions."""
        return pa.int64()

    @property
    def fraction(self) -> float:
        """0 or 1, because the number of rows isn't always known."""
        return float(self._is_done)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = iter(self._rows) if isinstance(self._rows, ReadOnce) else self._rows
        for table in tables_of(rows, self.schema.names):
            self._check_columns(table.column_names)
            yield from table.select(self.schema.names).to_batches(max_chunksize=BATCH_ROWS)
        self._is_done = True


def whole_table(file: InputFile) -> pa.RecordBatch:
    """All rows of a file. Raises BadData if a line is not a row."""
    batch, malformed = rows_and_malformed(file)
    for row, why in malformed.items():
        raise BadData(f"{table_name(file)}, row {row}: {why}: a table is taken as a whole")
    return batch


def table_name(file: InputFile) -> str:
    return f"table {file.stream.name}, {file.reader.path}"


def rows_and_malformed(file: InputFile) -> tuple[pa.RecordBatch, dict[int, str]]:
    """All rows of a file, and by position the reasons why some lines are not rows."""
    batches: list[pa.RecordBatch] = []
    malformed: dict[int, str] = {}
    while (batch := file.read()) is not None:
        malformed |= {file.rows - batch.num_rows + row: why for row, why in file.refused.items()}
        batches.append(batch)
    return one_batch(batches, file.reader.schema), malformed


class FileTable:
    """A query's table from a file, or from the files of a pattern, as services load it.

    Raises ConfigurationError if the file is missing or lacks a column.
    """

    def __init__(self, query: Query, path: Path) -> None:
        self.refresh_ms = 0
        self._query = query
        self._path = path
        self._opened()

    def add_messages(self, partition: int, messages: Sequence[Any]) -> None:
        """Never called: a file has no messages."""
        raise AssertionError("only the messages of a topic are added")

    def version(self) -> TableRows:
        """The file's rows, with a hash of its bytes as their version. Raises ConfigurationError or BadData."""
        digest = hashlib.blake2b(digest_size=8)
        number = len(self._query.inputs) - 1
        stream = self._query.inputs[number]
        reader = self._opened()
        batch = whole_table(InputFile(number, stream, reader, iter(reader), reader.key_type, needs_time=False))
        for file in files_of(self._path):
            digest.update(file.read_bytes())
        return TableRows(
            table_rows(self._query, batch, f"table {stream.name}, {self._path}"),
            int.from_bytes(digest.digest(), "little"),
        )

    def _opened(self) -> Reader:
        stream = self._query.inputs[-1]
        return open_reader(self._path, arrow_schema(stream, needs_time=False), None, stream.file.csv)
