"""Loads a query from its YAML file; every mistake is a QueryError with its line, its name and what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

import yaml

from spojoin.errors import ConfigurationError, QueryError
from spojoin.evaluation.choices import check, layout, method, stand_in
from spojoin.model import (
    HEADERS,
    TRACE,
    EmitOn,
    LayoutChoice,
    Method,
    Order,
    Output,
    Query,
)
from spojoin.query.assemble import Choices, StreamOptions, assemble
from spojoin.query.declarations import DeclaredStreams, QueryOf, query_name, read_tables, with_schemas, with_tables
from spojoin.query.document import Item, compose, items, scalar_text
from spojoin.query.durations import DURATION_EXPECTED, parse_duration_us, parse_lateness_us
from spojoin.query.parsed import ParsedStatement, parse_sql
from spojoin.query.places import places_within
from spojoin.query.statement import Statement
from spojoin.suggest import listed, unknown
from spojoin.windows import TimeWindow

LIMIT_MAX = 2**31 - 1

_OPTIONS = (
    "name",
    "streams",
    "tables",
    "sql",
    "order",
    "output",
    "limit",
    "lateness",
    "idle_timeout",
    "key",
    "trace",
    "method",
    "layout",
)
_EXPECTED = "name, streams and sql"
_SQL_EXPECTED = "SELECT * FROM a AS l JOIN b AS r ON ... WINDOW AS (...)"

_Choice = TypeVar("_Choice", bound=StrEnum)


def load_query(path: Path) -> Query:
    """The query in a YAML file. Raises ConfigurationError if it can't be read, QueryError if it is wrong."""
    return parse_query(_read(path), str(path), partial(_beside, path, ()))


def _read(path: Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigurationError(
            f"query file {path}, line {line}: {error.object[error.start : error.end]!r} isn't UTF-8 text: "
            "save the query as UTF-8, or give the path of a YAML file"
        ) from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"query file {path} can't be read ({why}): give the path of a YAML file") from error


def _beside(path: Path, above: tuple[str, ...], name: str) -> Query | None:
    """The query `name`, from its file beside another; above: the queries that read its results, to find cycles."""
    if name in above:
        raise QueryError(f"query {name} reads its own results, by way of {listed(above)}: expected another query")
    file = Path(path).with_name(f"{name}.yaml")
    return parse_query(_read(file), str(file), partial(_beside, file, (*above, name))) if file.exists() else None


def load_served_query(path: Path) -> Query:
    """The query in a YAML file, as the services run it. Also raises QueryError if services can't run it."""
    query = load_query(path)
    if (other := stand_in(query)) is not None:
        other.check_served(query, str(path))
    return query


def parse_query(
    text: str, source: str = "query", query_of: QueryOf | None = None, *, default_emit: EmitOn | None = None
) -> Query:
    """The query that YAML text describes; `source` names the text in errors. Raises QueryError.

    query_of: finds a query whose results this one reads, for streams without a schema
    default_emit: when rows are answered if the statement doesn't say it; earlier versions had another default
    """
    try:
        return _query(text, query_of, default_emit)
    except QueryError as error:
        error.args = (f"{source}, {error}",)
        raise
    except RecursionError as error:
        raise QueryError(f"{source}: nested too deeply: expected a simpler query") from error


