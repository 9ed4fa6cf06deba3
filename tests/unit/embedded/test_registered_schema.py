"""The columns that registered schemas tell, in the types of a query's schema."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from spojoin.embedded.registered_schema import columns_of
from spojoin.wire.registered import RegisteredSchema, SchemaKind, UnknownSchema

AVRO_ROW = {
    "type": "record",
    "name": "Trade",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "symbol", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "open", "type": "boolean"},
        {"name": "qty", "type": "int"},
        {"name": "rate", "type": "float"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
AVRO_COLUMNS = {
    "id": "long",
    "symbol": "string",
    "at": "timestamptz",
    "day": "date",
    "open": "boolean",
    "qty": "int",
    "rate": "float",
}
JSON_ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "symbol": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "key": {"type": "string", "format": "uuid"},
        "open": {"type": "boolean"},
        "legs": {"type": "array"},
        "other": {"type": ["string", "integer"]},
    },
}
JSON_COLUMNS = {
    "id": "long",
    "price": "double",
    "symbol": "string",
    "at": "timestamp",
    "day": "date",
    "key": "uuid",
    "open": "boolean",
}


def schema(kind: SchemaKind, content: object) -> RegisteredSchema:
    return RegisteredSchema(kind, json.dumps(content))


def columns(given: RegisteredSchema, envelope: str | None = None) -> dict[str, str]:
    return {name: str(kind) for name, kind in columns_of(given, envelope).columns.items()}


def protobuf() -> RegisteredSchema:
    file = FileDescriptorProto(name="trade.proto", package="t", syntax="proto3")
    kind = file.message_type.add(name="Trade")
    types = {"id": "INT64", "price": "DOUBLE", "symbol": "STRING", "open": "BOOL", "raw": "BYTES"}
    for number, (name, type_name) in enumerate(types.items(), 1):
        field = kind.field.add(name=name, number=number, json_name=name)
        field.type, field.label = getattr(FieldDescriptorProto, f"TYPE_{type_name}"), 1
    many = kind.field.add(name="legs", number=9, json_name="legs")
    many.type, many.label = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.LABEL_REPEATED
    return RegisteredSchema(SchemaKind.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


def test_avro() -> None:
    found = columns_of(schema(SchemaKind.AVRO, AVRO_ROW))
    assert columns(schema(SchemaKind.AVRO, AVRO_ROW)) == AVRO_COLUMNS
    assert list(found.left_out) == ["tags"]
    assert "expected one value" in found.left_out["tags"]


def test_json_schema() -> None:
    found = columns_of(schema(SchemaKind.JSON, JSON_ROW))
    assert columns(schema(SchemaKind.JSON, JSON_ROW)) == JSON_COLUMNS
    assert list(found.left_out) == ["legs", "other"]


def test_protobuf() -> None:
    found = columns_of(protobuf())
    assert {name: str(kind) for name, kind in found.columns.items()} == {
        "id": "long",
        "price": "double",
        "symbol": "string",
        "open": "boolean",
        "raw": "binary",
    }
    assert list(found.left_out) == ["legs"]


def test_a_row_within_an_envelope() -> None:
    avro = {"type": "record", "name": "Change", "fields": [{"name": "after", "type": ["null", AVRO_ROW]}]}
    change = {"type": "object", "properties": {"after": {"oneOf": [{"type": "null"}, JSON_ROW]}}}
    assert columns(schema(SchemaKind.AVRO, avro), "after") == AVRO_COLUMNS
    assert columns(schema(SchemaKind.JSON, change), "after") == JSON_COLUMNS


@pytest.mark.parametrize(
    ("kind", "content", "envelope", "sentence"),
    [
        (SchemaKind.AVRO, "string", None, "expected an Avro record"),
        (SchemaKind.AVRO, AVRO_ROW, "after", "after"),
        (SchemaKind.AVRO, {"type": "nothing"}, None, "no Avro schema"),
        (SchemaKind.JSON, {"type": "string"}, None, "no properties"),
        (SchemaKind.JSON, JSON_ROW, "after", "no properties in after"),
    ],
)
def test_a_schema_without_rows_says_why(kind: SchemaKind, content: object, envelope: str | None, sentence: str) -> None:
    with pytest.raises(UnknownSchema, match=sentence):
        columns_of(schema(kind, content), envelope)
