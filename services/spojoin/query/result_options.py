"""What a query says about the messages of its results: `key` and `trace`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spojoin.errors import QueryError
from spojoin.model import HEADERS, TRACE, Output, Query
from spojoin.query.document import Item, text_of
from spojoin.suggest import unknown

_FLAGS = {"true": True, "false": False}


def with_result_options(query: Query, options: Mapping[str, Item]) -> Query:
    """The query with its options `key` and `trace`. Raises QueryError."""
    if "key" in options:
        query = replace(query, result_key=_key(options["key"], query))
    if "trace" in options and _flag(options["trace"]):
        query = _traced(query, options["trace"].line)
    return query


def _key(item: Item, query: Query) -> str:
    name = text_of(item, "the name of a column of results")
    if query.output is not Output.ROWS:
        raise QueryError(f"key needs 'output: rows', whose messages are single rows: found {query.output}", item.line)
    columns = [selected.name for selected in query.select]
    alike = [column for column in columns if column.lower() == name.lower()]
    if name not in columns and len(alike) != 1:
        raise QueryError(unknown("column of results", name, columns), item.line)
    return name if name in columns else alike[0]


def _flag(item: Item) -> bool:
    text = text_of(item, "true or false")
    if text not in _FLAGS:
        raise QueryError(unknown("trace", text, _FLAGS), item.line)
    return _FLAGS[text]


def _traced(query: Query, line: int) -> Query:
    if query.output is not Output.ROWS:
        raise QueryError(f"trace needs 'output: rows', whose messages are single rows: found {query.output}", line)
    for stream in query.streams:
        if HEADERS in stream.schema:
            raise QueryError(
                f"trace needs the headers of stream {stream.name}, whose schema has a column '{HEADERS}': expected "
                "another name for it",
                line,
            )
    streams = tuple(replace(stream, payload=(*stream.payload, TRACE)) for stream in query.streams)
    return replace(query, streams=streams, is_traced=True)
