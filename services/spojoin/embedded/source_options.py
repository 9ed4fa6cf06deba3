"""Options of inputs by their names: of one input, or of all where none is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from spojoin.errors import ConfigurationError
from spojoin.model import ColumnType, CsvOptions, Query
from spojoin.query.column_types import parse_type
from spojoin.query.csv_options import csv_options, csv_words, is_csv_option
from spojoin.suggest import unknown

#: Options of columns, or of the form of a file, by name: those of all inputs, or by the names of inputs.
GivenCsv = Mapping[str, object]
GivenSchema = Mapping[str, str | Mapping[str, str]]
Columns = Mapping[str, ColumnType]

_T = TypeVar("_T")
#: Between `column=type` and the next: a comma that a name and `=` follow, as none does within decimal(10,2).
_BETWEEN = re.compile(r",(?=[^,()]+=)")


def csv_by_name(given: GivenCsv | None) -> dict[str, CsvOptions]:
    """How files are written, by input; under "" for all others. Raises ConfigurationError."""
    return _by_name(given, "csv", csv_options)


def schema_by_name(given: GivenSchema | None) -> dict[str, Columns]:
    """The types of columns, by input; under "" for all others. Raises ConfigurationError."""
    return _by_name(given, "schema", _columns)


def csv_by_texts(texts: Iterable[str]) -> dict[str, CsvOptions]:
    """As `csv_by_name`, of texts such as `delim=;` and `trades.csv=decimal=,`, which add to those before and of all."""
    found: dict[str, dict[str, object]] = {}
    for name, text in (_parted(each, is_option=is_csv_option) for each in texts):
        found.setdefault(name, {}).update(csv_words(text, "--csv"))
    return {name: csv_options({**found.get("", {}), **given}, "--csv") for name, given in found.items()}


def schema_by_texts(texts: Iterable[str]) -> dict[str, Columns]:
    """As `schema_by_name`, of texts such as `x=double` and `trades.csv=x=double,at=timestamp(s)`."""
    found: dict[str, dict[str, str]] = {}
    for name, text in (_parted(each, is_option=lambda _: False) for each in texts):
        for column in _BETWEEN.split(text):
            key, equals, kind = column.partition("=")
            if not equals:
                raise ConfigurationError(f"--schema '{column}': expected COLUMN=TYPE, such as x=double")
            found.setdefault(name, {})[key.strip()] = kind
    return {name: _columns(columns, "--schema") for name, columns in found.items()}


def of_input(options: Mapping[str, _T], *names: str) -> _T | None:
    """The option of an input that has any of these names, or else of all."""
    return next((options[name] for name in (*names, "") if name in options), None)


def with_csv(query: Query, csv: Mapping[str, CsvOptions]) -> Query:
    """The query with how its streams' files are written, by the names of streams. Raises ConfigurationError."""
    names = [stream.name for stream in query.streams]
    for given in csv:
        if given and given not in names:
            raise ConfigurationError(f"csv: {unknown('stream', given, dict.fromkeys(names))}")
    forms = [replace(each.file, csv=of_input(csv, each.name) or each.file.csv) for each in query.streams]
    streams = [replace(each, file=form) for each, form in zip(query.streams, forms, strict=True)]
    return replace(query, streams=tuple(streams)) if csv else query


def _parted(text: str, *, is_option: Callable[[str], bool]) -> tuple[str, str]:
    """The input's name, empty where there is none, and the rest: `NAME=VALUE` follows a name."""
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
