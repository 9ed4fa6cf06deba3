"""Rows of results as message values, one for each row, with the schema that readers need.

Avro: a record with the batch's columns. Moments keep their unit, with a zone as `timestamp-*`, without one as
`local-timestamp-*`; decimals are exact; uuids are text. JSON: an object with the batch's columns. Decimals are text,
bytes base64, moments and dates in ISO 8601; NaN and the infinities, which JSON doesn't have, are null.
Both: later schemas may omit or add a nullable column; registries call this compatible.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.errors import ConfigurationError
from spojoin.model import EXACT
from spojoin.wire.registered import RegisteredSchema, SchemaKind

Cells = list[Any]
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_ZERO_FRACTION = re.compile(r"\.0+(Z?)$")
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}
_UINT64_DIGITS = 20


class RowWriter(Protocol):
    """Writes the rows of batches of one Arrow schema."""

    @property
    def schema(self) -> RegisteredSchema:
        """The schema by which readers read the values."""
        ...

    def values(self, rows: pa.RecordBatch) -> list[bytes]:
        """A value for each row, without a schema id before it."""
        ...


class ColumnForm(NamedTuple):
    """A column's type in a schema, and the function that makes its cells."""

    kind: object
    cells: Callable[[pa.Array], Cells]


def row_writer(kind: SchemaKind, name: str, columns: pa.Schema) -> RowWriter:
    """The writer of rows with these columns; `name`: the schema's. Raises ConfigurationError for unsupported types."""
    return AvroRows(name, columns) if kind is SchemaKind.AVRO else JsonRows(name, columns)


class AvroRows:
    """`RowWriter` of Avro records."""

    def __init__(self, name: str, columns: pa.Schema) -> None:
        import fastavro  # noqa: PLC0415  (only this form needs it)

        self._names = avro_names(columns.names)
        self._forms = [_avro_form(field) for field in columns]
        kinds = [_or_null(form.kind, field.nullable) for form, field in zip(self._forms, columns, strict=True)]
        text = _record(name, self._names, kinds)
        plain = json.loads(json.dumps(text), object_hook=_without_logical_type)
        self._parsed = fastavro.parse_schema(plain)
        self._write = fastavro.schemaless_writer
        self.schema = RegisteredSchema(SchemaKind.AVRO, json.dumps(text))

    def values(self, rows: pa.RecordBatch) -> list[bytes]:
        out, ends = io.BytesIO(), [0]
        cells = [form.cells(column) for form, column in zip(self._forms, rows.columns, strict=True)]
        for row in zip(*cells, strict=True):
            self._write(out, self._parsed, dict(zip(self._names, row, strict=True)))
            ends.append(out.tell())
        data = out.getvalue()
        return [data[begin:end] for begin, end in pairwise(ends)]


class JsonRows:
    """`RowWriter` of JSON objects."""

    def __init__(self, name: str, columns: pa.Schema) -> None:
        self._names = columns.names
        self._forms = [_json_form(field) for field in columns]
        text = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": name,
            "type": "object",
            "properties": {field.name: form.kind for field, form in zip(columns, self._forms, strict=True)},
            "required": [field.name for field in columns if not field.nullable],
            "additionalProperties": False,
        }
        self.schema = RegisteredSchema(SchemaKind.JSON, json.dumps(text))

    def values(self, rows: pa.RecordBatch) -> list[bytes]:
        cells = [form.cells(column) for form, column in zip(self._forms, rows.columns, strict=True)]
        return [orjson.dumps(dict(zip(self._names, row, strict=True))) for row in zip(*cells, strict=True)]


