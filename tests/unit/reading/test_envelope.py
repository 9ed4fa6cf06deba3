"""Rows within another message, as Debezium writes them."""

from __future__ import annotations

import io
import itertools
import json

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.protocol.topology import HEARTBEAT
from spojoin.reading.parse import parse_messages
from spojoin.reading.registered_rows import RegisteredSchemas
from tests.support.confluent_messages import Registry
from tests.support.messages import InputMessage

LONG = ColumnType(TypeName.LONG)
STREAM = Stream("s", {"n": LONG}, None, "k", (KeyColumn(Column("n"), Domain.INTEGER, 0, "n"),), envelope="after")

#: What a message holds: its row, or why it has none; and its operation.
ROW, DELETED, TRUNCATED, BARE = {"n": 7, "k": "a"}, "delete", "truncate", "bare"


def message(row, op):
    return {"before": None, "after": row, "op": op, "ts_ms": 1}


def read(values, find=None, stream=STREAM, headers=()):
    messages = [InputMessage(at, 0, value, headers) for at, value in enumerate(values)]
    return parse_messages(stream, False, 0, 0, messages, RegisteredSchemas(find))


def outcome(rows):
    """Rows and refusals by their message; the number of a row that joins nothing is None."""
    keys = rows.keys.to_pylist()
    joins = [1] * len(keys) if rows.joins is None else rows.joins.tolist()
    taken = {
        offset: (code if joining else None, key)
        for offset, code, key, joining in zip(rows.offsets.tolist(), rows.codes[0].tolist(), keys, joins, strict=True)
    }
    return taken | {letter.offset: letter.reason for letter in rows.dead}


AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": "string"}],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ],
}


def avro(messages):
    registry = Registry()
    return registry.avro(AVRO, *messages), registry.find


def json_schema(messages):
    registry = Registry()
    return registry.json({"type": "object", "title": "Envelope"}, *messages), registry.find


def protobuf(messages):
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(name="e.proto", package="p", syntax="proto3")
    envelope = file.message_type.add(name="Envelope")
    value = DescriptorProto(name="Value")
    for number, (name, kind) in enumerate({"n": kinds.TYPE_INT64, "k": kinds.TYPE_STRING}.items(), 1):
        value.field.add(name=name, number=number, type=kind, label=1, json_name=name)
    envelope.nested_type.add().CopyFrom(value)
    for number, name in enumerate(("before", "after"), 1):
        made = envelope.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, label=1, json_name=name)
        made.type_name = ".p.Envelope.Value"
    envelope.field.add(name="op", number=3, type=kinds.TYPE_STRING, label=1, json_name="op")
    registry = Registry()
    given = [{name: each[name] for name in ("after", "op") if each[name] is not None} for each in messages]
    return registry.protobuf(file, "p.Envelope", *given), registry.find


def plain_json(messages):
    return [json.dumps(each, indent=at % 2 or None).encode() for at, each in enumerate(messages)], None


def json_with_schema(messages):
    return [json.dumps({"schema": {"type": "struct"}, "payload": each}).encode() for each in messages], None


def arrow(messages):
    values = []
    row = pa.struct({"n": pa.int64(), "k": pa.string()})
    schema = pa.schema({"before": row, "after": row, "op": pa.string(), "ts_ms": pa.int64()})
    for each in messages:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, schema) as stream:
            stream.write_batch(pa.RecordBatch.from_pylist([each], schema))
        values.append(out.getvalue())
    return values, None


FORMATS = [avro, json_schema, protobuf, plain_json, json_with_schema, arrow]
whole_rows = st.fixed_dictionaries({"n": st.integers(-2, 2), "k": st.sampled_from(["a", "b"])})
events = st.one_of(
    st.builds(message, whole_rows, st.sampled_from(["c", "u", "r"])),
    st.just(message(None, "d")),
    st.just(message(None, "t")),
)


