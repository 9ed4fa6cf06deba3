"""Reads CSV files as text columns, in constant memory.

An empty cell is NULL. In a column of text or binary values, an empty cell in quotes is empty text, as in SQL. In
columns of other types, the spellings of a missing value are NULL too.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.columns.csv_options import how_to_say
from spojoin.embedded.csv_form import (
    OnBadLine,
    csv_form,
    plain_dates,
    plain_numbers,
    plain_times,
    without_null_spellings,
)
from spojoin.embedded.file_content import (
    how_to_recode,
    is_marked,
    marked_cells,
    naming_the_file,
    reading_with_sentences,
    unmarked,
)
from spojoin.embedded.file_reader import SHOWN_BYTES, TextReader
from spojoin.errors import BadData
from spojoin.model import AS_THE_PAGE_SAYS, CsvOptions

#: An integer that reads back as the same text, so that keys like 007 stay as they are.
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17}|)$"  # an empty key matches; its row is refused later


class CsvReader(TextReader):
    """Reads CSV as text. options: how the file is written, if it differs from `delimiter` and the defaults.

    A marker line is appended to the file. A quote that is never closed swallows this line, which shows the mistake.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, key: str | None, delimiter: str, options: CsvOptions = AS_THE_PAGE_SAYS
    ) -> None:
        super().__init__(path, schema, key)
        self._form = csv_form(path, delimiter, options)
        self._is_plain = options == AS_THE_PAGE_SAYS
        self._check_columns(self._form.names)
        self._end = secrets.token_hex(3)
        self._end_line = f"\n{self._form.delimiter.join([self._end] * len(self._form.names))}\n".encode()
        self._key_type = self._find_key_type()

    @property
    def key_type(self) -> pa.DataType:
        """int64 if all of the file's keys are integers, otherwise text."""
        return self._key_type

    def _find_key_type(self) -> pa.DataType:
        """Find the type in the key column of the whole file, since the type must not change halfway."""
        if self.key is None or pa.types.is_string(self.schema.field(self.key).type):
            return pa.int64() if self.key is None else pa.string()
        with naming_the_file(self.path), pa.input_stream(str(self.path)) as file:
            for batch in self._form.batches(self._form.text(file), [self.key], _skip):
                if not pc.all(pc.match_substring_regex(batch.column(0), _CANONICAL_INTEGER)).as_py():
                    return pa.string()
        return pa.int64()

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of about BLOCK_BYTES of text."""
        position = yield from self._rows(self.schema.names, 0)
        if position is not None:
            self._raw.seek(0)
            yield from self._rows(self.found, position)

    def _rows(self, names: list[str], first: int) -> Generator[pa.RecordBatch, None, int | None]:
        """The rows from position `first` on, with the columns `names`.

        Returns the position of the remaining rows if there is text that isn't UTF-8, which may be in any other column.
        """
        position = 0
        is_whole = False
        bad: dict[int, str] = {}
        text = self._form.text(self._open(), self._end_line)
        for batch in self._form.batches(text, names, _remember_in(bad, self._form.first_number)):
            if text.has_marks and len(names) < len(self.found):
                return position
            whole = _with_gaps(batch, position, sorted(bad))
            self._note_malformed({at: bad.pop(at) for at in sorted(bad) if at < position + whole.num_rows}, first)
            is_whole = whole.num_rows > 0 and whole.column(0)[-1].as_py() == self._end
            rows = whole.slice(0, whole.num_rows - is_whole)
            position += rows.num_rows
            if position <= first:
                continue
            if not is_whole and (cut := self._cut_line(rows.slice(rows.num_rows - 1))) is not None:
                self._note_cut(position - 1, cut)
                rows, is_whole = _without_the_last(rows), True
            if text.has_marks and (marked := marked_cells(rows)):
                rows = self._refused(rows, position - rows.num_rows, marked)
            yield self._cleaned(rows)
        if not is_whole:
            at = max([position - 1, *bad])
            if [*bad] != [position] or not self._is_cut(bad[at]):
                raise BadData(f"{self.path}: a quote is opened in the row at position {at} and never closed; close it")
            self._note_cut(at, bad[at])
            nothing = [pa.nulls(1, pa.string()) for _ in self.schema]
            yield self._cleaned(pa.RecordBatch.from_arrays(nothing, names=self.schema.names))
        return None

    def _cut_line(self, row: pa.RecordBatch) -> str | None:
        """The text of a row that breaks off within quotes in the file's last line; None for other rows."""
        cells = [cell for column in row.columns for cell in column.to_pylist() if cell is not None]
        return ",".join(cells) if any(map(self._is_cut, cells)) else None

    def _is_cut(self, text: str) -> bool:
        """Whether unclosed quotes begin in the last line, so that they swallow only the marker line."""
        before, marker, _ = text.partition(f"\n{self._end}")
        return bool(marker) and "\n" not in before

    def _note_cut(self, position: int, text: str) -> None:
        line = text.partition(f"\n{self._end}")[0]
        self.malformed[position] = unmarked(line).decode(errors="replace")
        self.malformed_because[position] = "the file breaks off within quotes: copy or download it again"

    def _note_malformed(self, lines: Mapping[int, str], first: int) -> None:
        for position, line in lines.items():
            if position < first:
                continue
            text = unmarked(line)
            self.malformed[position] = text.decode(errors="replace")
            if is_marked(line):
                why = f"{text[:SHOWN_BYTES]!r} isn't UTF-8 text; {how_to_recode(self.path)}"
                self.malformed_because[position] = why
            elif (way := self._way(line)) is not None:
                plain = f"the line is no row with the columns of {self.path.name}"
                self.malformed_because[position] = f"{plain}; {way}"

    def _way(self, line: str) -> str | None:
        """The option with which a malformed line would be a row or a comment."""
        options, delimiter = self._form.options, re.escape(self._form.delimiter)
        if options.comment is None and line[:1] in ("#", "%"):
            return f"if {line[0]} begins a comment, say {how_to_say(options, {'comment': line[0]})}"
        if options.escape == AS_THE_PAGE_SAYS.escape and '\\"' in line:
            return f'if \\" is a quote within quotes, say {how_to_say(options, {"escape": chr(92)})}'
        if options.quote == AS_THE_PAGE_SAYS.quote and re.search(rf"(^|{delimiter})'[^']*{delimiter}[^']*'", line):
            return f"if ' encloses cells, say {how_to_say(options, {'quote': chr(39)})}"
        return None

    def _cleaned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keys in their type, text unchanged, and everything else as text without the spellings of a missing value."""
        columns = [self._cleaned_column(batch.column(field.name), field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _cleaned_column(self, cells: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
        if field.name == self.key:
            return _or_none(cells).cast(self._key_type)
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            return cells
        options = self._form.options
        plain: pa.StringArray = without_null_spellings(cells, options)
        if self._is_plain:
            return plain
        if pa.types.is_date(field.type):
            return plain_dates(plain, options)
        is_time = pa.types.is_timestamp(field.type) or pa.types.is_null(field.type)
        return plain_times(plain, options) if is_time else plain_numbers(plain, options)


def first_rows(path: Path, delimiter: str, options: CsvOptions = AS_THE_PAGE_SAYS) -> pa.RecordBatch:
    """The rows of a file's first block as text, without malformed lines."""
    form = csv_form(path, delimiter, options)
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        text = form.text(file)
        rows = form.first_batch(text, _skip)
        if rows is None:
            return pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(form.names), names=list(form.names))
        return rows.filter(_has_no_mark(rows)) if text.has_marks else rows


