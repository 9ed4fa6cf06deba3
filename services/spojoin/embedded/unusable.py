"""Why something given in Python can't be an Arrow table, and what makes it one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: What pyarrow raises where it can't take values.
NOT_TAKEN = (TypeError, ValueError, OverflowError, pa.ArrowException)
#: Types of Polars that have none in Arrow, and what has.
_POLARS = {"Object": "map_elements(str, return_dtype=pl.String)", "Int128": "cast(pl.Decimal(38, 0))"}
_POLARS["UInt128"] = _POLARS["Int128"]
#: What is nearly a table, by its type, and how it is made one.
_NEARLY = {
    "ndarray": "pandas.DataFrame(array)",
    "Scanner": "scanner.to_table()",
    "StructArray": "pyarrow.Table.from_struct_array(array)",
    "ChunkedArray": "pyarrow.table({'name': array})",
    "range": "{'name': list(numbers)}",
}


def how_to_give(given: object) -> str:
    """What makes a table of something that is nearly one; empty for anything else."""
    kind = type(given).__name__
    way = _NEARLY["ChunkedArray"] if isinstance(given, pa.Array) and kind not in _NEARLY else _NEARLY.get(kind)
    return f"give it as {way}" if way else ""


def how_to_give_row(row: object) -> str:
    """What makes a piece of rows of one that is no dict."""
    if hasattr(row, "_asdict"):
        return "of named tuples give dicts, as by [row._asdict() for row in rows]"
    if hasattr(row, "__dataclass_fields__"):
        return "of data classes give dicts, as by [dataclasses.asdict(row) for row in rows]"
    if isinstance(row, list | tuple):
        return "of rows without names make a data frame, as by pandas.DataFrame(rows, columns=[...])"
    return ""


def unusable_column(frame: Any) -> str:  # noqa: ANN401  (a data frame of any library, or a dict of arrays)
    """The first column of a data frame or dict that Arrow can't take, with what makes it usable; empty without one."""
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
    """The first column of a Polars frame whose type Arrow lacks, with what has one; empty without one."""
    for name, kind in frame.schema.items() if _is_of(frame, "polars") and hasattr(frame, "schema") else ():
        if (way := _POLARS.get(str(kind))) is not None:
            return f"column {name!r} is {kind}, which Arrow doesn't have: frame.with_columns(pl.col({name!r}).{way})"
    return ""


def _is_of(given: object, library: str) -> bool:
    return type(given).__module__.split(".")[0] == library


def _of_values(name: object, values: Iterable[object], *, is_frame: bool) -> str:
    """The types of values that have none in common, and how they get one."""
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
