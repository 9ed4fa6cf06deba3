"""What columns of text in CSV may be, where a statement needs numbers or times: the option that reads them as such."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.embedded.csv_cells import told_type, without_null_spellings
from spojoin.embedded.csv_reader import first_rows
from spojoin.embedded.patterns import files_of
from spojoin.embedded.readers import CSV_DELIMITERS, format_suffix
from spojoin.model import ColumnType, CsvOptions, TypeName
from spojoin.query.csv_options import words_of
from spojoin.query.guessed import guessed, wide_decimal

#: Values of a column that are looked at.
_VALUES_MAX = 200
_TEXT = ColumnType(TypeName.STRING)
_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d %b %Y", "%b %d, %Y", "%Y-%m-%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %I:%M %p")
#: Words for NULL that only an option makes such.
_NULL_WORDS = (
    "\\N",
    "-",
    "--",
    "?",
    ".",
    "nil",
    "NIL",
    "missing",
    "MISSING",
    "nan",
    "NaN",
    "unknown",
    "#NULL!",
    "none",
)
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?")
_SIGN = re.compile(r"^[-+]?\s*[$€£¥%]|[$€£¥%]\s*$")


def hints(path: Path, options: CsvOptions, names: Sequence[str]) -> Iterator[str]:
    """Sentences about the columns `names` of a file: what their texts look like, and what reads them."""
    first = files_of(path)[0]
    suffix = format_suffix(first, options)
    if suffix not in CSV_DELIMITERS:
        return
    rows = first_rows(first, CSV_DELIMITERS[suffix], options)
    if rows.num_columns == 1 and rows.schema.names[0].startswith("#"):
        comment = _said(options, "comment", "#")
        yield f"{path} begins with the line {rows.schema.names[0]!r}: if it is a comment, say {comment}"
    for name in (each for each in rows.schema.names if each in names):
        values = pc.unique(without_null_spellings(rows.column(name), options).drop_null()).slice(0, _VALUES_MAX)
        if len(values) and guessed(values) == _TEXT and (way := _way(name, values, options)) is not None:
            yield f"column '{name}' of {path} has texts such as {values[0].as_py()!r}: {way}"


def _way(name: str, values: pa.StringArray, options: CsvOptions) -> str | None:
    """What reads the texts as numbers or times."""
    rest = values.filter(pc.invert(pc.is_in(values, value_set=pa.array(_NULL_WORDS))))
    words = [word for word in values.to_pylist() if word in _NULL_WORDS]
    if words and len(rest) and guessed(rest) != _TEXT:
        return f"if {words[0]!r} is no value, say {_said(options, 'nullstr', words[0])}"
    for option in _number_options(options):
        if _is_number(told_type(rest, option)):
            said = {
                key: value for key in ("decimal", "thousands") if (value := getattr(option, key)) not in (None, ".")
            }
            if option.thousands == ".":
                said["thousands"] = "."
            return f"say {_all_said(options, said)}"
    texts = rest.to_pylist()
    if (wide := wide_decimal(texts)) is not None:
        declared = shlex.quote(f"{name}={wide}")
        return f"say --schema {declared} (in Python schema={{'{name}': '{wide}'}}) to compare them as numbers"
    if texts and all(map(_CLOCK.fullmatch, texts)):
        return _way_of_clocks(name, texts)
    if texts and all(map(_SIGN.search, texts)):
        return f"compute with the number in it, such as CAST(REPLACE({name}, '{_sign(texts[0])}', '') AS DOUBLE)"
    forms = [day + time for day, time in product(_DATES, _TIMES) if _all_are(texts, day + time)]
    kinds = ["timestampformat" if "%H" in form or "%I" in form else "dateformat" for form in forms]
    ways = [_said(options, kind, form) for kind, form in zip(kinds, forms, strict=True)]
    return f"say {' or '.join(ways[:2])}" if ways else None


def _way_of_clocks(name: str, texts: Sequence[str]) -> str | None:
    """Times of day stand in order as texts where all hours have two digits."""
    if all(text.index(":") == len("09") for text in texts):
        return None
    return f"compare the times of day in it, such as CAST({name} AS TIME)"


def _number_options(options: CsvOptions) -> list[CsvOptions]:
    pairs = ((".", ","), (",", None), (",", "."), (".", " "), (".", "'"))
    return [replace(options, decimal=decimal, thousands=thousands) for decimal, thousands in pairs]


def _is_number(kind: ColumnType | None) -> bool:
    return kind is not None and kind.name in (TypeName.LONG, TypeName.DOUBLE)


def _sign(text: str) -> str:
    return next(sign for sign in "$€£¥%" if sign in text)


def _all_are(texts: Sequence[str], form: str) -> bool:
    try:
        return bool(texts) and all(datetime.strptime(each, form) for each in texts)
    except ValueError:
        return False


def _said(options: CsvOptions, option: str, value: str) -> str:
    return _all_said(options, {option: value})


def _all_said(options: CsvOptions, further: dict[str, str]) -> str:
    """How a user says some options besides those given."""
    said = {**words_of(options), **further}
    words = ",".join(f"{name}={value}" for name, value in said.items())
    return f"--csv {shlex.quote(words)} (in Python csv={said!r})"
