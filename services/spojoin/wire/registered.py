"""Confluent's wire format: a zero byte, the id of a registered schema in four bytes, big-endian, then the data.

In Protobuf the data begin with the path of the message's type in its file: a count and as many indexes, each a
zigzag varint; a single zero byte stands for the first type.
Source: "Wire format" in Confluent's documentation of serialisers and deserialisers.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import NamedTuple

from spojoin.errors import BadData

#: The first byte of a value in this format; no text and no Arrow stream begins with it.
MAGIC = 0
#: How many bytes precede the data.
PREFIX_BYTES = 5

_PREFIX = struct.Struct(">bI")
#: A file whose types nest deeper than this is refused.
_DEPTH_MAX = 32
_VARINT_BYTES_MAX = 5


class UnknownSchema(BadData):
    """No schema has this id, or its schema can't be used for reading."""


class SchemaKind(enum.StrEnum):
    """The language of a schema, as registries name it."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class Reference(NamedTuple):
    """A schema that another one imports, and the name by which it does."""

    name: str
    schema: RegisteredSchema


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with all its imports.

    text: Avro and JSON Schema as JSON; Protobuf as a FileDescriptorProto in base64, the registries' form `serialized`
    """

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()


def framed(schema_id: int, data: bytes) -> bytes:
    """The value of a message: the prefix and the data."""
    return _PREFIX.pack(MAGIC, schema_id) + data


def schema_id_of(value: bytes) -> int | None:
    """The schema id in a value that begins with MAGIC; None if the value is too short to have one."""
    return None if len(value) < PREFIX_BYTES else int(_PREFIX.unpack_from(value)[1])


def type_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a Protobuf message's type in its file, and the offset after it. Raises ValueError."""
    count, at = _zigzag(data, 0)
    if not 0 <= count <= _DEPTH_MAX:
        raise ValueError(f"the path of its type has {count} steps")
    path = []
    for _ in range(count):
        step, at = _zigzag(data, at)
        path.append(step)
    return tuple(path) or (0,), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise ValueError("the path of its type is cut off")
