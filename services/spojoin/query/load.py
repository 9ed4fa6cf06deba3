"""A query from its YAML file: every mistake is a QueryError with its line, its name and what was expected."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

import yaml

from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import (
    EmitOn,
    LayoutChoice,
    Method,
    Order,
    Output,
    Query,
)
from spojoin.published.door import check_asks, check_method, check_served
from spojoin.published.layouts.catalog import check_key, layout
from spojoin.published.methods.catalog import method
from spojoin.query.assemble import Choices, ParsedStatement, StreamOptions, assemble, parse_sql
from spojoin.query.chained import QueryOf, with_schemas
from spojoin.query.declared_streams import DeclaredStreams, query_name
from spojoin.query.declared_tables import read_tables, with_tables
from spojoin.query.document import Item, compose, items, text_of
from spojoin.query.places import places_within
from spojoin.query.result_options import with_result_options
from spojoin.query.statement import Statement
from spojoin.query.units import DURATION_EXPECTED, parse_duration_us, parse_lateness_us
from spojoin.query.window import LENGTH_US_MAX
from spojoin.suggest import listed, unknown

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

_Choice = TypeVar("_Choice", bound=StrEnum)


def load_query(path: Path) -> Query:
    """The query in a YAML file. ConfigurationError where it can't be read, QueryError where it is wrong."""
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
    """The query `name`, from the file of that name beside another; above: those that take in its results."""
    if name in above:
        raise QueryError(f"query {name} takes in its own results, by way of {listed(above)}: expected another query")
    file = Path(path).with_name(f"{name}.yaml")
    return parse_query(_read(file), str(file), partial(_beside, file, (*above, name))) if file.exists() else None


def load_served_query(path: Path) -> Query:
    """The query in a YAML file, as the services run it. Also raises QueryError where services can't run it."""
    query = load_query(path)
    check_served(query, str(path))
    return query


def parse_query(
    text: str, source: str = "query", query_of: QueryOf | None = None, *, unsaid: EmitOn | None = None
) -> Query:
    """The query that YAML text describes; `source` names the text in errors. Raises QueryError.

    query_of: finds those whose results it takes in, where it doesn't say itself what they are
    unsaid: when rows answer where the statement doesn't say it, as other versions of the program read it
    """
    try:
        return _query(text, query_of, unsaid)
    except QueryError as error:
        error.args = (f"{source}, {error}",)
        raise
    except RecursionError as error:
        raise QueryError(f"{source}: nested too deeply: expected a simpler query") from error


def _query(text: str, query_of: QueryOf | None, unsaid: EmitOn | None) -> Query:
    options = items(compose(text), "the query", _EXPECTED, _OPTIONS)
    name = query_name(_required(options, "name", "a name for the query"))
    declared = DeclaredStreams(query_of)
    streams = declared.read(_required(options, "streams", "the streams and their schemas"))
    sql = _required(options, "sql", "SELECT * FROM a AS l JOIN b AS r ON ... WINDOW AS (...)")
    tables = _tables(options, streams)
    parsed = with_tables(_read_sql(sql, text), tables)
    parsed = replace(parsed, said=parsed.said or unsaid)
    output = _output(options, parsed)
    order = _choice(options, "order", Order, Order.ARRIVAL) if "order" in options else None
    choices = Choices(
        name=name,
        text=with_schemas(text, declared.found),
        output=output,
        order=order,
        order_line=options.get("order", sql).line,
        limit=_limit(options, output),
        method=_method(options.get("method")),
        layout=_layout(options.get("layout")),
    )
    is_bounded = parsed.window is not None or parsed.statement.right.is_table
    is_by_arrival = order is Order.ARRIVAL or (order is None and is_bounded)
    query = assemble(
        parsed, _sides(parsed.statement, streams, tables), choices, _lateness(options, is_by_arrival=is_by_arrival)
    )
    query = replace(query, idle_timeout_us=_idle_timeout(options, is_by_arrival=is_by_arrival))
    if "layout" in options:
        check_key(query, query.layout, options["layout"].line)
        check_method(query, options["layout"].line)
    check_asks(query, options.get("layout", options.get("method", sql)).line)
    return with_result_options(query, options)


def _required(options: dict[str, Item], name: str, what: str) -> Item:
    if name not in options:
        raise QueryError(f"missing option '{name}': expected {what}", 1)
    return options[name]


