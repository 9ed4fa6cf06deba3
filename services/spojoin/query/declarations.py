"""Reads a query file's options `streams` and `tables`, also for streams that are the results of another query."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import yaml

from spojoin.columns.column_types import parse_type
from spojoin.columns.csv_options import csv_options
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import GENERATION_PART, ColumnType, FileForm, Output, Query, TableSource, TypeName
from spojoin.query.assemble import StreamOptions
from spojoin.query.document import Item, items, scalar_text
from spojoin.query.durations import DURATION_EXPECTED, parse_duration_us
from spojoin.query.parsed import ParsedStatement, check_tables

_STREAM_OPTIONS = ("schema", "query", "time", "key", "envelope", "csv")
_TIME_TYPES = (TypeName.TIMESTAMP, TypeName.DATE, TypeName.INT, TypeName.LONG)
_QUERY_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")  # Kafka allows 249; endings of topic names need the rest
_STREAM_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")  # no dot: 'in.<stream>.dlq' must stay unambiguous


def query_name(item: Item) -> str:
    """The name of a query. Raises QueryError."""
    name = scalar_text(item, "a name")
    if GENERATION_PART in name.split("."):
        raise QueryError(
            f"name '{name}': '.{GENERATION_PART}.' is reserved for topics of changed queries: expected another name",
            item.line,
        )
    if not _QUERY_NAME.fullmatch(name) or name in (".", "..") or name.split(".")[0] == "in":
        raise QueryError(
            f"name '{name}' can't begin the names of topics: expected 1 to 200 of a-z A-Z 0-9 . _ -, not beginning "
            "with 'in.'",
            item.line,
        )
    return name


@dataclass(slots=True)
class DeclaredStreams:
    """Reads the option `streams`.

    query_of: finds the queries whose results are streams
    inserted: the options that these queries define for streams without a schema
    """

    query_of: QueryOf | None
    inserted: list[InsertedOptions] = field(default_factory=list)

    def read(self, option: Item) -> dict[str, StreamOptions]:
        """The streams by name. Raises QueryError."""
        streams = items(option.node, "streams", "stream names, each with its schema")
        return {name: self._stream(item) for name, item in streams.items()}

    def _stream(self, item: Item) -> StreamOptions:
        check_name(item, "stream")
        options = items(item.node, f"stream {item.name}", "schema and, where needed, time and key", _STREAM_OPTIONS)
        query = query_name(options["query"]) if "query" in options else None
        if query is not None and "envelope" in options:
            raise QueryError(
                f"stream {item.name}: results of a query have no envelope: remove 'envelope'", options["envelope"].line
            )
        schema, own_time = self._columns(item, options, query)
        return StreamOptions(
            item.name,
            schema,
            _time(options["time"], schema) if "time" in options else own_time,
            optional_text(options.get("key"), "the name of a column"),
            item.line,
            optional_text(options.get("envelope"), "the name of the field that holds the row, such as after"),
            query,
            file=declared_form(options.get("csv"), f"stream {item.name}"),
        )

    def _columns(
        self, item: Item, options: dict[str, Item], query: str | None
    ) -> tuple[dict[str, ColumnType], str | None]:
        """The columns of a stream, and its event time if another query defines both."""
        if "schema" in options:
            return declared_columns(options["schema"], f"stream {item.name}"), None
        if query is not None:
            results = self._results_of(query, item, options)
            assert isinstance(item.node, yaml.MappingNode)
            self.inserted.append(InsertedOptions(item.node, options["query"].node.end_mark.index, results))
            return results.columns, results.time
        raise QueryError(
            f"stream {item.name}: missing option 'schema': expected columns and their types; `spojoin schema` prints "
            "those of a file or of a registered schema",
            item.line,
        )

    def _results_of(self, name: str, item: Item, options: dict[str, Item]) -> ResultColumns:
        option = options["query"]
        query = None if self.query_of is None else self.query_of(name)
        if query is None:
            raise QueryError(
                f"stream {item.name}: there is no file {name}.yaml, which defines the columns of query {name}: put it "
                "beside this file, or give the stream a schema",
                option.line,
            )
        if query.name != name:
            raise QueryError(f"the file {name}.yaml holds a query named {query.name}: expected {name}", option.line)
        results = results_of(query, option.line)
        return replace(results, time=None) if "time" in options else results


def check_name(item: Item, what: str) -> None:
    """QueryError if the item's name isn't allowed for a stream or table."""
    if not _STREAM_NAME.fullmatch(item.name):
        raise QueryError(f"{what} name '{item.name}': expected 1 to 200 of a-z A-Z 0-9 _ -", item.line)


def declared_columns(option: Item, what: str) -> dict[str, ColumnType]:
    """The columns of a schema by name; what: the schema's owner, for errors. Raises QueryError."""
    columns = items(option.node, f"schema of {what}", "columns and their types, such as {a: int, b: double}")
    schema = {name: parse_type(scalar_text(column, "a type"), name, column.line) for name, column in columns.items()}
    if not schema:
        raise QueryError(f"{what}: its schema is empty: expected columns and their types", option.line)
    return schema


