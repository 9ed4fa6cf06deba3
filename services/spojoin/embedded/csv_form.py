"""How a CSV file is written: what options say, and what its header shows."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv

from spojoin.embedded import file_reader
from spojoin.embedded.content import naming_the_file
from spojoin.embedded.file_reader import told_apart
from spojoin.embedded.text import Comments, Utf8Stream, how_to_recode, is_marked, unmarked
from spojoin.errors import ConfigurationError
from spojoin.model import CsvOptions

#: What to do with a line of more or fewer cells than there are columns.
OnBadLine = Callable[[pa_csv.InvalidRow], Literal["skip", "error"]]

#: Characters that are looked for in a header that seems to have one field only.
_DELIMITERS = (";", "\t", "|", ",")
#: The first line by which spreadsheets say the delimiter.
_SEPARATOR_LINE = re.compile(r"sep=(.)")
#: Bytes by which a header is read: few have more, and what follows isn't needed.
_HEADER_BYTES = 1 << 16

# The stubs of pyarrow don't know that this takes its own files.
_open_csv: Any = pa_csv.open_csv


@dataclass(frozen=True, slots=True)
class CsvForm:
    """A CSV file's form.

    names: its columns, each with a name of its own; is_named: whether the header has just these
    """

    options: CsvOptions
    delimiter: str
    names: tuple[str, ...] = ()
    is_named: bool = True

    @property
    def has_header(self) -> bool:
        """Whether the first line has names: it has, unless options say so, or give names."""
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

        A thread of Arrow's reads ahead. It has ended when this ends: the interpreter can't end while it reads.
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
        """The cells of the first line, or Arrow's names for as many."""
        names: list[str] = self._stream(_in_memory(text, block), [], _skip, block).schema.names
        return names

    def _stream(
        self, text: pa.NativeFile, names: Sequence[str], on_bad: OnBadLine, block: int
    ) -> pa_csv.CSVStreamingReader:
        """One thread only: Arrow numbers bad lines only then."""
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
    """The first block and the next, in which its last line may end, in memory of Arrow's, for threads of Arrow's."""
    memory = pa.BufferOutputStream()
    memory.write(text.read(2 * block))
    return pa.BufferReader(memory.getvalue())


def csv_form(path: Path, delimiter: str, options: CsvOptions) -> CsvForm:
    """The form of a file whose ending stands for `delimiter`.

    Raises ConfigurationError where it has no header, or that isn't text, or other names are given than it has columns.
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
    """The delimiter that parts a header which seems to have one field only."""
    line = _SEPARATOR_LINE.fullmatch(written[0])
    if line is not None:
        named = replace(form, options=replace(form.options, skip=form.options.skip + 1), delimiter=line[1])
        return named, _written(path, named)
    tried = [replace(form, delimiter=each) for each in _DELIMITERS if each in written[0]]
    found = [(each, _written(path, each)) for each in tried]
    return max(found, key=lambda each: len(each[1]), default=(form, written))


def _written(path: Path, form: CsvForm) -> list[str]:
    """The cells of the header. Raises ConfigurationError where there is none, or it isn't text."""
    small, large = min(_HEADER_BYTES, file_reader.BLOCK_BYTES), file_reader.BLOCK_BYTES
    names = _header(path, form, small) or _header(path, form, large, is_last=True)
    for name in names:
        if is_marked(name):
            raise ConfigurationError(
                f"{path}: the column name {unmarked(name)!r} isn't UTF-8 text; {how_to_recode(path)}"
            )
    return names


def _header(path: Path, form: CsvForm, block: int, *, is_last: bool = False) -> list[str]:
    """The header by a first block; nothing where it can't be told by this one, unless it is the last to be tried."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        try:
            return form.written_names(form.text(file), block)
        except pa.ArrowInvalid as error:
            if not is_last:
                return []
            raise ConfigurationError(f"{path}: no CSV with a header line: {error}") from error


def _named(written: list[str], form: CsvForm) -> list[str]:
    """Names as DuckDB gives them: `column3` for the fourth column where it has none, `a_1` for the second `a`."""
    if not form.has_header:
        return [f"column{at}" for at in range(len(written))]
    return told_apart([name or f"column{at}" for at, name in enumerate(written)])


def _next(stream: pa_csv.CSVStreamingReader) -> pa.RecordBatch | None:
    try:
        return stream.read_next_batch()
    except StopIteration:
        return None


def _skip(_row: pa_csv.InvalidRow) -> Literal["skip"]:
    return "skip"
