"""Cells of CSV as the page writes values: numbers with a decimal point, times in ISO form."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, TypeName
from spojoin.query.csv_options import NULL_WORDS
from spojoin.query.guessed import guessed

_TEXT = ColumnType(TypeName.STRING)
_TIMES = (TypeName.DATE, TypeName.TIMESTAMP)
_NO_TEXT = pa.scalar(None, pa.string())

# The stubs of pyarrow lack the functions of strings.
Texts = Any


def without_null_spellings(text: Texts, options: CsvOptions = AS_THE_PAGE_SAYS) -> Texts:
    """Cells of a column of numbers, times or the like: trimmed, those that say that there is no value as null."""
    trimmed = pc.utf8_trim_whitespace(text)
    nulls = pa.array(["", *(NULL_WORDS if options.nullstr is None else options.nullstr)])
    return pc.if_else(pc.is_in(trimmed, value_set=nulls), _NO_TEXT, trimmed)


def plain_numbers(cells: Texts, options: CsvOptions) -> Texts:
    """Numbers without marks of thousands, which part three digits each, and with a decimal point.

    A cell with a point that the options don't have is put in quotes, by which it is no number.
    """
    if options.thousands is not None:
        thousands, decimal = re.escape(options.thousands), re.escape(options.decimal)
        grouped = rf"^[+-]?[0-9]{{1,3}}({thousands}[0-9]{{3}})+({decimal}[0-9]*)?([eE][+-]?[0-9]+)?$"
        is_grouped = pc.match_substring_regex(cells, grouped)
        cells = pc.if_else(is_grouped, pc.replace_substring(cells, options.thousands, ""), cells)
    if options.decimal == ".":
        return cells
    has_point = pc.match_substring(cells, ".")
    return pc.if_else(
        has_point, pc.binary_join_element_wise("'", cells, "'", ""), pc.replace_substring(cells, options.decimal, ".")
    )


def plain_dates(cells: Texts, options: CsvOptions) -> Texts:
    """Dates in ISO form; what isn't written by `dateformat` stays."""
    return cells if options.dateformat is None else _iso(cells, options.dateformat, pa.date32())


def plain_times(cells: Texts, options: CsvOptions) -> Texts:
    """Times in ISO form; what isn't written by `timestampformat`, or else `dateformat`, stays."""
    for form in (options.timestampformat, options.dateformat):
        cells = cells if form is None else _iso(cells, form, pa.timestamp("us"))
    return cells


def told_type(cells: Texts, options: CsvOptions) -> ColumnType | None:
    """The type of a column by its cells as they stand; None where none has a value."""
    plain = without_null_spellings(cells, options)
    found = guessed(plain_numbers(plain, options))
    if found != _TEXT:
        return found
    for form, to_iso in ((options.dateformat, plain_dates), (options.timestampformat, plain_times)):
        told = None if form is None else guessed(to_iso(plain, options), _TIMES)
        if told not in (None, _TEXT):
            return told
    return found


def _iso(cells: Texts, form: str, kind: pa.DataType) -> Texts:
    """Texts that `form` describes as those of a type; DuckDB reads them, as Arrow knows no fractions of seconds."""
    import duckdb  # noqa: PLC0415  (few files need it)

    quoted = form.replace("'", "''")
    with duckdb.connect() as connection:
        try:
            connection.register("cells", pa.table({"text": cells}))
            found = connection.sql(f"SELECT epoch_us(try_strptime(text, '{quoted}')) AS us FROM cells").to_arrow_table()
        except duckdb.Error as error:
            first = str(error).split("\n")[0].split(": ", 1)[-1]
            raise ConfigurationError(f"csv: format '{form}': {first}") from error
    moments = found.column("us").cast(pa.timestamp("us")).combine_chunks()
    texts = moments.cast(kind, safe=False).cast(pa.string())
    zone = "Z" if "%z" in form or "%Z" in form else ""
    written = texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts
    return pc.coalesce(pc.binary_join_element_wise(written, zone, ""), cells)
