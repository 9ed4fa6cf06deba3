"""Reads values from text: patterns of the common spelling, which Arrow reads fast, and exact readers for the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.columns.refusals import BadValue
from spojoin.columns.time_units import TICKS, is_in_doubt
from spojoin.model import ColumnType, TimeUnit, TypeName

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)

INTEGER_COMMON = r"^-?[0-9]{1,18}$"
INT64_COMMON = r"^-?([0-9]{1,18}|[1-8][0-9]{18})$"  # today's times in nanoseconds have 19 digits
DOUBLE_COMMON = r"^-?[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?$"
DATE_COMMON = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
NAIVE_COMMON = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"
ZONED_COMMON = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})$"

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_ZERO_FRACTION = r"^(-?[0-9]{1,18})\.0*$"
_DIGITS_MAX = 40
_NOT_FINITE = {"nan", "inf", "infinity"}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,6}0*)?)?(Z|z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
#: A moment with digits below a microsecond: the parts before and after these digits.
_FINER = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{6})\d*[1-9]\d*((?:Z|z|[+-]\d\d(?::?\d\d)?)?)", re.ASCII)


def is_finer(text: str) -> bool:
    """Whether a text is a moment with digits below a microsecond."""
    return _FINER.fullmatch(text) is not None


def decimal_common(kind: ColumnType) -> str:
    """A pattern of decimals that always fit decimal(p,s)."""
    whole, fraction = kind.precision - kind.scale, kind.scale
    tail = rf"(\.[0-9]{{1,{fraction}}})?" if fraction else ""
    return rf"^-?[0-9]{{1,{whole}}}{tail}$" if whole else rf"^-?0{tail}$"


def fraction_common(scale: int) -> str:
    """A pattern of numbers with up to `scale` digits after the point that always fit an int64 at that scale."""
    return rf"^-?[0-9]{{1,{18 - scale}}}\.[0-9]{{1,{scale}}}$"


def without_zero_fraction(texts: pa.Array) -> pa.Array:
    """The texts, with integers such as `1.0` as `1`."""
    return pc.replace_substring_regex(texts, _ZERO_FRACTION, r"\1")


def read_number(text: str) -> Fraction | int:
    """The exact value of a finite number."""
    plain = text.strip()
    return int(plain) if plain.isdigit() else Fraction(plain)


def is_number(text: str) -> bool:
    """Whether a text is a finite number in the spelling of tables and JSON."""
    return _NUMBER.fullmatch(text) is not None


def read_integer(text: str) -> int:
    """An integer of any size, also from `1.0` or `1e3`."""
    if not _NUMBER.fullmatch(text):
        raise BadValue("type")
    return read_decimal(text, 0)


def read_double(text: str) -> float:
    """A double, or an infinity; NaN is refused with its own reason, a finite number beyond doubles as an overflow."""
    if _NUMBER.fullmatch(text):
        return _finite(float(text))
    word = text.lower().lstrip("+-")
    if word not in _NOT_FINITE or len(text) - len(word) > 1:
        raise BadValue("type")
    return float(text)


def read_decimal(text: str, scale: int) -> int:
    """A decimal times 10**scale; a number with more digits is refused."""
    if not _NUMBER.fullmatch(text):
        raise BadValue("nan" if text.lower() == "nan" else "type")
    shifted = _bounded(text) * 10**scale
    if shifted.denominator != 1:
        raise BadValue("type")
    return int(shifted)


def wide_decimal(text: str, kind: ColumnType) -> Decimal | None:
    """A decimal with any declared number of digits; None for blank text."""
    if not text.strip():
        return None
    whole = read_decimal(text.strip(), kind.scale)
    if abs(whole) >= 10**kind.precision:
        raise BadValue("overflow")
    return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -kind.scale))


def _bounded(text: str) -> Fraction:
    """The exact value of a number; a number far beyond all types isn't expanded to all its digits."""
    number = Decimal(text)
    if number and number.adjusted() > _DIGITS_MAX:
        raise BadValue("overflow")
    if number and number.adjusted() < -_DIGITS_MAX:
        raise BadValue("type")
    return Fraction(number)


def read_date(text: str) -> int:
    """Days since 1970 of an ISO date."""
    match = _DATE.fullmatch(text)
    try:
        if match is None:
            raise BadValue("type")
        return (date(int(match[1]), int(match[2]), int(match[3])) - _EPOCH_DAY).days
    except ValueError as error:
        raise BadValue("type") from error


def read_moment_us(text: str, kind: ColumnType, cuts: bool) -> int:
    """Microseconds since 1970 of an ISO timestamp, in UTC if it names no zone, or of a number in the type's unit.

    cuts: whether digits below a microsecond are cut off; otherwise they are refused
    """
    if _NUMBER.fullmatch(text):
        return _number_us(_bounded(text), kind, cuts)
    if _FINER.fullmatch(text):
        if not cuts:
            raise BadValue("type")
        text = _FINER.sub(r"\1\2", text)
    if not _TIMESTAMP.fullmatch(text):
        raise BadValue("type")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadValue("type") from error
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _number_us(number: Fraction, kind: ColumnType, cuts: bool) -> int:
    if kind.unit is None and is_in_doubt(number):
        raise BadValue("unit")
    moment = number * 10**6 / TICKS[kind.unit or TimeUnit.MILLISECONDS]
    if moment.denominator != 1 and not cuts:
        raise BadValue("type")
    return math.floor(moment)


def read_column(texts: pa.Array, pattern: str, target: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The texts that fit `pattern`, cast to `target` with null elsewhere, and the mask of texts that fit.

    If a text fits the pattern but isn't a value (February 30), no text is read this way.
    """
    fits = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    common = texts if pc.all(fits, min_count=0).as_py() else pc.if_else(fits, texts, pa.scalar(None, texts.type))
    try:
        return common.cast(target), fits
    except pa.ArrowInvalid:
        return pa.nulls(len(texts), target), pa.repeat(False, len(texts))


def _finite(value: float) -> float:
    if value in (float("inf"), float("-inf")):
        raise BadValue("overflow")
    return value


def reader(kind: ColumnType) -> Callable[[str], int]:
    """The exact reader of an integer-coded type other than timestamps."""
    match kind.name:
        case TypeName.DECIMAL:
            return lambda text: read_decimal(text, kind.scale)
        case TypeName.DATE:
            return read_date
        case _:
            return read_integer


class JsonNumber(str):
    """A number as written, kept as text because no value may pass through a double."""

    __slots__ = ()
