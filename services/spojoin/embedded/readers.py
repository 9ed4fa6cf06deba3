"""Input files in chunks: CSV, JSON lines and Parquet, in constant memory.

No value passes through a type that it was not declared as. CSV columns come as text, and so do those of a JSON block
in which some cell isn't as declared: the extraction that follows converts text exactly and refuses bad rows one by one.
A line that isn't a row at all, or whose text isn't UTF-8, keeps its place as a row of nulls and is remembered in
`malformed`.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from spojoin.embedded.content import COMPRESSED_SUFFIXES, check_content, naming_the_file, reading_with_sentences
from spojoin.embedded.json_array import ArrayOrLines, Source
from spojoin.embedded.places import check_readable
from spojoin.embedded.text import (
    HOW_TO_RECODE,
    BadCell,
    Utf8Stream,
    cells_not_utf8,
    is_characters,
    is_marked,
    is_utf8,
    json_cell_not_utf8,
    marked_cells,
    unmarked,
)
from spojoin.errors import BadData, ConfigurationError
from spojoin.query.schema import JSON_FRACTIONS

#: Bytes of text parsed at once. A line must fit; a column's text stays far below Arrow's 2 GiB.
BLOCK_BYTES = 4 << 20
#: Rows of a chunk from Parquet.
CHUNK_ROWS = 1 << 16

#: What stands for a missing value in CSV, as in pandas and Arrow; NaN isn't among them, it has a reason of its own.
CSV_NULLS = pa.array(["", "NA", "N/A", "#N/A", "n/a", "<NA>", "NULL", "Null", "null", "None"])

#: A whole number that reads back as the same text, so that keys like 007 stay what they are.
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17}|)$"  # or no key at all: its row is refused

_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
_PARQUET_SUFFIXES = {".parquet", ".pq"}


#: Bytes of a line that are shown of one that can't be read.
_SHOWN_BYTES = 20

OnBadLine = Callable[[pa_csv.InvalidRow], Literal["skip", "error"]]

# The stubs of pyarrow don't know that these take its own files.
_open_csv: Any = pa_csv.open_csv
_read_json: Any = pa_json.read_json


class Reader(ABC):
    """The rows of one file, in order, as record batches with the columns of `schema` that were asked for.

    schema: the columns to read with their declared types; a null type where none is declared
    key: the column with the user's key, if any; it is int64 or string throughout the file, see `key_type`
    malformed: text of the lines that weren't rows, by position; whoever uses an entry removes it
    malformed_because: a sentence about some of these lines, by position
    found: the file's columns
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        self.path = path
        self.schema = schema
        self.key = key
        self.malformed: dict[int, str] = {}
        self.malformed_because: dict[int, str] = {}
        self.found: list[str] = []

    @property
    @abstractmethod
    def key_type(self) -> pa.DataType:
        """The type of the key column, or int64 where positions are the keys."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read on; a reader is read once."""

    @property
    @abstractmethod
    def fraction(self) -> float:
        """About how much of the file has been read, 0 to 1."""

    def _without_bad_text(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The batch with nulls in the rows in which some text isn't UTF-8; `first` is the position of its first row."""
        bad = cells_not_utf8(batch)
        return self._refused(batch, first, bad) if bad else batch

    def _refused(self, batch: pa.RecordBatch, first: int, bad: Mapping[int, BadCell]) -> pa.RecordBatch:
        for row, cell in bad.items():
            self.malformed[first + row] = cell.text
            self.malformed_because[first + row] = cell.sentence(self.path)
        is_bad = np.zeros(batch.num_rows, bool)
        is_bad[list(bad)] = True
        places: pa.Int64Array = pa.array(np.arange(batch.num_rows), pa.int64(), mask=is_bad)
        return batch.take(places)

    def check_has(self, name: str) -> None:
        """Raises ConfigurationError where the file lacks a column, whether or not it is read."""
        self._check_columns(self.found, [name])

    def _check_columns(self, found: Iterable[str], needed: Sequence[str] | None = None) -> None:
        names = self.found = list(found)
        missing = [name for name in (self.schema.names if needed is None else needed) if name not in names]
        if missing:
            raise ConfigurationError(
                f"{self.path} has no column {', '.join(map(repr, missing))}; its columns are {', '.join(names)}. "
                "Rename the column in the file or in the query's schema"
            )
        repeated = [name for name in self.schema.names if names.count(name) > 1]
        if repeated:
            raise ConfigurationError(f"{self.path} has the column {repeated[0]!r} more than once; rename all but one")


def open_reader(path: Path, schema: pa.Schema, key: str | None) -> Reader:
    """A reader for `path` by its extension: .csv, .tsv, .jsonl, .ndjson, .json (also .gz, .bz2, .zst), .parquet.

    Raises ConfigurationError where the extension is unknown, the file is missing, is no file or holds another format
    than its extension says, or a column is not in it.
    """
    check_readable(path)
    suffix = path.with_suffix("").suffix.lower() if path.suffix.lower() in COMPRESSED_SUFFIXES else path.suffix.lower()
    if suffix in {*_CSV_DELIMITERS, *_JSON_SUFFIXES, *_PARQUET_SUFFIXES}:
        check_content(path, suffix)
    if suffix in _CSV_DELIMITERS:
        return CsvReader(path, schema, key, _CSV_DELIMITERS[suffix])
    if suffix in _JSON_SUFFIXES:
        return JsonLinesReader(path, schema, key)
    if suffix in _PARQUET_SUFFIXES:
        return ParquetReader(path, schema, key)
    known = ", ".join([*_CSV_DELIMITERS, *sorted(_JSON_SUFFIXES), *sorted(_PARQUET_SUFFIXES)])
    raise ConfigurationError(
        f"{path}: can't tell its format from {suffix or 'a name without extension'!r}; use {known}"
    )


def _or_none(keys: Any) -> pa.Array[Any]:  # noqa: ANN401  (the stubs lack the string functions)
    """Keys with null for an empty one, as other formats have it."""
    present: pa.StringArray = pc.if_else(pc.equal(keys, ""), pa.scalar(None, pa.string()), keys)
    return present


def _without_null_spellings(text: Any) -> pa.Array[Any]:  # noqa: ANN401  (the stubs lack the string functions)
    trimmed = pc.utf8_trim_whitespace(text)
    present: pa.StringArray = pc.if_else(pc.is_in(trimmed, value_set=CSV_NULLS), pa.scalar(None, pa.string()), trimmed)
    return present


class _TextReader(Reader):
    """A file of lines, compressed or not."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        self._raw = pa.OSFile(str(path), "rb")
        self._size = self._raw.size()

    @property
    def fraction(self) -> float:
        """By bytes of the file, compressed or not."""
        return 1.0 if self._raw.closed or not self._size else self._raw.tell() / self._size

    def _open(self) -> pa.NativeFile:
        codec = COMPRESSED_SUFFIXES.get(self.path.suffix.lower())
        return pa.CompressedInputStream(self._raw, codec) if codec else self._raw


class CsvReader(_TextReader):
    """CSV with a header line, read as text.

    A line is put after the last one: a quote that is never closed swallows it with all others, and so is found.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None, delimiter: str) -> None:
        super().__init__(path, schema, key)
        self._delimiter = delimiter
        with naming_the_file(path):
            columns = _csv_header(path, delimiter)
        self._check_columns(columns)
        self._end = secrets.token_hex(3)
        self._end_line = f"\n{delimiter.join([self._end] * len(columns))}\n".encode()
        self._key_type = self._find_key_type()

    @property
    def key_type(self) -> pa.DataType:
        """Integer keys stay integers only where all of the file's keys are."""
        return self._key_type

    def _find_key_type(self) -> pa.DataType:
        """Looks through the key column of the whole file: the type must not change on the way."""
        if self.key is None:
            return pa.int64()
        with naming_the_file(self.path), pa.input_stream(str(self.path)) as file:
            for batch in _csv_batches(Utf8Stream(file), [self.key], self._delimiter, _skip):
                if not pc.all(pc.match_substring_regex(batch.column(0), _CANONICAL_INTEGER)).as_py():
                    return pa.string()
        return pa.int64()

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of about BLOCK_BYTES of text."""
        position = 0
        is_whole = False
        bad: dict[int, str] = {}
        text = Utf8Stream(self._open(), self._end_line)
        for batch in _csv_batches(text, self.schema.names, self._delimiter, _remember_in(bad)):
            whole = _with_gaps(batch, position, sorted(bad))
            self._note_malformed({at: bad.pop(at) for at in sorted(bad) if at < position + whole.num_rows})
            is_whole = whole.num_rows > 0 and whole.column(0)[-1].as_py() == self._end
            rows = whole.slice(0, whole.num_rows - is_whole)
            if text.has_marks and (marked := marked_cells(rows)):
                rows = self._refused(rows, position, marked)
            position += rows.num_rows
            yield self._cleaned(rows)
        if not is_whole:
            at = max([position - 1, *bad])
            raise BadData(f"{self.path}: a quote is opened in the row at position {at} and never closed; close it")

    def _note_malformed(self, lines: Mapping[int, str]) -> None:
        for position, line in lines.items():
            text = unmarked(line)
            self.malformed[position] = text.decode(errors="replace")
            if is_marked(line):
                self.malformed_because[position] = f"{text[:_SHOWN_BYTES]!r} isn't UTF-8 text; {HOW_TO_RECODE}"

    def _cleaned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keys in their type, all else as text with the spellings of a missing value made null."""
        columns = [
            _or_none(batch.column(name)).cast(self._key_type)
            if name == self.key
            else _without_null_spellings(batch.column(name))
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)


