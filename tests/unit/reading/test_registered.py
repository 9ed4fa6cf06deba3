"""Avro, Protobuf and JSON of registered schemas, as Confluent's own serialisers write them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import struct
from decimal import Decimal

import numpy as np
import pytest
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from spojoin.errors import Retryable
from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.reading.parse import parse_messages
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.wire.registered import Reference, RegisteredSchema, SchemaKind, framed
from tests.support.confluent_messages import Registry
from tests.support.messages import InputMessage

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def stream(*columns, key=None, envelope=None, time=None):
    """Columns as (name, type, domain)."""
    keys = tuple(
        KeyColumn(Column(name), domain, kind.scale, name) for name, kind, domain in columns if domain is not None
    )
    return Stream("s", {name: kind for name, kind, _ in columns}, time, key, keys, envelope=envelope)


def column(name, kind, *parameters):
    return name, ColumnType(kind, *parameters), Domain.FLOAT if kind is TypeName.DOUBLE else Domain.INTEGER


ALL = stream(
    column("d", TypeName.DOUBLE),
    column("n", TypeName.LONG),
    column("m", TypeName.DECIMAL, 18, 4),
    column("day", TypeName.DATE),
    column("at", TypeName.TIMESTAMP),
    key="k",
)
ONE = stream(column("n", TypeName.LONG))
AVRO_ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "unused", "type": {"type": "array", "items": "string"}},
        {"name": "d", "type": ["null", "double"]},
        {"name": "n", "type": "long"},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "k", "type": "string"},
    ],
}
AVRO_ONE = {"type": "record", "name": "One", "fields": [{"name": "n", "type": "long"}]}
PROTOBUF = FieldDescriptorProto


def protobuf_file(name, *fields, dependency=(), nested=None):
    """Fields as (name, type) or (name, type, name of its message)."""
    file = FileDescriptorProto(name=f"{name}.proto", package="p", syntax="proto3", dependency=list(dependency))
    message = file.message_type.add(name=name)
    for number, (field, kind, *of) in enumerate(fields, 1):
        made = message.field.add(name=field, number=number, type=kind, label=PROTOBUF.LABEL_OPTIONAL, json_name=field)
        if of:
            made.type_name = of[0]
    if nested is not None:
        message.nested_type.add().CopyFrom(nested)
    return file


PROTOBUF_ONE = protobuf_file("One", ("n", PROTOBUF.TYPE_INT64))


def fold(value):
    """The float order code, by its definition and not by the product's code."""
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


def read(stream, registry, values, timestamps=None, needs_time=False, headers=()):
    messages = [InputMessage(10 + i, (timestamps or {}).get(i, 5), value, headers) for i, value in enumerate(values)]
    return parse_messages(stream, needs_time, 0, 3, messages, RegisteredSchemas(registry.find))


def reasons(rows):
    return [(letter.offset - 10, letter.reason) for letter in rows.dead]


rows_of_all = st.fixed_dictionaries(
    {
        "unused": st.lists(st.sampled_from(["", "x"]), max_size=2),
        "d": st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0]) | st.none(),
        "n": st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 1),
        "m": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-4, decimal.Context(prec=40))),
        "day": st.dates(),
        "at": st.datetimes(timezones=st.just(UTC)),
        "k": st.text(min_size=1, max_size=3),
    }
)


