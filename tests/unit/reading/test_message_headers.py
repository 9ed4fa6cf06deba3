"""Kafka headers reach the rows of their messages, whatever the format."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from spojoin.columns import extract as extraction
from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.reading import arrow_rows, formats, lines
from spojoin.reading.formats import JSON, by_format
from spojoin.reading.original_rows import OriginalRows
from spojoin.reading.parse import NO_SCHEMAS
from spojoin.reading.parsing import Parsing
from spojoin.reading.readout import columns_needed, needs_headers
from spojoin.reading.registered_rows import RegisteredSchemas
from tests.support.confluent_messages import Registry
from tests.support.messages import InputMessage

NUMBER = KeyColumn(Column("n"), Domain.INTEGER, 0, "n")
ORIGIN = KeyColumn(Column("headers"), Domain.INTEGER, 0, "headers")
PLAIN = Stream("s", {"n": ColumnType(TypeName.LONG)}, None, None, (NUMBER,))
#: As a statement that names the headers needs them.
WITH = Stream("s", {"n": ColumnType(TypeName.LONG)}, None, None, (NUMBER, ORIGIN))
AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}


@pytest.fixture
def seen(monkeypatch):
    """What is extracted: the rows as they come, read for their number alone."""
    found = []

    def extract(stream, batch, needs_time, number):
        found.append(batch)
        return extraction.extract(PLAIN, batch, needs_time, number)

    for module in (arrow_rows, lines, formats):
        monkeypatch.setattr(module, "extract", extract)
    return found


def arrow(*numbers):
    out = io.BytesIO()
    batch = pa.RecordBatch.from_pydict({"n": list(numbers)})
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()


def test_every_row_has_the_headers_of_its_message(seen):
    registry = Registry()
    values = [
        b'{"n": 1}\n{"n": 2}',
        *registry.avro(AVRO, {"n": 3}),
        b"4\n5",
        arrow(6, 7),
        b'{"n": "8", "x": [}',
        b'{"n": 9}',
        *registry.avro(AVRO, {"n": 10}),
    ]
    messages = [InputMessage(at, 0, value, (("at", b"%d" % at),)) for at, value in enumerate(values)]
    made = Parsing(WITH, False, 0, 0, messages, RegisteredSchemas(registry.find), OriginalRows)
    for found, places in by_format(messages).items():
        for at in places:
            found.read(made, [at])
    rows = {row["n"]: dict(row["headers"]) for batch in seen for row in batch.to_pylist()}
    wanted = {1: 0, 2: 0, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 9: 5, 10: 6}
    assert {int(n): int(headers["at"]) for n, headers in rows.items()} == wanted
    assert [letter.offset for letter in made.dead] == [4]


def test_the_last_of_several_counts_and_bytes_are_text(seen):
    headers = (("a", b"1"), ("a", b"2"), ("b", None), ("c", b"\xff"), ("d", "ä".encode()))
    made = Parsing(WITH, False, 0, 0, [InputMessage(0, 0, b'{"n": 1}', headers)], NO_SCHEMAS, OriginalRows)
    JSON.read(made, [0])
    assert dict(seen[0].column("headers")[0].as_py()) == {"a": "2", "b": None, "c": "\ufffd", "d": "ä"}


def test_nobody_else_pays(seen):
    made = Parsing(PLAIN, False, 0, 0, [InputMessage(0, 0, b'{"n": 1}', (("a", b"1"),))], NO_SCHEMAS, OriginalRows)
    JSON.read(made, [0])
    assert seen[0].schema.names == ["n"]


def test_a_column_of_that_name_is_a_column():
    own = Stream("s", {"headers": ColumnType(TypeName.LONG)}, None, None, (ORIGIN,))
    assert columns_needed(own, False) == ["headers"]
    assert not needs_headers(own, False)
    assert columns_needed(WITH, False) == ["n"]
    assert needs_headers(WITH, False)
