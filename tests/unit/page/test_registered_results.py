"""Results with a registered schema as rows of the page, and as lines of `spojoin results`."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from spojoin.cli import topics
from spojoin.errors import ConfigurationError
from spojoin.model import Output
from spojoin.page.latest import PAUSE_MS, AvroResults, result_rows, rows_of
from spojoin.ports.interfaces import LogPartition, LogRecord, RegistryUnavailable
from spojoin.ports.memory import MemoryRegistry
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.settings import load_settings
from spojoin.wire.records import Result
from spojoin.wire.result_writers import AvroWriter, JsonSchemaWriter

ROWS = pa.RecordBatch.from_pydict({"probe_seq": [4, 4, 6], "key": ["a", "b", None], "data": [b"\xff", b"", None]})
LINES = [
    {"probe_seq": 4, "key": "a", "data": "/w=="},
    {"probe_seq": 4, "key": "b", "data": ""},
    {"probe_seq": 6, "key": None, "data": None},
]


def records(writer, registry):
    form = writer("q.results", registry.register)
    results = [
        Result(frame, 0, 9, True, rows, np.array([1]), np.array([9], np.uint32))
        for frame, rows in enumerate((ROWS, ROWS.slice(3)))
    ]
    return [
        LogRecord(LogPartition("q.results", 0), 0, 1, message.value, tuple(message.headers.items()))
        for each in results
        for message in form.messages(each, 0, None)
    ]


def test_the_page_shows_rows_of_json():
    assert [row for each in records(JsonSchemaWriter, MemoryRegistry()) for row in rows_of(each)] == LINES


class Times:
    now_ms = 0

    def monotonic_ms(self):
        return self.now_ms


def test_the_page_shows_rows_of_avro(monkeypatch):
    registry, clock = MemoryRegistry(), Times()
    monkeypatch.setattr("spojoin.runtime.registry.registry_of", lambda _: registry)
    found = records(AvroWriter, registry)
    avro = AvroResults(RegisteredResults(load_settings(query_file="q")), clock)
    rows = [row for each in found for row in rows_of(each, avro=avro)]
    assert result_rows(rows, Output.ROWS).rows == [["6", "", ""], ["4", "b", ""], ["4", "a", "/w=="]]


def test_the_page_leaves_a_registry_that_failed_alone_for_a_while(monkeypatch):
    class Failing(MemoryRegistry):
        asked = 0

        def find(self, schema_id):
            self.asked += 1
            raise RegistryUnavailable("away")

    registry, clock = Failing(), Times()
    monkeypatch.setattr("spojoin.runtime.registry.registry_of", lambda _: registry)
    first, *_ = records(AvroWriter, MemoryRegistry())
    avro = AvroResults(RegisteredResults(load_settings(query_file="q")), clock)
    size = [{"seq": 4, "Avro": "13 bytes, schema 1"}]
    assert [rows_of(first, avro=avro), rows_of(first, avro=avro), registry.asked] == [size, size, 1]
    clock.now_ms = PAUSE_MS
    assert [rows_of(first, avro=avro), registry.asked] == [size, 2]


def test_the_page_says_what_it_can_of_avro_without_a_registry():
    found = [row for each in records(AvroWriter, MemoryRegistry()) for row in rows_of(each)]
    assert found == [{"seq": seq, "Avro": f"{size} bytes, schema 1"} for seq, size in ((4, 13), (4, 12), (6, 9))]


@pytest.mark.parametrize("kind", [AvroWriter, JsonSchemaWriter])
def test_lines_of_the_results_command(kind, monkeypatch):
    registry = MemoryRegistry()
    monkeypatch.setattr("spojoin.runtime.registry.registry_of", lambda _: registry)
    read = RegisteredResults(load_settings(query_file="q"))
    found = [line for line in topics._texts(records(kind, registry), read) if line]
    assert [json.loads(line) for line in found] == LINES


def test_avro_without_a_registry_is_a_sentence():
    read = RegisteredResults(load_settings(query_file="q"))
    with pytest.raises(ConfigurationError, match="set SPOJOIN_REGISTRY_URL"):
        list(topics._texts(records(AvroWriter, MemoryRegistry()), read))
