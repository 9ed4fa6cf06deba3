"""The schema registry of the settings, and results with a registered schema."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest

from spojoin.errors import ConfigurationError
from spojoin.ports.memory import MemoryRegistry
from spojoin.runtime.registry import registry_of, result_writer_of
from spojoin.runtime.settings import load_settings
from spojoin.wire.registered import PREFIX_BYTES, RegisteredSchema, schema_id_of
from spojoin.wire.result_writers import AvroWriter, FramesWriter, JsonSchemaWriter
from tests.support.confluent_messages import CONTEXT

ROWS = pa.RecordBatch.from_pydict({"seq": [1, 2], "price": [1.5, None], "l.id": ["a", "b"]})
FOUND = [{"seq": 1, "price": 1.5, "l_id": "a"}, {"seq": 2, "price": None, "l_id": "b"}]


class Counting(MemoryRegistry):
    """Knows what was asked of it."""

    def __init__(self):
        super().__init__()
        self.subjects = []

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        self.subjects.append(subject)
        return super().register(subject, schema)


def test_without_a_url_there_is_no_registry():
    settings = load_settings(query_file="q")
    assert registry_of(settings) is None
    assert isinstance(result_writer_of(settings, "q.results"), FramesWriter)


def test_a_registry_is_opened_once_with_its_password(tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    given = {"registry_url": "http://127.0.0.1:1", "registry_username": "me"}
    settings = load_settings(query_file="q", **given, registry_password_file=tmp_path / "password")
    assert registry_of(settings) is registry_of(settings)
    assert "hunter2" not in repr(settings)
    assert settings.registry_login() == "hunter2"


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(ConfigurationError, match=r"registry_url needs fastavro: pip install 'spojoin\[registry\]'"):
        registry_of(load_settings(query_file="q", registry_url="http://127.0.0.1:1"))


def test_avro_rows_are_registered_under_the_topics_subject_once():
    registry = Counting()
    form = AvroWriter("q.results", registry.register)
    values = [*form.values(ROWS), *form.values(ROWS)]
    assert registry.subjects == ["q.results-value"]
    assert {schema_id_of(value) for value in values} == {1}
    schema = fastavro.parse_schema(json.loads(registry.find(1).text))
    read = [fastavro.schemaless_reader(io.BytesIO(value[PREFIX_BYTES:]), schema, None) for value in values]
    assert read == FOUND * 2


def test_other_columns_are_another_schema():
    registry = Counting()
    form = JsonSchemaWriter("q.results", registry.register)
    assert [schema_id_of(v) for v in (*form.values(ROWS), *form.values(ROWS.select(["seq"])))] == [1, 1, 2, 2]


@pytest.mark.parametrize("writer", [AvroWriter, JsonSchemaWriter])
def test_confluents_own_deserialisers_read_them(writer):
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    client = SchemaRegistryClient.new_client({"url": f"mock://results-{writer.kind}"})

    class Mock(MemoryRegistry):
        def register(self, subject: str, schema: RegisteredSchema) -> int:
            return client.register_schema(subject, Schema(schema.text, schema.kind.value))

    values = writer("q.results", Mock().register).values(ROWS)
    read = AvroDeserializer(client) if writer is AvroWriter else JSONDeserializer(None, schema_registry_client=client)
    wanted = FOUND if writer is AvroWriter else ROWS.to_pylist()
    assert [read(value, CONTEXT) for value in values] == wanted