def declared_form(option: Item | None, what: str) -> FileForm:
    """The form of a file according to the option `csv`; what: the option's owner, for errors. Raises QueryError."""
    if option is None:
        return FileForm()
    given = items(option.node, f"csv of {what}", "options by name, such as {delim: ';', decimal: ','}")
    try:
        return FileForm(csv_options({name: _plain(each) for name, each in given.items()}, f"csv of {what}"))
    except ConfigurationError as error:
        raise QueryError(str(error), option.line) from error


def _plain(item: Item) -> str | list[str]:
    """A text, or a list of texts."""
    if isinstance(item.node, yaml.SequenceNode):
        return [str(each.value) for each in item.node.value]
    return str(item.node.value)


def optional_text(item: Item | None, expected: str) -> str | None:
    """The text of an option, if it is given."""
    return None if item is None else scalar_text(item, expected)


def _time(item: Item, schema: dict[str, ColumnType]) -> str:
    name = scalar_text(item, "the name of a column")
    if name in schema and schema[name].name not in _TIME_TYPES:
        raise QueryError(
            f"time column '{name}' is declared as {schema[name]}: expected timestamp, date, or int or long for "
            "milliseconds; or remove it from the schema",
            item.line,
        )
    return name


_TABLE_OPTIONS = ("file", "topic", "schema", "refresh", "csv")
_REFRESH_MS_MAX = 86_400_000
_NEEDLESS = {
    "key": "the keys of messages identify the rows of a topic, and a file is replaced as a whole",
    "time": "its rows are always in the window",
}


def read_tables(option: Item) -> dict[str, StreamOptions]:
    """The tables by name. Raises QueryError."""
    tables = items(option.node, "tables", "names of tables, each with its file or topic, and its schema")
    return {name: _table(item) for name, item in tables.items()}


def with_tables(parsed: ParsedStatement, tables: Collection[str]) -> ParsedStatement:
    """The statement with sides of these names marked as tables. QueryError if the left one is a table."""
    statement = parsed.statement
    left, right = (
        replace(side, is_table=side.is_table or side.stream in tables) for side in (statement.left, statement.right)
    )
    marked = replace(statement, left=left, right=right)
    check_tables(marked)
    return replace(parsed, statement=marked)


