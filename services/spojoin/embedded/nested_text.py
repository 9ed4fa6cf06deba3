"""Lists, structs and maps as JSON text, cell by cell: they are only passed on, and seldom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pyarrow as pa
from pyarrow import types

#: Each cell of a column without parts as JSON text, null as null.
PlainTexts = Callable[["pa.Array[Any]"], "pa.Array[Any]"]


def nested_texts(column: pa.Array[Any], plain_texts: PlainTexts) -> pa.StringArray:
    """Each cell as JSON text, null as null: lists as arrays, structs and maps as objects, a map's keys as text.

    plain_texts: what the parts that have no parts are written by
    """
    return pa.array(_texts(column, plain_texts), pa.string())


def _texts(column: pa.Array[Any], plain_texts: PlainTexts) -> Iterator[str | None]:
    if isinstance(column, pa.StructArray):
        return _structs(column, plain_texts)
    if types.is_nested(column.type):
        write = _map if types.is_map(column.type) else _list
        return (write(cell.values, plain_texts) if cell.is_valid else None for cell in column)
    return iter(plain_texts(column).to_pylist())


def _structs(column: pa.StructArray, plain_texts: PlainTexts) -> Iterator[str | None]:
    names = [_key(field.name) for field in column.type]
    parts = [_texts(each, plain_texts) for each in column.flatten()]
    rows = zip(*parts, strict=True) if parts else iter([()] * len(column))
    for cell, row in zip(column, rows, strict=True):
        fields = (f"{name}:{_or_null(text)}" for name, text in zip(names, row, strict=True))
        yield f"{{{','.join(fields)}}}" if cell.is_valid else None


def _list(values: pa.Array[Any], plain_texts: PlainTexts) -> str:
    return f"[{','.join(map(_or_null, _texts(values, plain_texts)))}]"


def _map(entries: pa.StructArray, plain_texts: PlainTexts) -> str:
    keys, values = (_texts(each, plain_texts) for each in entries.flatten())
    pairs = (f"{_as_key(key)}:{_or_null(value)}" for key, value in zip(keys, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _key(name: str) -> str:
    return orjson.dumps(name).decode()


def _as_key(text: str | None) -> str:
    """A map's key, which JSON has as text only."""
    text = _or_null(text)
    return text if text.startswith('"') else _key(text)


def _or_null(text: str | None) -> str:
    return "null" if text is None else text
