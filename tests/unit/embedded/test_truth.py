"""The table of truth: what becomes of each kind of value that comes in by each door, as the page says it."""

import base64
import datetime as dt
import json
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as FIELD  # noqa: N814  (its types are constants)
from google.protobuf.descriptor_pb2 import FileDescriptorProto

import spojoin
from spojoin.columns.column_types import parse_type
from spojoin.columns.values import is_uuid
from spojoin.errors import BadData, QueryError
from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.reading.parse import parse_messages
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.wire.registered import Reference, RegisteredSchema, SchemaKind
from tests.support.confluent_messages import Registry
from tests.support.messages import InputMessage
from tests.support.truth import KAFKA, KINDS, on_the_page, said


def source(door, kind, folder):
    """What a statement reads: a path or a table. Raises an error where the door has no such value."""
    array, text, _ = KINDS[kind]
    table = pa.table({"id": [1], "v": array})
    match door:
        case "CSV":
            cell = "" if text == "null" else text
            quoted = '"' + cell.replace('"', '""') + '"' if '"' in cell or "," in cell else cell
            (folder / "x.csv").write_text(f"id,v\n1,{quoted}\n")
            return f"'{folder}/x.csv'"
        case "JSON":
            is_bare = array.type.id in (pa.int64().id, pa.float64().id, pa.bool_().id) or pa.types.is_nested(array.type)
            is_bare |= pa.types.is_decimal(array.type) or pa.types.is_uint64(array.type)
            value = "null" if text == "null" else text if is_bare and text != "nan" else json.dumps(text)
            (folder / "x.jsonl").write_text(f'{{"id": 1, "v": {value}}}\n')
            return f"'{folder}/x.jsonl'"
        case "Parquet":
            pq.write_table(table, folder / "x.parquet")
            return f"'{folder}/x.parquet'"
    if is_uuid(array.type) and door != "Arrow":  # neither frame has them
        table = pa.table({"id": [1], "v": [text]})
    if door == "pandas":
        return table.to_pandas()
    if door == "Polars" and pa.types.is_decimal256(array.type):
        raise TypeError("Polars has no such type, and panics")
    return pl.DataFrame(table) if door == "Polars" else table


def by_statement(door, kind, folder):
    """What a statement gives of the value."""
    try:
        rows = source(door, kind, folder)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, TypeError, pd.errors.OutOfBoundsDatetime):
        return "–"
    named, tables = (rows, {}) if isinstance(rows, str) else ("x", {"x": rows})
    try:
        results = spojoin.sql(f"SELECT l.v FROM {named} AS l JOIN TABLE({named}) AS r ON l.id = r.id", **tables)
        values = results.to_arrow()["v"].combine_chunks()
    except QueryError as error:
        return "column" if "'v'" in str(error) or "l.v" in str(error) else f"? {error}"
    except BadData:
        return "row"
    if not len(values):
        return "row" if results.rejected else "lost"
    given = said(values.chunk(0) if isinstance(values, pa.ChunkedArray) else values)
    if given == KINDS[kind][1]:
        return "same"
    return "double" if pa.types.is_floating(values.type) and given == str(float(KINDS[kind][1])) else given


def by_kafka(door, kind):
    """What a stream of messages gives of the value, as declared."""
    array, text, declared = KINDS[kind]
    if declared is None:
        with pytest.raises(QueryError, match="column 'v'"):
            parse_type(str(array.type), "v", 1)
        return "column"
    registry = Registry()
    message = MESSAGES[door](registry, kind)
    columns = {"id": ColumnType(TypeName.LONG), "v": parse_type(declared, "v", 1)}
    key = KeyColumn(Column("id"), Domain.INTEGER, 0, "id")
    stream = Stream("s", columns, None, None, (key,), payload=("v",))
    reading = RegisteredSchemas(registry.find)
    found = parse_messages(stream, False, 0, 0, [InputMessage(0, 0, message, ())], reading)
    if found.dead:
        return "row"
    given = said(found.payload.column("v"))
    return "same" if given == text else given


def json_of(kind):
    """The value as JSON has it."""
    array, text, _ = KINDS[kind]
    is_bare = pa.types.is_integer(array.type) or pa.types.is_decimal(array.type) or kind in ("double", "boolean")
    return "null" if text == "null" else text if is_bare else json.dumps(text)


def by_json_schema(registry, kind):
    """Behind the id of a registered schema the text is JSON's."""
    (empty,) = registry.json({"type": "object", "title": "Row"}, {})
    return empty.removesuffix(b"{}") + by_json(registry, kind)


def by_json(_, kind):
    return f'{{"id": 1, "v": {json_of(kind)}}}'.encode()


def avro_decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


