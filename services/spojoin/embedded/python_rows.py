"""Turns rows given in Python into Arrow tables; errors say how to make a table of other objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from itertools import chain, islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Union

import pyarrow as pa

from spojoin.errors import BadData, ConfigurationError
from spojoin.suggest import listed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow.dataset as pa_dataset

#: How many rows of a generator of dicts make one piece.
PIECE_ROWS = 1 << 16
_EXPECTED = "an Arrow batch or table, a data frame, a dict of arrays, or a list or generator of these"

#: What pyarrow raises if it can't take values.
NOT_TAKEN = (TypeError, ValueError, OverflowError, pa.ArrowException)

#: Types of Polars that Arrow lacks, and how to get a type that it has.
_POLARS = {"Object": "map_elements(str, return_dtype=pl.String)", "Int128": "cast(pl.Decimal(38, 0))"}

#: Objects that are nearly tables, by their types, and how to make a table of each.
_NEARLY = {
    "ndarray": "pandas.DataFrame(array)",
    "Scanner": "scanner.to_table()",
    "StructArray": "pyarrow.Table.from_struct_array(array)",
    "ChunkedArray": "pyarrow.table({'name': array})",
    "range": "{'name': list(numbers)}",
}


class ArrowStream(Protocol):
    """Anything with Arrow's C stream interface, such as a Polars data frame or a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule of the stream."""


class ArrowSchema(Protocol):
    """Anything with Arrow's C schema interface."""

    def __arrow_c_schema__(self) -> object:
        """A capsule of the schema."""


class RowDicts(list[Any]):
    """One piece of rows, each a dict of single values."""


#: One piece of rows.
Piece = Union[
    pa.RecordBatch, pa.Table, "pd.DataFrame", ArrowStream, Mapping[str, Union[Sequence[object], "np.ndarray"]]
]
RowsLike = Union[Piece, Iterable[Piece], pa.RecordBatchReader, "pa_dataset.Dataset"]


def tables_of(rows: RowsLike, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows as tables, in order; all pieces of a list are checked before the first is returned.

    columns: the columns that are used; only these are read from a dataset. Raises BadData.
    """
    if _is_dataset(rows):
        return _tables_of_dataset(rows, columns)
    if isinstance(rows, pa.RecordBatchReader | Iterator):
        return tables_of_pieces(rows, "rows", PIECE_ROWS)
    if isinstance(rows, list | tuple):
        return iter(list(tables_of_pieces(rows, "rows")))
    return iter([table_of(rows, "rows")])


def tables_of_pieces(rows: Iterable[Any], name: str, most: int | None = None) -> Iterator[pa.Table]:
    """The pieces of rows as tables, as they come; see `pieces_of`. Raises BadData."""
    for number, piece in enumerate(pieces_of(rows, most)):
        yield table_of_rows(piece, name) if isinstance(piece, RowDicts) else table_of(piece, f"{name}[{number}]")


def pieces_of(rows: Iterable[Any], most: int | None) -> Iterator[Any]:
    """Pieces as they come; rows that are dicts of single values are put together in lists of at most `most`."""
    following = iter(rows)
    for first in following:
        rest = islice(following, None if most is None else most - 1) if _is_row(first) else None
        yield first if rest is None else RowDicts([first, *rest])


def _is_dataset(rows: object) -> bool:
    """Whether `rows` is a pyarrow Dataset; it doesn't load the module of datasets, which few users need."""
    return hasattr(rows, "scanner") and hasattr(rows, "to_batches")


def _tables_of_dataset(dataset: Any, columns: Sequence[str]) -> Iterator[pa.Table]:  # noqa: ANN401
    """The dataset's batches, with those of `columns` that it has, or with all columns if it has none of these."""
    found = [name for name in columns if name in dataset.schema.names] or list(dataset.schema.names)
    return (table_of(batch, "rows") for batch in dataset.to_batches(columns=found))


def table_of(piece: Any, name: str) -> pa.Table:  # noqa: ANN401  (any argument)
    """One piece of rows as a table; name: what errors call the piece. Raises BadData."""
    advice = _advice(piece) or lacking_in_arrow(piece)
    if advice:
        raise BadData(f"{name} is {kind_of_value(piece)}: {advice}")
    try:
        if isinstance(piece, pa.RecordBatch):
            return pa.Table.from_batches([piece])
        return pa.table(dict(piece) if isinstance(piece, Mapping) else piece)
    except NOT_TAKEN as error:
        if why := unusable_column(piece):
            raise BadData(f"{name}: {why}") from error
        raise BadData(f"{name} must be {_EXPECTED}; found {kind_of_value(piece)}: {error}") from error


def _advice(piece: Any) -> str:  # noqa: ANN401
    """What to do if an argument is a likely mistake; empty if it may be rows."""
    if isinstance(piece, str | bytes | PathLike):
        return "push what it holds, such as pyarrow.parquet.read_table(path), or join files with `spojoin run`"
    if hasattr(piece, "collect") and hasattr(piece, "collect_schema") and not hasattr(piece, "__arrow_c_stream__"):
        return "it is a plan without rows yet: push its collect()"
    if isinstance(piece, Mapping):
        return _advice_on_columns(piece)
    return how_to_give_row(piece)


def table_of_rows(rows: Sequence[Any], name: str, columns: Iterable[str] = ()) -> pa.Table:
    """A table of rows that are dicts of single values, with `columns` and all columns of the rows. Raises BadData."""
    other = next((row for row in rows if not isinstance(row, Mapping)), None)
    if other is not None:
        raise BadData(f"a row of {name} is {kind_of_value(other)}: expected a dict, as the first row is one")
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)])
    return table_of({key: [row.get(key) for row in rows] for key in names}, name)


