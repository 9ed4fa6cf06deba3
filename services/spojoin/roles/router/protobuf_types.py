"""Protobuf's types as Arrow's: a field of many messages as a column."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

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
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda values: pa.array([None if v is None else names.get(v, str(v)) for v in values], pa.string())
    if field.type in _SINGLE:
        kind = _SINGLE[field.type]
        return lambda values: pa.array(values, kind)
    assert field.message_type is not None  # no other type is left
    return _well_known(field.name, field.message_type)


def _well_known(name: str, message: Descriptor) -> _Maker:
    kind = message.full_name
    if kind in _WRAPPERS:
        inner = _SINGLE[message.fields_by_name["value"].type]
        return lambda values: pa.array([None if each is None else each.value for each in values], inner)
    if kind == "google.protobuf.Timestamp":
        return _moments
    text = _TEXTS.get(kind)
    if text is None:
        raise BadMessage("type", f"field {name}: expected one value, its Protobuf type is {kind}")
    return lambda values: pa.array([None if each is None else text(each) for each in values], pa.string())


def _moments(values: Sequence[Any]) -> pa.Array:
    """Nanoseconds where all fit, or else text: both are read alike."""
    if not all(each is None or _fits(each) for each in values):
        return pa.array([None if each is None else _moment_text(each) for each in values], pa.string())
    ticks = [None if each is None else _ticks(each) for each in values]
    return pa.array(ticks, pa.int64()).view(pa.timestamp("ns", "UTC"))


def _ticks(moment: Timestamp) -> int:
    return moment.seconds * _NANOSECONDS + moment.nanos


def _fits(moment: Timestamp) -> bool:
    return INT64_MIN < _ticks(moment) <= INT64_MAX and 0 <= moment.nanos < _NANOSECONDS


def _moment_text(moment: Timestamp) -> str:
    try:
        return moment.ToJsonString()
    except ValueError:
        return f"{moment.seconds} s and {moment.nanos} ns"


def _date_text(date: Message) -> str:
    year, month, day = (getattr(date, name) for name in ("year", "month", "day"))
    return f"{year:04}-{month:02}-{day:02}"


def _decimal_text(number: Message) -> str:
    unscaled, scale = (getattr(number, name) for name in ("value", "scale"))
    return str(decimal.Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT))


_EXACT = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_TEXTS: dict[str, Callable[[Any], str]] = {
    "google.type.Date": _date_text,
    "confluent.type.Decimal": _decimal_text,
}
