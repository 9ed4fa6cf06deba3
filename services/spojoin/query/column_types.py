"""Declared column types from text."""

from __future__ import annotations

import re

from spojoin.errors import QueryError
from spojoin.query.model import ColumnType, TypeName
from spojoin.query.suggest import unknown

DECIMAL_PRECISION_MAX = 18  # the widest whose scaled integer always fits an int64

_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_KNOWN = [*(name.value for name in TypeName if name is not TypeName.DECIMAL), "decimal(p,s)"]
_OTHER_NAMES = {
    "bigint": "long",
    "int64": "long",
    "integer": "int",
    "int32": "int",
    "smallint": "int",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "datetime": "timestamp",
    "decimal": "decimal(p,s)",
    "numeric": "decimal(p,s)",
}


def parse_type(text: str, column: str, line: int) -> ColumnType:
    """The type that `text` declares for `column`."""
    plain = text.strip().lower()
    if match := _DECIMAL.fullmatch(plain):
        return _decimal(int(match[1]), int(match[2] or 0), column, line)
    if plain in _KNOWN[:-1]:
        return ColumnType(TypeName(plain))
    raise QueryError(f"column '{column}': {unknown('type', text, _KNOWN)}{_hint(plain)}", line)


def _decimal(precision: int, scale: int, column: str, line: int) -> ColumnType:
    if not 1 <= precision <= DECIMAL_PRECISION_MAX or scale > precision:
        raise QueryError(
            f"column '{column}': decimal({precision},{scale}) is out of range: expected decimal(p,s) with "
            f"1 <= p <= {DECIMAL_PRECISION_MAX} and 0 <= s <= p",
            line,
        )
    return ColumnType(TypeName.DECIMAL, precision, scale)


def _hint(plain: str) -> str:
    if plain in _OTHER_NAMES:
        return f"; write '{_OTHER_NAMES[plain]}'"
    if plain in ("string", "text", "varchar", "str"):
        return "; list only the columns that predicates compare, time and key need no type"
    return ""
