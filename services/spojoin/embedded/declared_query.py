"""The query of a `Join`: a statement with declared columns, a query file, its text, or a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Union

import pyarrow as pa

from spojoin.columns.column_types import parse_type
from spojoin.embedded.inferred_schema import schema_with_notes
from spojoin.embedded.python_rows import ArrowSchema, Piece
from spojoin.embedded.statements import StatementOptions, statement_of_streams, times_by_name
from spojoin.errors import ConfigurationError
from spojoin.model import ColumnType, Query
from spojoin.query.load import load_query, parse_query

#: The beginning of a statement, after comments. No path or query file begins like this.
_STATEMENT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|FROM)\s", re.IGNORECASE | re.DOTALL)

#: A stream's columns: their types by name, an Arrow schema, or rows with a schema.
SchemaLike = Union[Mapping[str, str], pa.Schema, ArrowSchema, Piece]  # noqa: UP007  (pyarrow has no types)


def query_of_arguments(
    query: Query | PathLike[str] | str,
    schemas: Mapping[str, SchemaLike] | None,
    time: str | Mapping[str, str] | None,
    lateness: str | None,
) -> Query:
    """The query that the arguments of `Join` describe. Raises ConfigurationError."""
    if schemas is not None:
        if not isinstance(query, str):
            kind = type(query).__qualname__
            raise ConfigurationError(f"query is of type {kind}: with schemas expected is a statement")
        return statement_of_streams(query, declared_columns(schemas), StatementOptions(times_by_name(time), lateness))
    if time is not None or lateness is not None:
        raise ConfigurationError("time and lateness go with a statement and its schemas: a query file has its own")
    if isinstance(query, Query):
        return query
    if not isinstance(query, str | PathLike):
        raise ConfigurationError(
            f"query is of type {type(query).__qualname__}: expected the path of a query file, a query's YAML text, a "
            "Query, or a statement with schemas"
        )
    if isinstance(query, str) and _STATEMENT.match(query):
        raise ConfigurationError(
            "a statement needs the columns of its streams: add schemas, such as {'trips': {'distance': 'double'}}; "
            "tables and files are joined by spojoin.sql"
        )
    if isinstance(query, str) and "\n" in query:
        return parse_query(query)
    return load_query(Path(query))


def declared_columns(schemas: Mapping[str, SchemaLike]) -> dict[str, dict[str, ColumnType]]:
    """The column types of each stream. Raises ConfigurationError for an unknown type, BadData without types."""
    if not isinstance(schemas, Mapping):
        raise ConfigurationError(
            f"schemas is of type {type(schemas).__qualname__}: expected the columns of each stream, "
            "such as {'trips': {'distance': 'double'}}"
        )
    return {stream: _column_types(stream, schema) for stream, schema in schemas.items()}


def _column_types(stream: str, schema: SchemaLike) -> dict[str, ColumnType]:
    if not isinstance(schema, Mapping) or not all(isinstance(kind, str) for kind in schema.values()):
        return dict(schema_with_notes(schema).columns)
    if not schema:
        raise ConfigurationError(f"schema of stream {stream!r} is empty: expected columns and their types")
    try:
        return {name: parse_type(str(kind), name, None) for name, kind in schema.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"schema of stream {stream!r}: {error}") from error
