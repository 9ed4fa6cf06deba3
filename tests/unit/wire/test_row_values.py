"""Rows of results, read back by others' readers: fastavro's with all its logical types, and jsonschema."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import uuid
from decimal import Decimal

import fastavro
import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.errors import ConfigurationError
from spojoin.wire.registered import SchemaKind
from spojoin.wire.row_values import avro_names, json_objects, message_keys, row_writer

UTC = datetime.UTC
WIDE = decimal.Context(prec=60)


def decimals(precision, scale):
    return st.integers(1 - 10**precision, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale, WIDE))


moments = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
COLUMNS = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "f64": (pa.float64(), st.floats(allow_nan=False)),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=4)),
    "large": (pa.large_string(), st.text(max_size=4)),
    "word": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
    "data": (pa.binary(), st.binary(max_size=4)),
    "money": (pa.decimal128(38, 6), decimals(38, 6)),
    "huge": (pa.decimal256(50, 0), decimals(50, 0)),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "UTC"), moments.map(lambda at: at.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), moments),
    "coarse": (pa.timestamp("s", "UTC"), moments.map(lambda at: at.replace(microsecond=0, tzinfo=UTC))),
    "id": (pa.uuid(), st.uuids()),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in COLUMNS.items()])
rows = st.lists(st.fixed_dictionaries({name: values | st.none() for name, (_, values) in COLUMNS.items()}), max_size=5)


def batch(given_, schema=SCHEMA):
    storage = {name: [row[name] for row in given_] for name in schema.names}
    if "id" in storage:
        storage["id"] = pa.array([v if v is None else v.bytes for v in storage["id"]], pa.binary(16)).cast(pa.uuid())
    arrays = [pa.array(storage[each.name], each.type) if each.name != "id" else storage["id"] for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def texts(row):
    return {name: str(value) if isinstance(value, uuid.UUID) else value for name, value in row.items()}


@given(rows)
def test_avro_is_read_back_by_its_schema(given_):
    writer = row_writer(SchemaKind.AVRO, "q.results", SCHEMA)
    schema = fastavro.parse_schema(json.loads(writer.schema.text))
    values = writer.values(batch(given_))
    found = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in values]
    assert found == [texts(row) | {"u64": None if row["u64"] is None else Decimal(row["u64"])} for row in given_]


def as_json(name, value):
    """What stands in JSON for a value, by plain definitions."""
    if value is None or name == "word":
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        digits = "" if name == "coarse" else f".{value.microsecond:06}"
        return f"{value.year:04}{value:-%m-%dT%H:%M:%S}{digits}{'Z' if value.tzinfo else ''}"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return value if abs(value) != float("inf") else None
    return str(value) if isinstance(value, uuid.UUID) else value


@given(rows)
def test_json_is_read_back_and_valid_by_its_schema(given_):
    writer = row_writer(SchemaKind.JSON, "q.results", SCHEMA)
    schema = json.loads(writer.schema.text)
    jsonschema.Draft7Validator.check_schema(schema)
    for row, value in zip(given_, writer.values(batch(given_)), strict=True):
        found = json.loads(value)
        jsonschema.validate(found, schema)
        numbers = {name: None if found[name] is None else Decimal(found[name]) for name in ("money", "huge")}
        assert found | numbers == {name: as_json(name, each) for name, each in row.items()}


@pytest.mark.parametrize("kind", [SchemaKind.AVRO, SchemaKind.JSON])
def test_a_column_that_is_never_null_says_so(kind):
    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.string())])
    text = json.loads(row_writer(kind, "q", schema).schema.text)
    if kind is SchemaKind.AVRO:
        assert text["fields"] == [
            {"name": "seq", "type": "long"},
            {"name": "key", "type": ["null", "string"], "default": None},
        ]
    else:
        assert text["required"] == ["seq"]
        assert text["properties"] == {"seq": {"type": "integer"}, "key": {"type": ["string", "null"]}}


def test_names_that_avro_does_not_allow():
    assert avro_names(["a", "l.price", "l_price", "ä b", "", "2x", "a"]) == [
        "a",
        "l_price",
        "l_price_2",
        "__b",
        "_",
        "_2x",
        "a_2",
    ]


@pytest.mark.parametrize("kind", [SchemaKind.AVRO, SchemaKind.JSON])
def test_a_type_without_a_form_is_named(kind):
    with pytest.raises(ConfigurationError, match="column parts of type list"):
        row_writer(kind, "q", pa.schema([pa.field("parts", pa.list_(pa.int64()))]))


PLAIN = pa.record_batch(
    {
        "m": pa.array([Decimal("1.50"), None], pa.decimal128(20, 2)),
        "at": pa.array([0, 1_250_000], pa.timestamp("us")),
        "zoned": pa.array([0, None], pa.timestamp("us", "UTC")),
        "day": pa.array([0, None], pa.date32()),
        "d": pa.array([float("nan"), 0.1], pa.float64()),
        "b": pa.array([b"\x00\x01", None], pa.binary()),
        "s": ["é", ""],
    }
)


def test_plain_json_is_what_files_have():
    assert json_objects(PLAIN) == [
        b'{"m":1.50,"at":"1970-01-01T00:00:00","zoned":"1970-01-01T00:00:00Z","day":"1970-01-01","d":null,"b":"AAE=",'
        b'"s":"\xc3\xa9"}',
        b'{"m":null,"at":"1970-01-01T00:00:01.250000","zoned":null,"day":null,"d":0.1,"b":null,"s":""}',
    ]


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pa.array(["é", "", None]), ["é".encode(), b"", None]),
        (pa.array([7, None, -1]), [b"7", None, b"-1"]),
        (pa.array([b"\x00", None]), [b"\x00", None]),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), [b"1.50"]),
        (pa.array([True, False]), [b"true", b"false"]),
        (pa.array([0], pa.date32()), [b"1970-01-01"]),
    ],
)
def test_keys_are_bytes_or_text(column, keys):
    assert message_keys(pa.field("k", column.type), column) == keys
