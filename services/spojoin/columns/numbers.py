"""Reads an Arrow column as int64 or double values of its declared type, or as event times; refuses bad values by row.

Columns may have related types (int64 for int, text for anything, doubles for integers): a value is accepted if and only
if it is a value of the declared type. Only float rounds, as reading a decimal fraction into a double or float always
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import F64, I64, Flags
from spojoin.columns import moments, texts
from spojoin.columns.field import (
    Field,
    cast_texts,
    decimal_doubles,
    decimal_texts,
    decimals,
    divided,
    numpy,
    one_by_one,
    plain_texts,
    signed,
    times,
    whole_doubles,
)
from spojoin.columns.refusals import BadValue, Refusals
from spojoin.columns.time_units import TICKS
from spojoin.model import FLOATING, ColumnType, TimeUnit, TypeName

_DAY_MS = 86_400_000


def read_integers(
    name: str, kind: ColumnType, array: pa.Array, refusals: Refusals, *, cuts: bool = False, nulls: Flags | None = None
) -> I64:
    """int64 (n,): the integers of an int, long, decimal (scaled), date (days) or timestamp (microseconds) column.

    Refused rows and rows without a value hold arbitrary values.
    cuts: whether a timestamp's digits below a microsecond are cut off; otherwise they are refused
    nulls: (n,), takes note of rows without a value; None refuses them
    """
    column = _prepared(Field(name, kind, array, refusals, cuts, nulls))
    values = _reader(column)(column)
    _check_range(column, values)
    return values


def read_doubles(name: str, kind: ColumnType, array: pa.Array, refusals: Refusals, nulls: Flags | None = None) -> F64:
    """float64 (n,): the values of a float, double, int, long or decimal column; `nulls` as for `read_integers`.

    Refused rows and rows without a value hold arbitrary values. Longs and decimals are rounded, as in SQL.
    """
    if kind.name not in FLOATING:
        return np.asarray(read_integers(name, kind, array, refusals, nulls=nulls) / np.float64(10**kind.scale))
    column = _prepared(Field(name, kind, array, refusals, nulls=nulls))
    values = _doubles(column)
    return _as_float32(column, values) if kind.name is TypeName.FLOAT else values


def _prepared(column: Field) -> Field:
    """The column without dictionaries, special layouts of text, and nulls; nulls are noted or refused."""
    array = plain_texts(column.array)
    if array.null_count:
        column.note_null(array.is_null().to_numpy(zero_copy_only=False))
        array = _filled(array)
    return replace(column, array=array)


def _filled(array: pa.Array) -> pa.Array:
    if array.null_count == len(array):
        return pa.repeat(pa.scalar("", pa.string()), len(array))
    return array if pa.types.is_nested(array.type) else array.fill_null(array.drop_null()[0])


def _reader(column: Field) -> Callable[[Field], I64]:
    kind, arrow = column.type.name, column.array.type
    if kind is TypeName.TIMESTAMP:
        return moments.reader(arrow) or _from_nothing
    if pa.types.is_string(arrow):
        return _from_texts
    if kind is TypeName.DATE:
        return _from_days
    if pa.types.is_integer(arrow):
        return _from_integers
    if pa.types.is_floating(arrow):
        return _from_doubles
    return _from_decimals if pa.types.is_decimal(arrow) else _from_nothing


def _check_range(column: Field, values: I64) -> None:
    """Refuse values that fit an int64 but not the declared type."""
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


def _from_integers(column: Field) -> I64:
    return times(column, signed(column), 10**column.type.scale)


def _from_doubles(column: Field) -> I64:
    values = numpy(column.array).astype(np.float64)
    column.refuse(np.isnan(values), "nan")
    return decimal_doubles(column, values, column.type.scale) if column.type.scale else whole_doubles(column, values)


def _from_decimals(column: Field) -> I64:
    return decimals(column, column.type.scale)


def _from_days(column: Field) -> I64:
    arrow = column.array.type
    if pa.types.is_date32(arrow):
        return numpy(column.array.cast(pa.int32())).astype(np.int64)
    if pa.types.is_date64(arrow):
        return divided(column, numpy(column.array.cast(pa.int64())), _DAY_MS)
    if pa.types.is_timestamp(arrow):
        return divided(column, numpy(column.array.cast(pa.int64())), 86_400 * TICKS[TimeUnit(arrow.unit)])
    return _from_nothing(column)


def _from_texts(column: Field) -> I64:
    """The integers of texts: Arrow reads the common spelling, other texts are read one by one."""
    strings = column.array
    values, fits = _common(strings, column.type)
    if not fits.all():
        strings = pc.utf8_trim_whitespace(strings)
        values, fits = _common(strings, column.type)
    rest = ~fits
    blank = rest & (numpy(pc.utf8_length(strings)) == 0)
    column.note_null(blank)
    read = texts.reader(column.type)
    return one_by_one(column, rest & ~blank, values, lambda row: read(str(strings[row])))


def _common(strings: pa.Array, kind: ColumnType) -> tuple[I64, Flags]:
    """The integers of the texts in common spelling, and a mask of these texts."""
    match kind.name:
        case TypeName.DECIMAL:
            return _decimal_words(strings, kind)
        case TypeName.DATE:
            return cast_texts(strings, texts.DATE_COMMON, pa.date32(), pa.int32())
        case _:
            return _whole_texts(strings)


def _whole_texts(strings: pa.Array) -> tuple[I64, Flags]:
    """Integers, also with zeros after the point, as tables write integer columns with gaps."""
    values, fits = cast_texts(strings, texts.INTEGER_COMMON, pa.int64(), pa.int64())
    if fits.all():
        return values, fits
    return cast_texts(texts.without_zero_fraction(strings), texts.INTEGER_COMMON, pa.int64(), pa.int64())


def _decimal_words(strings: pa.Array, kind: ColumnType) -> tuple[I64, Flags]:
    return decimal_texts(strings, texts.decimal_common(kind), kind.scale)


def _doubles(column: Field) -> F64:
    arrow = column.array.type
    if pa.types.is_floating(arrow):
        return numpy(column.array).astype(np.float64, copy=False)
    if pa.types.is_integer(arrow):
        return _doubles_of_integers(column)
    if pa.types.is_decimal(arrow):
        return numpy(column.array.cast(pa.string()).cast(pa.float64()))
    if pa.types.is_string(arrow):
        return _doubles_of_texts(column)
    return _from_nothing(column).astype(np.float64)


def _doubles_of_integers(column: Field) -> F64:
    """Integers as doubles; an integer that no double equals is refused."""
    values = signed(column)
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
            read[row] = texts.read_double(text) if text else 0.0
        except BadValue as error:
            read[row] = 0.0
            column.refuse_row(row, error.reason)
    column.note_null(numpy(pc.equal(strings, "")))
    return read


def _double_texts(strings: pa.Array) -> tuple[F64, Flags]:
    read, fits = texts.read_column(strings, texts.DOUBLE_COMMON, pa.float64())
    return np.array(numpy(read.fill_null(0.0))), numpy(fits)


def _as_float32(column: Field, values: F64) -> F64:
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    column.refuse(np.isinf(rounded) & np.isfinite(values), "overflow")
    return rounded


# Years 1 to 9999: the range of ISO text, and far enough from int64's ends for every window bound.
TIME_US_MIN, TIME_US_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999

_PLAIN = ColumnType(TypeName.TIMESTAMP)


def read_times_us(name: str, array: pa.Array, refusals: Refusals, declared: ColumnType | None = None) -> I64:
    """int64 (n,) event times of ISO text, timestamps, dates or numbers; bad rows are refused as "time" or "unit".

    Numbers have the type's unit. If it has none, and in columns of other types, they are milliseconds, but are refused
    if they look like another unit. Digits below a microsecond are cut off, which keeps the order.

    declared: the column's type, None if the schema has none
    """
    own = Refusals(len(array))
    values = read_integers(name, _as_timestamp(declared), array, own, cuts=True)
    for row, (reason, detail) in own.by_row.items():
        refusals.add(row, reason if reason == "unit" else "time", detail)
    if len(values) and (values.min() < TIME_US_MIN or values.max() > TIME_US_MAX):
        _refuse_far(name, array, values, own, refusals)
    return values


def _as_timestamp(declared: ColumnType | None) -> ColumnType:
    return declared if declared is not None and declared.name is TypeName.TIMESTAMP else _PLAIN


def _refuse_far(name: str, array: pa.Array, values: I64, own: Refusals, refusals: Refusals) -> None:
    for row in np.flatnonzero((values < TIME_US_MIN) | (values > TIME_US_MAX)).tolist():
        if row not in own.by_row:
            refusals.add(row, "time", f"field {name}: value {array[row]} is not in the years 1 to 9999")
