"""Rows given in Python by name: in which forms they come, and what of them can be read once only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from spojoin.embedded.arguments import PIECE_ROWS, RowDicts, pieces_of, table_of, table_of_rows, tables_of_pieces
from spojoin.errors import BadData, ConfigurationError
from spojoin.suggest import listed


class ReadOnce:
    """A reader, generator or other iterator under the name that the statement has for it: it can be read once.

    schema: of a reader its own, else that of its first piece, which is read at once
    is_guessed: whether rows that are dicts have told the types, so that later rows may have others

    Raises BadData where there is no piece.
    """

    schema: pa.Schema

    def __init__(self, name: str, rows: Iterator[Any]) -> None:
        self.name = name
        self._pieces: Iterator[Any] | None = rows
        self.is_guessed = False
        if isinstance(rows, pa.RecordBatchReader):
            self.schema = rows.schema
            return
        found = pieces_of(rows, PIECE_ROWS)
        first = next(found, None)
        if first is None:
            raise BadData(
                f"the {_kind(rows)} {name!r} gives no rows, so its columns are unknown: it is empty, or has been "
                "read before"
            )
        self.is_guessed = isinstance(first, RowDicts)
        table = self._table(first, 0)
        self.schema = table.schema
        self._pieces = chain([table], (self._table(each, number) for number, each in enumerate(found, 1)))

    def __iter__(self) -> Iterator[Any]:
        """Its pieces. Raises BadData the second time."""
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            raise BadData(
                f"{self.name!r} has been read, and a reader or generator can be read once: keep the results, "
                "as by results.to_arrow(), or give the rows as one table, as by reader.read_all()"
            )
        return pieces

    def _table(self, piece: Any, number: int) -> pa.Table:  # noqa: ANN401
        """A piece as a table. Rows that are dicts may lack columns of the first piece, but have no others."""
        if not isinstance(piece, RowDicts):
            return table_of(piece, f"{self.name}[{number}]")
        names = self.schema.names if number else []
        table = table_of_rows(piece, self.name, names)
        if number and (new := [name for name in table.column_names if name not in names]):
            raise BadData(
                f"rows of {self.name!r} have a column {new[0]!r}, which none of the first {PIECE_ROWS:,} has: let the "
                "first row have all columns, with None where there is no value"
            )
        return table

    def read_all(self) -> pa.Table:
        """All rows as a table, which can be read again."""
        return _in_one(self.name, [self.schema.empty_table(), *self])


def given(tables: Mapping[str, object]) -> dict[str, object]:
    """Tables by name as a statement takes them.

    Raises ConfigurationError where two names share what can be read once, BadData where rows have no one schema.
    """
    names: dict[int, str] = {}
    for name, rows in tables.items():
        if isinstance(rows, Iterator) and (other := names.setdefault(id(rows), name)) != name:
            raise ConfigurationError(
                f"{other!r} and {name!r} are one {_kind(rows)}, which can be read once: give it one name and join it "
                "with itself, or read it into a table before"
            )
    return {name: _given(name, rows) for name, rows in tables.items()}


def _given(name: str, rows: Any) -> object:  # noqa: ANN401  (any argument)
    if isinstance(rows, Iterator):
        return ReadOnce(name, rows)
    if isinstance(rows, list | tuple):
        return _in_one(name, rows)
    if hasattr(rows, "collect") and hasattr(rows, "collect_schema"):  # a plan of Polars
        return rows.collect()
    if hasattr(rows, "to_frame") and not hasattr(rows, "columns"):  # one column of pandas or Polars
        return rows.to_frame()
    return rows


def _in_one(name: str, pieces: Sequence[Any]) -> pa.Table:
    """The pieces of a list as one table, whose types hold the values of all."""
    if not pieces:
        raise BadData(f"{name} is an empty list, so its columns are unknown: give a table, even one without rows")
    found = list(tables_of_pieces(pieces, name))
    for number, table in enumerate(found):
        if set(table.column_names) != set(found[0].column_names):
            raise BadData(
                f"{name}[{number}] has the columns {listed(table.column_names)}, and {name}[0] has "
                f"{listed(found[0].column_names)}: expected the same in all pieces"
            )
    try:
        return pa.concat_tables(found, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadData(f"the pieces of {name} have different types ({error}): cast the column in one of them") from error


def _kind(rows: object) -> str:
    return "reader" if isinstance(rows, pa.RecordBatchReader) else type(rows).__name__