def json_objects(rows: pa.RecordBatch) -> list[bytes]:
    """Plain JSON for files, one object for each row: decimals are numbers with all their digits.

    The rest is as in JSON with a schema, except that times have no fraction if it is zero.
    """
    cells = [_json_cells(field, column) for field, column in zip(rows.schema, rows.columns, strict=True)]
    names = rows.schema.names
    return [orjson.dumps(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]


def _json_cells(field: pa.Field, column: pa.Array) -> Cells:
    cells = _json_form(field).cells(column)
    if pa.types.is_decimal(field.type):
        return [None if cell is None else orjson.Fragment(cell) for cell in cells]
    if pa.types.is_timestamp(field.type):
        return [None if cell is None else _ZERO_FRACTION.sub(r"\1", cell) for cell in cells]
    return cells


def message_keys(field: pa.Field, column: pa.Array) -> list[bytes | None]:
    """Values as message keys: bytes unchanged, others as their text in JSON; None for NULL."""
    kind, cells = _plain(field)
    if pa.types.is_binary(kind):
        found: list[bytes | None] = cells(column).to_pylist()
        return found
    return [_key_text(cell) for cell in _json_cells(field, column)]


def _key_text(cell: object) -> bytes | None:
    if cell is None:
        return None
    return cell.encode() if isinstance(cell, str) else orjson.dumps(cell)


def avro_names(names: Sequence[str]) -> list[str]:
    """Unique names that Avro allows: letters, digits and `_`, with no digit first."""
    found: list[str] = []
    for name in names:
        plain = _avro_name(name)
        number = 2
        while plain in found:
            plain, number = f"{_avro_name(name)}_{number}", number + 1
        found.append(plain)
    return found


def _avro_name(name: str) -> str:
    plain = _NO_NAME.sub("_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _record(name: str, names: Sequence[str], kinds: Sequence[object]) -> dict[str, object]:
    fields = [
        {"name": each, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
        for each, kind in zip(names, kinds, strict=True)
    ]
    return {"type": "record", "name": _avro_name(name), "fields": fields}


def _or_null(kind: object, is_nullable: bool) -> object:
    return ["null", kind] if is_nullable and kind != "null" else kind


def _without_logical_type(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in found.items() if name != "logicalType"}


def _avro_form(field: pa.Field) -> ColumnForm:
    kind, cells = _plain(field)
    if pa.types.is_uint64(kind):
        return ColumnForm(
            _decimal_kind(_UINT64_DIGITS, 0), lambda a: _unscaled(cells(a).cast(pa.decimal128(_UINT64_DIGITS, 0)), 0)
        )
    if pa.types.is_decimal(kind):
        return ColumnForm(_decimal_kind(kind.precision, kind.scale), lambda a: _unscaled(cells(a), kind.scale))
    if pa.types.is_date(kind):
        return ColumnForm(
            {"type": "int", "logicalType": "date"}, lambda a: cells(a).cast(pa.date32()).cast(pa.int32()).to_pylist()
        )
    if pa.types.is_timestamp(kind):
        return _avro_moments(kind, cells)
    return ColumnForm(_avro_name_of(kind, field), lambda a: cells(a).to_pylist())


def _avro_moments(kind: pa.DataType, cells: Callable[[pa.Array], pa.Array]) -> ColumnForm:
    unit = "ms" if kind.unit == "s" else kind.unit
    name = f"{'local-' if kind.tz is None else ''}timestamp-{_UNITS[unit]}"
    stored = pa.timestamp(unit, kind.tz)
    return ColumnForm(
        {"type": "long", "logicalType": name}, lambda a: cells(a).cast(stored).cast(pa.int64()).to_pylist()
    )


def _avro_name_of(kind: pa.DataType, field: pa.Field) -> str:
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width == 64 or pa.types.is_uint32(kind) else "int"
    if pa.types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    for is_it, name in (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_string, "string"),
        (pa.types.is_binary, "bytes"),
        (pa.types.is_null, "null"),
    ):
        if is_it(kind):
            return name
    raise ConfigurationError(f"results: column {field.name} of type {field.type} has no form in Avro: cast it to text")


def _decimal_kind(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _unscaled(decimals: pa.Array, scale: int) -> Cells:
    """The values times 10 ** scale as big-endian bytes, as few as possible."""
    whole = [None if each is None else int(each.scaleb(scale, EXACT)) for each in decimals.to_pylist()]
    return [
        None
        if each is None
        else each.to_bytes((each if each >= 0 else ~each).bit_length() // 8 + 1, "big", signed=True)
        for each in whole
    ]


def _json_form(field: pa.Field) -> ColumnForm:
    kind, cells = _plain(field)
    texts = _json_text_of(kind)
    if texts is not None:
        said, make = texts
        return ColumnForm({"type": _or_null_json("string", field), **said}, lambda a: make(cells(a)).to_pylist())
    if pa.types.is_floating(kind):  # NaN and infinities are null
        return ColumnForm({"type": ["number", "null"]}, lambda a: cells(a).to_pylist())
    for is_it, name in ((pa.types.is_boolean, "boolean"), (pa.types.is_integer, "integer")):
        if is_it(kind):
            return ColumnForm({"type": _or_null_json(name, field)}, lambda a: cells(a).to_pylist())
    if pa.types.is_null(kind):
        return ColumnForm({"type": "null"}, lambda a: cells(a).to_pylist())
    raise ConfigurationError(f"results: column {field.name} of type {field.type} has no form in JSON: cast it to text")


def _json_text_of(kind: pa.DataType) -> tuple[dict[str, str], Callable[[pa.Array], pa.Array]] | None:
    """For types that are text in JSON: their entries in a schema, and the function that makes the text."""
    if pa.types.is_decimal(kind):
        return {}, lambda a: a.cast(pa.string())
    if pa.types.is_date(kind):
        return {"format": "date"}, lambda a: a.cast(pa.date32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return {"format": "date-time"}, _iso
    if pa.types.is_binary(kind):
        return {"contentEncoding": "base64"}, _base64
    return ({}, lambda a: a) if pa.types.is_string(kind) else None


def _or_null_json(name: str, field: pa.Field) -> str | list[str]:
    return [name, "null"] if field.nullable else name


def _iso(moments: pa.Array) -> pa.Array:
    if moments.type.tz is None:
        return pc.strftime(moments, format="%Y-%m-%dT%H:%M:%S")
    return pc.strftime(moments.cast(pa.timestamp(moments.type.unit, "UTC")), format="%Y-%m-%dT%H:%M:%SZ")


def _base64(values: pa.Array) -> pa.Array:
    return pa.array([None if v is None else base64.b64encode(v).decode() for v in values.to_pylist()], pa.string())


def _plain(field: pa.Field) -> tuple[pa.DataType, Callable[[pa.Array], pa.Array]]:
    """A column's type without dictionary or other special storage, and the function that converts to it."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        inner, then = _plain(pa.field(field.name, kind.value_type))
        return inner, lambda a: then(a.dictionary_decode())
    if isinstance(kind, pa.UuidType):
        return pa.string(), lambda a: pa.array([None if v is None else str(v) for v in a.to_pylist()], pa.string())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string(), lambda a: a.cast(pa.string())
    if any(of(kind) for of in (pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)):
        return pa.binary(), lambda a: a.cast(pa.binary())
    return kind, lambda a: a
