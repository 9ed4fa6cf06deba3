"""The type of a column of JSON by its values: JSON tells numbers, truth values, text, objects and arrays apart."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spojoin.model import ColumnType, TypeName
from spojoin.query.guessed import guessed, wide_decimal
from spojoin.query.json_number import JsonNumber

_TEXT = ColumnType(TypeName.STRING)
_NUMBERS = (TypeName.LONG, TypeName.DOUBLE)
_TIMES = (TypeName.DATE, TypeName.TIMESTAMP)


def json_type(values: Sequence[object]) -> ColumnType | None:
    """The type of a column's values, none of them nested; None where all are null.

    Text is a date or a timestamp where all of it is, and never a number; values of several kinds are text. Numbers
    of more digits than a long or a double has are decimals.
    """
    present = [value for value in values if value is not None]
    if not present:
        return None
    if all(isinstance(value, bool) for value in present):
        return ColumnType(TypeName.BOOLEAN)
    are_numbers = [isinstance(value, JsonNumber) for value in present]
    if any(isinstance(value, bool) for value in present) or len(set(are_numbers)) > 1:
        return ColumnType(TypeName.STRING)
    if not are_numbers[0]:
        return guessed(pa.array(present, pa.string()), _TIMES)
    found = guessed(pa.array(present, pa.string()), _NUMBERS)
    return wide_decimal(map(str, present)) or found if found == _TEXT else found


def nested_type(values: Sequence[object]) -> pa.DataType | None:
    """The Arrow type of a column that holds objects or arrays; None where they have no one shape.

    Fields are those of any value. Numbers within are int64, or double where one has a fraction.
    """
    try:
        found = pa.array([_plain(value) for value in values]).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return found if _has_parts(found) else None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, JsonNumber):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    return value


def _has_parts(kind: pa.DataType) -> bool:
    """Whether no object within is always empty: no engine has a type for one."""
    return all(_has_parts(kind.field(k).type) for k in range(kind.num_fields)) and str(kind) != "struct<>"
