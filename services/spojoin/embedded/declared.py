"""The columns of streams whose rows are still to come: as a user declares them, or as an Arrow schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import pyarrow as pa

from spojoin.embedded.arguments import ArrowSchema, Piece
from spojoin.embedded.inferred_schema import schema_with_notes
from spojoin.errors import ConfigurationError
from spojoin.model import ColumnType
from spojoin.query.column_types import parse_type

#: A stream's columns: their types by name, an Arrow schema, or rows that have one.
SchemaLike = Union[Mapping[str, str], pa.Schema, ArrowSchema, Piece]  # noqa: UP007  (pyarrow has no types)


def declared_columns(schemas: Mapping[str, SchemaLike]) -> dict[str, dict[str, ColumnType]]:
    """The column types of each stream. ConfigurationError where a type is none, BadData where nothing tells types."""
    if not isinstance(schemas, Mapping):
        raise ConfigurationError(
            f"schemas is of type {type(schemas).__qualname__}: expected the columns of each stream, "
            "such as {'trips': {'distance': 'double'}}"
        )
    return {stream: _columns(stream, schema) for stream, schema in schemas.items()}


def _columns(stream: str, schema: SchemaLike) -> dict[str, ColumnType]:
    if not isinstance(schema, Mapping) or not all(isinstance(kind, str) for kind in schema.values()):
        return dict(schema_with_notes(schema).columns)
    if not schema:
        raise ConfigurationError(f"schema of stream {stream!r} is empty: expected columns and their types")
    try:
        return {name: parse_type(str(kind), name, None) for name, kind in schema.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"schema of stream {stream!r}: {error}") from error
