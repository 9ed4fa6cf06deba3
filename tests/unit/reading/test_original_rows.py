"""Dead letters hold the row that was refused, not the whole message: so it can be read, corrected and sent again."""

import gc
import json
import weakref
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.query.load import parse_query
from spojoin.reading.original_rows import OriginalRows
from spojoin.reading.parse import parse_messages
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.roles.router.table_topic import CompactedTable
from tests.support.confluent_messages import Registry
from tests.support.messages import InputMessage

NUMBER = KeyColumn(Column("n"), Domain.INTEGER, 0, "n")
STREAM = Stream("s", {"n": ColumnType(TypeName.LONG)}, None, None, (NUMBER,))
AT = datetime(2024, 3, 4, 9, 30)
ROWS = pa.table(
    {
        "n": ["1", "two", "3"],
        "at": pa.array([AT] * 3, pa.timestamp("us")),
        "nanos": pa.array([1, 2, 3], pa.timestamp("ns")),
        "price": pa.array([Decimal("1.50")] * 3, pa.decimal128(9, 2)),
        "x": [1.5, float("nan"), None],
        "raw": [b"\x00\xff"] * 3,
        "tags": [["a"], ["b"], []],
    }
)


def written(table, new=pa.ipc.new_stream):
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=1)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_a_row_of_arrow_is_a_line_that_a_person_reads(new):
    found = parse_messages(STREAM, False, 0, 0, [InputMessage(7, 0, written(ROWS, new))])
    (letter,) = found.dead
    assert (letter.offset, letter.row, letter.reason) == (7, 1, "type")
    assert json.loads(letter.value) == {
        "n": "two",
        "at": "2024-03-04T09:30:00",
        "nanos": "1970-01-01 00:00:00.000000002",
        "price": "1.50",
        "x": "nan",
        "raw": "AP8=",
        "tags": ["b"],
    }


def test_a_row_that_is_refused_later_comes_the_same_way():
    lines = b'{"n": 1}\n\n{"n": 2}\n'
    messages = [
        InputMessage(3, 0, lines),
        InputMessage(5, 0, b"8\n9\n"),
        InputMessage(6, 0, b'{\n"n": 4}'),
        InputMessage(8, 0, written(ROWS.select(["n"]).slice(0, 1))),
    ]
    found = parse_messages(STREAM, False, 0, 0, messages)
    places = list(zip(found.offsets.tolist(), found.rows.tolist(), strict=True))
    assert [found.as_it_came(*place).value for place in places] == [
        b'{"n": 1}',
        b'{"n": 2}',
        b"8",
        b"9",
        b'{\n"n": 4}',
        b'{"n":"1"}',
    ]


def test_the_row_that_came_is_taken_once_it_is_right():
    (letter,) = parse_messages(STREAM, False, 0, 0, [InputMessage(7, 0, written(ROWS))]).dead
    again = parse_messages(STREAM, False, 0, 0, [InputMessage(8, 0, letter.value.replace(b'"two"', b"2"))])
    assert not again.dead
    assert again.codes[0].tolist() == [2]


# -- every form and every reason

AFTER, TIMED = replace(STREAM, envelope="after"), replace(STREAM, time="record")
REGISTRY = Registry()
AVRO = {"type": "record", "name": "One", "fields": [{"name": "m", "type": "long"}]}
ENVELOPE_AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "after", "type": ["null", {**AVRO, "fields": [{"name": "n", "type": "long"}]}]},
        {"name": "op", "type": "string"},
    ],
}
#: A registered schema of JSON; what precedes each message of it.
SCHEMA = {"title": "One", "type": "object", "properties": {"n": {"type": "integer"}}}
PREFIX = REGISTRY.json(SCHEMA, {"n": 1})[0][:5]
OWN = (("region", b"\xff"), ("empty", None), ("region", b"2"))
JSON, CSV, ARROW = b"application/json", b"text/csv", b"application/vnd.apache.arrow.stream"


def protobuf(n):
    file = FileDescriptorProto(name="one.proto", package="p", syntax="proto3")
    row = file.message_type.add(name="One")
    row.field.add(name="n", number=1, type=FieldDescriptorProto.TYPE_STRING, label=1, json_name="n")
    return REGISTRY.protobuf(file, "p.One", {"n": n})[0]


