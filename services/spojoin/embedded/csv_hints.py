"""What columns of text in CSV may be, where a statement needs numbers or times: the option that reads them as such."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.embedded.casts import forms_of
from spojoin.embedded.csv_cells import told_type, without_null_spellings
from spojoin.embedded.csv_reader import first_rows
from spojoin.embedded.patterns import files_of
from spojoin.embedded.readers import CSV_DELIMITERS, format_suffix
from spojoin.model import ColumnType, CsvOptions, TypeName
from spojoin.query.csv_options import NULL_WORDS, how_to_say
from spojoin.query.guessed import guessed, wide_decimal
from spojoin.suggest import listed

#: Values of a column that are looked at.
_VALUES_MAX = 200
_TEXT = ColumnType(TypeName.STRING)
#: Words for NULL that only an option makes such, in any case.
_NULL_WORDS = {
    *("\\n", "-", "--", "---", "?", ".", "..", "*", "nil", "none", "na", "n.a.", "nan", "(null)", "(none)"),
    *("missing", "unknown", "tbd", "empty", "void", "0000-00-00", "0000-00-00 00:00:00"),
    *("#null!", "#div/0!", "#ref!", "#value!", "#name?", "#num!"),
}
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?")
_SIGN = re.compile(r"^[-+]?\s*[$€£¥%]|[$€£¥%]\s*$")


def hints(path: Path, options: CsvOptions, names: Sequence[str], *, is_ordered: bool = False) -> Iterator[str]:
    """Sentences about the columns `names` of a file: what their texts look like, and what reads them.

    is_ordered: whether the columns are only ordered, as some times are in the order of their texts
    """
    first = files_of(path)[0]
    suffix = format_suffix(first, options)
    if suffix not in CSV_DELIMITERS:
        return
    rows = first_rows(first, CSV_DELIMITERS[suffix], options)
    if rows.num_columns == 1 and rows.schema.names[0].startswith("#"):
        comment = _said(options, "comment", "#")
        yield f"{path} begins with the line {rows.schema.names[0]!r}: if it is a comment, say {comment}"
    for name in (each for each in rows.schema.names if each in names):
        cells = pc.unique(rows.column(name).drop_null())
        texts = pc.unique(without_null_spellings(cells, options).drop_null()).slice(0, _VALUES_MAX)
        if not len(texts) or guessed(texts) != _TEXT:
            continue
        nulls = options.nullstr or [text for text in cells.to_pylist() if text in NULL_WORDS]
        way = _way_of_nulls(texts, nulls, options) or _way(name, texts, options, is_ordered=is_ordered)
        if way is not None:
            yield f"column '{name}' of {path} has texts such as {texts[0].as_py()!r}: {way}"


def _way_of_nulls(values: pa.StringArray, nulls: Sequence[str], options: CsvOptions) -> str | None:
    """The words that say that there is no value, where all else has a type; nulls: those that say it already."""
    rest = _without_words(values)
    if len(rest) in (0, len(values)) or guessed(rest) == _TEXT:
        return None
    words = [text for text in values.to_pylist() if text.lower() in _NULL_WORDS]
    said = _said(options, "nullstr", ",".join(dict.fromkeys([*nulls, *words])))
    return f"if {listed(map(repr, words))} is no value, say {said}"


def _without_words(values: pa.StringArray) -> pa.StringArray:
    return values.filter(pa.array([text.lower() not in _NULL_WORDS for text in values.to_pylist()], pa.bool_()))


def _way(name: str, values: pa.StringArray, options: CsvOptions, *, is_ordered: bool) -> str | None:
    """What reads the texts as numbers or times."""
    rest = _without_words(values)
    for option in _number_options(options):
        if _is_number(told_type(rest, option)):
            said = {
                key: value for key in ("decimal", "thousands") if (value := getattr(option, key)) not in (None, ".")
            }
            if option.thousands == ".":
                said["thousands"] = "."
            return f"say {how_to_say(options, said)}"
    texts = rest.to_pylist()
    if (wide := wide_decimal(texts)) is not None:
        declared = shlex.quote(f"{name}={wide}")
        return f"say --schema {declared} (in Python schema={{'{name}': '{wide}'}}) to compare them as numbers"
    if texts and all(map(_CLOCK.fullmatch, texts)):
        return _way_of_clocks(name, texts)
    if texts and all(map(_SIGN.search, texts)):
        return f"compute with the number in it, such as CAST(REPLACE({name}, '{_sign(texts[0])}', '') AS DOUBLE)"
    forms = [] if is_ordered and _are_in_order(texts) else forms_of(texts)
    kinds = ["timestampformat" if "%H" in form or "%I" in form else "dateformat" for form in forms]
    ways = [_said(options, kind, form) for kind, form in zip(kinds, forms, strict=True)]
    return f"say {' or '.join(ways[:2])}" if ways else None


def _are_in_order(texts: Sequence[str]) -> bool:
    """Whether texts begin with a year and have one length, so that their order is that of the times that they are."""
    return len({*map(len, texts)}) == 1 and all(text[:4].isdigit() and not text.endswith("M") for text in texts)


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


def _said(options: CsvOptions, option: str, value: str) -> str:
    return how_to_say(options, {option: value})
