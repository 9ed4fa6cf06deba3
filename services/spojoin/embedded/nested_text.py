"""Lists, structs and maps as JSON text: the parts of all cells at once, then cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
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
    if isinstance(column, pa.MapArray):
        lists = _as_lists(column)
        return _several("{}", lists, _entries(lists.flatten(), plain_texts))
    if types.is_nested(column.type):
        return _several("[]", column, map(_or_null, _texts(column.flatten(), plain_texts)))
    return iter(plain_texts(column).to_pylist())


def _structs(column: pa.StructArray, plain_texts: PlainTexts) -> Iterator[str | None]:
    names = [_key(field.name) for field in column.type]
    parts = [_texts(each, plain_texts) for each in column.flatten()]
    rows = zip(*parts, strict=True) if parts else iter([()] * len(column))
    for is_valid, row in zip(column.is_valid().to_pylist(), rows, strict=True):
        fields = (f"{name}:{_or_null(text)}" for name, text in zip(names, row, strict=True))
        yield f"{{{','.join(fields)}}}" if is_valid else None


def _several(brackets: str, column: pa.Array[Any], parts: Iterator[str]) -> Iterator[str | None]:
    """Each cell with its parts, which are those of all cells but null ones, in order."""
    for length in pc.list_value_length(column).to_pylist():
        yield None if length is None else f"{brackets[0]}{','.join(islice(parts, length))}{brackets[1]}"


def _as_lists(column: pa.MapArray[Any, Any]) -> pa.ListArray[Any]:
    """Maps as lists of their entries: Arrow computes with lists alone."""
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists: pa.ListArray[Any] = column.cast(pa.list_(entry))
    return lists


def _entries(entries: pa.StructArray, plain_texts: PlainTexts) -> Iterator[str]:
    keys, values = (_texts(each, plain_texts) for each in entries.flatten())
    return (f"{_as_key(key)}:{_or_null(value)}" for key, value in zip(keys, values, strict=True))


def _key(name: str) -> str:
    return orjson.dumps(name).decode()


def _as_key(text: str | None) -> str:
    """A map's key, which JSON has as text only."""
    text = _or_null(text)
    return text if text.startswith('"') else _key(text)


def _or_null(text: str | None) -> str:
    return "null" if text is None else text