@pytest.mark.parametrize("form", FORMATS)
@given(given_=st.lists(events, min_size=1, max_size=6))
def test_every_format_gives_the_rows_and_the_refusals(form, given_):
    values, find = form(given_)
    wanted = {}
    for at, each in enumerate(given_):
        if each["after"] is not None:
            wanted[at] = (each["after"]["n"], each["after"]["k"])
        else:
            wanted[at] = "delete" if each["op"] == "d" else "null"
    assert outcome(read(values, find)) == wanted


JSON_FORMS = {
    b'{"after": {"n": 1, "k": "a"}}': (1, "a"),
    b'{"payload": {"after": {"n": 2, "k": "b"}}, "schema": {}}': (2, "b"),
    b'{"payload": {"after": {"n": 2, "k": "b"}}, "after": {"n": 3, "k": "c"}}': (3, "c"),
    b'{"payload": {"after": {"n": 2, "k": "b"}}, "after": null}': (2, "b"),
    b'{"payload": "text", "after": {"n": 4, "k": "d"}}': (4, "d"),
    b'{"after": null}': "delete",
    b'{"after": null, "op": "d"}': "delete",
    b'{"payload": {"after": null, "op": "d"}, "schema": null}': "delete",
    b'{"after": null, "op": "m"}': "null",
    b'{"n": 1, "k": "a"}': "missing-field",
    b'{"payload": {"n": 1, "k": "a"}}': "missing-field",
    b'{"after": {"n": 1}}': "null",
    b'{"after": {"n": null, "k": "a"}}': (None, "a"),
    b'{"after": {"n": [1], "k": "a"}}': "type",
    b'{"after": 5}': "type",
    b'{"after": [1]}': "type",
    b'{"after": "{}"}': "type",
    b'{"after": {"n": 1, "k": "a"}, "after": {"n": 2, "k": "b"}}': "malformed",
    b'{"after": {"n": 1, "n": 2, "k": "b"}}': "malformed",
    b'{"after": {"n": 1, "k": "a"}': "malformed",
}


@pytest.mark.parametrize("pair", list(itertools.product(JSON_FORMS, repeat=2)))
def test_what_json_says_never_depends_on_its_neighbours(pair):
    assert outcome(read(pair)) == dict(enumerate(JSON_FORMS[each] for each in pair))


def test_many_wrapped_messages_among_others():
    """More than are read one by one where Arrow isn't sure."""
    values = [each for at, each in enumerate(JSON_FORMS) for _ in range(9 + at % 3)]
    assert outcome(read(values)) == dict(enumerate(JSON_FORMS[each] for each in values))


def test_a_message_without_a_value_is_a_delete_and_a_heartbeat_stays_one():
    assert outcome(read([b""])) == {0: "delete"}
    beat = read([b""], headers=((HEARTBEAT, b"1700000000000"),))
    assert beat.dead == []
    assert beat.heartbeat_us == 1_700_000_000_000_000
    plain = Stream("s", {"n": LONG}, None, None, STREAM.keys)
    assert outcome(read([b""], stream=plain)) == {0: "malformed"}


def test_csv_has_no_envelope():
    assert outcome(read([b"1,a"])) == {0: "malformed"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"n": pa.int64()}, "missing-field"),
        ({"after": pa.int64()}, "type"),
        ({"after": pa.struct({"n": pa.int64()})}, "missing-field"),
    ],
)
def test_arrow_without_the_rows(schema, reason):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, pa.schema(schema)) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([{}], pa.schema(schema)))
    assert outcome(read([out.getvalue()])) == {0: reason}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"name": "n", "type": "long"}], "missing-field"),
        ([{"name": "after", "type": "long"}], "type"),
        ([{"name": "after", "type": {"type": "record", "name": "V", "fields": []}}], "missing-field"),
    ],
)
def test_avro_without_the_rows(fields, reason):
    registry = Registry()
    values = registry.avro(
        {"type": "record", "name": "E", "fields": fields}, {"n": 1, "after": 1 if reason == "type" else {}}
    )
    assert outcome(read(values, registry.find)) == {0: reason}
