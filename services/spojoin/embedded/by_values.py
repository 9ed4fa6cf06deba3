"""What puts a mistake of types right, by the values that the columns have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from spojoin.embedded.casts import cast_of
from spojoin.embedded.first_texts import first_texts
from spojoin.embedded.side_source import SideSource
from spojoin.embedded.source_options import of_input
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import AS_THE_PAGE_SAYS, CsvOptions
from spojoin.query.inferred import InferredSchema
from spojoin.query.unit_doubt import plausible_unit

_COLUMN = r'(?P<column>(?:(?P<alias>\w+|"[^"]+")\.)?(?P<name>\w+|"[^"]+"))'
#: A cast that a mistake proposes, and a column of numbers that it compares with times.
_CAST = re.compile(rf"CAST\({_COLUMN} AS (?P<type>[A-Z ]+)\)")
_NUMBER = re.compile(rf"predicate '(?P<text>.*?)' compares .*?number '{_COLUMN}'")
_UNSIGNED = re.compile(r"\d+(\.\d+)?([eE]\+?\d+)?")
_TIMES = ("timestamp '", "date '")


class Mistaken(NamedTuple):
    """A statement and what is known of its sides, the left one first."""

    sql: str
    sides: Sequence[SideSource]
    found: Sequence[InferredSchema]
    csv: Mapping[str, CsvOptions]


def by_values(error: ConfigurationError, asked: Mistaken) -> ConfigurationError:
    """The mistake with the cast that reads the texts that are there, or the unit of times that numbers count."""
    if not isinstance(error, QueryError):
        return error
    if error.instead is not None:
        return _with_cast(error, error.instead, asked)
    number = _NUMBER.search(str(error))
    return (
        error if number is None or not any(each in str(error) for each in _TIMES) else _with_unit(error, number, asked)
    )


def _with_cast(error: QueryError, instead: str, asked: Mistaken) -> QueryError:
    cast = _CAST.search(instead)
    side, texts = (None, []) if cast is None or cast[0] in asked.sql else _texts(cast, asked)
    if cast is None or side is None or not texts:
        return error
    better = cast_of(cast["column"], cast["type"], texts)
    said = str(error).removesuffix(f"; write: {instead}")
    if better is not None:
        return QueryError(said, instead=instead.replace(cast[0], better))
    if cast["type"] == "BOOLEAN":
        return QueryError(said, instead=instead.replace(cast[0], f"{cast['column']} = '{texts[0]}'"))
    return QueryError(f"{said}; texts such as {texts[0]!r} are read by none: make them values of that type before")


def _with_unit(error: QueryError, number: re.Match[str], asked: Mistaken) -> QueryError:
    side, texts = _texts(number, asked)
    if side is None or not texts:
        return error
    if all(map(_is_day, texts)):
        day = f"strptime(CAST({number['column']} AS VARCHAR), '%Y%m%d')"
        text = number["text"]
        instead = asked.sql.replace(text, re.sub(rf"(?<![\w.]){re.escape(number['column'])}(?!\w)", day, text))
        return QueryError(f"{error}; numbers such as {texts[0]} are days by {day}", instead=instead)
    units = {plausible_unit(Fraction(each)) for each in texts if _UNSIGNED.fullmatch(each)}
    unit = units.pop() if len(units) == 1 else None
    if unit is None:
        return error
    name, kind, source = number["name"].strip('"'), f"timestamp({unit.value})", side.side.stream
    return QueryError(
        f"{error}; if numbers such as {texts[0]} count time, say their unit: --schema '{source}={name}={kind}' "
        f"(in Python schema={ {source: {name: kind}} })"
    )


def _texts(column: re.Match[str], asked: Mistaken) -> tuple[SideSource | None, list[str]]:
    """The side that has the column, and different values of it as text."""
    name, alias = column["name"].strip('"'), (column["alias"] or "").strip('"').lower()
    for side, schema in zip(asked.sides, asked.found, strict=True):
        if name in schema.columns and alias in ("", side.side.alias.lower()):
            return side, first_texts(side.source, name, of_input(asked.csv, *side.names) or AS_THE_PAGE_SAYS)
    return None, []


def _is_day(text: str) -> bool:
    try:
        return len(text) == len("20240131") and datetime.strptime(text, "%Y%m%d").year > 0
    except ValueError:
        return False
