"""Cells as text, column by column: times and binary values as JSON and CSV write them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from spojoin.embedded.nested_text import nested_texts
from spojoin.query.uuid_text import is_uuid, uuid_texts

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_NEEDS_QUOTES = r'[",\r\n]|^$|^\s|\s$'
_ZERO_FRACTION = r"\.0+(Z?)$"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_WHOLE = r"^(-?[0-9]+)$"

# The stubs of pyarrow don't know that arrays and scalars may be mixed.
_join: Any = pc.binary_join_element_wise


def json_values(column: pa.Array[Any]) -> pa.Array[Any]:
    """Each cell as JSON text, null as null.

    Dates and times are ISO text, times in UTC where they have a zone; binary values base64; decimals numbers with all
    their digits. NaN and the infinities are null, since JSON has no number for them.
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

    As in JSON, but for text, which is quoted where it must be: empty text always, since nothing stands for NULL; and
    for NaN and the infinities, which are written as `nan`, `inf` and `-inf`.
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
    """The shortest text that reads back as the same double; whole ones with a fraction, so that they stay doubles."""
    return pc.replace_substring_regex(column.cast(pa.string()), _WHOLE, r"\1.0")


def _times(column: pa.Array[Any]) -> pa.Array[Any]:
    """Dates, times of day, timestamps and lengths of time as ISO 8601; a fraction of zeros is left out."""
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
    """A length of time as ISO 8601, such as P1M2DT90.5S."""
    date = "".join(f"{number}{unit}" for number, unit in ((months, "M"), (days, "D")) if number)
    seconds = format(Decimal(nanoseconds).scaleb(-9).normalize(), "f")
    return f"P{date}T{seconds}S" if nanoseconds or not date else f"P{date}"


def _base64(column: pa.Array[Any]) -> pa.Array[Any]:
    return _per_cell(column, lambda value: base64.b64encode(value).decode())


def _per_cell(column: pa.Array[Any], text: Callable[[Any], str]) -> pa.StringArray:
    """The slow path, for the rare columns without a vectorised one."""
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())