def _query(text: str, query_of: QueryOf | None, default_emit: EmitOn | None) -> Query:
    options = items(compose(text), "the query", _EXPECTED, _OPTIONS)
    name = query_name(_required(options, "name", "a name for the query"))
    declared = DeclaredStreams(query_of)
    streams = declared.read(_required(options, "streams", "the streams and their schemas"))
    sql = _required(options, "sql", _SQL_EXPECTED)
    tables = read_tables(options["tables"]) if "tables" in options else {}
    if both := next((table for table in tables if table in streams), None):
        message = f"'{both}' is the name of a stream and of a table: expected two names"
        raise QueryError(message, tables[both].line)

    statement_text = scalar_text(sql, _SQL_EXPECTED)
    assert isinstance(sql.node, yaml.ScalarNode)
    parsed = with_tables(parse_sql(statement_text, places_within(sql.node, text)), tables)
    parsed = replace(parsed, emit_clause=parsed.emit_clause or default_emit)

    output = _output(options, parsed)
    order = _choice(options, "order", Order, Order.ARRIVAL) if "order" in options else None
    is_bounded = parsed.window is not None or parsed.statement.right.is_table
    is_by_arrival = order is Order.ARRIVAL or (order is None and is_bounded)
    choices = Choices(
        name=name,
        text=with_schemas(text, declared.inserted),
        output=output,
        order=order,
        order_line=options.get("order", sql).line,
        limit=_limit(options, output),
        method=method(*_named_options(options["method"], "method")) if "method" in options else Method(),
        layout=layout(*_named_options(options["layout"], "layout")) if "layout" in options else LayoutChoice(),
        lateness_us=_lateness(options, is_by_arrival=is_by_arrival),
        idle_timeout_us=_idle_timeout(options, is_by_arrival=is_by_arrival),
    )
    query = assemble(parsed, _sides(parsed.statement, streams, tables), choices)
    check(query, options.get("layout", options.get("method", sql)).line)
    return with_result_options(query, options)


def _required(options: dict[str, Item], name: str, what: str) -> Item:
    if name not in options:
        raise QueryError(f"missing option '{name}': expected {what}", 1)
    return options[name]


def _sides(
    statement: Statement, streams: dict[str, StreamOptions], tables: dict[str, StreamOptions]
) -> tuple[StreamOptions, StreamOptions]:
    known = {**streams, **tables}
    for side in (statement.left, statement.right):
        if side.is_table and side.stream not in tables:
            raise QueryError(unknown("table", side.stream, tables), side.line)
        if side.stream not in known:
            raise QueryError(unknown("stream or table" if tables else "stream", side.stream, known), side.line)
    for name, each in known.items():
        if name not in (statement.left.stream, statement.right.stream):
            what = "table" if name in tables else "stream"
            raise QueryError(
                f"{what} '{name}' isn't used by the sql: expected it after FROM or JOIN, or remove it", each.line
            )
    return known[statement.left.stream], known[statement.right.stream]


def _choice(options: dict[str, Item], name: str, choices: type[_Choice], default: _Choice) -> _Choice:
    if name not in options:
        return default
    known = [choice.value for choice in choices]
    text = scalar_text(options[name], listed(known))
    if text not in known:
        raise QueryError(unknown(name, text, known), options[name].line)
    return choices(text)


def _output(options: dict[str, Item], parsed: ParsedStatement) -> Output:
    """The output: for SELECT * the option's, by default counts; otherwise the columns of the select list."""
    if "output" not in options:
        return Output.ROWS if parsed.gives_rows else Output.COUNT
    output = _choice(options, "output", Output, Output.COUNT)
    if output is not Output.ROWS and parsed.asks:
        raise QueryError(
            f"output {output.value} gives pairs as they come: expected no output beside EMIT ON CLOSE, outer, SEMI, "
            "ANTI and ASOF joins, GROUP BY, QUALIFY and tables, which give rows",
            options["output"].line,
        )
    if output is not Output.ROWS and parsed.gives_rows:
        raise QueryError(
            f"output {output.value} has columns of its own: expected SELECT *, or no output beside a select list",
            options["output"].line,
        )
    return output


def _limit(options: dict[str, Item], output: Output) -> int | None:
    if "limit" not in options:
        return None
    item, expected = options["limit"], f"an integer from 1 to {LIMIT_MAX}"
    text = scalar_text(item, expected)
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or not 1 <= int(text) <= LIMIT_MAX:
        raise QueryError(f"limit '{text}': expected {expected}", item.line)
    if output not in (Output.PAIRS, Output.ROWS):
        raise QueryError(
            f"limit needs 'output: pairs': a {output.value} is never cut, so remove limit or change output", item.line
        )
    return int(text)