def expected(rows):
    """Codes column by column by plain definitions; None where `d` is null, so that the row joins nothing."""
    return [
        [None if row["d"] is None else fold(row["d"]) for row in rows],
        [row["n"] for row in rows],
        [int(row["m"] * 10_000) for row in rows],
        [(row["day"] - datetime.date(1970, 1, 1)).days for row in rows],
        [(row["at"] - EPOCH) // datetime.timedelta(microseconds=1) for row in rows],
    ]


def check(found, rows):
    codes = [column.tolist() for column in found.codes]
    joins = [1] * len(rows) if found.joins is None else found.joins.tolist()
    codes[0] = [code if joining else None for code, joining in zip(codes[0], joins, strict=True)]
    assert codes == expected(rows)
    assert found.keys.to_pylist() == [row["k"] for row in rows]
    assert found.offsets.tolist() == [10 + at for at in range(len(rows))]
    assert found.members is None or set(found.members.tolist()) == {1}
    assert reasons(found) == []


@given(st.lists(rows_of_all, min_size=1, max_size=8))
def test_avro_rows_of_every_type(rows):
    registry = Registry()
    check(read(ALL, registry, registry.avro(AVRO_ROW, *rows)), rows)


PROTOBUF_ROW = protobuf_file(
    "Row",
    ("d", PROTOBUF.TYPE_MESSAGE, ".google.protobuf.DoubleValue"),
    ("n", PROTOBUF.TYPE_SINT64),
    ("m", PROTOBUF.TYPE_STRING),
    ("day", PROTOBUF.TYPE_STRING),
    ("at", PROTOBUF.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
    ("k", PROTOBUF.TYPE_STRING),
    dependency=("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"),
)
KNOWN = tuple(
    Reference(
        each.DESCRIPTOR.name,
        RegisteredSchema(SchemaKind.PROTOBUF, base64.b64encode(each.DESCRIPTOR.serialized_pb).decode()),
    )
    for each in (timestamp_pb2, wrappers_pb2)
)


def as_protobuf(row):
    at = row["at"] - EPOCH
    made = {name: row[name] for name in ("n", "k")} | {"m": str(row["m"]), "day": row["day"].isoformat()}
    made["at"] = {"seconds": at.days * 86_400 + at.seconds, "nanos": at.microseconds * 1_000}
    return made if row["d"] is None else made | {"d": {"value": row["d"]}}


@given(st.lists(rows_of_all, min_size=1, max_size=8))
def test_protobuf_rows_of_every_type(rows):
    registry = Registry()
    registry.imports = KNOWN
    check(read(ALL, registry, registry.protobuf(PROTOBUF_ROW, "p.Row", *map(as_protobuf, rows))), rows)


@given(st.lists(rows_of_all, min_size=1, max_size=8))
def test_json_rows_of_every_type(rows):
    registry = Registry()
    texts = [
        row | {"m": str(row["m"]), "day": row["day"].isoformat(), "at": row["at"].isoformat()}
        for row in rows
        if row["d"] not in (float("inf"), float("-inf"))
    ]
    if texts:
        found = read(ALL, registry, registry.json({"type": "object", "title": "Row"}, *texts))
        check(found, [row for row in rows if row["d"] not in (float("inf"), float("-inf"))])


def test_formats_and_schemas_in_one_partition_keep_its_order():
    registry = Registry()
    wider = {**AVRO_ONE, "fields": [{"name": "more", "type": "string", "default": ""}, *AVRO_ONE["fields"]]}
    values = [
        *registry.avro(AVRO_ONE, {"n": 1}),
        b'{"n": 2}',
        *registry.avro(wider, {"more": "x", "n": 3}),
        *registry.protobuf(PROTOBUF_ONE, "p.One", {"n": 4}),
        b"5",
        *registry.json({"type": "object", "title": "One"}, {"n": 6}),
        *registry.avro(AVRO_ONE, {"n": 7}),
    ]
    found = read(ONE, registry, values)
    assert found.codes[0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert found.keys.to_pylist() == [f"3:{10 + at}" for at in range(7)]
    assert found.dead == []
    assert len(registry.asked) == len(set(registry.asked)) == 4


def test_a_schema_is_asked_for_once():
    registry = Registry()
    schemas = RegisteredSchemas(registry.find)
    [value] = registry.avro(AVRO_ONE, {"n": 1})
    for offset in range(3):
        parse_messages(ONE, False, 0, 0, [InputMessage(offset, 0, value)], schemas)
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    "poison", [b"\0", b"\0\0\0\0", framed(9_999, b"\x02"), b"\0\0\0\0\x01", b"\0\0\0\0\x01\x02\x02"]
)
def test_a_poison_message_is_a_dead_letter_and_its_neighbours_are_rows(poison):
    registry = Registry()
    good = registry.avro(AVRO_ONE, {"n": 1}, {"n": 2})
    found = read(ONE, registry, [good[0], poison, good[1]])
    assert found.codes[0].tolist() == [1, 2]
    [letter] = found.dead
    assert letter.value == poison
    assert letter.reason == ("schema" if poison == framed(9_999, b"\x02") else "malformed")


@given(st.binary(max_size=40), st.sampled_from(["avro", "protobuf", "json"]))
def test_no_bytes_crash_a_decoder(data, kind):
    registry = Registry()
    registry.imports = KNOWN if kind == "protobuf" else ()
    row = {"unused": [], "d": 1.0, "n": 1, "m": Decimal(1), "day": datetime.date(2000, 1, 1), "at": EPOCH, "k": "k"}
    if kind == "avro":
        registry.avro(AVRO_ROW, row)
    elif kind == "protobuf":
        registry.protobuf(PROTOBUF_ROW, "p.Row", as_protobuf(row))
    else:
        registry.json({"type": "object", "title": "Row"}, {})
    found = read(ALL, registry, [framed(1, data)])
    assert len(found) + len({(letter.offset, letter.row) for letter in found.dead}) >= 1


def test_without_a_registry_the_sentence_says_so():
    found = parse_messages(ONE, False, 0, 0, [InputMessage(1, 0, framed(3, b"\x02"))])
    assert [(letter.reason, letter.detail) for letter in found.dead] == [
        ("schema", "schema 3: no schema registry is known, set registry_url")
    ]


def test_a_registry_that_is_away_is_no_dead_letter():
    class Away(Retryable):
        pass

    def find(_):
        raise Away

    with pytest.raises(Away):
        parse_messages(ONE, False, 0, 0, [InputMessage(1, 0, framed(3, b"\x02"))], RegisteredSchemas(find))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("string", "type"),
        ({"type": "record", "name": "R", "fields": []}, "missing-field"),
        ({"type": "record", "name": "R", "fields": [{"name": "m", "type": "long"}]}, "missing-field"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "long"}}]},
            "type",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["bytes", "long"]}]}, "type"),
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": "nothing"}]}, "schema"),
        ({"type": "record", "fields": []}, "schema"),
        (7, "schema"),
    ],
)
def test_an_avro_schema_without_the_column(kind, reason):
    find = {1: RegisteredSchema(SchemaKind.AVRO, json.dumps(kind))}.__getitem__
    messages = [InputMessage(at, 0, framed(1, b"\x02")) for at in range(2)]
    found = parse_messages(ONE, False, 0, 0, messages, RegisteredSchemas(find))
    assert [letter.reason for letter in found.dead] == [reason] * 2


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (["null", "int", "long"], 7, 7),
        (["int", "string"], "7", 7),
        (["double", "string"], 7.0, 7),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", None),
        ("string", "12", 12),
        ("boolean", True, None),
        ({"type": {"type": "long", "connect.name": "x"}}, 9, 9),
    ],
)
def test_avro_types_of_a_long(kind, value, code):
    registry = Registry()
    field = kind if isinstance(kind, dict) and isinstance(kind["type"], dict) else {"type": kind}
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", **field}]}
    found = read(ONE, registry, registry.avro(schema, {"n": value}))
    assert found.codes[0].tolist() == ([] if code is None else [code])
    assert reasons(found) == ([(0, "type")] if code is None else [])