def _is_row(piece: object) -> bool:
    """Whether a piece is one row: a dict of single values."""
    return isinstance(piece, Mapping) and any(
        isinstance(each, str | bytes) or not hasattr(each, "__len__") for each in piece.values()
    )


def _advice_on_columns(columns: Mapping[Any, Any]) -> str:
    for name, values in columns.items():
        if not isinstance(name, str):
            return f"its key {name!r} is no name of a column"
        if values is None or isinstance(values, str | bytes | int | float | Set | Mapping):
            return (
                f"its {name!r} is {kind_of_value(values)}, and expected is a list or an array for each column; "
                "for one dict per row give a list of them"
            )
    lengths = {name: len(values) for name, values in columns.items() if hasattr(values, "__len__")}
    if len({*lengths.values()}) > 1:
        found = ", ".join(f"{name!r} has {rows}" for name, rows in lengths.items())
        return f"its columns have unlike numbers of values: {found}"
    return ""


def kind_of_value(value: object) -> str:
    """The value's type with an article, for messages."""
    if value is None:
        return "None"
    name = type(value).__qualname__
    module = type(value).__module__.split(".")[0]
    whole = name if module == "builtins" else f"{module}.{name}"
    return f"{'an' if whole[0].lower() in 'aeiou' else 'a'} {whole}"


def checked_number(name: str, number: int | None) -> int | None:
    """Check the number given for an option such as workers or threads, and return it. Raises ConfigurationError."""
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    default = {"workers": "the query's number", "threads": "one for each core", "limit": "all partners"}[name]
    raise ConfigurationError(f"{name}={number!r}: expected a whole number from 1, or None for {default}")


_POLARS["UInt128"] = _POLARS["Int128"]


def how_to_give(value: object) -> str:
    """How to make a table of an object that is nearly one; empty for any other object."""
    kind = type(value).__name__
    way = _NEARLY["ChunkedArray"] if isinstance(value, pa.Array) and kind not in _NEARLY else _NEARLY.get(kind)
    return f"give it as {way}" if way else ""


def how_to_give_row(row: object) -> str:
    """How to give a row that isn't a dict."""
    if hasattr(row, "_asdict"):
        return "of named tuples give dicts, as by [row._asdict() for row in rows]"
    if hasattr(row, "__dataclass_fields__"):
        return "of data classes give dicts, as by [dataclasses.asdict(row) for row in rows]"
    if isinstance(row, list | tuple):
        return "of rows without names make a data frame, as by pandas.DataFrame(rows, columns=[...])"
    return ""


def unusable_column(frame: Any) -> str:  # noqa: ANN401  (a data frame of any library, or a dict of arrays)
    """The first column of a data frame or dict that Arrow can't take, and how to make it usable; empty if none."""
    is_frame = _is_of(frame, "pandas") and hasattr(frame, "columns")
    columns = frame.items() if is_frame or isinstance(frame, Mapping) else ()
    for name, values in columns:
        if "Sparse" in str(getattr(values, "dtype", "")):
            return f"column {name!r} is sparse: make it dense, as by frame[{name!r}].sparse.to_dense()"
        try:
            pa.array(values, from_pandas=is_frame)
        except NOT_TAKEN as error:
            return f"column {name!r} {_of_values(name, values, is_frame=is_frame)} ({error})"
    return ""


