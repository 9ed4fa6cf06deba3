"""The option `streams` of a query file: each stream's columns, event time, key, and where its rows come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import yaml

from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import GENERATION_PART, ColumnType, FileForm, TypeName
from spojoin.query.assemble import StreamOptions
from spojoin.query.chained import QueryOf, TakenIn, results_of
from spojoin.query.column_types import parse_type
from spojoin.query.csv_options import csv_options
from spojoin.query.document import Item, items, text_of

_OPTIONS = ("schema", "query", "time", "key", "envelope", "csv")
_TIME_TYPES = (TypeName.TIMESTAMP, TypeName.DATE, TypeName.INT, TypeName.LONG)
_QUERY_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")  # Kafka allows 249; the endings of topic names need the rest
_STREAM_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")  # no dot: 'in.<stream>.dlq' must stay unambiguous


def query_name(item: Item) -> str:
    """The name of a query. Raises QueryError."""
    name = text_of(item, "a name")
    if GENERATION_PART in name.split("."):
        raise QueryError(
            f"name '{name}': '.{GENERATION_PART}.' is for topics that a changed query makes; expected another name",
            item.line,
        )
    if not _QUERY_NAME.fullmatch(name) or name in (".", "..") or name.split(".")[0] == "in":
        raise QueryError(
            f"name '{name}' can't begin Kafka topics: expected 1 to 200 of a-z A-Z 0-9 . _ -, not beginning with 'in.'",
            item.line,
        )
    return name


@dataclass(slots=True)
class DeclaredStreams:
    """Reads streams. query_of: finds queries whose results they are; found: what these say, and the file doesn't."""

    query_of: QueryOf | None
    found: list[TakenIn] = field(default_factory=list)

    def read(self, option: Item) -> dict[str, StreamOptions]:
        """The streams by name. Raises QueryError."""
        streams = items(option.node, "streams", "stream names, each with its schema")
        return {name: self._stream(item) for name, item in streams.items()}

    def _stream(self, item: Item) -> StreamOptions:
        checked_name(item, "stream")
        options = items(item.node, f"stream {item.name}", "schema and, where needed, time and key", _OPTIONS)
        query = query_name(options["query"]) if "query" in options else None
        if query is not None and "envelope" in options:
            raise QueryError(
                f"stream {item.name}: results of a query stand in no envelope: remove it", options["envelope"].line
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
        """The columns, and the event time where the query says it whose results they are."""
        if "schema" in options:
            return declared_columns(options["schema"], f"stream {item.name}"), None
        if query is not None:
            found = self._of_query(item, options, query)
            self.found.append(found)
            return found.results.columns, found.results.time
        raise QueryError(
            f"stream {item.name}: missing option 'schema': expected columns and their types; `spojoin schema` prints "
            "those of a file or of a registered schema",
            item.line,
        )

    def _of_query(self, item: Item, options: dict[str, Item], name: str) -> TakenIn:
        option = options["query"]
        query = None if self.query_of is None else self.query_of(name)
        if query is None:
            raise QueryError(
                f"stream {item.name}: no file {name}.yaml says what results of query {name} are: put it beside this "
                "one, or give a schema here",
                option.line,
            )
        if query.name != name:
            raise QueryError(f"the file of query {name} is of a query named {query.name}", option.line)
        assert isinstance(item.node, yaml.MappingNode)
        results = results_of(query, option.line)
        if "time" in options:
            results = replace(results, time=None)
        return TakenIn(item.node, option.node.end_mark.index, results)


def checked_name(item: Item, what: str) -> None:
    """QueryError where a stream or table can't have the item's name."""
    if not _STREAM_NAME.fullmatch(item.name):
        raise QueryError(f"{what} name '{item.name}': expected 1 to 200 of a-z A-Z 0-9 _ -", item.line)


def declared_columns(option: Item, what: str) -> dict[str, ColumnType]:
    """The columns of a schema by name; what: whose it is, for errors. Raises QueryError."""
    columns = items(option.node, f"schema of {what}", "columns and their types, such as {a: int, b: double}")
    schema = {name: parse_type(text_of(column, "a type"), name, column.line) for name, column in columns.items()}
    if not schema:
        raise QueryError(f"{what}: its schema is empty: expected columns and their types", option.line)
    return schema


def declared_form(option: Item | None, what: str) -> FileForm:
    """How a file is written by the option `csv`; what: whose it is, for errors. Raises QueryError."""
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
    return None if item is None else text_of(item, expected)


def _time(item: Item, schema: dict[str, ColumnType]) -> str:
    name = text_of(item, "the name of a column")
    if name in schema and schema[name].name not in _TIME_TYPES:
        raise QueryError(
            f"time column '{name}' is declared as {schema[name]}: expected timestamp, date, or int or long for "
            "milliseconds; or leave it out of the schema",
            item.line,
        )
    return name
