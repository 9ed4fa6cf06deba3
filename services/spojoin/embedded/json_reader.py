"""Files of JSON lines, and of one JSON array, in constant memory; and the types of their columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json
from numpy.typing import NDArray

from spojoin.columns.inferred import narrowest_type, wide_decimal
from spojoin.columns.stream_columns import JSON_FRACTIONS
from spojoin.columns.texts import JsonNumber
from spojoin.embedded import file_reader
from spojoin.embedded.file_content import (
    HOW_TO_RECODE,
    is_characters,
    is_utf8,
    json_cell_not_utf8,
    naming_the_file,
    reading_with_sentences,
)
from spojoin.embedded.file_reader import SHOWN_BYTES, TextReader
from spojoin.errors import BadData, ConfigurationError
from spojoin.kernels.compile import inlined, kernel
from spojoin.model import ColumnType, TypeName

_BLANK = b" \t\r\n\xef\xbb\xbf"  # with the byte order mark that some editors write
_QUOTE, _BACKSLASH, _COMMA, _NEWLINE, _SPACE = 34, 92, 44, 10, 32
_LINE_ENDS, _OPENING, _CLOSING = (10, 13), (91, 123), (93, 125)

#: Slots of the kernel's state: open brackets, whether inside a string, whether the array is over.
_DEPTH, _STRING, _ENDED = range(3)
#: Inside a string, and behind a backslash in it.
_PLAIN, _ESCAPING = 1, 2

_TEXT = ColumnType(TypeName.STRING)
_NUMBERS = (TypeName.LONG, TypeName.DOUBLE)
_TIMES = (TypeName.DATE, TypeName.TIMESTAMP)

# The stubs of pyarrow don't know that this takes its own files.
_read_json: Any = pa_json.read_json


class ByteSource(Protocol):
    """Where bytes are read from."""

    def read(self, nbytes: int, /) -> bytes:
        """At most `nbytes` bytes; none at the end."""


class ArrayOrLines:
    """A JSON file's bytes: as they are, or with the elements of its one array each on a line of its own.

    Raises BadData if the array doesn't end, or anything follows it.
    """

    def __init__(self, source: ByteSource, path: Path) -> None:
        self._source = source
        self._path = path
        self._is_array: bool | None = None
        self._state = np.zeros(3, np.int64)

    def read(self, nbytes: int, /) -> bytes:
        """About `nbytes` bytes; none at the end."""
        piece = self._source.read(nbytes)
        if self._is_array is None and piece.strip(_BLANK):
            self._is_array = piece.lstrip(_BLANK).startswith(b"[")
            piece = piece.lstrip(_BLANK) if self._is_array else piece
        elif self._is_array is None:
            piece = b" " * len(piece)  # part of a byte order mark alone would look like a line
        return self._as_lines(piece) if self._is_array else piece

    def _as_lines(self, piece: bytes) -> bytes:
        text = np.frombuffer(piece, np.uint8).copy()
        if not _split(text, self._state):
            raise BadData(f"{self._path}: there is more text behind the end of its JSON array: a file holds one array")
        if not piece and not self._state[_ENDED]:
            raise BadData(
                f"{self._path}: its JSON array has no end: the file is truncated, or a bracket or quote is left open"
            )
        return text.tobytes()


@inlined
def _within(string: int, c: int) -> int:
    """The state behind a character of a string."""
    if string == _ESCAPING:
        return _PLAIN
    if c == _BACKSLASH:
        return _ESCAPING
    return 0 if c == _QUOTE else _PLAIN


@kernel
def _split(text: NDArray[np.uint8], state: NDArray[np.int64]) -> bool:
    """Put line breaks between elements, and blanks for the array's brackets and the elements' own line breaks.

    text, state: uint8 (n,) and int64 (3,), both changed. False where anything but blanks follows the array.
    """
    depth, string, ended = state[_DEPTH], state[_STRING], state[_ENDED]
    for at in range(len(text)):
        c = text[at]
        if string:
            string = _within(string, c)
        elif ended:
            if c > _SPACE:
                return False
        elif c == _QUOTE:
            string = _PLAIN
        elif c in _LINE_ENDS:
            text[at] = _SPACE
        elif c in _OPENING:
            text[at] = c if depth else _SPACE
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            ended = depth == 0
            text[at] = _SPACE if ended else c
        elif c == _COMMA and depth == 1:
            text[at] = _NEWLINE
    state[_DEPTH], state[_STRING], state[_ENDED] = depth, string, ended
    return True


def json_type(values: Sequence[object]) -> ColumnType | None:
    """The type of a column's values, none of them nested; None if all are null.

    Text is a date or a timestamp where all of it is, and never a number; values of several kinds are text. Numbers
    of more digits than a long or a double has are decimals.
    """
    present = [value for value in values if value is not None]
    if not present:
        return None
    if all(isinstance(value, bool) for value in present):
        return ColumnType(TypeName.BOOLEAN)
    are_numbers = [isinstance(value, JsonNumber) for value in present]
    if any(isinstance(value, bool) for value in present) or len(set(are_numbers)) > 1:
        return ColumnType(TypeName.STRING)
    if not are_numbers[0]:
        return narrowest_type(pa.array(present, pa.string()), _TIMES)
    found = narrowest_type(pa.array(present, pa.string()), _NUMBERS)
    return wide_decimal(map(str, present)) or found if found == _TEXT else found


def nested_type(values: Sequence[object]) -> pa.DataType | None:
    """The Arrow type of a column that holds objects or arrays; None if they have no one shape.

    Fields are those of any value. Numbers within are int64, or double where one has a fraction.
    """
    try:
        found = pa.array([_plain(value) for value in values]).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return found if _has_parts(found) else None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, JsonNumber):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    return value


def _has_parts(kind: pa.DataType) -> bool:
    """Whether no object within is always empty: no engine has a type for one."""
    return all(_has_parts(kind.field(k).type) for k in range(kind.num_fields)) and str(kind) != "struct<>"


class JsonLinesReader(TextReader):
    """One JSON object a line, or a .json file's array of objects.

    A block with any bad cell or line is reread line by line, as text.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        first = next(objects_of(self.path), {})
        self.found = list(first)
        for name in schema.names if first else ():
            self.check_has(name)
        types = [_resolved_type(field, first.get(field.name), field.name == key) for field in schema]
        self._resolved = pa.schema(list(zip(schema.names, types, strict=True)))
        self._nested = pa.schema([field for field in self._resolved if pa.types.is_nested(field.type)])

    @property
    def key_type(self) -> pa.DataType:
        """The type of the first line's key: JSON distinguishes numbers from text."""
        wanted: pa.DataType = pa.int64() if self.key is None else self._resolved.field(self.key).type
        return wanted

    def check_has(self, name: str) -> None:
        """A row may omit a column; only a column that no row has is missing."""
        if self.found and name not in self.found and not self._stands_anywhere(name):
            super().check_has(name)

    def _stands_anywhere(self, name: str) -> bool:
        """Whether the file has the quoted name anywhere; assumed of a name beyond ASCII, which has many spellings."""
        with pa.input_stream(str(self.path)) as file:
            return not name.isascii() or any(json.dumps(name).encode() in block for block in _blocks(file))

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of about BLOCK_BYTES of text."""
        position = 0
        for block in _blocks(_lines(self._open(), self.path)):
            batch = self._parsed(block)
            if batch is None:
                batch = self._by_line(block, position)
            position += batch.num_rows
            yield batch

    def _parsed(self, block: bytes) -> pa.RecordBatch | None:
        """The block, or None if any of its lines or cells doesn't fit its declaration.

        A line from brace to brace can't be continued by the next one, as no JSON value holds `}` and then `{`: where
        there are as many rows as such lines, each line is one.
        """
        lines = _lines_from_brace_to_brace(block)
        if not lines or not is_utf8(block):
            return None
        found = self._read(block, self._resolved)
        return found if found is not None and found.num_rows == lines else None

    def _read(self, block: bytes, schema: pa.Schema) -> pa.RecordBatch | None:
        """Columns of some lines; None if a cell doesn't fit, or a nested one has a field of which nothing is known.

        Arrow drops unknown fields within objects in silence, unless it adds all unknown fields to what it gives.
        """
        try:
            table: pa.Table = _read_json(
                pa.BufferReader(block),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pa_json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="infer" if self._nested else "ignore"
                ),
            ).select(schema.names)
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0] if table.schema == schema else None

    def _by_line(self, block: bytes, first: int) -> pa.RecordBatch:
        lines = [line for line in block.splitlines() if line.strip()]
        rows = [_object(line, self.schema.names) for line in lines]
        nested = [self._read(line, self._nested) if self._nested else None for line in lines]
        bad = [at for at, row in enumerate(rows) if row is None or (self._nested and nested[at] is None)]
        self.malformed |= {first + at: lines[at].decode(errors="replace") for at in bad}
        self.malformed_because |= {first + at: self._why(lines[at]) for at in bad}
        columns = [
            _nested_column(nested, field)
            if field.name in self._nested.names
            else pa.array([_text((row or {}).get(field.name)) for row in rows], pa.string())
            for field in self._resolved
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def _why(self, line: bytes) -> str:
        if not is_utf8(line):
            cell = json_cell_not_utf8(line)
            return f"its text isn't UTF-8; {HOW_TO_RECODE}" if cell is None else cell.sentence(self.path)
        if self._nested and _object(line, self.schema.names) is not None:
            kinds = ", ".join(f"{field.name}: {field.type}" for field in self._nested)
            return f"a field isn't of the kind that it has in the first rows, {kinds}"
        if _object(line) is not None:
            return f"a field stands twice in one object: {line[:SHOWN_BYTES].decode(errors='replace')!r}"
        return (
            f"the line is no JSON object of whole text; it begins with {line[:SHOWN_BYTES].decode(errors='replace')!r}"
        )


def objects_of(path: Path) -> Iterator[dict[str, object]]:
    """A file's objects, with their numbers as JsonNumber; lines that are none are left out."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        for block in _blocks(_lines(file, path)):
            yield from (row for row in map(_object, block.splitlines()) if row is not None)


