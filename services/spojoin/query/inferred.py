"""Column types that needn't be declared, since Arrow data carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import types

from spojoin.model import UTC, ColumnType, TypeName
from spojoin.query.column_types import DECIMAL_PRECISION_MAX

#: Decimal digits of unsigned 64-bit integers.
UINT64_DIGITS = 20


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The columns of some data, in their order, and why the others can't be used.

    columns: the types by name; left_out: by name, a sentence about a column that no statement can name
    guessed: columns whose types the first rows of a text have told
    untyped: columns without any value, whose type is that of text until a statement says more
    is_open: whether rows may have any other column, too
    """

    columns: Mapping[str, ColumnType]
    left_out: Mapping[str, str] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    is_open: bool = False


_PLAIN: list[tuple[Callable[[pa.DataType], bool], TypeName]] = [
    (types.is_boolean, TypeName.BOOLEAN),
    (types.is_float64, TypeName.DOUBLE),
    (types.is_floating, TypeName.FLOAT),
    (types.is_date, TypeName.DATE),
    (types.is_string, TypeName.STRING),
    (types.is_large_string, TypeName.STRING),
    (types.is_string_view, TypeName.STRING),
    (types.is_null, TypeName.STRING),
    (types.is_binary, TypeName.BINARY),
    (types.is_large_binary, TypeName.BINARY),
    (types.is_binary_view, TypeName.BINARY),
    (types.is_fixed_size_binary, TypeName.BINARY),
]

_ADVICE: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (types.is_union, "a union: make a column of each of its types first"),
    (types.is_run_end_encoded, "run-end encoded: decode it first, as by pyarrow.compute.run_end_decode"),
    (types.is_nested, "a nested type: make columns of its fields first"),
    (types.is_time, "a time of day: make it a timestamp, a number or text"),
    (types.is_duration, "a duration: make it a number, such as its milliseconds"),
    (types.is_interval, "an interval: make it a number, such as its days"),
    (types.is_decimal, "a decimal of more than 38 digits: make it a decimal(38,s) or text"),
]
_NO_LISTS = (types.is_union, types.is_run_end_encoded)
_CARRIED = (types.is_nested, types.is_time, types.is_duration, types.is_interval, types.is_decimal)


def inferred(schema: pa.Schema, *, carries: bool = False) -> InferredSchema:
    """The column types of an Arrow schema; columns of other types, or with one name, are left out with a sentence.

    A column without a type, all NULL, is a string.

    carries: whether each column keeps its Arrow type, so that values that no declared type has are passed on as they
        are: lists, times of day, durations, nanoseconds, unsigned 64-bit integers
    """
    columns: dict[str, ColumnType] = {}
    left_out: dict[str, str] = {}
    for each in schema:
        kind = _carried(each.type) if carries else column_type(each.type)
        if schema.names.count(each.name) > 1:
            left_out[each.name] = repeated_name(each.name)
        elif kind is None:
            left_out[each.name] = f"column {each.name!r} has type {each.type}, {_why_not(each.type)}"
        else:
            columns[each.name] = kind
    untyped = frozenset(each.name for each in schema if types.is_null(each.type) and each.name in columns)
    return InferredSchema(columns, left_out, untyped=untyped)


def repeated_name(name: str) -> str:
    """The sentence about a column whose name others have, too."""
    return f"column {name!r} stands more than once; rename all but one"


def column_type(arrow: pa.DataType) -> ColumnType | None:
    """The type that holds an Arrow type's values; None where there is none."""
    if types.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return _of_extension(arrow)
    if types.is_integer(arrow):
        return ColumnType(TypeName.INT if arrow.bit_width < 32 or types.is_int32(arrow) else TypeName.LONG)
    if types.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale)
    if types.is_timestamp(arrow):
        return ColumnType(TypeName.TIMESTAMP, zone=arrow.tz)
    name = next((name for fits, name in _PLAIN if fits(arrow)), None)
    return None if name is None else ColumnType(name)


def _carried(arrow: pa.DataType) -> ColumnType | None:
    """The type that holds an Arrow type's values unchanged; None where nothing does."""
    if types.is_dictionary(arrow):
        values = _carried(arrow.value_type)
        return values if values is None else replace(values, is_ranked=arrow.ordered)
    if types.is_uint64(arrow):
        return ColumnType(TypeName.DECIMAL, UINT64_DIGITS, arrow=arrow)
    known = column_type(arrow)
    if known is not None:
        return replace(known, arrow=arrow) if types.is_timestamp(arrow) and arrow.unit == "ns" else known
    is_passed = any(of(arrow) for of in _CARRIED) and not any(of(arrow) for of in _NO_LISTS)
    return ColumnType(TypeName.CARRIED, arrow=arrow) if is_passed else None


def _of_extension(arrow: pa.BaseExtensionType) -> ColumnType | None:
    """UUIDs and JSON, whose values are text; no other extension says how its values compare."""
    name = {"arrow.uuid": TypeName.UUID, "arrow.json": TypeName.STRING}.get(getattr(arrow, "extension_name", ""))
    return None if name is None else ColumnType(name)


def _decimal(precision: int, scale: int) -> ColumnType | None:
    """With the zeros that a negative scale stands for; None of more digits than DuckDB has."""
    digits = precision - min(scale, 0)
    return ColumnType(TypeName.DECIMAL, digits, max(scale, 0)) if digits <= DECIMAL_PRECISION_MAX else None


def _why_not(arrow: pa.DataType) -> str:
    return next((advice for fits, advice in _ADVICE if fits(arrow)), "which no column can have: cast it first")


def common_type(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """The type that holds the values of both, as two files of one stream need; None where there is none."""
    if one == other:
        return one
    names = {one.name, other.name}
    if names == {TypeName.INT, TypeName.LONG}:
        return ColumnType(TypeName.LONG)
    if names <= {TypeName.INT, TypeName.LONG, TypeName.FLOAT, TypeName.DOUBLE}:
        return ColumnType(TypeName.DOUBLE)
    if names == {TypeName.DECIMAL}:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return ColumnType(TypeName.DECIMAL, min(whole + scale, DECIMAL_PRECISION_MAX), scale)
    return _common_moment(one, other) if names <= {TypeName.DATE, TypeName.TIMESTAMP} else None


def _common_moment(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """Of dates and timestamps, either of clocks or of instants."""
    if (one.zone is None) is (other.zone is None):
        zone = one.zone if one.zone == other.zone else UTC
        is_finer = one.arrow is not None or other.arrow is not None
        return ColumnType(TypeName.TIMESTAMP, zone=zone, arrow=pa.timestamp("ns", zone) if is_finer else None)
    return None
