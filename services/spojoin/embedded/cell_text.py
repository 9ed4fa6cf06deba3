"""Turns cells into text column by column: times, binary values, lists, structs and maps, as JSON and CSV write them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from spojoin.columns.values import is_uuid, uuid_texts

#: Turns each cell of a column that isn't nested into JSON text, and null into null.
PlainTexts = Callable[["pa.Array[Any]"], "pa.Array[Any]"]

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_NEEDS_QUOTES = r'[",\r\n]|^$|^\s|\s$'
_ZERO_FRACTION = r"\.0+(Z?)$"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_WHOLE = r"^(-?[0-9]+)$"

# pyarrow's type stubs don't allow mixing arrays and scalars.
_join: Any = pc.binary_join_element_wise


def nested_texts(column: pa.Array[Any], plain_texts: PlainTexts) -> pa.StringArray:
    """Each cell as JSON text, null as null: lists as arrays, structs and maps as objects, a map's keys as text.

    plain_texts: writes the innermost parts
    """
    return pa.array(_texts(column, plain_texts), pa.string())


def _texts(column: pa.Array[Any], plain_texts: PlainTexts) -> Iterator[str | None]:
    if isinstance(column, pa.StructArray):
        return _structs(column, plain_texts)
    if isinstance(column, pa.MapArray):
        lists = _as_lists(column)
        return _several("{}", lists, _entries(lists.flatten(), plain_texts))
    if types.is_nested(column.type):
        return _several("[]", column, map(_or_null, _texts(column.flatten(), plain_texts)))
    return iter(plain_texts(column).to_pylist())


def _structs(column: pa.StructArray, plain_texts: PlainTexts) -> Iterator[str | None]:
    names = [_key(field.name) for field in column.type]
    parts = [_texts(each, plain_texts) for each in column.flatten()]
    rows = zip(*parts, strict=True) if parts else iter([()] * len(column))
    for is_valid, row in zip(column.is_valid().to_pylist(), rows, strict=True):
        fields = (f"{name}:{_or_null(text)}" for name, text in zip(names, row, strict=True))
        yield f"{{{','.join(fields)}}}" if is_valid else None


def _several(brackets: str, column: pa.Array[Any], parts: Iterator[str]) -> Iterator[str | None]:
    """The text of each cell: its parts in brackets, taken from `parts`, the parts of all cells that aren't null."""
    for length in pc.list_value_length(column).to_pylist():
        yield None if length is None else f"{brackets[0]}{','.join(islice(parts, length))}{brackets[1]}"


def _as_lists(column: pa.MapArray[Any, Any]) -> pa.ListArray[Any]:
    """Maps as lists of their entries, since Arrow computes only with lists."""
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists: pa.ListArray[Any] = column.cast(pa.list_(entry))
    return lists


def _entries(entries: pa.StructArray, plain_texts: PlainTexts) -> Iterator[str]:
    keys, values = (_texts(each, plain_texts) for each in entries.flatten())
    return (f"{_as_key(key)}:{_or_null(value)}" for key, value in zip(keys, values, strict=True))


def _key(name: str) -> str:
    return orjson.dumps(name).decode()


def _as_key(text: str | None) -> str:
    """A map's key as text, the only type of key in JSON."""
    text = _or_null(text)
    return text if text.startswith('"') else _key(text)


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


def json_values(column: pa.Array[Any]) -> pa.Array[Any]:
    """Each cell as JSON text, null as null.

    Dates and times are ISO text, in UTC if they have a zone; binary values are base64; decimals are numbers with all
    their digits. NaN and the infinities are null, since JSON has no numbers for them.
    """
    column = plain(column)
    if types.is_floating(column.type):
        finite: Any = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
        return _doubles(finite)
    if types.is_string(column.type):
        return _json_strings(column)
    if types.is_temporal(column.type):
        return _quoted(_times(column))
    if types.is_binary(column.type):
        return _quoted(_base64(column))
    return nested_texts(column, json_values) if types.is_nested(column.type) else column.cast(pa.string())


