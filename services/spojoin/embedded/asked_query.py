"""What a `Join` is asked to run: a statement and its schemas, a query file, its text, or a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from spojoin.embedded.declared import SchemaLike, declared_columns
from spojoin.embedded.statements import StatementOptions, statement_of_streams, times_by_name
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.query.load import load_query, parse_query

#: How a statement begins, after comments; no path and no query file does.
_STATEMENT = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|FROM)\s", re.IGNORECASE | re.DOTALL)


def asked_query(
    query: Query | PathLike[str] | str,
    schemas: Mapping[str, SchemaLike] | None,
    time: str | Mapping[str, str] | None,
    lateness: str | None,
) -> Query:
    """The query that the arguments of a `Join` describe. Raises ConfigurationError."""
    if schemas is not None:
        return _of_statement(query, schemas, StatementOptions(times_by_name(time), lateness))
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


def _of_statement(query: object, schemas: Mapping[str, SchemaLike], options: StatementOptions) -> Query:
    if not isinstance(query, str):
        raise ConfigurationError(f"query is of type {type(query).__qualname__}: with schemas expected is a statement")
    return statement_of_streams(query, declared_columns(schemas), options)
