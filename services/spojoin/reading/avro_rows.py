"""Avro messages of one schema as rows: fastavro reads them one by one, Arrow converts them column by column."""

from __future__ import annotations

import decimal
import io
import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from spojoin.model import EXACT
from spojoin.reading.readout import (
    OPERATION,
    BadLine,
    BadMessage,
    Decoded,
    Wanted,
    no_envelope,
    no_row,
    not_a_row,
)
from spojoin.wire.registered import RegisteredSchema, UnknownSchema

#: A type in a schema: a name, a union's list, or an object.
AvroType = Any

#: Types by their full names.
Names = dict[str, Any]

Values = Sequence[Any]

Datum = Mapping[str, Any]

#: What fastavro raises for a text that is no schema, and for bytes that don't match the schema.
_NO_SCHEMA = (SchemaParseException, UnknownType, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)

_NO_DATUM = (ArithmeticError, EOFError, LookupError, TypeError, ValueError, struct.error, MemoryError, RecursionError)


class AvroDecoder:
    """`Decoder` of an Avro schema. Raises UnknownSchema if the schema can't be read."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._names: Names = {}
        try:
            self._written = _parsed(schema, self._names, lambda kind: kind)
            self._plain = _parsed(schema, {}, without_logical_types)
        except _NO_SCHEMA as error:
            raise UnknownSchema(f"it is no Avro schema: {error}") from error

    def read(self, messages: Sequence[bytes], wanted: Wanted) -> Decoded:
        fields = self._fields(wanted.envelope)
        for name in wanted.names:
            if name not in fields:
                raise BadMessage("missing-field", f"field {name}: missing, the schema has {_listed(fields)}")
        makers = {name: column_of(name, fields[name], self._names) for name in wanted.names}
        faults: list[BadLine] = []
        read = list(_rows(self._data(messages, faults), wanted.envelope, faults))
        rows = [row for _, row in read]
        columns = [make([row[name] for row in rows]) for name, make in makers.items()]
        return Decoded.from_lists(
            [at for at, _ in read], pa.RecordBatch.from_arrays(columns, names=list(makers)), faults
        )

    def makers(self, envelope: str | None) -> Iterator[tuple[str, Callable[[], Callable[[Values], pa.Array]]]]:
        """A row's fields, each with a function that returns its column's maker. Raises BadMessage, as these do."""
        for name, kind in self._fields(envelope).items():
            yield name, partial(column_of, name, kind, self._names)

    def _fields(self, envelope: str | None) -> Mapping[str, AvroType]:
        """The fields of a row."""
        fields = fields_of(self._written, self._names)
        if fields is None:
            raise BadMessage("type", f"expected an Avro record, the schema is {json.dumps(_type_of(self._written))}")
        if envelope is None:
            return fields
        if envelope not in fields:
            raise BadMessage(*no_envelope(envelope, _listed(fields)))
        inner = fields_of(fields[envelope], self._names)
        if inner is None:
            raise BadMessage(*not_a_row(envelope, "another Avro type than a record"))
        return inner

    def _data(self, messages: Sequence[bytes], faults: list[BadLine]) -> Iterator[tuple[int, Datum]]:
        read, plain = fastavro.schemaless_reader, self._plain
        for at, message in enumerate(messages):
            source = io.BytesIO(message)
            try:
                datum = read(source, plain, None)
            except _NO_DATUM as error:
                faults.append(BadLine(at, "malformed", f"no datum of its Avro schema: {error or type(error).__name__}"))
                continue
            if source.tell() != len(message):
                rest = len(message) - source.tell()
                faults.append(BadLine(at, "malformed", f"{rest} bytes follow the datum of its Avro schema"))
                continue
            yield at, cast("Datum", datum)  # its schema is a record


def _rows(
    data: Iterator[tuple[int, Datum]], envelope: str | None, faults: list[BadLine]
) -> Iterator[tuple[int, Datum]]:
    if envelope is None:
        yield from data
        return
    for at, datum in data:
        row = datum[envelope]
        if row is None:
            faults.append(BadLine(at, *no_row(envelope, datum.get(OPERATION))))
        else:
            yield at, row


def _parsed(schema: RegisteredSchema, names: Names, of: Callable[[AvroType], AvroType]) -> AvroType:
    """The parsed schema; the types of its imports, which are parsed first, are added to `names`."""
    for _, inner in schema.references:
        _parsed(inner, names, of)
    return fastavro.parse_schema(of(json.loads(schema.text)), named_schemas=names)


def _type_of(kind: AvroType) -> AvroType:
    return kind.get("type") if isinstance(kind, dict) else kind


def _listed(fields: Mapping[str, AvroType]) -> str:
    return ", ".join(fields) or "none"


_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}


_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


#: Debezium's own types, which `connect.name` names.
_CONNECT: dict[str, pa.DataType] = {
    "io.debezium.time.Date": pa.date32(),
    "io.debezium.time.Timestamp": pa.timestamp("ms"),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
    "io.debezium.time.NanoTimestamp": pa.timestamp("ns"),
}


_WHOLE = {"int": pa.int32(), "long": pa.int64()}

_HAVE_TEXT = ("null", "boolean", "int", "long", "float", "double", "string", "enum")

_NESTED = ("record", "error", "array", "map")

#: Arrow's decimals have up to 38 digits; longer ones are read from text.
_DIGITS_MAX = 38


def without_logical_types(kind: AvroType) -> AvroType:
    """The schema that reads the same bytes as plain values."""
    if isinstance(kind, list):
        return [without_logical_types(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        name: without_logical_types(each) if name != "default" else each
        for name, each in kind.items()
        if name != "logicalType"
    }


def fields_of(kind: AvroType, names: Names) -> Mapping[str, AvroType] | None:
    """The fields of a record, or of a union of null and a record; None for any other type."""
    [*some] = _branches(kind, names)
    if len(some) != 1 or not isinstance(some[0], dict) or some[0].get("type") not in ("record", "error"):
        return None
    return {field["name"]: field["type"] for field in some[0]["fields"]}


def column_of(name: str, kind: AvroType, names: Names) -> Callable[[Values], pa.Array]:
    """The function that makes a column of a field's values and nulls. Raises BadMessage if they aren't single."""
    branches = _branches(kind, names)
    kinds = [_name(each) for each in branches]
    if any(each in _NESTED for each in kinds):
        raise BadMessage("type", f"field {name}: expected one value, its Avro type is {_written(kind)}")
    if len(branches) == 1:
        return _single(branches[0])
    if any(each not in _HAVE_TEXT for each in kinds):
        raise BadMessage("type", f"field {name}: expected a type with null at most, its Avro type is {_written(kind)}")
    return _texts


def _branches(kind: AvroType, names: Names) -> list[AvroType]:
    """A union's types without null, or the type itself, with names resolved."""
    found = [names.get(each, each) if isinstance(each, str) else each for each in _union(kind)]
    return [each for each in found if _name(each) != "null"] or ["null"]