def arrow(*values):
    return written(pa.table({"n": list(values)}))


def of_structs(*values):
    return written(pa.table({"after": pa.array(values, pa.struct([("n", pa.string())]))}))


class Case(NamedTuple):
    """A message one of whose rows is refused, and what the letter holds: as a rule the message.

    typed: its content-type; left: that of the letter
    """

    reason: str
    value: bytes
    row: int = 0
    letter: bytes | None = None
    typed: bytes | None = None
    left: bytes | None = None
    stream: Stream = STREAM


CASES = {
    "json": Case("type", b' {"n": "x"}\n'),
    "json, malformed": Case("malformed", b'{"n": '),
    "json, over lines": Case("type", b'{\n"n": "x"}'),
    "json, without a key": Case("null", b'{"n": 1, "k": null}', stream=replace(STREAM, key="k")),
    "json, too large": Case("overflow", b'{"n": 99999999999999999999}'),
    "json, many": Case("type", b'{"n": 1}\n\n{"n": "x"}\n{"n": 3}', 1, b'{"n": "x"}', None, JSON),
    "json, many, named": Case("type", b'{"n": 1}\n{"n": "x"}', 1, b'{"n": "x"}', JSON, JSON),
    "json, deleted": Case("delete", b'{"after": null, "op": "d"}', stream=AFTER),
    "json, a tombstone": Case("delete", b"", stream=AFTER),
    "blank": Case("malformed", b" \n "),
    "empty": Case("malformed", b""),
    "csv": Case("type", b"x\n"),
    "csv, many": Case("type", b"1\r\nx\r\n3", 1, b"x", None, CSV),
    "csv, a line like json": Case("type", b"1\n{x}", 1, b"{x}", None, CSV),
    "arrow": Case("type", arrow("1", "x", "3"), 1, b'{"n":"x"}', ARROW, JSON),
    "arrow of one": Case("type", arrow("x"), 0, b'{"n":"x"}', None, JSON),
    "arrow, broken": Case("malformed", arrow("1")[:-30], typed=ARROW, left=ARROW),
    "arrow, envelope": Case("type", of_structs({"n": "1"}, {"n": "x"}), 1, b'{"after":{"n":"x"}}', None, JSON, AFTER),
    "arrow, deleted": Case("delete", of_structs({"n": "1"}, None), 1, b'{"after":null}', None, JSON, AFTER),
    "a type that nobody knows": Case("malformed", b"n=1", typed=b"x/y", left=b"x/y"),
    "avro": Case("missing-field", REGISTRY.avro(AVRO, {"m": 1})[0]),
    "avro, deleted": Case("delete", REGISTRY.avro(ENVELOPE_AVRO, {"after": None, "op": "d"})[0], stream=AFTER),
    "protobuf": Case("type", protobuf("x")),
    "a schema that nobody knows": Case("schema", b"\0\0\0\xff\xff1"),
    "a schema's id, cut": Case("malformed", b"\0\0"),
    "registered json": Case("type", PREFIX + b'{"n": "x"}'),
    "registered json, many": Case("type", PREFIX + b'{"n": 1}\n{"n": "x"}', 1, PREFIX + b'{"n": "x"}'),
    "without a time": Case("time", b'{"n": 1}', stream=TIMED),
}