def csv_values(column: pa.Array[Any]) -> pa.Array[Any]:
    """Each cell as CSV text, null as null.

    As in JSON, with two exceptions. Text is quoted if necessary, and always if it is empty, since an empty cell is
    NULL. NaN and the infinities are written as `nan`, `inf` and `-inf`.
    """
    column = plain(column)
    if types.is_floating(column.type):
        return _doubles(column)
    if types.is_string(column.type):
        return csv_strings(column)
    if types.is_temporal(column.type):
        return _times(column)
    if types.is_nested(column.type):
        return csv_strings(nested_texts(column, json_values))
    return csv_strings(_base64(column)) if types.is_binary(column.type) else column.cast(pa.string())


def plain(column: pa.Array[Any]) -> pa.Array[Any]:
    """The column with one Arrow type for all kinds of text, and one for all kinds of bytes; UUIDs as text."""
    if types.is_dictionary(column.type):
        return plain(column.cast(column.type.value_type))
    if is_uuid(column.type):
        return uuid_texts(column)
    if types.is_large_string(column.type) or types.is_string_view(column.type):
        return column.cast(pa.string())
    if types.is_large_binary(column.type) or types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    return column


def csv_strings(column: pa.Array[Any]) -> pa.Array[Any]:
    """Text as CSV cells."""
    needs = pc.match_substring_regex(column, _NEEDS_QUOTES)
    if not pc.any(needs, min_count=0).as_py():
        return column
    quoted: pa.StringArray = pc.if_else(needs, _quoted(pc.replace_substring(column, '"', '""')), column)
    return quoted


def _json_strings(column: pa.Array[Any]) -> pa.Array[Any]:
    if pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py():
        return _per_cell(column, lambda value: orjson.dumps(value).decode())
    return _quoted(column)


def _quoted(column: pa.Array[Any]) -> pa.Array[Any]:
    quoted: pa.StringArray = _join('"', column, '"', "")
    return quoted


def _doubles(column: pa.Array[Any]) -> pa.Array[Any]:
    """The shortest text that reads back as the same double; integers get a fraction, so that they stay doubles."""
    return pc.replace_substring_regex(column.cast(pa.string()), _WHOLE, r"\1.0")


def _times(column: pa.Array[Any]) -> pa.Array[Any]:
    """Dates, times of day, timestamps and durations as ISO 8601; a fraction of zeros is left out."""
    if types.is_time(column.type):
        return pc.replace_substring_regex(column.cast(pa.string()), _ZERO_FRACTION, r"\1")
    if types.is_duration(column.type):
        nanoseconds = _NANOSECONDS[column.type.unit]
        return _per_cell(column.cast(pa.int64()), lambda ticks: _span(0, 0, ticks * nanoseconds))
    if types.is_interval(column.type):
        return _per_cell(column, lambda span: _span(*span))
    if not types.is_timestamp(column.type):
        return column.cast(pa.string())
    if column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    text = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.replace_substring_regex(text, _ZERO_FRACTION, r"\1")


def _span(months: int, days: int, nanoseconds: int) -> str:
    """A duration as ISO 8601, such as P1M2DT90.5S."""
    date = "".join(f"{number}{unit}" for number, unit in ((months, "M"), (days, "D")) if number)
    seconds = format(Decimal(nanoseconds).scaleb(-9).normalize(), "f")
    return f"P{date}T{seconds}S" if nanoseconds or not date else f"P{date}"


def _base64(column: pa.Array[Any]) -> pa.Array[Any]:
    return _per_cell(column, lambda value: base64.b64encode(value).decode())


def _per_cell(column: pa.Array[Any], text: Callable[[Any], str]) -> pa.StringArray:
    """The slow path, for rare types without a vectorised path."""
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())
