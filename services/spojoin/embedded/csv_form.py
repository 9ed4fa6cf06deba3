"""How a CSV file is written, by its options and header, and the forms of the numbers and times in its cells."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.columns.csv_options import NULL_WORDS
from spojoin.columns.inferred import narrowest_type
from spojoin.embedded import file_reader
from spojoin.embedded.file_content import Comments, Utf8Stream, how_to_recode, is_marked, naming_the_file, unmarked
from spojoin.embedded.file_reader import distinct_names
from spojoin.errors import ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, TypeName

#: Called for a line whose number of cells isn't the number of columns; returns what to do with the line.
OnBadLine = Callable[[pa_csv.InvalidRow], Literal["skip", "error"]]

#: Delimiters that are tried if a header seems to have only one field.
_DELIMITERS = (";", "\t", "|", ",")
#: The first line in which spreadsheets name the delimiter.
_SEPARATOR_LINE = re.compile(r"sep=(.)")
#: Bytes that are read first to find a header, since few headers are longer.
_HEADER_BYTES = 1 << 16

# pyarrow's type stubs don't allow pyarrow's own files as arguments.
_open_csv: Any = pa_csv.open_csv

_TEXT = ColumnType(TypeName.STRING)
_TIMES = (TypeName.DATE, TypeName.TIMESTAMP)
_NO_TEXT = pa.scalar(None, pa.string())

# pyarrow's type stubs lack the functions of strings.
Texts = Any


@dataclass(frozen=True, slots=True)
class CsvForm:
    """A CSV file's form.

    names: its columns, each with a different name; is_named: whether the header has exactly these names
    """

    options: CsvOptions
    delimiter: str
    names: tuple[str, ...] = ()
    is_named: bool = True

    @property
    def has_header(self) -> bool:
        """Whether the first line has names; False if options say that it hasn't, or give names."""
        options = self.options
        return options.names is None if options.header is None else options.header

    @property
    def first_number(self) -> int:
        """Arrow's number of the first row."""
        return self.options.skip + self.has_header + 1

    def text(self, file: pa.NativeFile, end: bytes = b"") -> Utf8Stream:
        """A file's bytes as text; `end` follows the last byte."""
        mark = self.options.comment
        comments = None if mark is None else Comments(mark, self.options.quote)
        return Utf8Stream(file, end, self.options.encoding, comments)

    def batches(self, text: Utf8Stream, names: Sequence[str], on_bad: OnBadLine) -> Iterator[pa.RecordBatch]:
        """The columns `names` as text.

        A thread of Arrow reads ahead. It ends before this iterator does: the interpreter can't exit while it reads.
        """
        stream = self._stream(pa.PythonFile(text, mode="r"), names, on_bad, file_reader.BLOCK_BYTES)
        try:
            while (batch := _next(stream)) is not None:
                yield batch
        finally:
            text.is_stopped = True
            if not sys.is_finalizing():
                with contextlib.suppress(pa.ArrowException):
                    while _next(stream) is not None:
                        pass

    def first_batch(self, text: Utf8Stream, on_bad: OnBadLine) -> pa.RecordBatch | None:
        """The rows of the first block."""
        block = file_reader.BLOCK_BYTES
        return _next(self._stream(_in_memory(text, block), self.names, on_bad, block))

    def written_names(self, text: Utf8Stream, block: int) -> list[str]:
        """The cells of the first line, or if they aren't names, as many names that Arrow makes up."""
        names: list[str] = self._stream(_in_memory(text, block), [], _skip, block).schema.names
        return names

    def _stream(
        self, text: pa.NativeFile, names: Sequence[str], on_bad: OnBadLine, block: int
    ) -> pa_csv.CSVStreamingReader:
        """A reader that uses one thread, since Arrow numbers bad lines only then."""
        options = self.options
        stream: pa_csv.CSVStreamingReader = _open_csv(
            text,
            read_options=self._read_options(block),
            parse_options=pa_csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=options.quote or False,
                escape_char=False if options.escape == options.quote else options.escape or False,
                newlines_in_values=True,
                invalid_row_handler=on_bad,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(names),
                column_types=dict.fromkeys(names, pa.string()),
                null_values=["", *(options.nullstr or ())],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return stream

    def _read_options(self, block: int) -> pa_csv.ReadOptions:
        found = pa_csv.ReadOptions(use_threads=False, block_size=block, skip_rows=self.options.skip)
        if self.names and not self.is_named:
            found.column_names = list(self.names)
            found.skip_rows_after_names = int(self.has_header)
        elif not self.has_header:
            found.autogenerate_column_names = True
        return found


def _in_memory(text: Utf8Stream, block: int) -> pa.NativeFile:
    """Two blocks in Arrow's memory, for Arrow's threads; the first block's last line may end in the second."""
    memory = pa.BufferOutputStream()
    memory.write(text.read(2 * block))
    return pa.BufferReader(memory.getvalue())


def csv_form(path: Path, delimiter: str, options: CsvOptions) -> CsvForm:
    """The form of a file whose ending stands for `delimiter`.

    Raises ConfigurationError if it has no header, if the header isn't text, or if the number of given names is not
    the number of columns.
    """
    form = CsvForm(options, options.delim or delimiter)
    written = _written(path, form)
    if options.delim is None and len(written) == 1:
        form, written = _by_header(path, form, written)
    names = options.names if options.names is not None else _named(written, form)
    if len(names) != len(written):
        raise ConfigurationError(
            f"{path}: csv: names has {len(names)} names, and the file has {len(written)} columns: expected one for each"
        )
    return replace(form, names=tuple(names), is_named=form.has_header and list(names) == written)


def _by_header(path: Path, form: CsvForm, written: list[str]) -> tuple[CsvForm, list[str]]:
    """The form and header with another delimiter, if that splits a header which seems to have only one field."""
    line = _SEPARATOR_LINE.fullmatch(written[0])
    if line is not None:
        named = replace(form, options=replace(form.options, skip=form.options.skip + 1), delimiter=line[1])
        return named, _written(path, named)
    tried = [replace(form, delimiter=each) for each in _DELIMITERS if each in written[0]]
    found = [(each, _written(path, each)) for each in tried]
    return max(found, key=lambda each: len(each[1]), default=(form, written))


def _written(path: Path, form: CsvForm) -> list[str]:
    """The cells of the header. Raises ConfigurationError if there is none, or it isn't text."""
    small, large = min(_HEADER_BYTES, file_reader.BLOCK_BYTES), file_reader.BLOCK_BYTES
    names = _header(path, form, small) or _header(path, form, large, is_last=True)
    for name in names:
        if is_marked(name):
            raise ConfigurationError(
                f"{path}: the column name {unmarked(name)!r} isn't UTF-8 text; {how_to_recode(path)}"
            )
    return names


def _header(path: Path, form: CsvForm, block: int, *, is_last: bool = False) -> list[str]:
    """The header in a first block of this size; empty if it isn't whole there, unless this is the last size to try."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        try:
            return form.written_names(form.text(file), block)
        except pa.ArrowInvalid as error:
            if not is_last:
                return []
            raise ConfigurationError(f"{path}: no CSV with a header line: {error}") from error


def _named(written: list[str], form: CsvForm) -> list[str]:
    """Column names as DuckDB makes them: `column3` if the fourth column has no name, `a_1` for the second `a`."""
    if not form.has_header:
        return [f"column{at}" for at in range(len(written))]
    return distinct_names([name or f"column{at}" for at, name in enumerate(written)])


def _next(stream: pa_csv.CSVStreamingReader) -> pa.RecordBatch | None:
    try:
        return stream.read_next_batch()
    except StopIteration:
        return None


def _skip(_row: pa_csv.InvalidRow) -> Literal["skip"]:
    return "skip"


def without_null_spellings(text: Texts, options: CsvOptions = AS_THE_PAGE_SAYS) -> Texts:
    """Trimmed cells of a column of numbers, times or the like, with null for the spellings of a missing value."""
    trimmed = pc.utf8_trim_whitespace(text)
    nulls = pa.array(["", *(NULL_WORDS if options.nullstr is None else options.nullstr)])
    return pc.if_else(pc.is_in(trimmed, value_set=nulls), _NO_TEXT, trimmed)


def plain_numbers(cells: Texts, options: CsvOptions) -> Texts:
    """Numbers without thousands separators, which must separate groups of three digits, and with a decimal point.

    A cell with a point that the options don't allow is put in quotes, so that it is not a number.
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
    """Dates in ISO form; cells that don't fit `dateformat` stay as they are."""
    return cells if options.dateformat is None else _iso(cells, options.dateformat, pa.date32())


def plain_times(cells: Texts, options: CsvOptions) -> Texts:
    """Times in ISO form; cells that fit neither `timestampformat` nor `dateformat` stay as they are."""
    for form in (options.timestampformat, options.dateformat):
        cells = cells if form is None else _iso(cells, form, pa.timestamp("us"))
    return cells


def told_type(cells: Texts, options: CsvOptions) -> ColumnType | None:
    """The type of a column, inferred from its cells; None if no cell has a value."""
    plain = without_null_spellings(cells, options)
    found = narrowest_type(plain_numbers(plain, options))
    if found != _TEXT:
        return found
    for form, to_iso in ((options.dateformat, plain_dates), (options.timestampformat, plain_times)):
        told = None if form is None else narrowest_type(to_iso(plain, options), _TIMES)
        if told not in (None, _TEXT):
            return told
    return found


def _iso(cells: Texts, form: str, kind: pa.DataType) -> Texts:
    """Texts in `form`, rewritten as ISO texts of a type, by DuckDB: Arrow can't read fractions of seconds."""
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
