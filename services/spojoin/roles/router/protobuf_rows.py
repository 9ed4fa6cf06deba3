"""Protobuf messages of one type as rows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from spojoin.roles.router.arrow_rows import BadMessage
from spojoin.roles.router.decoded import Decoded, Wanted
from spojoin.roles.router.envelope import OPERATION, no_envelope, no_row, not_a_row
from spojoin.roles.router.line_reader import BadLine
from spojoin.roles.router.protobuf_types import Messages, column_of, is_repeated
from spojoin.wire.registered import RegisteredSchema, UnknownSchema


class ProtobufFile:
    """A schema's file of types. Raises UnknownSchema where it can't be read."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._pool = DescriptorPool()
        try:
            self._file = _added(schema, None, self._pool)
        except (TypeError, KeyError, ValueError) as error:  # what the pool raises for a file that isn't whole
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
        """See `Decoder`."""
        fields = self._fields(wanted.envelope)
        for name in wanted.names:
            if name not in fields:
                raise BadMessage("missing-field", f"field {name}: missing, the type has {_listed(fields)}")
        makers = {name: column_of(fields[name]) for name in wanted.names}
        faults: list[BadLine] = []
        read = list(self._rows(self._parsed(messages, faults), wanted.envelope, faults))
        rows = [row for _, row in read]
        batch = pa.RecordBatch.from_arrays([make(rows) for make in makers.values()], names=list(makers))
        return Decoded.of([at for at, _ in read], batch, faults)

    def makers(self, envelope: str | None) -> Iterator[tuple[str, Callable[[], Callable[[Messages], pa.Array]]]]:
        """A row's fields, and what gives the maker of each one's column. Raises BadMessage, as do those without one."""
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
    """The file, added to the pool behind all that it imports, under the name by which it is imported."""
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