#: By kind: the type that Avro has for such a value.
AVRO = {
    "whole number": "long",
    "unsigned, 64 bits": avro_decimal(20, 0),
    "double": "double",
    "NaN": "double",
    "decimal(10,2)": avro_decimal(10, 2),
    "decimal(38,18)": avro_decimal(38, 18),
    "text": "string",
    "category": {"type": "enum", "name": "Level", "symbols": ["low", "high"]},
    "bytes": "bytes",
    "boolean": "boolean",
    "UUID": {"type": "string", "logicalType": "uuid"},
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "local-timestamp-micros"},
    "year 9999": {"type": "long", "logicalType": "local-timestamp-micros"},
    "with a zone": {"type": "long", "logicalType": "timestamp-micros"},
    "nanoseconds": {"type": "long", "logicalType": "local-timestamp-nanos"},
    "NULL": ["null", "long"],
}


def by_avro(registry, kind):
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": AVRO[kind]}]
    array, text, _ = KINDS[kind]
    value = array[0].value if kind == "nanoseconds" else array[0].as_py()
    value = Decimal(value) if kind == "unsigned, 64 bits" else text if kind == "category" else value
    (message,) = registry.avro({"type": "record", "name": "Row", "fields": fields}, {"id": 1, "v": value})
    return message


#: By kind: the field that Protobuf has for such a value; decimals and dates are text, or messages of a library.
PROTOBUF = {
    "whole number": FIELD.TYPE_INT64,
    "unsigned, 64 bits": FIELD.TYPE_UINT64,
    "double": FIELD.TYPE_DOUBLE,
    "NaN": FIELD.TYPE_DOUBLE,
    **dict.fromkeys(("decimal(10,2)", "decimal(38,18)", "text", "category", "UUID", "date"), FIELD.TYPE_STRING),
    "bytes": FIELD.TYPE_BYTES,
    "boolean": FIELD.TYPE_BOOL,
    **dict.fromkeys(("timestamp", "year 9999", "with a zone", "nanoseconds"), ".google.protobuf.Timestamp"),
    "NULL": ".google.protobuf.Int64Value",
}


def by_protobuf(registry, kind):
    imported = (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR)
    registry.imports = tuple(
        Reference(each.name, RegisteredSchema(SchemaKind.PROTOBUF, base64.b64encode(each.serialized_pb).decode()))
        for each in imported
    )
    file = FileDescriptorProto(name="row.proto", package="p", syntax="proto3")
    file.dependency.extend(each.name for each in imported)
    row, kind_of_field = file.message_type.add(name="Row"), PROTOBUF[kind]
    row.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    is_message = isinstance(kind_of_field, str)
    field = row.field.add(name="v", number=2, label=FIELD.LABEL_OPTIONAL)
    field.type = FIELD.TYPE_MESSAGE if is_message else kind_of_field
    if is_message:
        field.type_name = kind_of_field
    (message,) = registry.protobuf(file, "p.Row", {"id": 1} | protobuf_value(kind, *KINDS[kind][:2]))
    return message


def protobuf_value(kind, array, text):
    if kind == "NULL":
        return {}
    if isinstance(PROTOBUF[kind], str):
        nanoseconds = array.cast(pa.timestamp("ns")).cast(pa.int64())[0].as_py() if kind != "year 9999" else 0
        seconds = nanoseconds // 10**9 or int(array[0].as_py().replace(tzinfo=dt.UTC).timestamp())
        return {"v": {"seconds": seconds, "nanos": nanoseconds % 10**9}}
    return {"v": text if PROTOBUF[kind] == FIELD.TYPE_STRING else array[0].as_py()}


MESSAGES = {"Kafka JSON": by_json, "Avro": by_avro, "Protobuf": by_protobuf, "JSON Schema": by_json_schema}


def test_the_page_names_every_kind():
    assert list(on_the_page()) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_door_does_what_the_page_says(kind, tmp_path):
    told = {door: what for door, what in on_the_page()[kind].items() if door != "Spark"}
    assert {
        each: by_kafka(each, kind) if each in KAFKA else by_statement(each, kind, tmp_path) for each in told
    } == told


def test_a_frame_of_pandas_is_read_as_its_own_parquet(tmp_path):
    frame = pd.DataFrame({"x": [1.0, float("nan"), -0.0, 2.5]})
    frame.to_parquet(tmp_path / "x.parquet")
    for condition in ("l.x < r.x", "l.x >= r.x", "l.x = r.x", "ABS(l.x - r.x) < 2"):
        statement = f"SELECT l.x, r.x AS other FROM {{0}} AS l JOIN TABLE({{0}}) AS r ON {condition}"
        given = spojoin.sql(statement.format("x"), x=frame).to_arrow()
        assert given.equals(spojoin.sql(statement.format(f"'{tmp_path}/x.parquet'")).to_arrow())
        assert given.num_rows
