"""The files of a run, one per stream, read at a balanced pace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.embedded.arguments import RowsLike
from spojoin.embedded.file_reader import Reader
from spojoin.embedded.given_tables import ReadOnce
from spojoin.embedded.readers import open_reader
from spojoin.embedded.sorted_reader import SortedReader, is_in_order
from spojoin.embedded.table_reader import TableReader
from spojoin.embedded.writers import common_key_type
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import HEADERS, ColumnType, Output, Query, Stream
from spojoin.query.field import plain_value
from spojoin.query.refusals import Refusals
from spojoin.query.schema import arrow_schema
from spojoin.query.times import read_times_us

#: Rows kept so that refused ones can be shown. The engine reports a refused row when a frame closes behind it, some
#: thousand rows later, or more where the other stream has to catch up first.
KEPT_ROWS = 1 << 17

_BEGINNING = -(2**63)


@dataclass(slots=True)
class InputFile:
    """One stream's file while it is read; rows and times cover what `read` has returned.

    refused: of what `read` has returned last, why some of it is no row, by position in the batch
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
        """Where the row stands that was read as the one at this position."""
        return position if self.reader.places is None else int(self.reader.places[position])

    def places(self, rows: int) -> NDArray[np.int64] | None:
        """Where the last `rows` rows stand that were read; None where they were read as they stand."""
        places = self.reader.places
        return None if places is None else places[self.rows - rows : self.rows]

    def row(self, position: int) -> Mapping[str, object] | str | None:
        """What a position held: a row's values, or the text of a line that is no row; None if no longer known."""
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
    """ConfigurationError where the first event times are all numbers that look like another unit than is meant."""
    time = stream.time_column
    assert time is not None
    refusals = Refusals(batch.num_rows)
    read_times_us(time, batch.column(time), refusals, stream.schema.get(time))
    first = next(iter(refusals.by_row.values()), None)
    if first is not None and first[0] == "unit" and not len(refusals.kept()):
        raise ConfigurationError(f"event time of {stream.name}: {first[1]}")


def open_inputs(query: Query, sources: Mapping[str, object], *, sorts: bool = False) -> list[InputFile]:
    """Open what each stream is read from, a file or a table; ConfigurationError where these and streams don't fit.

    sorts: whether rows that are in the order of event time are sorted by it first
    """
    check_names(query, sources)
    readers = [_reader(sources[stream.name], stream, _columns(stream, query)) for stream in query.inputs]
    for reader, stream in zip(readers, query.inputs, strict=True):
        if stream.time_column:  # arrival order doesn't read it, but a missing column is likely a typing error
            reader.check_has(stream.time_column)
    types = [reader.key_type for reader in readers]
    if query.output is Output.COUNT:  # one column holds the keys of all streams
        types = [common_key_type(types)] * len(types)
    if sorts:
        readers = [_sorted(reader, stream, query) for reader, stream in zip(readers, query.inputs, strict=True)]
    return [
        InputFile(i, stream, readers[i], iter(readers[i]), types[i], query.needs_time)
        for i, stream in enumerate(query.inputs)
    ]


def _columns(stream: Stream, query: Query) -> pa.Schema:
    """The columns to read; headers are those of Kafka's messages, unless the file has such a column."""
    found = arrow_schema(stream, query.needs_time)
    return pa.schema([field for field in found if field.name != HEADERS or HEADERS in stream.schema])


def may_be_sorted(query: Query) -> bool:
    """Whether the rows of inputs that end are in the order of event time, and nothing says how late they may come."""
    return query.needs_time and not query.has_lateness and any(map(_is_timed, query.inputs))


def is_sorted(query: Query, sources: Mapping[str, object]) -> bool:
    """Whether all rows stand in the order of their event times. What can be read once isn't read for that."""
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


def _sorted(reader: Reader, stream: Stream, query: Query) -> Reader:
    time = stream.time_column
    if time is None or not may_be_sorted(query):
        return reader
    return SortedReader(reader, time, stream.schema.get(time))


def _reader(source: object, stream: Stream, schema: pa.Schema, *, with_key: bool = True) -> Reader:
    if isinstance(source, str | Path):
        return open_reader(Path(source), schema, stream.key if with_key else None, stream.file.csv)
    return TableReader(stream.name, cast("RowsLike", source), schema)


def balanced(inputs: Sequence[InputFile]) -> Iterator[tuple[InputFile, pa.RecordBatch | None]]:
    """All inputs' batches, always from the input that is furthest behind in event time, so that little waits.

    Inputs that have no order are read one after the other.
    A batch of None means that an input has ended.
    """
    while left := [each for each in inputs if not each.is_done]:
        behind = min(left, key=lambda each: (_reached(each), each.reader.fraction if each.needs_time else each.index))
        batch = behind.read()
        if batch is not None or behind.is_done:
            yield behind, batch


def with_key_type(batch: pa.RecordBatch, key: str, wanted: pa.DataType, source: str) -> pa.RecordBatch:
    """The batch with its key column as int64 or text; raises BadData with the first key that can't be."""
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


def _reached(each: InputFile) -> int:
    return _BEGINNING if each.last_time_us is None else each.last_time_us


def _time_of(row: pa.RecordBatch, time: str, declared: ColumnType | None) -> int | None:
    refusals = Refusals(1)
    times_us = read_times_us(time, row.column(row.schema.get_field_index(time)), refusals, declared)
    return int(times_us[0]) if len(refusals.kept()) else None


def check_names(query: Query, paths: Mapping[str, object]) -> None:
    """Raises ConfigurationError where files are missing or name streams that the query doesn't have."""
    streams = [stream.name for stream in query.inputs]
    for name in paths:
        if name not in streams:
            known = ", ".join(streams)
            raise ConfigurationError(f"--input {name}={paths[name]}: the query has no stream {name!r}, it has {known}")
    for stream in query.inputs:
        if stream.name not in paths:
            what = "stream" if stream.table is None else "table"
            raise ConfigurationError(f"no file for the {what} {stream.name!r}: add --input {stream.name}=FILE")