def _lateness(options: dict[str, Item], *, is_by_arrival: bool) -> int | None:
    if "lateness" not in options:
        return None
    item = options["lateness"]
    text = scalar_text(item, DURATION_EXPECTED)
    lateness = parse_lateness_us(text)
    if lateness is None or lateness > TimeWindow.LENGTH_MAX:
        raise QueryError(f"lateness '{text}': expected {DURATION_EXPECTED}, at most 10 years", item.line)
    if is_by_arrival:
        raise QueryError("lateness needs event-time order: add 'order: event_time' or remove it", item.line)
    return lateness


def _idle_timeout(options: dict[str, Item], *, is_by_arrival: bool) -> int | None:
    if "idle_timeout" not in options:
        return None
    item = options["idle_timeout"]
    text = scalar_text(item, DURATION_EXPECTED)
    idle_timeout = parse_duration_us(text)
    if not idle_timeout or idle_timeout % 1_000 or idle_timeout > TimeWindow.LENGTH_MAX:
        raise QueryError(
            f"idle_timeout '{text}': expected {DURATION_EXPECTED}, in whole milliseconds and at most 10 years; to wait "
            "for every input, remove the option",
            item.line,
        )
    if is_by_arrival:
        raise QueryError("idle_timeout needs event-time order: add 'order: event_time' or remove it", item.line)
    return idle_timeout


def _named_options(item: Item, what: str) -> tuple[str, dict[str, str], int]:
    """The name of a method or layout, its options as text, and its line."""
    if isinstance(item.node, yaml.ScalarNode):
        return scalar_text(item, f"the name of a {what}"), {}, item.line
    given = items(item.node, what, f"the name of a {what}, or its name and options")
    if "name" not in given:
        raise QueryError(f"{what}: missing option 'name': expected the name of a {what}", item.line)
    name = scalar_text(given.pop("name"), f"the name of a {what}")
    return name, {option.name: scalar_text(option, "a value") for option in given.values()}, item.line


_FLAGS = {"true": True, "false": False}


def with_result_options(query: Query, options: Mapping[str, Item]) -> Query:
    """The query with its options `key` and `trace`. Raises QueryError."""
    if "key" in options:
        query = replace(query, results=replace(query.results, key=_key(options["key"], query)))
    if "trace" in options and _flag(options["trace"]):
        query = _traced(query, options["trace"].line)
    return query


def _key(item: Item, query: Query) -> str:
    name = scalar_text(item, "the name of a column of results")
    if query.results.output is not Output.ROWS:
        raise QueryError(
            f"key needs 'output: rows', whose messages are single rows: found output {query.results.output}", item.line
        )
    columns = [selected.name for selected in query.results.select]
    alike = [column for column in columns if column.lower() == name.lower()]
    if name not in columns and len(alike) != 1:
        raise QueryError(unknown("column of results", name, columns), item.line)
    return name if name in columns else alike[0]


def _flag(item: Item) -> bool:
    text = scalar_text(item, "true or false")
    if text not in _FLAGS:
        raise QueryError(unknown("trace", text, _FLAGS), item.line)
    return _FLAGS[text]


def _traced(query: Query, line: int) -> Query:
    if query.results.output is not Output.ROWS:
        raise QueryError(
            f"trace needs 'output: rows', whose messages are single rows: found output {query.results.output}", line
        )
    for stream in query.streams:
        if HEADERS in stream.schema:
            raise QueryError(
                f"trace reads the headers of stream {stream.name}, but its schema has a column '{HEADERS}': expected "
                "another name for the column",
                line,
            )
    streams = tuple(replace(stream, payload=(*stream.payload, TRACE)) for stream in query.streams)
    return replace(query, streams=streams, results=replace(query.results, is_traced=True))