def lacking_in_arrow(frame: Any) -> str:  # noqa: ANN401
    """The first column of a Polars frame whose type Arrow lacks, and how to convert it; empty if none."""
    for name, kind in frame.schema.items() if _is_of(frame, "polars") and hasattr(frame, "schema") else ():
        if (way := _POLARS.get(str(kind))) is not None:
            return f"column {name!r} is {kind}, which Arrow doesn't have: frame.with_columns(pl.col({name!r}).{way})"
    return ""


def _is_of(value: object, library: str) -> bool:
    return type(value).__module__.split(".")[0] == library


def _of_values(name: object, values: Iterable[object], *, is_frame: bool) -> str:
    """The types of values that have no type in common, and how to give them one."""
    present = [each for each in values if each is not None and each == each]  # noqa: PLR0124  (NaN)
    kinds = {type(each) for each in present}
    if kinds <= {int, Decimal}:
        to, way = "decimals", "map(decimal.Decimal, na_action='ignore')"
        what = "has whole numbers beyond 64 bits" if kinds == {int} else "has whole numbers and decimals"
    elif kinds <= {int, float, Decimal}:
        to, way, what = "floats", "astype(float)", f"has values of the types {_names(kinds)}"
    else:
        to, way = "text", "astype('string')"
        what = f"has values of the type{'s' * (len(kinds) > 1)} {_names(kinds)}"
    return f"{what}: make them {to}" + (f", as by frame[{name!r}].{way}" if is_frame else "")


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(each.__name__ for each in kinds))


class ReadOnce:
    """A reader, generator or other iterator that can be read only once, with its name in the statement.

    schema: the reader's own, otherwise the schema of the first piece, which is read at once
    is_guessed: whether the types come from rows that are dicts, so that later rows may have other types

    Raises BadData if there is no piece.
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
                f"the {_kind_of_iterator(rows)} {name!r} gives no rows, so its columns are unknown: it is "
                "empty, or has been read before"
            )
        self.is_guessed = isinstance(first, RowDicts)
        table = self._table(first, 0)
        self.schema = table.schema
        self._pieces = chain([table], (self._table(each, number) for number, each in enumerate(found, 1)))

    def __iter__(self) -> Iterator[Any]:
        """The pieces. Raises BadData the second time."""
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            raise BadData(
                f"{self.name!r} has been read, and a reader or generator can be read once: keep the results, "
                "as by results.to_arrow(), or give the rows as one table, as by reader.read_all()"
            )
        return pieces

    def _table(self, piece: Any, number: int) -> pa.Table:  # noqa: ANN401
        """A piece as a table. Rows that are dicts may lack columns of the first piece, but may have no others."""
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
        return _one_table(self.name, [self.schema.empty_table(), *self])


def readable_tables(tables: Mapping[str, object]) -> dict[str, object]:
    """The given tables by name, in a form that a statement can read.

    Raises ConfigurationError if two names share an iterator, which can be read only once, and BadData if the rows
    of a table have no common schema.
    """
    names: dict[int, str] = {}
    for name, rows in tables.items():
        if isinstance(rows, Iterator) and (other := names.setdefault(id(rows), name)) != name:
            raise ConfigurationError(
                f"{other!r} and {name!r} are one {_kind_of_iterator(rows)}, which can be read once: give it one name "
                "and join it with itself, or read it into a table before"
            )
    return {name: _readable(name, rows) for name, rows in tables.items()}


def _readable(name: str, rows: Any) -> object:  # noqa: ANN401  (any argument)
    if isinstance(rows, Iterator):
        return ReadOnce(name, rows)
    if isinstance(rows, list | tuple):
        return _one_table(name, rows)
    if hasattr(rows, "collect") and hasattr(rows, "collect_schema"):  # a lazy frame of Polars
        return rows.collect()
    if hasattr(rows, "to_frame") and not hasattr(rows, "columns"):  # one column of pandas or Polars
        return rows.to_frame()
    return rows


def _one_table(name: str, pieces: Sequence[Any]) -> pa.Table:
    """The pieces of a list as one table, with types that hold the values of all pieces."""
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


def _kind_of_iterator(rows: object) -> str:
    return "reader" if isinstance(rows, pa.RecordBatchReader) else type(rows).__name__
