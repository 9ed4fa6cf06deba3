"""Extraction as a plain loop over rows and Python numbers: Fraction for integers, float and struct for doubles."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from spojoin.model import Arithmetic, Column, ColumnType, Constant, Domain, Stream, TypeName

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
RANGES = {TypeName.INT: 2**31, TypeName.LONG: 2**63, TypeName.DATE: 2**63, TypeName.TIMESTAMP: 2**63}
FIRST_TIME = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LAST_TIME = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)


NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
TICKS = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


class No(Exception):
    """A value is refused for a reason."""


def naive_extract(stream: Stream, rows: list[dict], needs_time: bool):
    """Returns (kept rows, codes by row, times by row, refused (row, reason)).

    A code is None if the value is NULL, or a NaN in a band.
    """
    kept, codes, times, refused = [], [], [], []
    for number, row in enumerate(rows):
        try:
            one = [code(key, stream, row) for key in stream.keys]
            time = event_time(row[stream.time], stream.schema.get(stream.time)) if needs_time else None
            if stream.key and row[stream.key] in (None, ""):
                raise No("null")
        except No as reason:
            refused.append((number, str(reason)))
        else:
            kept.append(number)
            codes.append(one)
            times.append(time)
    return kept, codes, times, refused


def event_time(value, declared: ColumnType | None) -> int:
    kind = declared or ColumnType(TypeName.TIMESTAMP)
    if kind.name in (TypeName.INT, TypeName.LONG):
        kind = ColumnType(TypeName.TIMESTAMP, unit="ms")
    try:
        time = moment(given(value), kind.unit)
    except No as reason:
        raise No("unit" if str(reason) == "unit" else "time") from None
    time = Fraction(round(time) if isinstance(value, float) else math.floor(time))
    if not micros(FIRST_TIME) <= time <= micros(LAST_TIME):
        raise No("time")
    return int(time)


def code(key, stream: Stream, row: dict) -> int | None:
    if key.domain is Domain.FLOAT:
        value = floating(key.expression, stream.schema, row)
        if value is None or (key.has_no_nan and math.isnan(value)):
            return None
        return double_code(value)
    value = exact(key.expression, stream.schema, row)
    if value is None:
        return None
    value *= 10**key.scale
    assert value.denominator == 1
    if not -(2**63) <= value < 2**63:
        raise No("overflow")
    return int(value)


def double_code(value: float) -> int:
    bits = int.from_bytes(struct.pack(">d", value), "big")
    if value == 0:
        return 0
    if math.isnan(value):
        return 0x7FF8 << 48  # the quiet NaN, regardless of its sign and bits
    return bits if bits < 2**63 else 2**63 - 1 - bits


def floating(expression, schema, row) -> float | None:
    if isinstance(expression, Column):
        return known(double, schema[expression.name], row[expression.name])
    if isinstance(expression, Constant):
        return float(expression.value)
    assert isinstance(expression, Arithmetic)
    left, right = floating(expression.left, schema, row), floating(expression.right, schema, row)
    if left is None or right is None:
        return None
    operate = {"+": float.__add__, "-": float.__sub__, "*": float.__mul__, "/": float.__truediv__}
    return operate[expression.operator](left, right)


def known(read, kind: ColumnType, value):
    """The value of a column, None for NULL."""
    try:
        return read(kind, value)
    except No as reason:
        if str(reason) == "null":
            return None
        raise


def exact(expression, schema, row) -> Fraction | None:
    if isinstance(expression, Column):
        return known(whole, schema[expression.name], row[expression.name])
    if isinstance(expression, Constant):
        return expression.value
    left, right = exact(expression.left, schema, row), exact(expression.right, schema, row)
    if left is None or right is None:
        return None
    operate = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__}
    return operate[expression.operator](left, right)


def double(kind: ColumnType, value) -> float:
    if kind.name is TypeName.INT:
        return float(whole(kind, value))
    result = plain_double(value)
    if kind.name is TypeName.FLOAT:
        try:
            result = struct.unpack("<f", struct.pack("<f", result))[0]
        except OverflowError:
            raise No("overflow") from None
    return result


def plain_double(value) -> float:
    value = given(value)
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        if Fraction(float(value)) != value:
            raise No("type")
        return float(value)
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, str):
        raise No("type")
    if "_" in value:
        raise No("type")
    try:
        result = float(value)
    except ValueError:
        raise No("type") from None
    if math.isinf(result) and "n" not in value.lower():
        raise No("overflow")
    return result


def given(value):
    """The value, stripped if it is text; a missing value has its own reason."""
    value = value.strip() if isinstance(value, str) else value
    if isinstance(value, bool) or (isinstance(value, str) and not value.isascii()):
        raise No("type")
    if value is None or value == "":
        raise No("null")
    return value


def whole(kind: ColumnType, value) -> Fraction:
    """The value in the type's own unit: one, one day or one microsecond."""
    value = given(value)
    if kind.name in (TypeName.DATE, TypeName.TIMESTAMP):
        result = days(value) if kind.name is TypeName.DATE else moment(value, kind.unit)
        limit = Fraction(2**63)
    else:
        result = number(kind, value)
        limit = Fraction(10**kind.precision, 10**kind.scale) if kind.precision else Fraction(RANGES[kind.name])
    if (result * 10**kind.scale).denominator != 1:
        raise No("type")
    inside = -limit < result < limit or (not kind.precision and result == -limit)
    if not inside:
        raise No("overflow")
    return result


