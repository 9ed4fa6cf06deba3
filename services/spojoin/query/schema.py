"""Declared types as Arrow types: what a reader of CSV, JSON lines or Parquet requests from a file."""

from __future__ import annotations

import pyarrow as pa

from spojoin.expressions.types import value_type
from spojoin.model import (
    HEADERS,
    HEADERS_TYPE,
    TRACE,
    Arithmetic,
    Column,
    ColumnType,
    Computed,
    Expression,
    Stream,
    TypeName,
)

#: The type of times in JSON that are numbers with a fraction: exact, down to the nanosecond.
JSON_FRACTIONS = pa.decimal128(38, 9)


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type that holds a declared type's values exactly: as expressions see them, but times name a zone."""
    return pa.timestamp("us", "UTC") if kind.name is TypeName.TIMESTAMP else value_type(kind)


def arrow_schema(stream: Stream, needs_time: bool = True) -> pa.Schema:
    """The columns of a stream that a query reads: those of its expressions and results, the event time, the key.

    A time or key column without a declared type has Arrow's null type, which stands for "as it is found": `extract`
    takes ISO text, timestamps or integer milliseconds for times, and anything with a text form for keys. Text is
    always accepted: `extract` reads every type from strings as well, and refuses only the bad rows.
    needs_time: whether the event time is read at all (`Query.needs_time`)
    """
    expressions = [key.expression for key in stream.keys]
    expressions += [member.filter.condition for member in stream.fed(0) if member.filter is not None]
    payload = (HEADERS if name == TRACE and name not in stream.schema else name for name in stream.payload)
    names = dict.fromkeys([*(name for each in expressions for name in columns_of(each)), *payload])
    extra = [name for name in (stream.time_column if needs_time else None, stream.key) if name is not None]
    return pa.schema([(name, _found_as(stream, name)) for name in dict.fromkeys([*names, *extra])])


def columns_of(expression: Expression) -> list[str]:
    """The columns that an expression names, in the order of reading."""
    if isinstance(expression, Column):
        return [expression.name]
    if isinstance(expression, Computed):
        return list(expression.columns)
    if isinstance(expression, Arithmetic):
        return columns_of(expression.left) + columns_of(expression.right)
    return []


def _found_as(stream: Stream, name: str) -> pa.DataType:
    if name in stream.schema:
        return arrow_type(stream.schema[name])
    return value_type(HEADERS_TYPE) if name == HEADERS and name not in (stream.time, stream.key) else pa.null()