def _csv_header(path: Path, delimiter: str) -> list[str]:
    try:
        with pa.input_stream(str(path)) as file:
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
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_bad),
        convert_options=pa_csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
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

    A bad line before row i of the batch moves it back by one: the i-th good row stands at the i-th place that is free.
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
    places: pa.Int64Array = pa.array(rows, pa.int64(), mask=is_bad)
    return batch.take(places)


class JsonLinesReader(_TextReader):
    """One JSON object a line, or a .json file's array of objects.

    A block with any bad cell or line is read again line by line, as text.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        first = self._first_object()
        self.found = list(first)
        for name in schema.names if first else ():
            self.check_has(name)
        types = [f.type if _is_json_number(f.type) else _json_type(first.get(f.name), f.name == key) for f in schema]
        self._resolved = pa.schema(list(zip(schema.names, types, strict=True)))

    @property
    def key_type(self) -> pa.DataType:
        """That of the first line's key: JSON tells numbers from text."""
        wanted: pa.DataType = pa.int64() if self.key is None else self._resolved.field(self.key).type
        return wanted

    def check_has(self, name: str) -> None:
        """A row may leave a column out; only one that none of the rows has is missing."""
        if self.found and name not in self.found and not self._stands_anywhere(name):
            super().check_has(name)

    def _stands_anywhere(self, name: str) -> bool:
        """Whether the file has the quoted name anywhere; a name beyond ASCII may be spelled in many ways, so it may."""
        with pa.input_stream(str(self.path)) as file:
            return not name.isascii() or any(json.dumps(name).encode() in block for block in _blocks(file))

    def _first_object(self) -> dict[str, object]:
        with naming_the_file(self.path), pa.input_stream(str(self.path)) as file:
            objects = map(_object, next(_blocks(self._lines(file)), b"").splitlines())
            return next((row for row in objects if row is not None), {})

    def _lines(self, file: pa.NativeFile) -> Source:
        """The file as lines: one that is called .json may hold an array."""
        is_json = ".json" in (self.path.suffix.lower(), self.path.with_suffix("").suffix.lower())
        return ArrayOrLines(file, self.path) if is_json else file

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of about BLOCK_BYTES of text."""
        position = 0
        for block in _blocks(self._lines(self._open())):
            batch = self._parsed(block)
            if batch is None:
                batch = self._by_line(block, position)
            position += batch.num_rows
            yield batch

    def _parsed(self, block: bytes) -> pa.RecordBatch | None:
        """The block, or None if any of its lines or cells isn't as declared."""
        if not is_utf8(block):
            return None
        try:
            table: pa.Table = _read_json(
                pa.BufferReader(block),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pa_json.ParseOptions(explicit_schema=self._resolved, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows else None

    def _by_line(self, block: bytes, first: int) -> pa.RecordBatch:
        lines = [line for line in block.splitlines() if line.strip()]
        rows = [_object(line) for line in lines]
        self.malformed |= {first + at: lines[at].decode(errors="replace") for at, row in enumerate(rows) if row is None}
        self.malformed_because |= {first + at: self._why(lines[at]) for at, row in enumerate(rows) if row is None}
        columns = [pa.array([_text((row or {}).get(name)) for row in rows], pa.string()) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _why(self, line: bytes) -> str:
        if not is_utf8(line):
            cell = json_cell_not_utf8(line)
            return f"its text isn't UTF-8; {HOW_TO_RECODE}" if cell is None else cell.sentence(self.path)
        return (
            f"the line is no JSON object of whole text; it begins with {line[:_SHOWN_BYTES].decode(errors='replace')!r}"
        )


class _Number(str):
    """A JSON number as it was written: it must not pass a double."""

    __slots__ = ()


def _object(line: bytes) -> dict[str, object] | None:
    """The line's object with its numbers as text, or None where there is none."""
    try:
        row = json.loads(line.decode("utf-8-sig"), parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and _is_text(row) else None


def _is_text(row: dict[str, object]) -> bool:
    """Whether all its text is characters: escapes can name half a surrogate pair, which is none."""
    return all(is_characters(value) for value in row.values() if isinstance(value, str))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _is_json_number(declared: pa.DataType) -> bool:
    """Whether Arrow's JSON reader knows values of that type as numbers; dates and timestamps it doesn't read whole."""
    return any((pa.types.is_integer(declared), pa.types.is_floating(declared), pa.types.is_decimal(declared)))


def _json_type(value: object, is_key: bool) -> pa.DataType:
    """What a column of times or keys holds, by its first value: text, whole numbers, or fractions of time."""
    if not isinstance(value, _Number):
        return pa.string()
    return pa.int64() if is_key or value.lstrip("-").isdigit() else JSON_FRACTIONS


def _blocks(file: Source) -> Iterator[bytes]:
    """Pieces of whole lines, each about BLOCK_BYTES long; the last line needs no line break."""
    rest = b""
    while piece := file.read(BLOCK_BYTES):
        cut = piece.rfind(b"\n") + 1
        if cut and (block := rest + piece[:cut]).strip():
            yield block
        rest = piece[cut:] if cut else rest + piece
    if rest.strip():
        yield rest


class ParquetReader(Reader):
    """Parquet; columns keep the file's own types."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
        except pa.ArrowInvalid as error:
            raise ConfigurationError(f"{path}: not a whole Parquet file ({error}); write or copy it again") from error
        self._check_columns(self._file.schema_arrow.names)
        self._rows_read = 0

    @property
    def key_type(self) -> pa.DataType:
        """int64 for any integer key, else text."""
        if self.key is None or pa.types.is_integer(self._file.schema_arrow.field(self.key).type):
            return pa.int64()
        return pa.string()

    @property
    def fraction(self) -> float:
        """By rows."""
        rows: int = self._file.metadata.num_rows
        return self._rows_read / rows if rows else 1.0

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most CHUNK_ROWS rows."""
        for batch in self._file.iter_batches(CHUNK_ROWS, columns=self.schema.names):
            text = self._without_bad_text(batch.select(self.schema.names), self._rows_read)
            self._rows_read += batch.num_rows
            yield text