TIMED = stream(column("at", TypeName.TIMESTAMP))


@pytest.mark.parametrize(
    ("said", "ticks", "us"),
    [
        ({"logicalType": "timestamp-millis"}, 1_500, 1_500_000),
        ({"logicalType": "local-timestamp-micros"}, 1_500, 1_500),
        ({"connect.name": "io.debezium.time.MicroTimestamp"}, 1_700_000_000_000_000, 1_700_000_000_000_000),
        ({"connect.name": "io.debezium.time.NanoTimestamp"}, 1_700_000_000_000_000_000, 1_700_000_000_000_000),
        ({"connect.name": "io.debezium.time.Timestamp"}, 1_700_000_000_000, 1_700_000_000_000_000),
    ],
)
def test_avro_moments_carry_their_unit(said, ticks, us):
    import io

    import fastavro

    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": {"type": "long", **said}}]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, plain, {"at": ticks})
    find = {1: RegisteredSchema(SchemaKind.AVRO, json.dumps(schema))}.__getitem__
    messages = [InputMessage(0, 0, framed(1, out.getvalue()))]
    found = parse_messages(TIMED, False, 0, 0, messages, RegisteredSchemas(find))
    assert found.codes[0].tolist() == [us]


def test_a_decimal_beyond_its_own_precision_is_not_rounded():
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": wide}]}
    find = {1: RegisteredSchema(SchemaKind.AVRO, json.dumps(schema))}.__getitem__
    data = (123_457).to_bytes(4, "big", signed=True)
    messages = [InputMessage(0, 0, framed(1, b"\x08" + data))]
    found = parse_messages(ONE, False, 0, 0, messages, RegisteredSchemas(find))
    assert found.codes[0].tolist() == [123_457]


