"""Rows that can be read as Arrow data, more than once: those of a join, a file, a table or DuckDB."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spojoin.columns.extract import extract
from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.inferred_schema import arrow_schema_of
from spojoin.embedded.input_options import Columns
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.python_rows import RowsLike, tables_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.rejects import RefusalCounts, Reject, RejectsOfReadings, RejectsWriter, merged_figures
from spojoin.embedded.side_columns import columns_of_data, form_of
from spojoin.expressions.types import value_type
from spojoin.model import CsvOptions, Stream


class ArrowRows(ABC):
    """Rows that can be read as Arrow data; each reading is a new C stream.

    parts: the rows from which these are made
    is_inner: whether rows that are made from these also report the rows that these refuse
    """

    is_inner = True

    def __init__(self, schema: pa.Schema, parts: Iterable[object] = ()) -> None:
        self.schema = schema
        inner = {id(each): each for each in parts if isinstance(each, ArrowRows) and each.is_inner}
        self.parts: Sequence[ArrowRows] = list(inner.values())
        self.rejects = RejectsOfReadings()
        #: the figures of the rows refused in the last reading; see `RefusalCounts.figures`
        self.report: Mapping[str, Any] = RefusalCounts().figures(0)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def write_rejects(self, writer: RejectsWriter) -> None:
        """From now on, write the rows that are refused here and in all parts, each row once."""
        self.rejects.writer = writer
        for each in self.parts:
            each.write_rejects(writer)

    def _note(self, *figures: Mapping[str, Any]) -> None:
        """Set the report to the sum of these rows' figures and those of all parts."""
        self.report = merged_figures([*figures, *(each.report for each in self.parts)])

    def reader(self) -> pa.RecordBatchReader:
        """A reader of the rows; they are made while it is read."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream of the rows, for other libraries."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Arrow's C schema of the columns."""
        return self.schema.__arrow_c_schema__()


class FileRows(ArrowRows):
    """The rows of a file, or of the files of a pattern. Rows that a join would refuse are left out and counted.

    schemas, csv: the types of columns and how CSV is written, by the names of files
    """

    def __init__(self, path: Path, schemas: Mapping[str, Columns], csv: Mapping[str, CsvOptions]) -> None:
        found = columns_of_data(path, (str(path),), schemas, csv)
        columns, form = dict(found.columns), form_of(found, (str(path),), csv)
        self._stream = Stream(str(path), columns, None, None, (), payload=tuple(columns), file=form)
        self.path = path
        super().__init__(pa.schema([(name, value_type(kind)) for name, kind in columns.items()]))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        reasons, written = RefusalCounts(), self.rejects.begin()
        reader = open_reader(self.path, arrow_schema(self._stream, needs_time=False), None, self._stream.file.csv)
        file = InputFile(0, self._stream, reader, iter(reader), reader.key_type, needs_time=False)
        while (batch := file.read()) is not None:
            found = extract(self._stream, batch, False, malformed=file.refused)
            before = file.rows - batch.num_rows
            rejects = [
                Reject(at, self.path.name, each.reason, each.detail, file.row(at) if written else None)
                for each in found.refused
                for at in [before + each.row]
            ]
            reasons.note(rejects)
            if written:
                written.write(rejects)
            self.report = reasons.figures(file.rows)
            if found.payload is not None:
                yield found.payload


class GivenTable(ArrowRows):
    """The rows of a table or data frame that was given in Python."""

    def __init__(self, rows: RowsLike) -> None:
        self._rows = rows
        super().__init__(arrow_schema_of(rows))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for table in tables_of(self._rows, self.schema.names):
            yield from table.cast(self.schema).to_batches()