def number(kind: ColumnType, value) -> Fraction:
    if not isinstance(value, int | float | Decimal | str):
        raise No("type")
    if isinstance(value, float):
        if math.isnan(value):
            raise No("nan")
        if math.isinf(value):
            raise No("type" if kind.scale else "overflow")
        return Fraction(repr(value)) if kind.scale else Fraction(value)
    if isinstance(value, str):
        return text_number(kind, value)
    return Fraction(value)


def text_number(kind: ColumnType, value: str) -> Fraction:
    if kind.precision and value.lower() == "nan":
        raise No("nan")
    if not re.fullmatch(NUMBER, value):
        raise No("type")
    try:
        return Fraction(Decimal(value))
    except InvalidOperation:
        raise No("type") from None


def days(value) -> Fraction:
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=value.tzinfo or dt.UTC)
        return Fraction(micros(value), 86_400_000_000)
    if isinstance(value, dt.date):
        return Fraction((value - EPOCH.date()).days)
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        raise No("type")
    try:
        return Fraction((dt.date.fromisoformat(value) - EPOCH.date()).days)
    except ValueError:
        raise No("type") from None


def moment(value, unit) -> Fraction:
    """Microseconds, perhaps with a fraction."""
    if isinstance(value, float):
        if math.isnan(value):
            raise No("nan")
        if math.isinf(value):
            raise No("overflow")
        return counted(Fraction(repr(value)), unit)
    if isinstance(value, int | Decimal):
        return counted(Fraction(value), unit)
    if isinstance(value, str) and re.fullmatch(NUMBER, value):
        return counted(Fraction(Decimal(value)), unit)
    if isinstance(value, str):
        value = read_moment(value)
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime):
        raise No("type")
    return Fraction(micros(value.replace(tzinfo=value.tzinfo or dt.UTC)))


def counted(number: Fraction, unit) -> Fraction:
    """A number in the given unit; by default milliseconds, unless another unit gives a year from 1990 to 2099."""
    if unit is None:
        for ticks in (1, 10**6, 10**9):
            seconds = number / ticks
            if -(10**9) < seconds < 10**11 and 1990 <= (EPOCH + dt.timedelta(seconds=float(seconds))).year < 2100:
                raise No("unit")
    return number * 10**6 / TICKS[unit or "ms"]


def read_moment(value: str) -> dt.datetime:
    if not re.match(r"\d{4}-\d\d-\d\d", value):
        raise No("type")
    try:
        return dt.datetime.fromisoformat(value)
    except ValueError:
        raise No("type") from None


def micros(value: dt.datetime) -> int:
    return (value - EPOCH) // dt.timedelta(microseconds=1)