def check_objects(path: Path, first: Sequence[Mapping[str, object]]) -> None:
    """ConfigurationError if a file has text but no object in any line, or one object that holds all rows.

    first: its first objects, two where there are so many
    """
    if not first and (text := _beginning(path)):
        shown = text[:SHOWN_BYTES]
        raise ConfigurationError(f"{path} has no JSON object in any line, it begins with {shown!r}; {_way(path, text)}")
    for name, value in first[0].items() if len(first) == 1 else ():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            raise ConfigurationError(
                f"{path} holds one object, whose field {name!r} is a list of objects; if these are the rows, write "
                f"them alone, as by: jq -c '.{name}[]' {path.name} > NEW.jsonl"
            )


def _way(path: Path, text: str) -> str:
    """What makes a file of JSON lines of one that begins with this text."""
    line = text.split("\n", maxsplit=1)[0].strip()
    if line.startswith("{") and line.endswith("},"):
        return f"take the commas off its lines, as by: sed 's/,$//' {path.name} > NEW.jsonl"
    if re.match(r"\{\s*'", line):
        return "names and texts of JSON are in double quotes: write it by a library, such as json.dumps() in Python"
    if line.startswith("{"):
        return f"write each object in a line of its own, as by: jq -c . {path.name} > NEW.jsonl"
    if re.match(r"\[\s*(\{|$)", line):
        return f"it is an array, so name it {path.with_suffix('.json').name}"
    return "name it by what it holds"


