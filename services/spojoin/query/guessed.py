"""The types of columns whose values are text: the narrowest type that every value of a sample has.

Text is a number, a date or a truth value only in the spelling that it is printed in, so that codes with leading zeros,
identifiers of many digits and versions stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.model import UTC, ColumnType, TypeName
from spojoin.query.convert import read_doubles, read_integers
from spojoin.query.refusals import Refusals

#: Spellings by type, the narrowest type first; a value must also be one of the type: February 30 is no date.
_SPELLINGS = {
    TypeName.BOOLEAN: r"^(?i:true|false)$",
    TypeName.LONG: r"^(-?[1-9][0-9]{0,18}|0)$",
    TypeName.DOUBLE: r"^(-?(0|[1-9][0-9]{0,14})?(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?|-?(?i:inf|infinity|nan))$",
    TypeName.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    TypeName.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$",
}
_ZONE = r"(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_TIME_OF_DAY = "[T ]"
_DIGIT = "[0-9]"
_NAN = "^-?(?i:nan)$"
_WRITTEN_OUT = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_DIGITS_MAX = 38


def guessed(texts: pa.StringArray, among: Sequence[TypeName] = tuple(_SPELLINGS)) -> ColumnType | None:
    """The type of a column by its trimmed texts; a string where nothing narrower holds them all.

    NULLs are left out; None where nothing else is there. among: the types that are tried.
    """
    values = pc.unique(texts.drop_null())
    if not len(values):
        return None
    found = ColumnType(next((name for name in among if _fits(values, name)), TypeName.STRING))
    return replace(found, zone=UTC) if found.name is TypeName.TIMESTAMP and _has_zone(values) else found


def wide_decimal(texts: Iterable[str]) -> ColumnType | None:
    """The decimal that holds numbers of more digits than a long or a double; None where it would have more than 38."""
    found = [_WRITTEN_OUT.fullmatch(each) for each in texts]
    parts = [match.groups("") for match in found if match is not None]
    whole, fraction = (max((len(part[k]) for part in parts), default=0) for k in (0, 1))
    if not parts or len(parts) < len(found) or whole + fraction > _DIGITS_MAX:
        return None
    return ColumnType(TypeName.DECIMAL, precision=_DIGITS_MAX, scale=fraction)


def _has_zone(moments: pa.StringArray) -> bool:
    """Whether times of day have a zone: a column with some has instants, and those without are UTC, as DuckDB's are."""
    is_zoned = pc.and_(pc.match_substring_regex(moments, _TIME_OF_DAY), pc.match_substring_regex(moments, _ZONE))
    return bool(pc.any(is_zoned, min_count=0).as_py())


def _fits(values: pa.StringArray, name: TypeName) -> bool:
    """Whether every text is a value of the type in its common spelling."""
    if not pc.all(pc.match_substring_regex(values, _SPELLINGS[name])).as_py():
        return False
    if name is TypeName.BOOLEAN:
        return True
    if not pc.any(pc.match_substring_regex(values, _DIGIT)).as_py():
        return False  # words alone make no column of numbers
    numbers = values.filter(pc.invert(pc.match_substring_regex(values, _NAN)))
    refusals = Refusals(len(numbers))
    if name is TypeName.DOUBLE:
        read_doubles("", ColumnType(name), numbers, refusals)
    else:  # more than six digits of a second are those of a time, too
        read_integers("", ColumnType(name), numbers, refusals, cuts=True)
    return not refusals.by_row
