"""Finds the columns of a registered schema's rows, so that users needn't write a query's schema by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from spojoin.columns.inferred import InferredSchema, infer_schema
from spojoin.model import ColumnType, TypeName
from spojoin.reading.readout import BadMessage
from spojoin.wire.registered import RegisteredSchema, SchemaKind, UnknownSchema

_JSON = {
    "boolean": TypeName.BOOLEAN,
    "integer": TypeName.LONG,
    "number": TypeName.DOUBLE,
    "string": TypeName.STRING,
}
_JSON_TEXTS = {"date-time": TypeName.TIMESTAMP, "date": TypeName.DATE, "uuid": TypeName.UUID}


def columns_of(schema: RegisteredSchema, envelope: str | None = None) -> InferredSchema:
    """The columns of a row, and why other fields can't be columns; for Protobuf, of the first message type in the file.

    envelope: the field that holds the row. Raises UnknownSchema if the schema can't be read or describes no rows.
    """
    try:
        if schema.kind is SchemaKind.JSON:
            return _of_json(json.loads(schema.text), envelope)
        if schema.kind is SchemaKind.AVRO:
            from spojoin.reading.avro_rows import AvroDecoder  # noqa: PLC0415  (loads fastavro)

            return _of_makers(AvroDecoder(schema).makers(envelope))
        from spojoin.reading.protobuf_rows import ProtobufFile  # noqa: PLC0415  (loads Protobuf's types)

        return _of_makers(ProtobufFile(schema).type_at((0,)).makers(envelope))
    except BadMessage as error:
        raise UnknownSchema(error.detail) from error


def _of_makers(makers: Iterable[tuple[str, Callable[[], Callable[[list[Any]], pa.Array]]]]) -> InferredSchema:
    """The columns with the types that decoders give to columns without values."""
    fields, left_out = [], {}
    for name, maker in makers:
        try:
            fields.append(pa.field(name, maker()([]).type))
        except BadMessage as error:
            left_out[name] = error.detail
    found = infer_schema(pa.schema(fields))
    return InferredSchema(found.columns, {**left_out, **found.left_out})


def _of_json(schema: Mapping[str, Any], envelope: str | None) -> InferredSchema:
    fields = _fields(schema)
    if envelope is not None:
        fields = _fields(fields.get(envelope, {}))
    if not fields:
        raise UnknownSchema(f"its JSON Schema has no properties{f' in {envelope}' if envelope else ''}")
    kinds = {name: _json_type(_without_null(kind)) for name, kind in fields.items()}
    left_out = {
        name: f"field {name}: expected one value, its JSON Schema is {json.dumps(fields[name])}" for name in kinds
    }
    return InferredSchema(
        {name: ColumnType(kind) for name, kind in kinds.items() if kind is not None},
        {name: sentence for name, sentence in left_out.items() if kinds[name] is None},
    )


def _fields(schema: Any) -> Mapping[str, Any]:  # noqa: ANN401  (JSON)
    kind = _without_null(schema)
    return kind.get("properties", {}) if isinstance(kind, dict) else {}


def _without_null(kind: Any) -> Any:  # noqa: ANN401  (JSON)
    """The only type besides null in a union or list of types; other types are returned unchanged."""
    if not isinstance(kind, dict):
        return kind
    for union in ("oneOf", "anyOf"):
        others = [each for each in kind.get(union, []) if each != {"type": "null"}]
        if len(others) == 1:
            return others[0]
    types = kind.get("type")
    others = [each for each in types if each != "null"] if isinstance(types, list) else []
    return {**kind, "type": others[0]} if len(others) == 1 else kind


def _json_type(kind: Any) -> TypeName | None:  # noqa: ANN401  (JSON)
    if not isinstance(kind, dict) or not isinstance(kind.get("type"), str):
        return None
    if kind["type"] == "string":
        return _JSON_TEXTS.get(kind.get("format", ""), TypeName.STRING)
    return _JSON.get(kind["type"])