def _read_sql(item: Item, text: str) -> ParsedStatement:
    sql = text_of(item, "SELECT * FROM a AS l JOIN b AS r ON ... WINDOW AS (...)")
    assert isinstance(item.node, yaml.ScalarNode)
    return parse_sql(sql, places_within(item.node, text))


def _tables(options: dict[str, Item], streams: dict[str, StreamOptions]) -> dict[str, StreamOptions]:
    tables = read_tables(options["tables"]) if "tables" in options else {}
    for name, table in tables.items():
        if name in streams:
            raise QueryError(f"'{name}' is a stream and a table: expected two names", table.line)
    return tables


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
            raise QueryError(f"{what} '{name}' isn't used by the sql: expected FROM or JOIN of it", each.line)
    return known[statement.left.stream], known[statement.right.stream]


def _choice(options: dict[str, Item], name: str, choices: type[_Choice], default: _Choice) -> _Choice:
    if name not in options:
        return default
    known = [choice.value for choice in choices]
    text = text_of(options[name], listed(known))
    if text not in known:
        raise QueryError(unknown(name, text, known), options[name].line)
    return choices(text)


def _output(options: dict[str, Item], parsed: ParsedStatement) -> Output:
    """What is given: with SELECT * what the option says, counts by default; else the columns of the select list."""
    if "output" not in options:
        return Output.ROWS if parsed.gives_rows else Output.COUNT
    output = _choice(options, "output", Output, Output.COUNT)
    if output is not Output.ROWS and parsed.asks:
        raise QueryError(
            f"output {output.value} is of pairs as they come: expected no output beside EMIT ON CLOSE, outer, SEMI, "
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
    text = text_of(item, expected)
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or not 1 <= int(text) <= LIMIT_MAX:
        raise QueryError(f"limit '{text}': expected {expected}", item.line)
    if output not in (Output.PAIRS, Output.ROWS):
        raise QueryError(
            f"limit needs 'output: pairs', a {output.value} is never cut: remove limit or change output", item.line
        )
    return int(text)


def _lateness(options: dict[str, Item], *, is_by_arrival: bool) -> int | None:
    if "lateness" not in options:
        return None
    item = options["lateness"]
    text = text_of(item, DURATION_EXPECTED)
    lateness = parse_lateness_us(text)
    if lateness is None or lateness > LENGTH_US_MAX:
        raise QueryError(f"lateness '{text}': expected {DURATION_EXPECTED}, at most 10 years", item.line)
    if is_by_arrival:
        raise QueryError("lateness needs event-time order: add 'order: event_time' or remove it", item.line)
    return lateness


def _idle_timeout(options: dict[str, Item], *, is_by_arrival: bool) -> int | None:
    if "idle_timeout" not in options:
        return None
    item = options["idle_timeout"]
    text = text_of(item, DURATION_EXPECTED)
    idle_timeout = parse_duration_us(text)
    if not idle_timeout or idle_timeout % 1_000 or idle_timeout > LENGTH_US_MAX:
        raise QueryError(
            f"idle_timeout '{text}': expected {DURATION_EXPECTED}, in whole milliseconds and at most 10 years; "
            "without it event time waits for every input",
            item.line,
        )
    if is_by_arrival:
        raise QueryError("idle_timeout needs event-time order: add 'order: event_time' or remove it", item.line)
    return idle_timeout


def _method(item: Item | None) -> Method:
    if item is None:
        return Method()
    name, given = _named_options(item, "method")
    return method(name, given, item.line)


def _layout(item: Item | None) -> LayoutChoice:
    return LayoutChoice() if item is None else layout(*_named_options(item, "layout"), item.line)


def _named_options(item: Item, what: str) -> tuple[str, dict[str, str]]:
    """A name alone, or `name` and options beside it, as text."""
    if isinstance(item.node, yaml.ScalarNode):
        return text_of(item, f"the name of a {what}"), {}
    given = items(item.node, what, f"the name of a {what}, or its name and options")
    if "name" not in given:
        raise QueryError(f"{what}: missing option 'name': expected the name of a {what}", item.line)
    name = text_of(given.pop("name"), f"the name of a {what}")
    return name, {option.name: text_of(option, "a value") for option in given.values()}
