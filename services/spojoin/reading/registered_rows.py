"""Messages with the id of a registered schema, sorted by the decoder that reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spojoin.reading.readout import BadMessage, Decoder
from spojoin.wire.registered import PREFIX_BYTES, RegisteredSchema, SchemaKind, UnknownSchema, schema_id_of, type_path

if TYPE_CHECKING:
    from spojoin.reading.protobuf_rows import ProtobufFile


#: Returns a schema by its id, as a `SchemaRegistry` does.
Find = Callable[[int], RegisteredSchema]
Path = tuple[int, ...]


class UnreadableMessages(NamedTuple):
    """Messages that no schema reads, by their places among the given ones."""

    places: list[int]
    reason: str
    detail: str


@dataclass(slots=True)
class AlikeMessages:
    """Messages of one schema and type: their places among the given ones, and their data after the prefix.

    decoder: None for JSON
    """

    decoder: Decoder | None
    places: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)


class RegisteredSchemas:
    """Makes each schema's decoder once.

    find: None if no registry is set
    """

    def __init__(self, find: Find | None = None) -> None:
        self._find = find
        self._decoders: dict[tuple[int, Path], Decoder | None] = {}
        self._files: dict[int, ProtobufFile] = {}
        self._schemas: dict[int, RegisteredSchema] = {}

    def sort(self, messages: Sequence[tuple[int, bytes]]) -> Iterator[AlikeMessages | UnreadableMessages]:
        """The messages by their schemas. Raises what `SchemaRegistry.find` raises, except UnknownSchema."""
        by_id: dict[int | None, list[tuple[int, bytes]]] = defaultdict(list)
        for place, value in messages:
            by_id[schema_id_of(value)].append((place, value))
        for schema_id, same in by_id.items():
            if schema_id is None:
                yield UnreadableMessages(
                    _places(same), "malformed", f"it ends within the id of its schema, {PREFIX_BYTES} bytes"
                )
            else:
                yield from self._of_schema(schema_id, same)

    def _of_schema(self, schema_id: int, same: list[tuple[int, bytes]]) -> Iterator[AlikeMessages | UnreadableMessages]:
        try:
            kind = self._kind(schema_id)
        except UnknownSchema as error:
            yield UnreadableMessages(_places(same), "schema", str(error))
            return
        data = [(place, value[PREFIX_BYTES:]) for place, value in same]
        if kind is not SchemaKind.PROTOBUF:
            yield self._alike(schema_id, (), data)
            return
        by_path: dict[Path, list[tuple[int, bytes]]] = defaultdict(list)
        for place, each in data:
            try:
                path, begin = type_path(each)
            except ValueError as error:
                yield UnreadableMessages([place], "malformed", str(error))
                continue
            by_path[path].append((place, each[begin:]))
        yield from (self._alike(schema_id, path, found) for path, found in by_path.items())

    def _alike(self, schema_id: int, path: Path, found: list[tuple[int, bytes]]) -> AlikeMessages | UnreadableMessages:
        try:
            return AlikeMessages(self._decoder(schema_id, path), _places(found), [data for _, data in found])
        except UnknownSchema as error:
            return UnreadableMessages(_places(found), "schema", f"schema {schema_id}: {error}")
        except BadMessage as error:
            return UnreadableMessages(_places(found), error.reason, f"schema {schema_id}: {error.detail}")

    def _kind(self, schema_id: int) -> SchemaKind:
        return self._schema(schema_id).kind

    def _schema(self, schema_id: int) -> RegisteredSchema:
        if schema_id not in self._schemas:
            if self._find is None:
                raise UnknownSchema(f"schema {schema_id}: no schema registry is known, set registry_url")
            self._schemas[schema_id] = self._find(schema_id)
        return self._schemas[schema_id]

    def _decoder(self, schema_id: int, path: Path) -> Decoder | None:
        if (schema_id, path) not in self._decoders:
            self._decoders[schema_id, path] = self._made(schema_id, path)
        return self._decoders[schema_id, path]

    def _made(self, schema_id: int, path: Path) -> Decoder | None:
        schema = self._schema(schema_id)
        if schema.kind is SchemaKind.AVRO:
            from spojoin.reading.avro_rows import AvroDecoder  # noqa: PLC0415  (loads fastavro)

            return AvroDecoder(schema)
        if schema.kind is SchemaKind.PROTOBUF:
            if schema_id not in self._files:
                from spojoin.reading.protobuf_rows import ProtobufFile  # noqa: PLC0415  (loads Protobuf's types)

                self._files[schema_id] = ProtobufFile(schema)
            return self._files[schema_id].type_at(path)
        return None


def _places(messages: Sequence[tuple[int, bytes]]) -> list[int]:
    return [place for place, _ in messages]
