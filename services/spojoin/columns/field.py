"""A column while it is read: it describes bad values, and its arithmetic refuses overflows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import F64, I64, Flags
from spojoin.columns import texts
from spojoin.columns.refusals import BadValue, Refusals
from spojoin.columns.time_units import doubt_about
from spojoin.model import ColumnType, TypeName

#: The reason for refusing a clock time that has no unique instant.
CLOCK = "clock"
BELOW_US = (
    "has digits below a microsecond, the finest unit that is compared: EPOCH_NS(...) in the statement compares all "
    "digits, CAST(... AS TIMESTAMP) cuts them off"
)
_TEXT_BELOW_US = (
    "has digits below a microsecond, the finest unit that is compared: if the schema calls the column a string, "
    "EPOCH_NS(CAST(... AS TIMESTAMP_NS)) in the statement compares all digits, CAST(... AS TIMESTAMP) cuts them off"
)
#: Base64 in whole groups of four characters, and what to do if Debezium writes decimals like this.
_BYTES = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_OF_BYTES = "; if it is a decimal of Debezium as bytes, set decimal.handling.mode=string in its connector"
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EXACT_DIGITS = 10**15  # decimals below it have different doubles


@dataclass(slots=True)
class Field:
    """A column being read: its name, declared type and values, and the refusals that take its bad rows.

    cuts: whether digits below a microsecond are cut off, which keeps the order of event times; otherwise refused
    nulls: (n,), takes note of rows without a value; None if these are refused
    """

    name: str
    type: ColumnType
    array: pa.Array
    refusals: Refusals
    cuts: bool = False
    nulls: Flags | None = None

    def note_null(self, where: Flags) -> None:
        """Note rows without a value, or refuse them if a value is required."""
        if self.nulls is None:
            self.refuse(where, "null")
        else:
            self.nulls |= where

    def refuse(self, bad: Flags | None, reason: str) -> None:
        """Refuse the rows of a mask, each with its value; None means no rows."""
        if bad is not None and bad.any():
            for row in np.flatnonzero(bad).tolist():
                self.refuse_row(row, reason)

    def refuse_row(self, row: int, reason: str) -> None:
        """Refuse one row with its value, unless it is NULL, since NULL rows hold arbitrary values."""
        if self.nulls is not None and self.nulls[row]:
            return
        self.refusals.add(
            row,
            "type" if reason == CLOCK else reason,
            f"field {self.name}: {self._said(reason, plain_value(self.array[row]))}",
        )

    def _said(self, reason: str, value: object) -> str:
        return _said(reason, value, self.type, self.name)


def plain_value(value: pa.Scalar) -> object:
    """A value as a Python object; nanoseconds become NumPy values or text, since Python's times have none."""
    kind = value.type
    if pa.types.is_temporal(kind) and getattr(kind, "unit", None) == "ns" and value.is_valid:
        if pa.types.is_timestamp(kind):
            return np.datetime64(value.value, "ns")
        return np.timedelta64(value.value, "ns") if pa.types.is_duration(kind) else value.cast(pa.string()).as_py()
    try:
        return value.as_py()
    except ValueError:  # a part has nanoseconds
        return pa.array([value], kind).to_string()


def _said(reason: str, value: object, kind: ColumnType, name: str) -> str:
    shown = (repr(value) if isinstance(value, str) else str(value))[:80]
    match reason:
        case "null":
            return f"no value, expected a {kind}"
        case "nan" | "overflow":
            return f"value {shown} is {'not a number' if reason == 'nan' else f'out of range of {kind}'}"
        case "clock":
            return f"value {shown} occurred twice or never in {kind.zone}, since clocks were changed"
        case "unit":
            return (
                f"value {shown} {doubt_about(value if isinstance(value, int) else texts.read_number(str(value)), name)}"
            )
        case _ if kind.name is TypeName.TIMESTAMP and _is_moment(value):
            is_finer_text = isinstance(value, str) and texts.is_finer(value.strip())
            return f"value {shown} {_TEXT_BELOW_US if is_finer_text else BELOW_US}"
        case _:
            may_be_bytes = kind.name is TypeName.DECIMAL and isinstance(value, str) and _BYTES.fullmatch(value)
            return f"value {shown} is not a {kind}{_OF_BYTES if may_be_bytes else ''}"


def _is_moment(value: object) -> bool:
    """Whether a value is a moment for a timestamp column, so that only its last digits can be wrong."""
    if isinstance(value, str):
        return texts.is_number(value.strip()) or texts.is_finer(value.strip())
    return isinstance(value, int | float | Decimal | datetime | np.datetime64) and not isinstance(value, bool)


