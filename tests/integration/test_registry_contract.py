"""The contract of every schema registry, tested on memory and over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from typer.testing import CliRunner

from spojoin.cli.main import app
from spojoin.errors import ConfigurationError, Retryable
from spojoin.local.net import free_port
from spojoin.ports.confluent_registry import ConfluentRegistry, RegistryAddress
from spojoin.ports.interfaces import RegistryUnavailable, SchemaRegistry
from spojoin.ports.memory import MemoryRegistry
from spojoin.wire.registered import RegisteredSchema, SchemaKind, UnknownSchema
from tests.support.registries import HAS_GO, running_registry

needs_go = pytest.mark.skipif(not HAS_GO, reason="the registry for tests is built with Go")


def avro(name: str) -> RegisteredSchema:
    fields = [{"name": "price", "type": "double"}]
    return RegisteredSchema(SchemaKind.AVRO, json.dumps({"type": "record", "name": name, "fields": fields}))


def protobuf_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="trade.proto", package="t", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    at = file.message_type.add(name="Trade").field.add(name="at", number=1, json_name="at")
    at.type, at.type_name, at.label = FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp", 1
    return file


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_registry() as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("http", marks=[pytest.mark.integration, needs_go])])
def registry(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    is_memory = request.param == "memory"
    made = MemoryRegistry() if is_memory else ConfluentRegistry(RegistryAddress(request.getfixturevalue("url")))
    yield made
    made.close()


def same(one: RegisteredSchema, other: RegisteredSchema) -> bool:
    return one.kind is other.kind and json.loads(one.text) == json.loads(other.text)


def test_what_is_registered_is_found(registry, unique):
    schema = avro(f"found_{unique}")
    assert same(registry.find(registry.register(f"{unique}-value", schema)), schema)


def test_a_schema_keeps_its_id(registry, unique):
    first, second = avro(f"first_{unique}"), avro(f"second_{unique}")
    ids = [registry.register(f"{unique}-{number}-value", each) for number, each in enumerate((first, second, first))]
    assert ids[0] == ids[2] != ids[1]


def test_json_schemas_are_told_from_avro(registry, unique):
    schema = RegisteredSchema(SchemaKind.JSON, json.dumps({"type": "object", "title": unique}))
    assert registry.find(registry.register(f"{unique}-value", schema)).kind is SchemaKind.JSON


def test_the_newest_schema_of_a_subject_is_found(registry, unique):
    json_schema = RegisteredSchema(SchemaKind.JSON, json.dumps({"type": "object", "title": unique}))
    registry.register(f"{unique}-other-value", json_schema)
    registry.register(f"{unique}-value", avro(f"newest_{unique}"))
    assert same(registry.latest(f"{unique}-value"), avro(f"newest_{unique}"))
    with pytest.raises(UnknownSchema, match=f"subject {unique}-none-value"):
        registry.latest(f"{unique}-none-value")


@pytest.mark.integration
@needs_go
def test_the_command_prints_the_columns_of_the_newest_schema(url, unique):
    registry = ConfluentRegistry(RegistryAddress(url))
    registry.register(f"{unique}-value", avro(f"printed_{unique}"))
    asked = CliRunner().invoke(app, ["schema", unique, "--registry", url])
    assert (asked.exit_code, asked.output.split()) == (0, ["schema:", "price:", "double"])
    asked = CliRunner().invoke(app, ["schema", f"{unique}-none", "--registry", url])
    assert asked.exit_code == 2
    assert f"subject {unique}-none-value" in asked.output


@pytest.mark.parametrize("schema_id", [2**20, 2**31 - 1, 2**32 - 1])
def test_an_unknown_id_is_bad_data(registry, schema_id):
    with pytest.raises(UnknownSchema, match=f"schema {schema_id}"):
        registry.find(schema_id)


@pytest.mark.integration
@needs_go
def test_references_come_along(url, unique):
    """Confluent's own client registers schemas with imports; this product registers none."""
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

    with SchemaRegistryClient({"url": url}) as client:
        client.register_schema(f"inner-{unique}", Schema(avro(f"Inner{unique}").text, "AVRO"))
        fields = [{"name": "inner", "type": f"Inner{unique}"}]
        text = json.dumps({"type": "record", "name": f"Outer{unique}", "fields": fields})
        reference = SchemaReference(f"Inner{unique}", f"inner-{unique}", 1)
        schema_id = client.register_schema(f"outer-{unique}", Schema(text, "AVRO", [reference]))
    [found] = ConfluentRegistry(RegistryAddress(url)).find(schema_id).references
    assert found.name == f"Inner{unique}"
    assert same(found.schema, avro(f"Inner{unique}"))


@pytest.mark.integration
@needs_go
def test_a_protobuf_file_comes_with_the_well_known_ones(url, unique):
    registry = ConfluentRegistry(RegistryAddress(url))
    text = base64.b64encode(protobuf_file().SerializeToString()).decode()
    found = registry.find(registry.register(f"{unique}-value", RegisteredSchema(SchemaKind.PROTOBUF, text)))
    assert [each.name for each in found.references] == ["google/protobuf/timestamp.proto"]
    assert base64.b64decode(found.references[0].schema.text) == timestamp_pb2.DESCRIPTOR.serialized_pb


def test_a_registry_that_is_away_is_tried_again():
    registry = ConfluentRegistry(RegistryAddress(f"http://127.0.0.1:{free_port()}"))
    for ask in (lambda: registry.find(1), lambda: registry.register("s", avro("a"))):
        with pytest.raises(RegistryUnavailable) as raised:
            ask()
        assert isinstance(raised.value, Retryable)


@pytest.mark.integration
@needs_go
def test_who_may_not_ask_is_told_so_without_the_password():
    secret = "secret-" + "x" * 8
    header = "Basic " + base64.b64encode(f"user:{secret}".encode()).decode()
    with running_registry(header) as url:
        assert ConfluentRegistry(RegistryAddress(url, "user", secret)).register("s", avro("a")) >= 1
        with pytest.raises(ConfigurationError, match="registry_username") as raised:
            ConfluentRegistry(RegistryAddress(url, "user", "wrong-password")).find(1)
    assert "wrong-password" not in str(raised.value)
    assert secret not in repr(RegistryAddress(url, "user", secret))


def test_certificates_that_are_not_there_are_a_wrong_setting(tmp_path):
    with pytest.raises(ConfigurationError, match="schema registry https://r"):
        ConfluentRegistry(RegistryAddress("https://r", ca=tmp_path / "none.pem"))
