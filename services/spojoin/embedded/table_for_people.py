"""Results as a table for people: the first rows, and how many there are."""

from __future__ import annotations

import contextlib
import io
import re
import shutil

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spojoin.embedded.cell_text import csv_values, plain
from spojoin.embedded.table_writer import TableWriter

#: Rows shown.
SHOWN_ROWS = 40
#: Characters that a terminal obeys.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class TableForPeople(TableWriter):
    """The first SHOWN_ROWS rows in a table, written when all are known, with the number of rows."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, *, width: int | None = None) -> None:
        self.rows = 0
        self._schema = schema
        self._sink = sink
        self._width = width or shutil.get_terminal_size().columns
        self._shown: list[list[str | None]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep what is shown, and count the rest."""
        first = batch.slice(0, SHOWN_ROWS - len(self._shown))
        if first.num_rows:
            columns = [_texts(column) for column in first.columns]
            self._shown += [list(row) for row in zip(*columns, strict=True)]
        self.rows += batch.num_rows

    def close(self) -> None:
        """Write the table."""
        self._sink.write(self._text().encode())
        self._sink.close()

    def abandon(self, error: BaseException) -> None:
        """Write nothing."""
        with contextlib.suppress(OSError):  # the first error is the one to report
            self._sink.close()

    def _text(self) -> str:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for field in self._schema:
            table.add_column(_shown(field.name), justify="right" if _is_number(field.type) else "left")
        for row in self._shown:
            table.add_row(*["NULL" if cell is None else _shown(cell) for cell in row])
        text = io.StringIO()
        console = Console(file=text, width=self._width, force_terminal=False)
        console.print(table)
        console.print(self._count(), highlight=False)
        return text.getvalue()

    def _count(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        cut = f"; the first {len(self._shown)} are shown, -o FILE writes all" if self.rows > len(self._shown) else ""
        return rows + cut


def _texts(column: pa.Array) -> list[str | None]:
    """Cells as CSV writes them, but text as it is."""
    text = plain(column)
    cells: list[str | None] = (text if pa.types.is_string(text.type) else csv_values(text)).to_pylist()
    return cells


def _shown(text: str) -> str:
    """Text as a terminal may show it: control characters by their escapes."""
    return escape(_CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text))


def _is_number(arrow: pa.DataType) -> bool:
    return any((pa.types.is_integer(arrow), pa.types.is_floating(arrow), pa.types.is_decimal(arrow)))
