"""One Arrow column as int64 or double values of its declared type, each bad value refused by its row.

Columns may come in near types (int64 for int, text for anything, doubles for whole numbers): a value is taken iff it is
a value of the declared type. Only float rounds, as reading a decimal fraction into a double or float always does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.query import texts
from spojoin.query.model import ColumnType, TypeName
from spojoin.query.operands import DAY_US
from spojoin.query.refusals import BadValue, Refusals

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EXACT_DIGITS = 10**15  # a decimal of so many digits is told by its double alone
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_MS = 86_400_000


@dataclass(slots=True)
class Field:
    """A column being read: its name, declared type, values and where its bad rows go."""

    name: str
    type: ColumnType
    array: pa.Array
    refusals: Refusals

    def refuse(self, bad: Mask, reason: str) -> None:
        """Refuse the rows of a mask, each with its value."""
        if bad.any():
            for row in np.flatnonzero(bad).tolist():
                self.refuse_row(row, reason)

    def refuse_row(self, row: int, reason: str) -> None:
        """Refuse one row with its value."""
        value = self.array[row].as_py()
        shown = repr(value) if isinstance(value, str) else str(value)
        self.refusals.add(row, reason, f"field {self.name}: {_said(reason, shown[:80], self.type)}")


def read_integers(name: str, kind: ColumnType, array: pa.Array, refusals: Refusals) -> I64:
    """int64 (n,): the integers of an int, long, decimal (scaled), date (days) or timestamp (microseconds) column.

    Rows refused hold anything.
    """
    column = _prepared(Field(name, kind, array, refusals))
    values = _reader(column)(column)
    _check_range(column, values)
    return values


def read_doubles(name: str, kind: ColumnType, array: pa.Array, refusals: Refusals) -> F64:
    """float64 (n,): the values of a float, double or int column. Rows refused hold anything."""
    if kind.name is TypeName.INT:
        return read_integers(name, kind, array, refusals).astype(np.float64)
    column = _prepared(Field(name, kind, array, refusals))
    values = _doubles(column)
    column.refuse(np.isnan(values), "nan")
    return _as_float32(column, values) if kind.name is TypeName.FLOAT else values


def _said(reason: str, shown: str, kind: ColumnType) -> str:
    match reason:
        case "null":
            return f"no value, expected a {kind}"
        case "nan":
            return f"value {shown} is not a number"
        case "overflow":
            return f"value {shown} is out of range of {kind}"
        case _:
            return f"value {shown} is not a {kind}"


def _prepared(column: Field) -> Field:
    """The column without dictionary, odd text types and nulls; its nulls are refused."""
    array = column.array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    if array.null_count:
        column.refuse(array.is_null().to_numpy(zero_copy_only=False), "null")
        array = _filled(array)
    return Field(column.name, column.type, array, column.refusals)


def _filled(array: pa.Array) -> pa.Array:
    if array.null_count == len(array):
        return pa.repeat(pa.scalar("", pa.string()), len(array))
    return array if pa.types.is_nested(array.type) else array.fill_null(array.drop_null()[0])


def _reader(column: Field) -> Callable[[Field], I64]:
    kind, arrow = column.type.name, column.array.type
    if pa.types.is_string(arrow):
        return _from_texts
    if kind in (TypeName.DATE, TypeName.TIMESTAMP):
        return _from_days if kind is TypeName.DATE else _from_moments
    if pa.types.is_integer(arrow):
        return _from_integers
    if pa.types.is_floating(arrow):
        return _from_doubles
    return _from_decimals if pa.types.is_decimal(arrow) else _from_nothing


def _check_range(column: Field, values: I64) -> None:
    """Refuse what an int64 holds and the declared type doesn't."""
    kind = column.type
    if kind.name is TypeName.INT:
        low, high = -(2**31), 2**31 - 1
    elif kind.name is TypeName.DECIMAL:
        low, high = 1 - 10**kind.precision, 10**kind.precision - 1
    else:
        return
    if len(values) and (values.min() < low or values.max() > high):
        column.refuse((values < low) | (values > high), "overflow")


def _from_nothing(column: Field) -> I64:
    column.refuse(np.ones(len(column.array), dtype=np.bool_), "type")
    return np.zeros(len(column.array), dtype=np.int64)


def _numpy(array: pa.Array) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _signed(column: Field) -> I64:
    """The column's integers; unsigned ones beyond int64 are refused."""
    values = _numpy(column.array)
    if values.dtype == np.uint64:
        column.refuse(values > np.uint64(INT64_MAX), "overflow")
    return values.astype(np.int64)


