"""Reads a timestamp column as microseconds since 1970, from Arrow's timestamps and dates, ISO text, and numbers.

Arrow's types have a unit. A number has the schema's unit, which is milliseconds for a plain `timestamp`; there, a
number that looks like another unit is refused. A number may have a fraction of whole microseconds. Finer digits are
refused, or cut off if the column is only an event time (`Field.cuts`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import F64, I64, Flags
from spojoin.columns import texts
from spojoin.columns.field import (
    CLOCK,
    Field,
    cast_texts,
    decimal_doubles,
    decimal_texts,
    decimals,
    divided,
    numpy,
    one_by_one,
    signed,
    times,
    whole_doubles,
)
from spojoin.columns.time_units import DAY_US, TICKS, in_doubt
from spojoin.model import UTC, TimeUnit

#: Below this many microseconds, doubles of seconds (up to 2**33) and of milliseconds (up to 2**43) are less than a
#: microsecond apart, so that different microseconds have different doubles.
_EXACT_US = 8_500_000_000_000_000


def reader(arrow: pa.DataType) -> Callable[[Field], I64] | None:
    """The function that reads a column of this Arrow type; None if its values aren't moments."""
    if pa.types.is_date32(arrow):
        return _of_days
    if pa.types.is_date64(arrow):
        return _of_milliseconds
    known = [
        (pa.types.is_string, _of_texts),
        (pa.types.is_timestamp, _of_timestamps),
        (pa.types.is_integer, _of_integers),
        (pa.types.is_floating, _of_doubles),
        (pa.types.is_decimal, _of_decimals),
    ]
    return next((read for is_type, read in known if is_type(arrow)), None)


def _of_days(column: Field) -> I64:
    days = times(column, numpy(column.array.cast(pa.int32())).astype(np.int64), DAY_US)
    return _by_clock(column, days, np.ones(len(days), np.bool_))


def _of_milliseconds(column: Field) -> I64:
    return times(column, numpy(column.array.cast(pa.int64())), 1000)


def _of_timestamps(column: Field) -> I64:
    moments = _in_us(column, numpy(column.array.cast(pa.int64())), TimeUnit(column.array.type.unit))
    return moments if column.array.type.tz is not None else _by_clock(column, moments, np.ones(len(moments), np.bool_))


def _by_clock(column: Field, moments: I64, naive: Flags) -> I64:
    """Instants of a column with a zone; the moments in the mask `naive` (n,) are local clock times in this zone.

    A time that the clock showed twice or never, because it was changed, is refused.
    """
    if column.type.zone in (None, UTC) or not naive.any():
        return moments
    clocks = pa.array(moments, pa.timestamp("us"))
    instants = pc.assume_timezone(clocks, column.type.zone, ambiguous="earliest", nonexistent="earliest")
    latest = pc.assume_timezone(clocks, column.type.zone, ambiguous="latest", nonexistent="latest")
    column.refuse(numpy(pc.not_equal(instants, latest)) & naive, CLOCK)
    return np.where(naive, numpy(instants.cast(pa.int64())), moments)


def _of_integers(column: Field) -> I64:
    return _counted(column, signed(column))


def _of_doubles(column: Field) -> I64:
    values = numpy(column.array).astype(np.float64)
    column.refuse(np.isnan(values), "nan")
    column.refuse(np.isinf(values), "overflow")
    values = np.where(np.isfinite(values), values, 0.0)
    _refuse_in_doubt(column, values)
    scale = _scale(column)
    if column.cuts:
        return _below_us(column, whole_doubles(column, _rounded(values, scale)))
    if not scale:
        return _below_us(column, whole_doubles(column, values))
    return decimal_doubles(column, values, scale, _EXACT_US)


def _rounded(values: F64, scale: int) -> F64:
    """Values rounded to the nearest: a double may be just below the microsecond that it stands for."""
    with np.errstate(over="ignore"):
        return np.rint(values * 10.0**scale)


def _of_decimals(column: Field) -> I64:
    _refuse_in_doubt(column, numpy(column.array.cast(pa.float64())))
    if column.cuts:
        scale = _scale(column)
        array = pc.floor(column.array) if not scale else pc.round(column.array, scale, "down")
        column = Field(column.name, column.type, array, column.refusals, column.cuts)
    return _below_us(column, decimals(column, _scale(column)))


def _unit(column: Field) -> TimeUnit:
    return column.type.unit or TimeUnit.MILLISECONDS


def _scale(column: Field) -> int:
    """How many digits after the point a number in the column's unit needs for microseconds; 0 for finer units."""
    return {TimeUnit.SECONDS: 6, TimeUnit.MILLISECONDS: 3}.get(_unit(column), 0)


def _counted(column: Field, numbers: I64) -> I64:
    """Integers in the column's unit as microseconds."""
    _refuse_in_doubt(column, numbers)
    return _in_us(column, numbers, _unit(column))


def _refuse_in_doubt(column: Field, numbers: I64 | F64) -> None:
    if column.type.unit is None:
        column.refuse(in_doubt(numbers), "unit")


def _in_us(column: Field, numbers: I64, unit: TimeUnit) -> I64:
    if unit is not TimeUnit.NANOSECONDS:
        return times(column, numbers, 10**6 // TICKS[unit])
    return numbers // 1000 if column.cuts else divided(column, numbers, 1000)


def _below_us(column: Field, numbers: I64) -> I64:
    """Numbers scaled by `_scale` as microseconds; nanoseconds still need to be divided."""
    return _in_us(column, numbers, TimeUnit.NANOSECONDS) if _unit(column) is TimeUnit.NANOSECONDS else numbers


def _of_texts(column: Field) -> I64:
    """The moments of texts: Arrow reads ISO text and numbers in common spelling, others are read one by one."""
    moments, fits = _iso(column, column.array)
    if fits.all():
        return moments
    strings = pc.utf8_trim_whitespace(column.array)
    moments, fits = _iso(column, strings)
    for read in (_whole_texts, _fraction_texts):
        if not fits.all():
            numbers, found = read(column, strings)
            moments, fits = np.where(found, numbers, moments), fits | found
    blank = ~fits & (numpy(pc.utf8_length(strings)) == 0)
    column.note_null(blank)
    return one_by_one(
        column, ~fits & ~blank, moments, lambda row: texts.read_moment_us(str(strings[row]), column.type, column.cuts)
    )


def _iso(column: Field, strings: pa.Array) -> tuple[I64, Flags]:
    naive, fits = cast_texts(strings, texts.NAIVE_COMMON, pa.timestamp("us"), pa.int64())
    naive = _by_clock(column, naive, fits)
    if fits.all():
        return naive, fits
    zoned, fits_zoned = cast_texts(strings, texts.ZONED_COMMON, pa.timestamp("us", "UTC"), pa.int64())
    return np.where(fits, naive, zoned), fits | fits_zoned


def _whole_texts(column: Field, strings: pa.Array) -> tuple[I64, Flags]:
    numbers, fits = cast_texts(strings, texts.INT64_COMMON, pa.int64(), pa.int64())
    return _counted(column, numbers), fits


def _fraction_texts(column: Field, strings: pa.Array) -> tuple[I64, Flags]:
    scale = _scale(column)
    if not scale:
        return np.zeros(len(strings), np.int64), np.zeros(len(strings), np.bool_)
    moments, fits = decimal_texts(strings, texts.fraction_common(scale), scale)
    _refuse_in_doubt(column, moments // 10**scale)
    return moments, fits
