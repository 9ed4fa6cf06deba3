"""Messages as Confluent's own serialisers write them, over its registry in memory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from spojoin.wire.registered import Reference, RegisteredSchema, SchemaKind, UnknownSchema

CONTEXT = SerializationContext("topic", MessageField.VALUE)
_numbers = itertools.count()


class Registry:
    """Confluent's mock, and `find` over it."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": f"mock://{next(_numbers)}"})
        self.imports: tuple[Reference, ...] = ()
        self.asked: list[int] = []

    def find(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            schema = self.client.get_schema(schema_id)
        except SchemaRegistryError as error:
            raise UnknownSchema(f"schema {schema_id}: {error}") from error
        return RegisteredSchema(SchemaKind(schema.schema_type), schema.schema_str, self.imports)

    def avro(self, schema: Mapping[str, Any], *data: Mapping[str, Any]) -> list[bytes]:
        serialise = AvroSerializer(self.client, json.dumps(schema))
        return [serialise(dict(each), CONTEXT) for each in data]

    def json(self, schema: Mapping[str, Any], *data: Mapping[str, Any]) -> list[bytes]:
        serialise = JSONSerializer(json.dumps(schema), self.client)
        return [serialise(dict(each), CONTEXT) for each in data]

    def protobuf(self, file: FileDescriptorProto, name: str, *data: Mapping[str, Any]) -> list[bytes]:
        pool = DescriptorPool()
        for imported in file.dependency:
            _add(pool, imported)
        pool.Add(file)
        kind = GetMessageClass(pool.FindMessageTypeByName(name))
        serialise = ProtobufSerializer(kind, self.client, {"use.deprecated.format": False})
        return [serialise(kind(**each), CONTEXT) for each in data]


def _add(pool: DescriptorPool, name: str) -> None:
    from google.protobuf import descriptor_pool

    pool.AddSerializedFile(descriptor_pool.Default().FindFileByName(name).serialized_pb)