def test_avro_types_of_another_schema():
    inner = RegisteredSchema(
        SchemaKind.AVRO, json.dumps({"type": "record", "name": "x.Inner", "fields": AVRO_ONE["fields"]})
    )
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "after", "type": ["null", "x.Inner"]}]}
    find = {1: RegisteredSchema(SchemaKind.AVRO, json.dumps(outer), (Reference("x.Inner", inner),))}.__getitem__
    taken = stream(column("n", TypeName.LONG), envelope="after")
    messages = [InputMessage(0, 0, framed(1, b"\x02\x0e")), InputMessage(1, 0, framed(1, b"\x00"))]
    found = parse_messages(taken, False, 0, 0, messages, RegisteredSchemas(find))
    assert found.codes[0].tolist() == [7]
    assert [letter.reason for letter in found.dead] == ["delete"]


def test_a_nested_protobuf_type_is_found_by_its_path():
    inner = FieldDescriptorProto(name="n", number=1, type=PROTOBUF.TYPE_INT64, label=1, json_name="n")
    file = protobuf_file("Outer", ("x", PROTOBUF.TYPE_INT32))
    nested = file.message_type[0].nested_type.add(name="Inner")
    nested.field.add().CopyFrom(inner)
    registry = Registry()
    values = registry.protobuf(file, "p.Outer.Inner", {"n": 5}) + registry.protobuf(file, "p.Outer", {"x": 1})
    found = read(ONE, registry, [*values, framed(1, b"\x02\x40\x08\x01")])
    assert found.codes[0].tolist() == [5]
    assert reasons(found) == [(1, "missing-field"), (2, "malformed")]


def test_a_protobuf_moment_beyond_nanoseconds_is_read_all_the_same():
    file = protobuf_file(
        "T", ("at", PROTOBUF.TYPE_MESSAGE, ".google.protobuf.Timestamp"), dependency=PROTOBUF_ROW.dependency
    )
    registry = Registry()
    registry.imports = KNOWN
    far = int((datetime.datetime(9000, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
    values = registry.protobuf(file, "p.T", *({"at": {"seconds": s, "nanos": 1_000}} for s in (1, far)))
    broken = registry.protobuf(file, "p.T", {"at": {"seconds": 1, "nanos": -7}})
    found = read(TIMED, registry, [*values, *broken])
    assert found.codes[0].tolist() == [1_000_001, far * 1_000_000 + 1]
    assert reasons(found) == [(2, "type")]


@pytest.mark.parametrize("headers", [(("content-type", b"application/json"),), (("content-type", b"avro/binary"),)])
def test_a_header_doesn_t_hide_a_registered_schema(headers):
    registry = Registry()
    assert read(ONE, registry, registry.avro(AVRO_ONE, {"n": 4}), headers=headers).codes[0].tolist() == [4]


def test_the_records_own_time_is_the_event_time():
    registry = Registry()
    values = [*registry.avro(AVRO_ONE, {"n": 1}), b'{"n": 2}\n{"n": 3}', b"4", b'{"n": 5}']
    times = {0: 1_700_000_000_001, 1: 0, 2: 253_402_300_799_999, 3: -1}
    timed = stream(column("n", TypeName.LONG), time="record")
    found = read(timed, registry, values, times, needs_time=True)
    assert found.codes[0].tolist() == [1, 2, 3, 4]
    assert found.times_us.tolist() == [1_700_000_000_001_000, 0, 0, 253_402_300_799_999_000]
    assert reasons(found) == [(3, "time")]


def test_a_column_named_record_is_a_column():
    timed = stream(column("record", TypeName.TIMESTAMP), time="record")
    found = read(timed, Registry(), [b'{"record": "1970-01-01T00:00:01Z"}'], {0: 77}, needs_time=True)
    assert np.asarray(found.times_us).tolist() == [1_000_000]
