"""Rows that are in memory already, or come from a reader, as an input of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from spojoin.embedded.arguments import RowsLike, tables_of
from spojoin.embedded.file_reader import Reader
from spojoin.embedded.given_tables import ReadOnce

#: Rows given to the join at once.
BATCH_ROWS = 1 << 16


class TableReader(Reader):
    """A table, data frame, reader or generator of these; name: as the statement has it, for errors."""

    def __init__(self, name: str, rows: RowsLike | ReadOnce, schema: pa.Schema) -> None:
        super().__init__(Path(name), schema, None)
        self._rows = rows
        self._is_done = False
        self.found = schema.names

    @property
    def key_type(self) -> pa.DataType:
        """Positions are the keys."""
        return pa.int64()

    @property
    def fraction(self) -> float:
        """Nothing or all: the number of rows isn't always known."""
        return float(self._is_done)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows with the columns that are read."""
        rows = iter(self._rows) if isinstance(self._rows, ReadOnce) else self._rows
        for table in tables_of(rows, self.schema.names):
            self._check_columns(table.column_names)
            yield from table.select(self.schema.names).to_batches(max_chunksize=BATCH_ROWS)
        self._is_done = True
