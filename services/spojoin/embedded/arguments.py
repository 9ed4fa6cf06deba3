"""The rows that Python users push, as Arrow tables; an error says what to do with anything that can't be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Union

import pyarrow as pa

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


#: Rows in one piece.
Piece = Union[
    pa.RecordBatch, pa.Table, "pd.DataFrame", ArrowStream, Mapping[str, Union[Sequence[object], "np.ndarray"]]
]
RowsLike = Union[Piece, Iterable[Piece], pa.RecordBatchReader, "pa_dataset.Dataset"]

_EXPECTED = "an Arrow batch or table, a data frame, a dict of arrays, or a list or generator of these"


def tables_of(rows: RowsLike, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows as tables, in order; all pieces of a list are checked before the first is returned.

    columns: the columns used, which alone are read from a dataset. Raises BadData.
    """
    if _is_dataset(rows):
        return _of_dataset(rows, columns)
    if isinstance(rows, pa.RecordBatchReader | Iterator):
        return (table_of(piece, f"rows[{i}]") for i, piece in enumerate(rows))
    if isinstance(rows, list | tuple):
        return iter([table_of(piece, f"rows[{i}]") for i, piece in enumerate(rows)])
    return iter([table_of(rows, "rows")])


def _is_dataset(rows: object) -> bool:
    """Whether it is a pyarrow Dataset, whose module few users load."""
    return hasattr(rows, "scanner") and hasattr(rows, "to_batches")


def _of_dataset(dataset: Any, columns: Sequence[str]) -> Iterator[pa.Table]:  # noqa: ANN401
    """Its batches with those of the used columns that it has; with all of its columns if it has none of them."""
    found = [name for name in columns if name in dataset.schema.names] or list(dataset.schema.names)
    return (table_of(batch, "rows") for batch in dataset.to_batches(columns=found))


def table_of(piece: Any, name: str) -> pa.Table:  # noqa: ANN401  (any argument)
    """One piece of rows as a table; name: of the piece, in errors. Raises BadData."""
    advice = _advice(piece)
    if advice:
        raise BadData(f"{name} is {_kind(piece)}: {advice}")
    try:
        if isinstance(piece, pa.RecordBatch):
            return pa.Table.from_batches([piece])
        return pa.table(dict(piece) if isinstance(piece, Mapping) else piece)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise BadData(f"{name} must be {_EXPECTED}; found {_kind(piece)}: {error}") from error


def _advice(piece: Any) -> str:  # noqa: ANN401
    """What to do with an argument that is a likely mistake; empty if it may be rows."""
    if isinstance(piece, str | bytes | PathLike):
        return "push what it holds, such as pyarrow.parquet.read_table(path), or join files with `spojoin run`"
    if hasattr(piece, "collect") and hasattr(piece, "collect_schema") and not hasattr(piece, "__arrow_c_stream__"):
        return "it is a plan without rows yet: push its collect()"
    if isinstance(piece, Mapping):
        return _advice_on_columns(piece)
    if isinstance(piece, list | tuple):
        return "let each piece be a batch, a table or a data frame; of rows in a list pyarrow.table makes columns"
    return ""


def is_row(piece: object) -> bool:
    """Whether it is a dict of single values, of which from_pylist makes tables."""
    return isinstance(piece, Mapping) and any(
        isinstance(each, str | bytes) or not hasattr(each, "__len__") for each in piece.values()
    )


def _advice_on_columns(columns: Mapping[Any, Any]) -> str:
    for name, values in columns.items():
        if not isinstance(name, str):
            return f"its key {name!r} is no name of a column"
        if values is None or isinstance(values, str | bytes | int | float):
            return (
                f"its {name!r} is {_kind(values)}, and expected is a list or an array for each column; "
                "for one dict per row push pyarrow.Table.from_pylist(rows)"
            )
    return ""


def _kind(value: object) -> str:
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
