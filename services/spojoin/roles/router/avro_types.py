"""Avro's types as Arrow's: a column of data, read without logical types, as what its type says it is."""

from __future__ import annotations

import decimal
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spojoin.roles.router.arrow_rows import BadMessage

#: A type as a schema writes it: a name, a union's list, or an object.
AvroType = Any
#: Types by their full names.
Names = dict[str, Any]
Values = Sequence[Any]

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
#: Debezium's own, which stand under `connect.name`.
_CONNECT: dict[str, pa.DataType] = {
    "io.debezium.time.Date": pa.date32(),
    "io.debezium.time.Timestamp": pa.timestamp("ms"),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
    "io.debezium.time.NanoTimestamp": pa.timestamp("ns"),
}
_WHOLE = {"int": pa.int32(), "long": pa.int64()}
_HAVE_TEXT = ("null", "boolean", "int", "long", "float", "double", "string", "enum")
_NESTED = ("record", "error", "array", "map")
#: Arrow's decimals have 38 digits; others are read from text.
_DIGITS_MAX = 38
_EXACT = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def without_logical_types(kind: AvroType) -> AvroType:
    """A schema that reads the same bytes as plain values."""
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
    """The fields of a record, or of a union of null and one; None for any other type."""
    [*some] = _branches(kind, names)
    if len(some) != 1 or not isinstance(some[0], dict) or some[0].get("type") not in ("record", "error"):
        return None
    return {field["name"]: field["type"] for field in some[0]["fields"]}


def column_of(name: str, kind: AvroType, names: Names) -> Callable[[Values], pa.Array]:
    """What makes a column of a field's values, null among them. Raises BadMessage where they are no single values."""
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
    """A union's types but null, or the type itself, names resolved."""
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
    """Integers as days or moments, each its own number."""
    return whole.cast(pa.int32() if pa.types.is_date32(meant) else pa.int64()).view(meant)


def _decimals(values: Values, scale: int) -> pa.Array:
    """Whole numbers in big-endian bytes, times 10 ** -scale."""
    exact = [
        None if each is None else decimal.Decimal(int.from_bytes(each, "big", signed=True)).scaleb(-scale, _EXACT)
        for each in values
    ]
    fits = 0 <= scale <= _DIGITS_MAX and all(
        each is None or len(each.as_tuple().digits) <= _DIGITS_MAX for each in exact
    )
    if fits:
        return pa.array(exact, pa.decimal128(_DIGITS_MAX, scale))
    return pa.array([None if each is None else str(each) for each in exact], pa.string())


def _texts(values: Values) -> pa.Array:
    """Values of several types as JSON would write them."""
    return pa.array(
        [each if each is None or isinstance(each, str) else json.dumps(each) for each in values], pa.string()
    )
