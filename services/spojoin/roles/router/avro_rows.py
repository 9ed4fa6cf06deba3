"""Avro messages of one schema as rows: fastavro reads them one by one, Arrow takes them column by column."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from spojoin.roles.router.arrow_rows import BadMessage
from spojoin.roles.router.avro_types import AvroType, Names, Values, column_of, fields_of, without_logical_types
from spojoin.roles.router.decoded import Decoded, Wanted
from spojoin.roles.router.envelope import OPERATION, no_envelope, no_row, not_a_row
from spojoin.roles.router.line_reader import BadLine
from spojoin.wire.registered import RegisteredSchema, UnknownSchema

#: What fastavro raises for a text that is no schema, and for bytes that are no datum of it.
_NO_SCHEMA = (SchemaParseException, UnknownType, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
_NO_DATUM = (ArithmeticError, EOFError, LookupError, TypeError, ValueError, struct.error, MemoryError, RecursionError)

Datum = Mapping[str, Any]


class AvroDecoder:
    """`Decoder` of an Avro schema. Raises UnknownSchema where that can't be read."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._names: Names = {}
        try:
            self._written = _parsed(schema, self._names, lambda kind: kind)
            self._plain = _parsed(schema, {}, without_logical_types)
        except _NO_SCHEMA as error:
            raise UnknownSchema(f"it is no Avro schema: {error}") from error

    def read(self, messages: Sequence[bytes], wanted: Wanted) -> Decoded:
        """See `Decoder`."""
        fields = self._fields(wanted.envelope)
        for name in wanted.names:
            if name not in fields:
                raise BadMessage("missing-field", f"field {name}: missing, the schema has {_listed(fields)}")
        makers = {name: column_of(name, fields[name], self._names) for name in wanted.names}
        faults: list[BadLine] = []
        read = list(_rows(self._data(messages, faults), wanted.envelope, faults))
        rows = [row for _, row in read]
        columns = [make([row[name] for row in rows]) for name, make in makers.items()]
        return Decoded.of([at for at, _ in read], pa.RecordBatch.from_arrays(columns, names=list(makers)), faults)

    def makers(self, envelope: str | None) -> Iterator[tuple[str, Callable[[], Callable[[Values], pa.Array]]]]:
        """A row's fields, and what gives the maker of each one's column. Raises BadMessage, as do those without one."""
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
    """The schema after those that it imports, whose types are added to `names`."""
    for _, inner in schema.references:
        _parsed(inner, names, of)
    return fastavro.parse_schema(of(json.loads(schema.text)), named_schemas=names)


def _type_of(kind: AvroType) -> AvroType:
    return kind.get("type") if isinstance(kind, dict) else kind


def _listed(fields: Mapping[str, AvroType]) -> str:
    return ", ".join(fields) or "none"
