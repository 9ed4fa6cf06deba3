"""Protobuf's types as Arrow's: a field of many messages as a column."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from spojoin.query.field import INT64_MAX, INT64_MIN
from spojoin.roles.router.arrow_rows import BadMessage

Messages = Sequence[Message]
#: Makes a column of values, null among them.
_Maker = Callable[[Sequence[Any]], pa.Array]

_REPEATED = 3  # the number of that label, for versions of protobuf that have no property for it
_NANOSECONDS = 10**9
_SINGLE: dict[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
    FieldDescriptor.TYPE_FIXED64: pa.uint64(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_FIXED32: pa.uint32(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}
_WRAPPERS = {f"google.protobuf.{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32")} | {
    f"google.protobuf.{name}Value" for name in ("Bool", "String", "Bytes")
}


def column_of(field: FieldDescriptor) -> Callable[[Messages], pa.Array]:
    """What makes a column of a field of messages; one that isn't set is null where its type can tell.

    Raises BadMessage where its values are no single ones.
    """
    make = _maker(field)
    name = field.name
    if field.has_presence:
        return lambda messages: make([getattr(each, name) if each.HasField(name) else None for each in messages])
    return lambda messages: make([getattr(each, name) for each in messages])


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether it is a list or a map."""
    return bool(getattr(field, "is_repeated", False)) or getattr(field, "label", 0) == _REPEATED


def _maker(field: FieldDescriptor) -> _Maker:
    if is_repeated(field):
        raise BadMessage("type", f"field {field.name}: expected one value, its Protobuf type is repeated")
    if field.type == FieldDescriptor.TYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda values: pa.array([None if v is None else names.get(v, str(v)) for v in values], pa.string())
    if field.type in _SINGLE:
        kind = _SINGLE[field.type]
        return lambda values: pa.array(values, kind)
    return _well_known(field)


def _well_known(field: FieldDescriptor) -> _Maker:
    kind = field.message_type.full_name
    if kind in _WRAPPERS:
        inner = _SINGLE[field.message_type.fields_by_name["value"].type]
        return lambda values: pa.array([None if each is None else each.value for each in values], inner)
    if kind == "google.protobuf.Timestamp":
        return _moments
    text = _TEXTS.get(kind)
    if text is None:
        raise BadMessage("type", f"field {field.name}: expected one value, its Protobuf type is {kind}")
    return lambda values: pa.array([None if each is None else text(each) for each in values], pa.string())


def _moments(values: Sequence[Any]) -> pa.Array:
    """Nanoseconds where all fit, or else text: both are read alike."""
    ticks = [None if each is None else each.seconds * _NANOSECONDS + each.nanos for each in values]
    if all(
        each is None or (INT64_MIN < tick <= INT64_MAX and 0 <= each.nanos < _NANOSECONDS)
        for each, tick in zip(values, ticks, strict=True)
    ):
        return pa.array(ticks, pa.int64()).view(pa.timestamp("ns", "UTC"))
    return pa.array([None if each is None else _moment_text(each) for each in values], pa.string())


def _moment_text(moment: Any) -> str:
    try:
        return str(moment.ToJsonString())
    except ValueError:
        return f"{moment.seconds} s and {moment.nanos} ns"


def _date_text(date: Any) -> str:
    return f"{date.year:04}-{date.month:02}-{date.day:02}"


def _decimal_text(number: Any) -> str:
    return str(decimal.Decimal(int.from_bytes(number.value, "big", signed=True)).scaleb(-number.scale, _EXACT))


_EXACT = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_TEXTS: dict[str, Callable[[Any], str]] = {
    "google.type.Date": _date_text,
    "confluent.type.Decimal": _decimal_text,
}