def _beginning(path: Path) -> str:
    """The first text of a file; empty if it has none."""
    with naming_the_file(path), pa.input_stream(str(path)) as file:
        block = next(_blocks(_lines(file, path)), b"")
    return block.decode(errors="replace").lstrip("\ufeff \t\r\n")


def _lines(file: pa.NativeFile, path: Path) -> ByteSource:
    """The file as lines: a .json file may hold an array."""
    is_json = ".json" in (path.suffix.lower(), path.with_suffix("").suffix.lower())
    return ArrayOrLines(file, path) if is_json else file


class _Fields(dict[str, object]):
    """A JSON object that knows how its fields are written."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self._written = [name for name, _ in pairs]

    def has_twice(self, names: Sequence[str]) -> bool:
        """Whether a field of one of these names stands more than once."""
        return len(self._written) > len(self) and any(self._written.count(name) > 1 for name in names)


def _object(line: bytes, once: Sequence[str] = ()) -> dict[str, object] | None:
    """The line's object with its numbers as text, or None if there is none, or a field of `once` stands twice."""
    try:
        row = json.loads(
            line.decode("utf-8-sig"),
            parse_float=JsonNumber,
            parse_int=JsonNumber,
            parse_constant=JsonNumber,
            object_pairs_hook=_Fields if once else None,
        )
    except (ValueError, RecursionError):
        return None
    if isinstance(row, _Fields) and row.has_twice(once):
        return None
    return row if isinstance(row, dict) and _is_text(row) else None


