"""Protobuf messages of one type as rows."""

from __future__ import annotations

import base64
import binascii
import decimal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from spojoin.columns.field import INT64_MAX, INT64_MIN
from spojoin.model import EXACT
from spojoin.reading.readout import (
    OPERATION,
    BadLine,
    BadMessage,
    Decoded,
    Wanted,
    no_envelope,
    no_row,
    not_a_row,
)
from spojoin.wire.registered import RegisteredSchema, UnknownSchema

Messages = Sequence[Message]


class ProtobufFile:
    """A schema's file of types. Raises UnknownSchema if it can't be read."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._pool = DescriptorPool()
        try:
            self._file = _added(schema, None, self._pool)
        except (TypeError, KeyError, ValueError) as error:  # the pool raises these for an incomplete file
            raise UnknownSchema(f"its Protobuf file can't be used: {error}") from error

    def type_at(self, path: Sequence[int]) -> ProtobufDecoder:
        """The type at a path: an index among the file's types, then among the types within each. Raises BadMessage."""
        names: list[str] = [self._file.package] if self._file.package else []
        among: Sequence[DescriptorProto] = self._file.message_type
        for step in path:
            if not 0 <= step < len(among):
                raise BadMessage("malformed", f"its schema has no Protobuf type at the path {list(path)}")
            names.append(among[step].name)
            among = among[step].nested_type
        return ProtobufDecoder(self._pool.FindMessageTypeByName(".".join(names)))


class ProtobufDecoder:
    """`Decoder` of one type."""

    def __init__(self, kind: Descriptor) -> None:
        self._kind = kind
        self._type = GetMessageClass(kind)

    def read(self, messages: Sequence[bytes], wanted: Wanted) -> Decoded:
        fields = self._fields(wanted.envelope)
        for name in wanted.names:
            if name not in fields:
                raise BadMessage("missing-field", f"field {name}: missing, the type has {_listed(fields)}")
        makers = {name: column_of(fields[name]) for name in wanted.names}
        faults: list[BadLine] = []
        read = list(self._rows(self._parsed(messages, faults), wanted.envelope, faults))
        rows = [row for _, row in read]
        batch = pa.RecordBatch.from_arrays([make(rows) for make in makers.values()], names=list(makers))
        return Decoded.from_lists([at for at, _ in read], batch, faults)

    def makers(self, envelope: str | None) -> Iterator[tuple[str, Callable[[], Callable[[Messages], pa.Array]]]]:
        """A row's fields, each with a function that returns its column's maker. Raises BadMessage, as these do."""
        for name, field in self._fields(envelope).items():
            yield name, partial(column_of, field)

    def _fields(self, envelope: str | None) -> dict[str, FieldDescriptor]:
        """The fields of a row."""
        fields: dict[str, FieldDescriptor] = dict(self._kind.fields_by_name)
        if envelope is None:
            return fields
        if envelope not in fields:
            raise BadMessage(*no_envelope(envelope, _listed(fields)))
        holder = fields[envelope]
        if holder.message_type is None or is_repeated(holder):
            raise BadMessage(*not_a_row(envelope, "another Protobuf type than a message"))
        return dict(holder.message_type.fields_by_name)

    def _parsed(self, messages: Sequence[bytes], faults: list[BadLine]) -> Iterator[tuple[int, Message]]:
        read = self._type.FromString
        for at, message in enumerate(messages):
            try:
                parsed = read(message)
            except DecodeError as error:
                faults.append(BadLine(at, "malformed", f"no Protobuf message of type {self._kind.full_name}: {error}"))
                continue
            yield at, parsed

    def _rows(
        self, parsed: Iterator[tuple[int, Message]], envelope: str | None, faults: list[BadLine]
    ) -> Iterator[tuple[int, Message]]:
        if envelope is None:
            yield from parsed
            return
        has_operation = OPERATION in self._kind.fields_by_name
        for at, message in parsed:
            if message.HasField(envelope):
                yield at, getattr(message, envelope)
            else:
                operation = (getattr(message, OPERATION) or None) if has_operation else None
                faults.append(BadLine(at, *no_row(envelope, operation)))


def _added(schema: RegisteredSchema, name: str | None, pool: DescriptorPool) -> FileDescriptorProto:
    """The file, added to the pool after its imports, under the name by which it is imported."""
    for reference in schema.references:
        _added(reference.schema, reference.name, pool)
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise UnknownSchema("the registry gives its Protobuf schema in another form than `serialized`") from error
    file.name = name or file.name or "registered.proto"
    pool.Add(file)
    return file


def _listed(fields: dict[str, FieldDescriptor]) -> str:
    return ", ".join(fields) or "none"


#: Makes a column of values and nulls.
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
    """The function that makes a column of a field of messages; an unset field is null if its type shows that.

    Raises BadMessage if its values aren't single values.
    """
    make = _maker(field)
    name = field.name
    if field.has_presence:
        return lambda messages: make([getattr(each, name) if each.HasField(name) else None for each in messages])
    return lambda messages: make([getattr(each, name) for each in messages])


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether a field is a list or a map."""
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
    """Nanoseconds if all values fit, otherwise text; both are read alike."""
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
    return str(decimal.Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, EXACT))


_TEXTS: dict[str, Callable[[Any], str]] = {
    "google.type.Date": _date_text,
    "confluent.type.Decimal": _decimal_text,
}
