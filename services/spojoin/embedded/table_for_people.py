"""Results as a table for people: the first rows, and the number of rows."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spojoin.embedded.cell_text import csv_values, plain
from spojoin.embedded.outputs import TableWriter

#: Rows shown.
SHOWN_ROWS = 40
#: Control characters, which a terminal would obey.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class TableForPeople(TableWriter):
    """Writes the first SHOWN_ROWS rows as a table while they come, and at the end the number of rows.

    The columns are as wide as the first rows need; longer cells continue in the next line.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, *, width: int | None = None) -> None:
        self.rows = 0
        self._schema = schema
        self._sink = sink
        self._width = width or shutil.get_terminal_size().columns
        self._widths: list[int] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the batch's rows that are to be shown, and count the others."""
        first = batch.slice(0, max(SHOWN_ROWS - self.rows, 0))
        if first.num_rows:
            self._show(first)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Write how many rows there are."""
        if self._widths is None:
            self._show(pa.RecordBatch.from_pylist([], self._schema))
        self._sink.write(f"{self._count()}\n".encode())
        self._sink.close()

    def abandon(self, error: BaseException) -> None:
        """Write no more."""
        with contextlib.suppress(OSError):  # the first error is the one to report
            self._sink.close()

    def _show(self, batch: pa.RecordBatch) -> None:
        cells = [_texts(column) for column in batch.columns]
        is_first = self._widths is None
        if self._widths is None:
            self._widths = _widths(self._schema.names, cells, self._width)
        self._sink.write(table_text(self._schema, cells, self._widths, has_head=is_first).encode())
        self._sink.flush()

    def _count(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return rows + (f"; the first {SHOWN_ROWS} are shown, -o FILE writes all" if self.rows > SHOWN_ROWS else "")


def first_rows_text(table: pa.Table, shown: int) -> str:
    """The first rows of a table as text, with a line that says if there are more."""
    first = table.slice(0, shown).combine_chunks()
    cells = [_texts(_one(column)) for column in first.columns]
    text = table_text(table.schema, cells, _widths(table.column_names, cells, shutil.get_terminal_size().columns))
    rows = "1 row" if first.num_rows == 1 else f"{first.num_rows:,} rows"
    return text + (f"the first {rows}; to_arrow() gives all" if table.num_rows > shown else rows)


def table_text(
    schema: pa.Schema, cells: Sequence[Sequence[str | None]], widths: Sequence[int], *, has_head: bool = True
) -> str:
    """Rows as lines; cells: by column."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=has_head)
    for field, width in zip(schema, widths, strict=True):
        justify: Literal["left", "right"] = "right" if _is_number(field.type) else "left"
        table.add_column(_shown(field.name), justify=justify, width=width, overflow="fold")
    for row in zip(*cells, strict=True):
        table.add_row(*["NULL" if cell is None else _shown(cell) for cell in row])
    text = io.StringIO()
    Console(file=text, width=sum(widths) + 2 * len(widths), force_terminal=False).print(table)
    return text.getvalue()


def _widths(names: Sequence[str], cells: Sequence[Sequence[str | None]], most: int) -> list[int]:
    """The width of each column in characters: its cells' width, with the widest columns cut if a line has no room."""
    shown = [
        [name, *("NULL" if cell is None else cell for cell in column)]
        for name, column in zip(names, cells, strict=True)
    ]
    widths = [max(cell_len(_CONTROL.sub(_escaped, text)) for text in column) for column in shown]
    room = max(most - 2 * (len(widths) - 1), len(widths))
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _texts(column: pa.Array) -> list[str | None]:
    """Cells as CSV writes them, but text unchanged."""
    text = plain(column)
    cells: list[str | None] = (text if pa.types.is_string(text.type) else csv_values(text)).to_pylist()
    return cells


def _shown(text: str) -> str:
    """Text that is safe for a terminal: control characters are escaped."""
    return escape(_CONTROL.sub(_escaped, text))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _is_number(arrow: pa.DataType) -> bool:
    return any((pa.types.is_integer(arrow), pa.types.is_floating(arrow), pa.types.is_decimal(arrow)))
