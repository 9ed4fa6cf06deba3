"""Parses declared column types: spojoin's own names, and other systems' names for the same types."""

from __future__ import annotations

import re

from spojoin.errors import QueryError
from spojoin.model import UTC, ColumnType, TimeUnit, TypeName
from spojoin.suggest import listed, unknown

DECIMAL_PRECISION_MAX = 38  # DuckDB's maximum

_NUMBERS = r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)"
_DECIMAL = re.compile(rf"(?:decimal|numeric|number|dec|decimal(?:32|64|128|256))\s*{_NUMBERS}")
#: timestamp(ms), timestamptz(ms, Europe/Berlin), timestamp[us, tz=UTC], datetime64[ns, UTC], timestamp_ms.
_TIMESTAMP = re.compile(
    r"(timestamp|timestamptz|datetime64)\s*[(\[]\s*(?:(s|ms|us|ns)\b)?\s*,?\s*(?:tz\s*=\s*)?"
    r"([a-z][\w/+-]+|[+-]\d\d:?\d\d)?\s*[)\]]",
    re.IGNORECASE,
)
_OTHER_UNIT = re.compile(r"timestamp_(s|ms|us|ns)")
_SQL_PRECISION = re.compile(r"(?:timestamp|datetime)\s*\(\s*\d\s*\).*")
_SIZED = re.compile(r"(\w+)\s*\(\s*(?:\d+|max)\s*\)")

_UNITS = [f"timestamp({unit.value})" for unit in TimeUnit]
_OWN = {name.value: name for name in TypeName if name not in (TypeName.DECIMAL, TypeName.CARRIED)}
_KNOWN = [*_OWN, "timestamptz", "decimal(p,s)", *_UNITS]

#: Names in SQL, Arrow, NumPy, pandas and Polars. A narrower integer or float becomes the next type that holds it.
_OTHERS = {
    TypeName.INT: "integer int4 int32 mediumint smallint int2 int16 short tinyint byte uint8 uint16 utinyint usmallint",
    TypeName.LONG: "bigint int64 int8 uint32 uinteger",  # int8 is 8 bytes in SQL, 8 bits in Arrow: a long holds both
    TypeName.FLOAT: "real float4 float32 float16 halffloat half",
    TypeName.DOUBLE: "float8 float64",
    TypeName.DATE: "date32 date64",
    TypeName.TIMESTAMP: "datetime timestamp_ntz timestampntz datetime64",
    TypeName.STRING: "text varchar nvarchar char bpchar character str utf8 large_string object category categorical "
    "enum",
    TypeName.BOOLEAN: "bool logical",
    TypeName.UUID: "guid",
    TypeName.BINARY: "varbinary bytes bytea blob large_binary",
}
_WORDS = {word: name for name, words in _OTHERS.items() for word in words.split()} | {
    "double precision": TypeName.DOUBLE,
    "timestamp without time zone": TypeName.TIMESTAMP,
}

_ZONED = ("timestamptz", "timestamp_tz", "timestamp_ltz", "timestamp with time zone")
#: Integers beyond 64 bits as decimals.
_WIDE = {"uint64": 20, "ubigint": 20, "hugeint": 38, "int128": 38}
_BARE_DECIMALS = ("decimal", "numeric", "number", "dec", "money")


def parse_type(text: str, column: str, line: int | None) -> ColumnType:
    """The type that `text` declares for `column`. Raises QueryError."""
    plain = " ".join(text.lower().split())
    if match := _DECIMAL.fullmatch(plain):
        return _decimal(int(match[1]), int(match[2] or 0), column, line)
    if match := _OTHER_UNIT.fullmatch(plain):
        return ColumnType(TypeName.TIMESTAMP, unit=TimeUnit(match[1]))
    if (match := _TIMESTAMP.fullmatch(text.strip())) and (match[2] or match[3]):
        return _moment(match, column, line)
    if plain in _ZONED:
        return ColumnType(TypeName.TIMESTAMP, zone=UTC)
    if plain in _WIDE:
        return ColumnType(TypeName.DECIMAL, _WIDE[plain])
    name = _named(plain) or _sized_text(plain)
    if name is not None:
        return ColumnType(name)
    raise QueryError(f"column '{column}': {_refusal(text, plain)}", line)


def _moment(match: re.Match[str], column: str, line: int | None) -> ColumnType:
    """A timestamp with a unit, a zone or both."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  (few schemas name a zone)

    unit, zone = match[2], match[3]
    try:
        if zone is not None and zone[0] not in "+-":
            ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise QueryError(
            f"column '{column}': no time zone is called '{zone}': expected one such as 'Europe/Berlin' or 'UTC'", line
        ) from None
    shown = UTC if zone is None and match[1].lower() == "timestamptz" else zone
    return ColumnType(TypeName.TIMESTAMP, unit=None if unit is None else TimeUnit(unit.lower()), zone=shown)


def _named(plain: str) -> TypeName | None:
    return _OWN.get(plain) or _WORDS.get(plain)


def _sized_text(plain: str) -> TypeName | None:
    """The type of varchar(20) and the like, whose length no reader checks; None for other types."""
    sized = _SIZED.fullmatch(plain)
    name = _named(sized[1]) if sized else None
    return name if name in (TypeName.STRING, TypeName.BINARY) else None


def _decimal(precision: int, scale: int, column: str, line: int | None) -> ColumnType:
    if not 1 <= precision <= DECIMAL_PRECISION_MAX or scale > precision:
        raise QueryError(
            f"column '{column}': decimal({precision},{scale}) is out of range: expected decimal(p,s) with "
            f"1 <= p <= {DECIMAL_PRECISION_MAX} and 0 <= s <= p",
            line,
        )
    return ColumnType(TypeName.DECIMAL, precision, scale)


def _refusal(text: str, plain: str) -> str:
    """Why no column can have a type, and what to write instead."""
    if plain in _BARE_DECIMALS:
        return f"type '{text}' has no number of digits: write 'decimal(p,s)', such as decimal(10,2)"
    if _SQL_PRECISION.fullmatch(plain):
        return (
            f"type '{text}' has a number of digits of a second, which no column needs: write 'timestamp', or "
            f"{listed(_UNITS)} if its values are numbers"
        )
    return unknown("type", text, _KNOWN)
