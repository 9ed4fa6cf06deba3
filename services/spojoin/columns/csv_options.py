"""Reads the options for how CSV is written: `csv:` of a stream, `csv=` in Python and `--csv` in the command."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, CsvOptions
from spojoin.suggest import unknown

#: Spellings of a missing value besides empty text, as in pandas and Arrow. NaN isn't among them, since it has its own
#: reason.
NULL_WORDS = ("NA", "N/A", "#N/A", "n/a", "<NA>", "NULL", "Null", "null", "None")

#: Other names of options, from DuckDB and pandas.
_ALIASES = {
    "sep": "delim",
    "delimiter": "delim",
    "decimal_separator": "decimal",
    "thousands_separator": "thousands",
    "date_format": "dateformat",
    "timestamp_format": "timestampformat",
    "null": "nullstr",
    "na_values": "nullstr",
    "column_names": "names",
    "skiprows": "skip",
}
_SPELLED = {"tab": "\t", "\\t": "\t", "space": " "}
_NAMES = tuple(field.name for field in fields(CsvOptions))
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
#: The comma between `name=value` pairs: a name and `=` follow it, so that a value may be or contain a comma.
_BETWEEN = re.compile(r",(?=\s*\w+=)")


def csv_options(given: Mapping[str, object], what: str = "csv") -> CsvOptions:
    """The options by name; what: the options' owner, for errors. Raises ConfigurationError."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        option = _ALIASES.get(name, name)
        if option not in _NAMES:
            raise ConfigurationError(f"{what}: {unknown('option', name, _NAMES)}")
        if option in found:
            raise ConfigurationError(f"{what}: '{option}' is given twice")
        found[option] = _READ[option](value, f"{what}: {name}={value!r}")
    options = CsvOptions(**found)
    if options.decimal == options.thousands:
        raise ConfigurationError(f"{what}: decimal and thousands are both {options.decimal!r}: expected two characters")
    return options


def csv_words(text: str, what: str = "csv") -> dict[str, object]:
    """The options in a text such as `delim=;,decimal=,`, in the form for `csv_options`. Raises ConfigurationError."""
    given: dict[str, object] = {}
    for each in _BETWEEN.split(text):
        written, equals, value = each.partition("=")
        name = _ALIASES.get(written.strip(), written.strip())
        if not equals:
            raise ConfigurationError(f"{what} '{text}': expected NAME=VALUE, such as delim=; or decimal=,")
        if name in given:
            raise ConfigurationError(f"{what}: '{name}' is given twice")
        given[name] = value
    return given


def words_of(options: CsvOptions) -> dict[str, str]:
    """The options that aren't the default, in the form that `csv_words` returns."""
    found = {name: getattr(options, name) for name in _NAMES}
    said = {name: value for name, value in found.items() if value != getattr(AS_THE_PAGE_SAYS, name)}
    return {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in said.items()}


def how_to_say(options: CsvOptions, further: Mapping[str, str]) -> str:
    """How a user writes further options in addition to the given ones."""
    said = {**words_of(options), **further}
    words = ",".join(f"{name}={value}" for name, value in said.items())
    return f"--csv {shlex.quote(words)} (in Python csv={said!r})"


def is_csv_option(name: str) -> bool:
    """Whether an option has this name."""
    return _ALIASES.get(name, name) in _NAMES


def _character(value: object, what: str) -> str:
    text = _SPELLED.get(value.lower(), value) if isinstance(value, str) else None
    if text is None or len(text) != 1 or not text.isascii() or text in "\r\n":
        raise ConfigurationError(f"{what}: expected one ASCII character, or tab")
    return text


def _quote(value: object, what: str) -> str:
    return "" if value in ("", None, False) else _character(value, what)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{what}: expected a text, such as '%d.%m.%Y %H:%M'")
    return value


def _encoding(value: object, what: str) -> str:
    try:
        found = codecs.lookup(str(value))
    except LookupError:
        known = ("utf-8", "utf-16", "latin-1", "cp1252", "shift_jis", "gb18030")
        raise ConfigurationError(f"{what}: {unknown('encoding', str(value), known)}") from None
    return found.name


def _words(value: object, what: str) -> tuple[str, ...]:
    words = (
        tuple(value.split(",")) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    )
    if not words or not all(isinstance(each, str) for each in words):
        raise ConfigurationError(f"{what}: expected texts, such as a,b,c")
    return words


def _column_names(value: object, what: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in _words(value, what))
    repeated = next((name for name in names if names.count(name) > 1 or not name), None)
    if repeated is not None:
        raise ConfigurationError(
            f"{what}: expected a different name for each column, but {repeated!r} is repeated or empty"
        )
    return names


def _truth(value: object, what: str) -> bool:
    found = value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"{what}: expected true or false")
    return found


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not str(value).isdigit():
        raise ConfigurationError(f"{what}: expected a number of lines")
    return int(str(value))


_READ: Mapping[str, Callable[[object, str], object]] = {
    "delim": _character,
    "quote": _quote,
    "escape": _character,
    "decimal": _character,
    "thousands": _character,
    "dateformat": _text,
    "timestampformat": _text,
    "encoding": _encoding,
    "nullstr": _words,
    "comment": _character,
    "header": _truth,
    "names": _column_names,
    "skip": _count,
}