def _lines_from_brace_to_brace(block: bytes) -> int:
    """How many lines that are not blank a block has, 0 where one doesn't begin with `{` and end with `}`."""
    text = block.strip()
    ends = text.count(b"\n")
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return 0
    if text.count(b"}\n{") == ends or text.count(b"}\r\n{") == ends:
        return ends + 1
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    return len(lines) if all(line[:1] == b"{" and line[-1:] == b"}" for line in lines) else 0


def _is_text(row: dict[str, object]) -> bool:
    """Whether all its text is characters: escapes can name half a surrogate pair, which is not one."""
    return all(is_characters(value) for value in row.values() if isinstance(value, str))


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    """JSON as it was read: numbers keep their digits."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, JsonNumber) else json.dumps(value)


def _resolved_type(field: pa.Field[Any], value: object, is_key: bool) -> pa.DataType:
    """What Arrow's JSON reader reads a column as; `value` is the first."""
    if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
        return pa.string()
    if pa.types.is_boolean(field.type) or pa.types.is_nested(field.type) or _is_json_number(field.type):
        return field.type
    return _json_type(value, is_key)


def _nested_column(lines: Sequence[pa.RecordBatch | None], field: pa.Field[Any]) -> pa.Array[Any]:
    """A nested column of rows that were read line by line, null in those that couldn't be."""
    null = pa.nulls(1, field.type)
    return pa.concat_arrays([null if line is None else line.column(field.name) for line in lines])


def _is_json_number(declared: pa.DataType) -> bool:
    """Whether Arrow's JSON reader reads this type from numbers exactly; it doesn't for dates and timestamps."""
    return any((pa.types.is_integer(declared), pa.types.is_floating(declared), pa.types.is_decimal(declared)))


def _json_type(value: object, is_key: bool) -> pa.DataType:
    """The type of a column of times or keys by its first value: text, whole numbers, or times with a fraction."""
    if not isinstance(value, JsonNumber):
        return pa.string()
    return pa.int64() if is_key or value.lstrip("-").isdigit() else JSON_FRACTIONS


def _blocks(file: ByteSource) -> Iterator[bytes]:
    """Pieces of whole lines, each about BLOCK_BYTES long; the last line needs no line break."""
    rest = b""
    while piece := file.read(file_reader.BLOCK_BYTES):
        cut = piece.rfind(b"\n") + 1
        if cut and (block := rest + piece[:cut]).strip():
            yield block
        rest = piece[cut:] if cut else rest + piece
    if rest.strip():
        yield rest