def _union(kind: AvroType) -> list[AvroType]:
    if isinstance(kind, dict) and isinstance(kind.get("type"), list | dict) and "fields" not in kind:
        return _union(kind["type"])  # a type within an object that adds nothing but properties
    return kind if isinstance(kind, list) else [kind]


def _name(kind: AvroType) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def _written(kind: AvroType) -> str:
    text = json.dumps(kind)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _single(kind: AvroType) -> Callable[[Values], pa.Array]:
    name, said = _name(kind), kind if isinstance(kind, dict) else {}
    logical = said.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        scale = int(said.get("scale", 0))
        return lambda values: _decimals(values, scale)
    if logical == "uuid" and name == "fixed":
        return lambda values: pa.array([None if v is None else str(uuid.UUID(bytes=v)) for v in values], pa.string())
    plain, meant = _PLAIN[name], _LOGICAL.get(str(logical)) or _CONNECT.get(str(said.get("connect.name")))
    if meant is None or name not in _WHOLE:
        return lambda values: pa.array(values, plain)
    return lambda values: _meant(pa.array(values, plain), meant)


def _meant(whole: pa.Array, meant: pa.DataType) -> pa.Array:
    """Integers as days or moments with the same numbers."""
    return whole.cast(pa.int32() if pa.types.is_date32(meant) else pa.int64()).view(meant)


def _decimals(values: Values, scale: int) -> pa.Array:
    """Integers as big-endian bytes, times 10 ** -scale."""
    exact = [
        None if each is None else decimal.Decimal(int.from_bytes(each, "big", signed=True)).scaleb(-scale, EXACT)
        for each in values
    ]
    fits = 0 <= scale <= _DIGITS_MAX and all(
        each is None or len(each.as_tuple().digits) <= _DIGITS_MAX for each in exact
    )
    if fits:
        return pa.array(exact, pa.decimal128(_DIGITS_MAX, scale))
    return pa.array([None if each is None else str(each) for each in exact], pa.string())


def _texts(values: Values) -> pa.Array:
    """Values of several types as JSON text."""
    return pa.array(
        [each if each is None or isinstance(each, str) else json.dumps(each) for each in values], pa.string()
    )