def _has_no_mark(rows: pa.RecordBatch) -> pa.BooleanArray:
    marked = marked_cells(rows)
    return pa.array([row not in marked for row in range(rows.num_rows)], pa.bool_())


def _skip(_row: pa_csv.InvalidRow) -> Literal["skip"]:
    return "skip"


def _remember_in(bad: dict[int, str], first_number: int) -> OnBadLine:
    def handler(row: pa_csv.InvalidRow) -> Literal["skip"]:
        assert row.number is not None  # because one thread reads
        bad[row.number - first_number] = row.text
        return "skip"

    return handler


def _with_gaps(batch: pa.RecordBatch, first: int, bad: list[int]) -> pa.RecordBatch:
    """`batch` with rows of nulls at the positions in `bad` between its rows; its first position is `first`.

    Each bad line before a row moves the row back by one: good rows fill the free positions in order.
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


def _without_the_last(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, with nulls in the last one."""
    places = np.arange(rows.num_rows)
    taken: pa.Int64Array = pa.array(places, pa.int64(), mask=places == rows.num_rows - 1)
    return rows.take(taken)


def _or_none(keys: Any) -> pa.Array[Any]:  # noqa: ANN401  (the stubs lack the string functions)
    """The keys, with null instead of empty text, as in other formats."""
    present: pa.StringArray = pc.if_else(pc.equal(keys, ""), pa.scalar(None, pa.string()), keys)
    return present
