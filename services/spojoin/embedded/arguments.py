"""The rows that Python users push, as Arrow tables; an error says what to do with anything that can't be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Union

import pyarrow as pa

from spojoin.embedded.unusable import NOT_TAKEN, how_to_give_row, lacking_in_arrow, unusable_column
from spojoin.errors import BadData, ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow.dataset as pa_dataset


class ArrowStream(Protocol):
    """Anything with Arrow's C stream interface, such as a Polars data frame or a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule of the stream."""


class ArrowSchema(Protocol):
    """Anything with Arrow's C schema interface."""

    def __arrow_c_schema__(self) -> object:
        """A capsule of the schema."""


class RowDicts(list[Any]):
    """Rows that are dicts of single values, as one piece."""


#: Rows in one piece.
Piece = Union[
    pa.RecordBatch, pa.Table, "pd.DataFrame", ArrowStream, Mapping[str, Union[Sequence[object], "np.ndarray"]]
]
RowsLike = Union[Piece, Iterable[Piece], pa.RecordBatchReader, "pa_dataset.Dataset"]

#: Rows of a generator of rows that make one piece.
PIECE_ROWS = 1 << 16
_EXPECTED = "an Arrow batch or table, a data frame, a dict of arrays, or a list or generator of these"


def tables_of(rows: RowsLike, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows as tables, in order; all pieces of a list are checked before the first is returned.

    columns: the columns used, which alone are read from a dataset. Raises BadData.
    """
    if _is_dataset(rows):
        return _of_dataset(rows, columns)
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
    """Pieces as they come, but of rows that are dicts of single values lists of at most `most` in place of each."""
    following = iter(rows)
    for first in following:
        rest = islice(following, None if most is None else most - 1) if _is_row(first) else None
        yield first if rest is None else RowDicts([first, *rest])


def _is_dataset(rows: object) -> bool:
    """Whether it is a pyarrow Dataset, whose module few users load."""
    return hasattr(rows, "scanner") and hasattr(rows, "to_batches")


def _of_dataset(dataset: Any, columns: Sequence[str]) -> Iterator[pa.Table]:  # noqa: ANN401
    """Its batches with those of the used columns that it has; with all of its columns if it has none of them."""
    found = [name for name in columns if name in dataset.schema.names] or list(dataset.schema.names)
    return (table_of(batch, "rows") for batch in dataset.to_batches(columns=found))


def table_of(piece: Any, name: str) -> pa.Table:  # noqa: ANN401  (any argument)
    """One piece of rows as a table; name: of the piece, in errors. Raises BadData."""
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
    """What to do with an argument that is a likely mistake; empty if it may be rows."""
    if isinstance(piece, str | bytes | PathLike):
        return "push what it holds, such as pyarrow.parquet.read_table(path), or join files with `spojoin run`"
    if hasattr(piece, "collect") and hasattr(piece, "collect_schema") and not hasattr(piece, "__arrow_c_stream__"):
        return "it is a plan without rows yet: push its collect()"
    if isinstance(piece, Mapping):
        return _advice_on_columns(piece)
    return how_to_give_row(piece)


def table_of_rows(rows: Sequence[Any], name: str, columns: Iterable[str] = ()) -> pa.Table:
    """Rows that are dicts of single values as a table, with `columns` and those of all rows. Raises BadData."""
    other = next((row for row in rows if not isinstance(row, Mapping)), None)
    if other is not None:
        raise BadData(f"a row of {name} is {kind_of_value(other)}: expected a dict, as the first row is one")
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)])
    return table_of({key: [row.get(key) for row in rows] for key in names}, name)


def _is_row(piece: object) -> bool:
    """Whether it is a dict of single values."""
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
    """The value's type with an article, as messages have it."""
    if value is None:
        return "None"
    name = type(value).__qualname__
    module = type(value).__module__.split(".")[0]
    whole = name if module == "builtins" else f"{module}.{name}"
    return f"{'an' if whole[0].lower() in 'aeiou' else 'a'} {whole}"


def checked_number(name: str, number: int | None) -> int | None:
    """The number of workers, threads or partners that was asked for; `name` is which. Raises ConfigurationError."""
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    default = {"workers": "the query's number", "threads": "one for each core", "limit": "all partners"}[name]
    raise ConfigurationError(f"{name}={number!r}: expected a whole number from 1, or None for {default}")