def _from_integers(column: Field) -> I64:
    return _times(column, _signed(column), 10**column.type.scale)


def _times(column: Field, values: I64, factor: int) -> I64:
    """The values times `factor`; products beyond int64 are refused."""
    if factor == 1 or not len(values):
        return values
    low, high = -(INT64_MAX // factor), INT64_MAX // factor
    if values.min() < low or values.max() > high:
        column.refuse((values < low) | (values > high), "overflow")
    return values * factor


def _from_doubles(column: Field) -> I64:
    values = _numpy(column.array).astype(np.float64)
    column.refuse(np.isnan(values), "nan")
    return _decimal_doubles(column, values) if column.type.scale else _whole_doubles(column, values)


def _whole_doubles(column: Field, values: F64) -> I64:
    beyond = np.abs(values) >= 2.0**63
    beyond &= values != -(2.0**63)
    column.refuse(beyond, "overflow")
    safe = np.where(beyond | np.isnan(values), 0.0, values)
    column.refuse(safe != np.floor(safe), "type")
    return safe.astype(np.int64)


def _decimal_doubles(column: Field, values: F64) -> I64:
    """Doubles as the decimals that print so: 12.34 is 1234 at scale 2, though no double equals it."""
    power = 10.0**column.type.scale
    with np.errstate(all="ignore"):
        scaled = np.rint(values * power)
        exact = (scaled / power == values) & (np.abs(scaled) < _EXACT_DIGITS)
    result = np.where(exact, scaled, 0.0).astype(np.int64)
    scale = column.type.scale
    return _one_by_one(
        column, ~exact & ~np.isnan(values), result, lambda row: texts.read_decimal(repr(float(values[row])), scale)
    )


def _one_by_one(column: Field, rows: Mask, values: I64, read: Callable[[int], int]) -> I64:
    """Values with the masked rows, few as a rule, read by `read`."""
    for row in np.flatnonzero(rows).tolist():
        try:
            value = read(row)
            if not INT64_MIN <= value <= INT64_MAX:
                raise BadValue("overflow")
            values[row] = value
        except BadValue as error:
            column.refuse_row(row, error.reason)
    return values


def _from_decimals(column: Field) -> I64:
    """Decimals of any width at the column's scale, through their text where Arrow can't rescale them all."""
    try:
        wide = column.array.cast(pa.decimal128(38, column.type.scale))
    except pa.ArrowInvalid:
        return _wide_decimals(column)
    words = np.frombuffer(wide.buffers()[1], dtype=np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    column.refuse(words[:, 1] != words[:, 0] >> 63, "overflow")
    return np.ascontiguousarray(words[:, 0])


def _wide_decimals(column: Field) -> I64:
    everything, values = np.ones(len(column.array), dtype=np.bool_), np.zeros(len(column.array), dtype=np.int64)
    scale = column.type.scale
    return _one_by_one(column, everything, values, lambda row: texts.read_decimal(str(column.array[row]), scale))


def _from_days(column: Field) -> I64:
    arrow = column.array.type
    if pa.types.is_date32(arrow):
        return _numpy(column.array.cast(pa.int32())).astype(np.int64)
    if pa.types.is_date64(arrow):
        return _divided(column, _numpy(column.array.cast(pa.int64())), _DAY_MS)
    if pa.types.is_timestamp(arrow):
        return _divided(column, _numpy(column.array.cast(pa.int64())), 86_400 * _TICKS_PER_SECOND[arrow.unit])
    return _from_nothing(column)


def _divided(column: Field, values: I64, divisor: int) -> I64:
    """The values divided by `divisor`; a remainder is no value of the type."""
    whole = values // divisor
    column.refuse(whole * divisor != values, "type")
    return whole


def _from_moments(column: Field) -> I64:
    arrow = column.array.type
    if pa.types.is_timestamp(arrow):
        ticks = _TICKS_PER_SECOND[arrow.unit]
        values = _numpy(column.array.cast(pa.int64()))
        return _divided(column, values, 1000) if ticks > 10**6 else _times(column, values, 10**6 // ticks)
    if pa.types.is_date32(arrow):
        return _times(column, _numpy(column.array.cast(pa.int32())).astype(np.int64), DAY_US)
    if pa.types.is_date64(arrow):
        return _times(column, _numpy(column.array.cast(pa.int64())), 1000)
    if pa.types.is_integer(arrow):
        return _times(column, _signed(column), 1000)
    if pa.types.is_floating(arrow):
        values = _numpy(column.array).astype(np.float64)
        column.refuse(np.isnan(values), "nan")
        return _times(column, _whole_doubles(column, values), 1000)
    return _from_nothing(column)


def _from_texts(column: Field) -> I64:
    """Text in its common spelling by Arrow, the rest one by one."""
    strings = column.array
    values, fits = _common(strings, column.type)
    if not fits.all():
        strings = pc.utf8_trim_whitespace(strings)
        values, fits = _common(strings, column.type)
    rest = ~fits
    blank = rest & (_numpy(pc.utf8_length(strings)) == 0)
    column.refuse(blank, "null")
    read = texts.reader(column.type)
    return _one_by_one(column, rest & ~blank, values, lambda row: read(str(strings[row])))


def _common(strings: pa.Array, kind: ColumnType) -> tuple[I64, Mask]:
    """The integers of the texts in common spelling, and which those are."""
    match kind.name:
        case TypeName.DECIMAL:
            return _decimal_words(strings, kind)
        case TypeName.DATE:
            return _cast_texts(strings, texts.DATE_COMMON, pa.date32(), pa.int32())
        case TypeName.TIMESTAMP:
            return _common_moments(strings)
        case _:
            return _cast_texts(strings, texts.INTEGER_COMMON, pa.int64(), pa.int64())


def _cast_texts(strings: pa.Array, pattern: str, target: pa.DataType, storage: pa.DataType) -> tuple[I64, Mask]:
    read, fits = texts.read_column(strings, pattern, target)
    return _numpy(read.cast(storage).fill_null(0)).astype(np.int64), _numpy(fits)


def _decimal_words(strings: pa.Array, kind: ColumnType) -> tuple[I64, Mask]:
    read, fits = texts.read_column(strings, texts.decimal_common(kind), pa.decimal128(38, kind.scale))
    words = np.frombuffer(read.fill_null(0).buffers()[1], dtype=np.int64).reshape(-1, 2)
    return np.array(words[: len(strings), 0]), _numpy(fits)


def _common_moments(strings: pa.Array) -> tuple[I64, Mask]:
    naive, fits = _cast_texts(strings, texts.NAIVE_COMMON, pa.timestamp("us"), pa.int64())
    if fits.all():
        return naive, fits
    zoned, fits_zoned = _cast_texts(strings, texts.ZONED_COMMON, pa.timestamp("us", "UTC"), pa.int64())
    return np.where(fits, naive, zoned), fits | fits_zoned


def _doubles(column: Field) -> F64:
    arrow = column.array.type
    if pa.types.is_floating(arrow):
        return _numpy(column.array).astype(np.float64, copy=False)
    if pa.types.is_integer(arrow):
        return _doubles_of_integers(column)
    if pa.types.is_decimal(arrow):
        return _numpy(column.array.cast(pa.string()).cast(pa.float64()))
    if pa.types.is_string(arrow):
        return _doubles_of_texts(column)
    return _from_nothing(column).astype(np.float64)


def _doubles_of_integers(column: Field) -> F64:
    """Integers as doubles; one that no double equals is refused."""
    values = _signed(column)
    doubles = values.astype(np.float64)
    low = doubles < 2.0**63
    column.refuse(~low | (np.where(low, doubles, 0.0).astype(np.int64) != values), "type")
    return doubles


def _doubles_of_texts(column: Field) -> F64:
    read, fits = _double_texts(column.array)
    strings = column.array
    if not fits.all():
        strings = pc.utf8_trim_whitespace(strings)
        read, fits = _double_texts(strings)
    for row in np.flatnonzero(~fits).tolist():
        text = str(strings[row].as_py())
        try:
            read[row] = texts.read_double(text)
        except BadValue as error:
            read[row] = 0.0
            column.refuse_row(row, error.reason if text else "null")
    return read


def _double_texts(strings: pa.Array) -> tuple[F64, Mask]:
    read, fits = texts.read_column(strings, texts.DOUBLE_COMMON, pa.float64())
    return np.array(_numpy(read.fill_null(0.0))), _numpy(fits)


def _as_float32(column: Field, values: F64) -> F64:
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    column.refuse(np.isinf(rounded) & np.isfinite(values), "overflow")
    return rounded
