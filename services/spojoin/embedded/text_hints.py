"""Finds the option or cast that reads a column's texts as the numbers or times that a statement needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.columns.csv_options import NULL_WORDS, how_to_say
from spojoin.columns.inferred import InferredSchema, narrowest_type, wide_decimal
from spojoin.columns.time_units import plausible_unit
from spojoin.embedded.csv_form import told_type, without_null_spellings
from spojoin.embedded.csv_reader import first_rows
from spojoin.embedded.file_paths import files_of
from spojoin.embedded.input_options import SideSource, option_of_input
from spojoin.embedded.python_rows import ReadOnce
from spojoin.embedded.readers import CSV_DELIMITERS, JSON_SUFFIXES, format_suffix, open_reader
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, TypeName
from spojoin.suggest import listed

_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y-%m-%d"),
    *("%Y%m%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%Y.%m.%d"),
)
_CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %I:%M %p", " %H%M%S"),
    *("T%H%M%S", "T%H:%M", "T%H:%M:%S", "T%H", " %I.%M.%S.%f %p", " %H:%M:%S,%g", "T%H:%M:%S,%g", "T%H%M%SZ"),
)
_ZONES = ("", " %Z", " %z")
_WHOLE = ("%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %Z", "%a %b %d %H:%M:%S %Z %Y", "%d/%b/%Y:%H:%M:%S %z")
_FORMS = [
    *(day + clock + zone for zone, day, clock in product(_ZONES, _DAYS, _CLOCKS) if clock or not zone),
    *(*_WHOLE, "%Y-%m", "%G-W%V-%u"),
]
#: A time zone after a time of day; a cast to TIMESTAMP would drop it.
_ZONED = re.compile(r"(:\d\d([.,]\d+)?)\s*([A-Za-z]{2,4}|[A-Za-z]+/[A-Za-z_/]+|[+-]\d\d:?(\d\d)?)$")
#: The digits and words of a text or a form; the marks stand between them.
_WORDS = re.compile(r"%[A-Za-z]|[A-Za-z0-9]+")
_DIGIT = re.compile(r"\d")
#: How many different words may stand for NULL in one column.
_WORDS_MAX = 3
#: A smaller number in a year's place is a day, or the last two digits of a year.
_LEAST_YEAR = 1000
_SPACES = r"\s\x{00A0}\x{202F}"
#: Numbers as people write them: the shape, what is replaced in it, and by what.
_SHAPES = (
    (r"\([\d.]+\)|[\d.]+", r"\((.*)\)", r"-\1"),
    (r"[\d.]+-?", "(.*)-", r"-\1"),
    (rf"-?\d{{1,3}}([,{_SPACES}]\d{{3}})*(\.\d+)?", f"[,{_SPACES}]", ""),
    (r"-?[^\d.,-]*-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?[^\d.,]*", "[^0-9.-]", ""),
)
_NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "FLOAT")

#: How many texts of a column `first_texts` returns.
_FIRST_TEXTS = 200
_ROWS_MAX = 20_000

#: How many texts of a column are examined for a hint.
_VALUES_MAX = 200
_TEXT = ColumnType(TypeName.STRING)

#: Words that mean NULL only if an option says so, in upper or lower case.
_NULL_WORDS = {
    *("\\n", "-", "--", "---", "?", ".", "..", "*", "nil", "none", "na", "n.a.", "nan", "(null)", "(none)"),
    *("missing", "unknown", "tbd", "empty", "void", "0000-00-00", "0000-00-00 00:00:00"),
    *("#null!", "#div/0!", "#ref!", "#value!", "#name?", "#num!"),
}
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?")
_SIGN = re.compile(r"^[-+]?\s*[$€£¥%]|[$€£¥%]\s*$")
_COLUMN = r'(?P<column>(?:(?P<alias>\w+|"[^"]+")\.)?(?P<name>\w+|"[^"]+"))'

#: The cast that an error proposes, and the column of numbers that the error says is compared with times.
_CAST = re.compile(rf"CAST\({_COLUMN} AS (?P<type>[A-Z ]+)\)")
_NUMBER = re.compile(rf"predicate '(?P<text>.*?)' compares .*?number '{_COLUMN}'")
_UNSIGNED = re.compile(r"\d+(\.\d+)?([eE]\+?\d+)?")
_TIMES = ("timestamp '", "date '")


def hints_of_texts(path: Path, options: CsvOptions, names: Sequence[str], *, is_ordered: bool = False) -> Iterator[str]:
    """Sentences about the columns `names` of a file: what their texts look like, and which option or cast reads them.

    is_ordered: whether the statement only orders the columns; some forms of time have the order of their texts
    """
    first = files_of(path)[0]
    suffix = format_suffix(first, options)
    if suffix not in CSV_DELIMITERS:
        return
    rows = first_rows(first, CSV_DELIMITERS[suffix], options)
    if rows.num_columns == 1 and rows.schema.names[0].startswith("#"):
        comment = _option_as_written(options, "comment", "#")
        yield f"{path} begins with the line {rows.schema.names[0]!r}: if it is a comment, say {comment}"
    for name in (each for each in rows.schema.names if each in names):
        cells = pc.unique(rows.column(name).drop_null())
        texts = pc.unique(without_null_spellings(cells, options).drop_null()).slice(0, _VALUES_MAX)
        if not len(texts) or narrowest_type(texts) != _TEXT:
            continue
        nulls = options.nullstr or [text for text in cells.to_pylist() if text in NULL_WORDS]
        way = _way_of_nulls(texts, nulls, options) or _way(name, texts, options, is_ordered=is_ordered)
        if way is not None:
            yield f"column '{name}' of {path} has texts such as {texts[0].as_py()!r}: {way}"


def _way_of_nulls(values: pa.StringArray, nulls: Sequence[str], options: CsvOptions) -> str | None:
    """Advice to read some words as NULL, if all other values have a type. nulls: the words that are NULL already."""
    rest = _without_words(values)
    if len(rest) in (0, len(values)) or narrowest_type(rest) == _TEXT:
        return None
    words = [text for text in values.to_pylist() if text.lower() in _NULL_WORDS]
    said = _option_as_written(options, "nullstr", ",".join(dict.fromkeys([*nulls, *words])))
    return f"if {listed(map(repr, words))} is no value, say {said}"


def _without_words(values: pa.StringArray) -> pa.StringArray:
    return values.filter(pa.array([text.lower() not in _NULL_WORDS for text in values.to_pylist()], pa.bool_()))


def _way(name: str, values: pa.StringArray, options: CsvOptions, *, is_ordered: bool) -> str | None:
    """Advice on what reads the texts as numbers or times."""
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
    ways = [_option_as_written(options, kind, form) for kind, form in zip(kinds, forms, strict=True)]
    return f"say {' or '.join(ways[:2])}" if ways else None


def _are_in_order(texts: Sequence[str]) -> bool:
    """Whether texts begin with a year and have one length, so that the texts are in the order of their times."""
    return len({*map(len, texts)}) == 1 and all(text[:4].isdigit() and not text.endswith("M") for text in texts)


def _way_of_clocks(name: str, texts: Sequence[str]) -> str | None:
    """Advice to compare times of day as times; None if all hours have two digits, so that the texts are in order."""
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


def _option_as_written(options: CsvOptions, option: str, value: str) -> str:
    return how_to_say(options, {option: value})


def forms_of(texts: Sequence[str]) -> list[str]:
    """The common forms by which DuckDB reads all texts as dates or times."""
    forms = [form for form in _FORMS if texts and _marks(form) == _marks(texts[0])]
    counts = _read_counts(texts, map(_try_form, forms))
    return [form for form, count in zip(forms, counts, strict=True) if count == len(texts)]


def cast_of(column: str, kind: str, texts: Sequence[str]) -> str | None:
    """The expression that reads most texts of a column as DuckDB's type `kind`; None if no common one reads half.

    A few words without digits among numbers or times count as NULL.
    """
    words = [text for text in texts if not _DIGIT.search(text)]
    if 0 < len(words) <= _WORDS_MAX and len(words) < len(texts) and _cast(column, kind, words) is None:
        for word in words:
            column = f"NULLIF({column}, {_quoted(word)})"
        texts = [text for text in texts if text not in words]
    return _cast(column, kind, texts)


def _cast(column: str, kind: str, texts: Sequence[str]) -> str | None:
    if kind in _NUMBERS:
        ways = _numeric(column)
    elif kind in ("TIMESTAMP", "DATE"):
        ways = (
            {} if any(map(_ZONED.search, texts)) else {f"CAST({column} AS {kind})": _of_years(f"TRY_CAST(t AS {kind})")}
        )
        ways |= {_as_clock(f"strptime({column}, {_quoted(form)})", form): _try_form(form) for form in forms_of(texts)}
    else:
        ways = {f"CAST({column} AS {kind})": f"TRY_CAST(t AS {kind})"}
    counts = dict(zip(ways, _read_counts(texts, ways.values()), strict=True))
    best = max(counts, key=counts.__getitem__, default=None)  # the first one if several are equal
    return best if best is not None and counts[best] * 2 >= max(len(texts), 1) else None


def _as_clock(moment: str, form: str) -> str:
    """The moment as a timestamp in UTC without a zone, because the other side has none."""
    return f"({moment} AT TIME ZONE 'UTC')" if form[-2:].lower() == "%z" else moment


def _marks(text: str) -> str:
    """The marks between digits and words, without a zone at the end."""
    return _WORDS.sub("", re.sub(" %[zZ]$", "", _ZONED.sub(r"\1", text))).strip()


def _numeric(column: str) -> dict[str, str]:
    """Expressions that read numbers: first integers, then fractions, then numbers with signs and marks around them."""
    whole = "CASE WHEN coalesce(TRY_CAST(t AS DOUBLE) = TRY_CAST(t AS BIGINT), true) THEN TRY_CAST(t AS BIGINT) END"
    found = {f"CAST({column} AS BIGINT)": whole, f"CAST({column} AS DOUBLE)": "TRY_CAST(t AS DOUBLE)"}
    for shape, pattern, to in _SHAPES:
        flags = ", 'g'" if not to else ""
        read = "CAST(regexp_replace({}, '{}', '{}'{}) AS DOUBLE)"
        tried = f"TRY_{read.format('t', pattern, to, flags)}"
        found[read.format(column, pattern, to, flags)] = f"CASE WHEN regexp_full_match(t, '{shape}') THEN {tried} END"
    shape = rf"-?(\d+|\d{{1,3}}([.{_SPACES}]\d{{3}})+)(,\d+)?"
    tried = f"TRY_CAST({_with_point('t')} AS DOUBLE)"
    found[f"CAST({_with_point(column)} AS DOUBLE)"] = f"CASE WHEN regexp_full_match(t, '{shape}') THEN {tried} END"
    return found


def _with_point(column: str) -> str:
    """SQL that rewrites numbers such as 1.200,5 with a decimal point."""
    return f"REPLACE(regexp_replace({column}, '[.{_SPACES}]', '', 'g'), ',', '.')"


def _try_form(form: str) -> str:
    return _of_years(f"try_strptime(t, {_quoted(form)})")


def _of_years(moment: str) -> str:
    return f"CASE WHEN year({moment}) >= {_LEAST_YEAR} OR isinf({moment}) THEN {moment} END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_counts(texts: Sequence[str], expressions: Iterable[str]) -> list[int]:
    """For each expression of `t`, the number of texts that it reads."""
    import duckdb  # noqa: PLC0415  (where there is a mistake)

    expressions = list(expressions)
    asked = ", ".join(f"count({each})" for each in expressions)
    if not texts or not asked:
        return [0 for _ in expressions]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("texts", pa.table({"t": pa.array(texts, pa.string())}))
        found = connection.execute(f"SELECT {asked} FROM texts").fetchone()
    return list(found or ())


def first_texts(source: object, name: str, options: CsvOptions) -> list[str]:
    """Different texts of a column, unchanged; none if the source can be read only once."""
    if isinstance(source, ReadOnce):
        return []
    found = _of_file(Path(source), name, options) if isinstance(source, str | Path) else _of_table(source, name)
    return [str(each) for each in pc.unique(found).drop_null().slice(0, _FIRST_TEXTS).to_pylist()]


def _of_file(path: Path, name: str, options: CsvOptions) -> pa.Array[Any]:
    first = files_of(path)[0]
    suffix = format_suffix(first, options)
    if suffix in CSV_DELIMITERS:
        from spojoin.embedded.csv_reader import first_rows  # noqa: PLC0415  (where there is a mistake)

        rows = first_rows(first, CSV_DELIMITERS[suffix], options)
        return rows.column(name) if name in rows.schema.names else pa.nulls(0, pa.string())
    if suffix in JSON_SUFFIXES:
        from spojoin.embedded.json_reader import objects_of  # noqa: PLC0415

        values = (row.get(name) for row in islice(objects_of(first), _ROWS_MAX))
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    reader = open_reader(path, pa.schema([(name, pa.string())]), None)
    return next((batch.column(0) for batch in reader), pa.nulls(0, pa.string()))


def _of_table(table: Any, name: str) -> pa.Array[Any]:  # noqa: ANN401  (an Arrow table or a data frame)
    return pa.array([None if each is None or each != each else each for each in islice(table[name], _ROWS_MAX)])  # noqa: PLR0124


class Mistaken(NamedTuple):
    """A statement with a mistake, and what is known about its sides, the left one first."""

    sql: str
    sides: Sequence[SideSource]
    found: Sequence[InferredSchema]
    csv: Mapping[str, CsvOptions]


def with_cast_by_values(error: ConfigurationError, asked: Mistaken) -> ConfigurationError:
    """The error with advice from the values: the cast that reads the texts, or the time unit that the numbers count."""
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
    """The side that has the column, and different values of the column as text."""
    name, alias = column["name"].strip('"'), (column["alias"] or "").strip('"').lower()
    for side, schema in zip(asked.sides, asked.found, strict=True):
        if name in schema.columns and alias in ("", side.side.alias.lower()):
            return side, first_texts(side.source, name, option_of_input(asked.csv, *side.names) or AS_THE_PAGE_SAYS)
    return None, []


def _is_day(text: str) -> bool:
    try:
        return len(text) == len("20240131") and datetime.strptime(text, "%Y%m%d").year > 0
    except ValueError:
        return False
