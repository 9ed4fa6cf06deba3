"""Options by the names of inputs; an option without a name applies to all inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from spojoin.columns.column_types import parse_type
from spojoin.columns.csv_options import csv_options, csv_words, is_csv_option
from spojoin.columns.stream_columns import arrow_schema
from spojoin.errors import ConfigurationError
from spojoin.model import HEADERS, RECORD_TIME, ColumnType, CsvOptions, Query
from spojoin.query.statement import JoinSide
from spojoin.suggest import unknown

#: Options of columns or of a file's form: one set for all inputs, or one for each by the names of inputs.
GivenCsv = Mapping[str, object]
GivenSchema = Mapping[str, str | Mapping[str, str]]
Columns = Mapping[str, ColumnType]
_T = TypeVar("_T")

#: The comma between `column=type` pairs: a name and `=` follow it, unlike a comma within decimal(10,2).
_BETWEEN = re.compile(r",(?=[^,()]+=)")


class SideSource(NamedTuple):
    """A side of the join, with its stream's name and its source."""

    side: JoinSide
    name: str
    source: object

    @property
    def names(self) -> tuple[str, str]:
        """The names that options may use for the side."""
        return self.side.stream, self.name


def csv_by_name(given: GivenCsv | None) -> dict[str, CsvOptions]:
    """How CSV files are written, by input; the key "" stands for all others. Raises ConfigurationError."""
    return _by_name(given, "csv", csv_options)


def schema_by_name(given: GivenSchema | None) -> dict[str, Columns]:
    """The types of columns, by input; the key "" stands for all others. Raises ConfigurationError."""
    return _by_name(given, "schema", _columns)


def csv_by_texts(texts: Iterable[str]) -> dict[str, CsvOptions]:
    """Like `csv_by_name`, from texts such as `delim=;` and `trades.csv=decimal=,`; each adds to those before it."""
    found: dict[str, dict[str, object]] = {}
    for name, text in (_input_and_rest(each, is_option=is_csv_option) for each in texts):
        found.setdefault(name, {}).update(csv_words(text, "--csv"))
    return {name: csv_options({**found.get("", {}), **given}, "--csv") for name, given in found.items()}


def schema_by_texts(texts: Iterable[str]) -> dict[str, Columns]:
    """Like `schema_by_name`, from texts such as `x=double` and `trades.csv=x=double,at=timestamp(s)`."""
    found: dict[str, dict[str, str]] = {}
    for name, text in (_input_and_rest(each, is_option=lambda _: False) for each in texts):
        for column in _BETWEEN.split(text):
            key, equals, kind = column.partition("=")
            if not equals:
                raise ConfigurationError(f"--schema '{column}': expected COLUMN=TYPE, such as x=double")
            found.setdefault(name, {})[key.strip()] = kind
    return {name: _columns(columns, "--schema") for name, columns in found.items()}


def option_of_input(options: Mapping[str, _T], *names: str) -> _T | None:
    """The option of an input with any of these names, or the option for all inputs."""
    return next((options[name] for name in (*names, "") if name in options), None)


def with_csv(query: Query, csv: Mapping[str, CsvOptions]) -> Query:
    """The query with the given CSV options, by the names of its streams. Raises ConfigurationError."""
    names = [stream.name for stream in query.streams]
    for given in csv:
        if given and given not in names:
            raise ConfigurationError(f"csv: {unknown('stream', given, dict.fromkeys(names))}")
    forms = [replace(each.file, csv=option_of_input(csv, each.name) or each.file.csv) for each in query.streams]
    streams = [replace(each, file=form) for each, form in zip(query.streams, forms, strict=True)]
    return replace(query, streams=tuple(streams)) if csv else query


def _input_and_rest(text: str, *, is_option: Callable[[str], bool]) -> tuple[str, str]:
    """Split `NAME=VALUE` options: the input's name, which is empty if none is given, and the rest."""
    first, _, rest = text.partition("=")
    if is_option(first) or "=" not in rest.split(",")[0]:
        return "", text
    return first, rest


def _by_name(
    given: Mapping[str, object] | None, what: str, read: Callable[[Mapping[str, object], str], _T]
) -> dict[str, _T]:
    if not given:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{what}={given!r}: expected a dict")
    if all(isinstance(each, Mapping) for each in given.values()):
        return {name: read(each, f"{what} of {name}") for name, each in given.items() if isinstance(each, Mapping)}
    return {"": read(given, what)}


def _columns(given: Mapping[str, object], what: str) -> Columns:
    for name, kind in given.items():
        if not isinstance(kind, str):
            raise ConfigurationError(f"{what}: {name!r} is {kind!r}: expected a type, such as 'double'")
    return {name: parse_type(str(kind), name, None) for name, kind in given.items()}


def check_without_kafka(query: Query) -> None:
    """Raise ConfigurationError if a stream needs something that only Kafka has."""
    check_no_envelope(query)
    if query.results.is_traced:
        raise ConfigurationError("'trace: true' is for records of Kafka, whose headers hold a trace: remove it")
    for stream in query.inputs:
        if HEADERS not in stream.schema and HEADERS in arrow_schema(stream, needs_time=False).names:
            raise ConfigurationError(
                f"stream {stream.name!r}: the statement names '{HEADERS}', which records of Kafka have, and files and "
                "tables don't: put a column of theirs in its place"
            )
        if stream.is_record_timed:
            raise ConfigurationError(
                f"stream {stream.name!r}: 'time: {RECORD_TIME}' is the timestamp that Kafka keeps with each record, "
                "which files and tables don't have: name a column"
            )


def check_no_envelope(query: Query) -> None:
    """Raise ConfigurationError if rows are expected within other messages."""
    for stream in query.streams:
        if stream.envelope is not None:
            raise ConfigurationError(
                f"stream {stream.name!r}: 'envelope: {stream.envelope}' is for messages that others write into Kafka; "
                "rows of files and tables stand alone: remove it"
            )


def check_no_results(query: Query, names: Iterable[str]) -> None:
    """Raise ConfigurationError if one of these streams consists of the results of another query."""
    chosen = set(names)
    for stream in query.streams:
        if stream.query is not None and stream.name in chosen:
            raise ConfigurationError(
                f"stream {stream.name!r} takes in the results of query {stream.query}: send rows to the inputs of that "
                "query"
            )
