"""Files and tables that a statement reads beside its join, with the values that the join would see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from spojoin.embedded.arguments import RowsLike, tables_of
from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.inferred_schema import arrow_schema_of
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.readers import open_reader
from spojoin.embedded.reasons import Reasons
from spojoin.embedded.rejects import Reject
from spojoin.embedded.side_columns import form_of, told_columns
from spojoin.embedded.source_options import Columns
from spojoin.expressions.types import value_type
from spojoin.model import CsvOptions, Stream
from spojoin.query.extract import extract
from spojoin.query.schema import arrow_schema


class FileRows(ArrowRows):
    """A file, or those of a pattern: rows that a join would refuse are left out, and counted.

    schemas, csv: the types of columns and how files are written, by names of files
    """

    def __init__(self, path: Path, schemas: Mapping[str, Columns], csv: Mapping[str, CsvOptions]) -> None:
        found = told_columns(path, (str(path),), schemas, csv)
        columns, form = dict(found.columns), form_of(found, (str(path),), csv)
        self._stream = Stream(str(path), columns, None, None, (), payload=tuple(columns), file=form)
        self.path = path
        super().__init__(pa.schema([(name, value_type(kind)) for name, kind in columns.items()]))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        reasons, written = Reasons(), self.rejects.begin()
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
    """A table that was given."""

    def __init__(self, rows: RowsLike) -> None:
        self._rows = rows
        super().__init__(arrow_schema_of(rows))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        for table in tables_of(self._rows, self.schema.names):
            yield from table.cast(self.schema).to_batches()