def _table(item: Item) -> StreamOptions:
    check_name(item, "table")
    what = f"table {item.name}"
    options = items(item.node, what, "a file or a topic, and a schema", (*_TABLE_OPTIONS, "key", "time"))
    for name in ("key", "time"):
        if name in options:
            raise QueryError(f"{what}: {_NEEDLESS[name]}: remove '{name}'", options[name].line)
    if ("file" in options) is ("topic" in options):
        raise QueryError(f"{what}: expected either 'file', with a path, or 'topic', with a name", item.line)
    if "schema" not in options:
        raise QueryError(
            f"{what}: missing option 'schema': expected columns and their types; `spojoin schema` prints those of a "
            "file or of a registered schema",
            item.line,
        )
    file = optional_text(options.get("file"), "the path of a file, such as tiers.parquet")
    topic = optional_text(options.get("topic"), "the name of a compacted topic")
    source = TableSource(file, topic, _refresh_ms(options["refresh"], what, file) if "refresh" in options else 1_000)
    schema = declared_columns(options["schema"], what)
    form = declared_form(options.get("csv"), what)
    return StreamOptions(item.name, schema, None, None, item.line, table=source, file=form)


def _refresh_ms(item: Item, what: str, file: str | None) -> int:
    text = optional_text(item, DURATION_EXPECTED) or ""
    found = parse_duration_us(text)
    if file is not None:
        raise QueryError(f"{what}: 'refresh' is for topics, and a file is read once: remove it", item.line)
    if found is None or not 1_000 <= found <= _REFRESH_MS_MAX * 1_000:
        raise QueryError(f"{what}: refresh '{text}': expected {DURATION_EXPECTED}, from 1 ms to 1 day", item.line)
    return found // 1_000


#: Finds a query by name, in a file beside the query that names it; None if there is no such file. Raises QueryError.
QueryOf = Callable[[str], Query | None]


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The columns of a query's results, and their event-time column, if there is one."""

    columns: dict[str, ColumnType]
    time: str | None


def results_of(query: Query, line: int) -> ResultColumns:
    """The columns and the event time of a query's results; line: for errors. Raises QueryError."""
    if query.results.output is not Output.ROWS:
        raise QueryError(
            f"query {query.name} gives {query.results.output.value}, which have no columns to read: expected a query "
            "with a select list",
            line,
        )
    columns = {each.name: _declared(each.expression.type, each.name, query, line) for each in query.results.select}
    return ResultColumns(columns, _event_time(query))


def _declared(kind: ColumnType, name: str, query: Query, line: int) -> ColumnType:
    if kind.name is TypeName.CARRIED:
        raise QueryError(
            f"column '{name}' of query {query.name} is of type {kind}, which no stream's column can have: expected "
            f"CAST({name} AS ...) in that query, or a schema of the other columns in this one",
            line,
        )
    return replace(kind, unit=None, arrow=None)  # numbers of all units become timestamps


def _event_time(query: Query) -> str | None:
    """The column with the event time of left rows, or otherwise of right rows; None for a FULL JOIN."""
    if query.both_ask:
        return None
    times = [stream.time_column for stream in (query.streams[0], query.streams[-1])]
    named = {(each.plain.side, each.plain.name): each.name for each in query.results.select if each.plain is not None}
    return next((named[side, time] for side, time in enumerate(times) if time and (side, time) in named), None)


@dataclass(frozen=True, slots=True)
class InsertedOptions:
    """A stream's options that another query defines, and their place in the text: after `query` in a mapping."""

    mapping: yaml.MappingNode
    end: int
    results: ResultColumns

    @property
    def as_yaml(self) -> str:
        """The options as YAML, to be inserted at `end`."""
        between = ", " if self.mapping.flow_style else "\n" + " " * self.mapping.start_mark.column
        options = {"schema": {name: str(kind) for name, kind in self.results.columns.items()}}
        time = {} if self.results.time is None else {"time": self.results.time}
        return "".join(
            f"{between}{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in {**options, **time}.items()
        )


def with_schemas(text: str, inserted: Sequence[InsertedOptions]) -> str:
    """Insert the schemas that other files define into a query's text, since services read it without these files."""
    for options in sorted(inserted, key=lambda each: each.end, reverse=True):
        text = text[: options.end] + options.as_yaml + text[options.end :]
    return text