def read(case, value, headers):
    messages = [
        InputMessage(6, 5, b"", (("spojoin-heartbeat", b"1"),)),
        InputMessage(7, -1 if case.reason == "time" else 12, value, headers, b"k"),
    ]
    reading = RegisteredSchemas(REGISTRY.find)
    return parse_messages(case.stream, case.stream is TIMED, 0, 0, messages, reading)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_letter_holds_the_row_its_key_headers_and_time(case):
    headers = (*OWN, *([] if case.typed is None else [("Content-Type", case.typed)]))
    letter = next(each for each in read(case, case.value, headers).dead if each.offset == 7)
    assert (letter.row, letter.reason, letter.key) == (case.row, case.reason, b"k")
    assert letter.value == (case.value if case.letter is None else case.letter)
    assert letter.headers[:3] == OWN
    assert [value for name, value in letter.headers if name.lower() == "content-type"] == [case.left] * bool(case.left)
    assert letter.timestamp_ms == (-1 if case.reason == "time" else 12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_letter_that_is_sent_again_is_read_as_what_it_is(case):
    headers = () if case.typed is None else (("content-type", case.typed),)
    letter = next(each for each in read(case, case.value, headers).dead if each.offset == 7)
    again = next(each for each in read(case, letter.value, letter.headers).dead if each.offset == 7)
    assert (again.row, again.reason, again.value) == (0, case.reason, letter.value)


EVERY = parse_query("""
name: q
streams:
  s: {schema: {a: double, t: timestamp, x: string}, time: t}
sql: >
  SELECT l.a, r.a FROM s AS l JOIN s AS r
  ON l.a < r.a AND CAST(l.x AS INT) < CAST(r.x AS INT) AND l.t <= r.t AND r.t <= l.t + INTERVAL 1 HOUR
""")
LINES = {"expression": b"1,2026-01-01T00:00:00Z,one", "time": b"1,yesterday,1", "unit": b"1,1767225600,1"}


@pytest.mark.parametrize(("reason", "line"), LINES.items())
def test_values_that_the_query_refuses(reason, line):
    good = b"1,2026-01-01T00:00:00Z,1\n"
    (letter,) = parse_messages(EVERY.inputs[0], True, 0, 0, [InputMessage(7, 12, good + line, OWN, b"k")]).dead
    assert (letter.row, letter.reason, letter.value, letter.key) == (1, reason, line, b"k")
    assert (letter.headers, letter.timestamp_ms) == ((*OWN, ("content-type", CSV)), 12)


RIGHT = {
    "json": b'{"n": 1}\n{"n": 2}',
    "csv": b"1\n2",
    "arrow": arrow("1", "2"),
    "registered json": PREFIX + b'{"n": 1}\n{"n": 2}',
}


@pytest.mark.parametrize("value", RIGHT.values(), ids=RIGHT)
def test_a_row_that_was_late_is_the_same_row_when_it_is_sent_again(value):
    reading = RegisteredSchemas(REGISTRY.find)
    (_, second) = [
        parse_messages(STREAM, False, 0, 0, [InputMessage(7, 0, value)], reading).as_it_came(7, at) for at in (0, 1)
    ]
    again = parse_messages(STREAM, False, 0, 0, [InputMessage(9, 0, second.value, second.headers)], reading)
    assert (again.codes[0].tolist(), again.dead) == ([2], [])


def test_columns_that_nobody_read_harm_no_letter():
    """Text that isn't UTF-8, and instants beyond Python's."""
    parts = [b"\0\0\0\0\1\0\0\0\2\0\0\0", b"\xff\xfe"]
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, *map(pa.py_buffer, parts)])
    far = pa.array([2**62, 2**62], pa.timestamp("s"))
    nanos = pa.array([{"at": [1]}] * 2, pa.struct([("at", pa.list_(pa.timestamp("ns")))]))
    mapped = pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64()))
    table = pa.table({"n": ["1", "x"], "wrong": wrong, "far": far, "nanos": nanos, "mapped": mapped})
    (letter,) = parse_messages(STREAM, False, 0, 0, [InputMessage(7, 0, written(table))]).dead
    found = json.loads(letter.value)
    assert (found["n"], found["nanos"]) == ("x", {"at": ["1970-01-01 00:00:00.000000001"]})
    assert "wrong" not in found


def test_messages_of_a_table_are_not_held_for_letters():
    query = parse_query("""
name: q
streams: {s: {schema: {a: long}}}
tables: {t: {topic: tiers, schema: {b: long}, refresh: 5 s}}
sql: SELECT l.a, r.b FROM s AS l LEFT JOIN t AS r ON l.a < r.b
""")
    made = []

    def read_and_note(stream, partition, messages):
        rows = parse_messages(query.inputs[stream], False, stream, partition, messages)
        made.append(weakref.ref(rows.as_it_came))
        return rows

    table = CompactedTable(query, read_and_note)
    table.add_messages(0, [InputMessage(0, 0, b'{"b": 1}', (), b"k"), InputMessage(1, 3, b'{"b": "x"}', OWN)])
    (letter,) = table.version().rows.dead
    assert (letter.reason, letter.value, letter.headers, letter.timestamp_ms) == ("no-key", b'{"b": "x"}', OWN, 3)
    gc.collect()
    assert [each() for each in made] == [None]
    assert not [each for each in gc.get_objects() if isinstance(each, OriginalRows)]
