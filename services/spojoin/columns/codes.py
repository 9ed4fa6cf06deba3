"""Turns values of key columns into codes, and finds the rows that have no code."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.arrays import F64, I64, Flags
from spojoin.columns.field import BELOW_US, INT64_MAX, INT64_MIN
from spojoin.columns.refusals import Refusals
from spojoin.kernels.codes import fold_doubles
from spojoin.model import Domain, KeyColumn, Rounding


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column's n numbers, int64 or float64, and a mask of NULL rows, (n,), which hold arbitrary numbers."""

    values: NDArray[np.int64] | NDArray[np.float64]
    nulls: Flags


@dataclass(frozen=True, slots=True)
class CodeColumn:
    """Codes int64 (n,), and the rows whose condition can't be true, (n,); None if there are none."""

    codes: I64
    void: Flags | None


def void_of(nulls: Flags) -> Flags | None:
    """The mask, or None if it is empty."""
    return nulls if nulls.any() else None


def codes_of_doubles(key: KeyColumn, values: F64, nulls: Flags) -> CodeColumn:
    """The codes of doubles: in their own order, or as integers that stand for them if the other side is exact."""
    void = nulls | np.isnan(values) if key.has_no_nan else nulls
    if key.rounding is None:
        return CodeColumn(fold_doubles(values), void_of(void))
    codes, beyond = rounded(values, key.scale, key.rounding)
    return CodeColumn(codes, void_of(void | beyond))


def rounded(values: F64, scale: int, rounding: Rounding) -> tuple[I64, Flags]:
    """int64 (n,) that stand for doubles (n,) times 10**scale, and a mask (n,) of rows that nothing can match.

    A NaN is above every number.
    """
    distinct, places = np.unique(values, return_inverse=True)
    found = [_integer_for(float(value), scale, rounding) for value in distinct]
    codes = np.array([each or 0 for each in found], np.int64)
    beyond = np.array([each is None for each in found], np.bool_)
    return codes[places], beyond[places]


def _integer_for(value: float, scale: int, rounding: Rounding) -> int | None:
    """The integer that stands for a double, limited to int64 if that changes no comparison; None if nothing matches."""
    if math.isnan(value) or math.isinf(value):
        exact: Fraction | None = None
        is_above = math.isnan(value) or value > 0
    else:
        exact = Fraction(value) * 10**scale
        is_above = exact > 0
    match rounding:
        case Rounding.BELOW | Rounding.AT_MOST:
            found = _down(exact, is_above, strict=rounding is Rounding.BELOW)
            return None if found < INT64_MIN else min(found, INT64_MAX)
        case Rounding.ABOVE | Rounding.AT_LEAST:
            found = _up(exact, is_above, strict=rounding is Rounding.ABOVE)
            return None if found > INT64_MAX else max(found, INT64_MIN)
        case Rounding.EQUAL:
            whole = exact is not None and exact.denominator == 1 and INT64_MIN <= exact <= INT64_MAX
            return int(exact) if exact is not None and whole else None
        case Rounding.DOUBLE:
            raise ValueError("an integer or decimal is rounded so, not a double")


def codes_of_exact(values: I64, scale: int) -> I64:
    """The codes int64 (n,) of the doubles that equal integers (n,) over 10**scale; no double has INT64_MIN."""
    distinct, places = np.unique(values, return_inverse=True)
    exact = [Fraction(value, 10**scale) for value in distinct.tolist()]
    doubles = np.array([float(each) for each in exact], np.float64)
    has_none = np.array([Fraction(float(each)) != each for each in exact], np.bool_)
    return np.where(has_none, INT64_MIN, fold_doubles(doubles))[places]


def _down(exact: Fraction | None, is_above: bool, *, strict: bool) -> int:
    if exact is None:
        return INT64_MAX + 1 if is_above else INT64_MIN - 1
    return math.ceil(exact) - 1 if strict else math.floor(exact)


def _up(exact: Fraction | None, is_above: bool, *, strict: bool) -> int:
    if exact is None:
        return INT64_MAX + 1 if is_above else INT64_MIN - 1
    return math.floor(exact) + 1 if strict else math.ceil(exact)


def codes_of_values(key: KeyColumn, values: pa.Array, refusals: Refusals) -> CodeColumn:
    """The codes of n values of an expression."""
    nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if key.domain is Domain.ASSIGNED:
        return CodeColumn(np.zeros(len(values), np.int64), void_of(nulls))
    if pa.types.is_null(values.type):
        return CodeColumn(np.zeros(len(values), np.int64), nulls)
    if key.rounding is Rounding.DOUBLE:
        return CodeColumn(codes_of_exact(_integers(key, values, refusals), key.scale), void_of(nulls))
    if key.domain is Domain.FLOAT or key.rounding is not None:
        doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return codes_of_doubles(key, np.asarray(doubles, np.float64), nulls)
    return CodeColumn(_integers(key, values, refusals), void_of(nulls))


def _integers(key: KeyColumn, values: pa.Array, refusals: Refusals) -> I64:
    """Integers, decimals, dates and times at the key's scale; values beyond int64 are refused."""
    kind = values.type
    if _is_text(kind):
        return prefixes(values)
    if pa.types.is_boolean(kind):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False)).astype(np.int64)
    if pa.types.is_date(kind):
        return np.asarray(values.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(), np.int64)
    if pa.types.is_timestamp(kind):
        return _microseconds(key, values, refusals)
    if pa.types.is_decimal(kind) or key.scale or pa.types.is_uint64(kind):
        return _scaled(key, values, refusals)
    return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy())


def _is_text(kind: pa.DataType) -> bool:
    of = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    of_bytes = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(each(kind) for each in (*of, *of_bytes))


#: How many bytes of a text a code holds.
_PREFIX_BYTES = 8


def prefixes(values: pa.Array) -> I64:
    """The first eight bytes of n texts as int64 (n,) in the same order; shorter texts are padded with zeros."""
    wide = values.cast(pa.large_binary()).fill_null(b"")
    _, offsets, data = wide.buffers()
    found = np.zeros(len(wide), np.uint64)
    if data is not None and data.size:
        ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        given = np.frombuffer(data, np.uint8)
        for place in range(_PREFIX_BYTES):
            at = ends[:-1] + place
            byte = np.where(at < ends[1:], given[np.minimum(at, len(given) - 1)], np.uint8(0))
            found = found << np.uint64(8) | byte
    return (found ^ np.uint64(1 << 63)).view(np.int64)


def _microseconds(key: KeyColumn, values: pa.Array, refusals: Refusals) -> I64:
    """Moments of any unit in microseconds; finer digits are refused."""
    if values.type.unit == "ns":
        numbers = np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy())
        refusals.add_where(numbers % 1000 != 0, "type", f"expression {key.text}: its value {BELOW_US}")
        return numbers // 1000
    us: Callable[..., pa.Array] = pc.cast
    return np.asarray(us(values, pa.timestamp("us", values.type.tz)).cast(pa.int64()).fill_null(0).to_numpy())


def _scaled(key: KeyColumn, values: pa.Array, refusals: Refusals) -> I64:
    wide = values.cast(pa.decimal256(76, key.scale)).fill_null(0)
    words = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 4)[wide.offset : wide.offset + len(wide)]
    beyond = (words[:, 1:] != (words[:, :1] >> 63)).any(axis=1)
    refusals.add_where(beyond, "overflow", f"expression {key.text}: its value is beyond 64-bit integers")
    return np.ascontiguousarray(words[:, 0])
