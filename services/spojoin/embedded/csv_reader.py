"""CSV files as text columns, in constant memory.

An empty cell is NULL, and in a column of text or binary values an empty cell in quotes is empty text, as in SQL;
columns of other types also know the spellings of a missing value.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.embedded import file_reader
from spojoin.embedded.content import naming_the_file, reading_with_sentences
from spojoin.embedded.file_reader import SHOWN_BYTES, TextReader
from spojoin.embedded.text import HOW_TO_RECODE, Utf8Stream, is_marked, marked_cells, unmarked
from spojoin.errors import BadData, ConfigurationError

#: What stands for a missing value in CSV, as in pandas and Arrow; NaN isn't among them, it has a reason of its own.
CSV_NULLS = pa.array(["", "NA", "N/A", "#N/A", "n/a", "<NA>", "NULL", "Null", "null", "None"])

#: A whole number that reads back as the same text, so that keys like 007 stay what they are.
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17}|)$"  # an empty key is allowed here; its row is refused later

OnBadLine = Callable[[pa_csv.InvalidRow], Literal["skip", "error"]]

# The stubs of pyarrow don't know that this takes its own files.
_open_csv: Any = pa_csv.open_csv


class CsvReader(TextReader):
    """CSV with a header line, read as text.

    A marker line is appended: a quote that is never closed swallows it, which shows the mistake.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None, delimiter: str) -> None:
        super().__init__(path, schema, key)
        self._delimiter = delimiter
        columns = csv_header(path, delimiter)
        self._check_columns(columns)
        self._end = secrets.token_hex(3)
        self._end_line = f"\n{delimiter.join([self._end] * len(columns))}\n".encode()
        self._key_type = self._find_key_type()

    @property
    def key_type(self) -> pa.DataType:
        """Integer keys stay integers only where all of the file's keys are."""
        return self._key_type

    def _find_key_type(self) -> pa.DataType:
        """Reads the key column of the whole file: the type must not change halfway."""
        if self.key is None or pa.types.is_string(self.schema.field(self.key).type):
            return pa.int64() if self.key is None else pa.string()
        with naming_the_file(self.path), pa.input_stream(str(self.path)) as file:
            for batch in _csv_batches(Utf8Stream(file), [self.key], self._delimiter, _skip):
                if not pc.all(pc.match_substring_regex(batch.column(0), _CANONICAL_INTEGER)).as_py():
                    return pa.string()
        return pa.int64()

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of about BLOCK_BYTES of text."""
        position = yield from self._rows(self.schema.names, 0)
        if position is not None:
            self._raw.seek(0)
            yield from self._rows([*dict.fromkeys(self.found)], position)

    def _rows(self, names: list[str], first: int) -> Generator[pa.RecordBatch, None, int | None]:
        """The rows from position `first` on, of the columns `names`.

        Gives a position where rows are left: there is text that isn't UTF-8, which may stand in any other column.
        """
        position = 0
        is_whole = False
        bad: dict[int, str] = {}
        text = Utf8Stream(self._open(), self._end_line)
        for batch in _csv_batches(text, names, self._delimiter, _remember_in(bad)):
            if text.has_marks and len(names) < len({*self.found}):
                return position
            whole = _with_gaps(batch, position, sorted(bad))
            self._note_malformed({at: bad.pop(at) for at in sorted(bad) if at < position + whole.num_rows}, first)
            is_whole = whole.num_rows > 0 and whole.column(0)[-1].as_py() == self._end
            rows = whole.slice(0, whole.num_rows - is_whole)
            position += rows.num_rows
            if position <= first:
                continue
            if text.has_marks and (marked := marked_cells(rows)):
                rows = self._refused(rows, position - rows.num_rows, marked)
            yield self._cleaned(rows)
        if not is_whole:
            at = max([position - 1, *bad])
            raise BadData(f"{self.path}: a quote is opened in the row at position {at} and never closed; close it")
        return None

    def _note_malformed(self, lines: Mapping[int, str], first: int) -> None:
        for position, line in lines.items():
            if position < first:
                continue
            text = unmarked(line)
            self.malformed[position] = text.decode(errors="replace")
            if is_marked(line):
                self.malformed_because[position] = f"{text[:SHOWN_BYTES]!r} isn't UTF-8 text; {HOW_TO_RECODE}"

    def _cleaned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keys in their type, text as it stands, everything else as text without the spellings of a missing value."""
        columns = [self._cleaned_column(batch.column(field.name), field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _cleaned_column(self, cells: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
        if field.name == self.key:
            return _or_none(cells).cast(self._key_type)
        is_as_written = pa.types.is_string(field.type) or pa.types.is_binary(field.type)
        return cells if is_as_written else without_null_spellings(cells)


def first_rows(path: Path, delimiter: str, names: list[str]) -> pa.RecordBatch:
    """The first block of a file as text, with the columns in `names`, each of which stands once."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        text = Utf8Stream(file)
        batches = _csv_batches(text, names, delimiter, _skip)
        empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(names), names=names)
        rows = next(batches, empty) if names else empty
        return rows.filter(_has_no_mark(rows)) if text.has_marks else rows


def _has_no_mark(rows: pa.RecordBatch) -> pa.BooleanArray:
    marked = marked_cells(rows)
    return pa.array([row not in marked for row in range(rows.num_rows)], pa.bool_())


def csv_header(path: Path, delimiter: str) -> list[str]:
    """The names of a file's columns. Raises ConfigurationError where it has none, or they aren't UTF-8 text."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        try:
            names: list[str] = _csv_stream(Utf8Stream(file), [], delimiter, _skip).schema.names
        except pa.ArrowInvalid as error:
            raise ConfigurationError(f"{path}: no CSV with a header line: {error}") from error
    for name in names:
        if is_marked(name):
            raise ConfigurationError(f"{path}: the column name {unmarked(name)!r} isn't UTF-8 text; {HOW_TO_RECODE}")
    return names


def _csv_batches(text: Utf8Stream, names: list[str], delimiter: str, on_bad: OnBadLine) -> Iterator[pa.RecordBatch]:
    stream = _csv_stream(text, names, delimiter, on_bad)
    while (batch := _next(stream)) is not None:
        yield batch


def _next(stream: pa_csv.CSVStreamingReader) -> pa.RecordBatch | None:
    try:
        return stream.read_next_batch()
    except StopIteration:
        return None


def _csv_stream(text: Utf8Stream, names: list[str], delimiter: str, on_bad: OnBadLine) -> pa_csv.CSVStreamingReader:
    """One thread only: Arrow numbers bad lines only then."""
    stream: pa_csv.CSVStreamingReader = _open_csv(
        pa.PythonFile(text, mode="r"),
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=file_reader.BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_bad),
        convert_options=pa_csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return stream


def _skip(_row: pa_csv.InvalidRow) -> Literal["skip"]:
    return "skip"


def _remember_in(bad: dict[int, str]) -> OnBadLine:
    def handler(row: pa_csv.InvalidRow) -> Literal["skip"]:
        assert row.number is not None  # one thread reads
        bad[row.number - 2] = row.text  # numbered from 1, the header being line 1
        return "skip"

    return handler


def _with_gaps(batch: pa.RecordBatch, first: int, bad: list[int]) -> pa.RecordBatch:
    """`batch` with rows of nulls at the positions in `bad` that fall between its rows, the first of which is `first`.

    Each bad line before a row of the batch moves it back by one: good rows fill the free positions in order.
    """
    end = first + batch.num_rows
    inside = []
    for at in bad:
        if at < end:
            inside.append(at - first)
            end += 1
    if not inside:
        return batch
    is_bad = np.zeros(end - first, bool)
    is_bad[inside] = True
    rows = np.zeros(end - first, np.int64)
    rows[~is_bad] = np.arange(batch.num_rows)
    taken: pa.Int64Array = pa.array(rows, pa.int64(), mask=is_bad)
    return batch.take(taken)


def _or_none(keys: Any) -> pa.Array[Any]:  # noqa: ANN401  (the stubs lack the string functions)
    """Keys with null for an empty one, as in other formats."""
    present: pa.StringArray = pc.if_else(pc.equal(keys, ""), pa.scalar(None, pa.string()), keys)
    return present


def without_null_spellings(text: Any) -> pa.Array[Any]:  # noqa: ANN401  (the stubs lack the string functions)
    """Cells of a column of numbers, times or the like: trimmed, those that say that there is no value as null."""
    trimmed = pc.utf8_trim_whitespace(text)
    present: pa.StringArray = pc.if_else(pc.is_in(trimmed, value_set=CSV_NULLS), pa.scalar(None, pa.string()), trimmed)
    return present