def plain_texts(array: pa.Array) -> pa.Array:
    """The column without a dictionary, and with texts of any layout as plain strings."""
    if pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type.value_type):  # Arrow can't take views by index
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.string()))
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def numpy(array: pa.Array) -> NDArray[Any]:
    """The array's values, copied if nulls or the type require it."""
    return np.asarray(array.to_numpy(zero_copy_only=False))


def signed(column: Field) -> I64:
    """The column's integers; unsigned ones beyond int64 are refused."""
    values = numpy(column.array)
    if values.dtype == np.uint64:
        column.refuse(values > np.uint64(INT64_MAX), "overflow")
    return values.astype(np.int64)


def times(column: Field, values: I64, factor: int) -> I64:
    """The values times `factor`; products beyond int64 are refused."""
    if factor == 1 or not len(values):
        return values
    low, high = -(INT64_MAX // factor), INT64_MAX // factor
    if values.min() < low or values.max() > high:
        column.refuse((values < low) | (values > high), "overflow")
    return values * factor


def whole_doubles(column: Field, values: F64) -> I64:
    """Doubles as integers; a double with a fraction is refused."""
    beyond = np.abs(values) >= 2.0**63
    beyond &= values != -(2.0**63)
    column.refuse(beyond, "overflow")
    safe = np.where(beyond | np.isnan(values), 0.0, values)
    column.refuse(safe != np.floor(safe), "type")
    return safe.astype(np.int64)


def decimal_doubles(column: Field, values: F64, scale: int, most: int = _EXACT_DIGITS) -> I64:
    """Doubles as the decimals that they print as: 12.34 is 1234 at scale 2, though no double equals it.

    most: below this value, different decimals of this scale have different doubles
    """
    power = 10.0**scale
    with np.errstate(all="ignore"):
        scaled = np.rint(values * power)
        exact = (scaled / power == values) & (np.abs(scaled) < most)
    result = np.where(exact, scaled, 0.0).astype(np.int64)
    return one_by_one(
        column, ~exact & ~np.isnan(values), result, lambda row: texts.read_decimal(repr(float(values[row])), scale)
    )


def one_by_one(column: Field, rows: Flags, values: I64, read: Callable[[int], int]) -> I64:
    """`values`, with the masked rows, usually few, read by `read`."""
    for row in np.flatnonzero(rows).tolist():
        try:
            value = read(row)
            if not INT64_MIN <= value <= INT64_MAX:
                raise BadValue("overflow")
            values[row] = value
        except BadValue as error:
            column.refuse_row(row, error.reason)
    return values


def divided(column: Field, values: I64, divisor: int) -> I64:
    """The values divided by `divisor`; values with a remainder are refused."""
    whole = values // divisor
    column.refuse(whole * divisor != values, "type")
    return whole


def decimals(column: Field, scale: int) -> I64:
    """Decimals of any width at a scale; they are read from text if Arrow can't rescale all of them."""
    try:
        wide = column.array.cast(pa.decimal128(38, scale))
    except pa.ArrowInvalid:
        return _wide_decimals(column, scale)
    words = np.frombuffer(wide.buffers()[1], dtype=np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    column.refuse(words[:, 1] != words[:, 0] >> 63, "overflow")
    return np.ascontiguousarray(words[:, 0])


def _wide_decimals(column: Field, scale: int) -> I64:
    everything, values = np.ones(len(column.array), dtype=np.bool_), np.zeros(len(column.array), dtype=np.int64)
    return one_by_one(column, everything, values, lambda row: texts.read_decimal(str(column.array[row]), scale))


def cast_texts(strings: pa.Array, pattern: str, target: pa.DataType, storage: pa.DataType) -> tuple[I64, Flags]:
    """The texts that fit a pattern, cast to `target` and then to integers, and a mask of these texts."""
    read, fits = texts.read_column(strings, pattern, target)
    return numpy(read.cast(storage).fill_null(0)).astype(np.int64), numpy(fits)


def decimal_texts(strings: pa.Array, pattern: str, scale: int) -> tuple[I64, Flags]:
    """The texts that fit a pattern of decimals, as integers at a scale, and a mask of these texts."""
    read, fits = texts.read_column(strings, pattern, pa.decimal128(38, scale))
    words = np.frombuffer(read.fill_null(0).buffers()[1], dtype=np.int64).reshape(-1, 2)
    return np.array(words[: len(strings), 0]), numpy(fits)
