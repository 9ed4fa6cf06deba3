"""Text that should be UTF-8 and isn't: usually Latin-1, as spreadsheets and old databases write it.

Arrow's CSV reader stops at the first byte that is no text and doesn't name the line. So each such byte becomes two
noncharacters, code points that Unicode reserves and no text holds, by which the cells are found again.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

HOW_TO_RECODE = "save it as UTF-8, as with: iconv -f ISO-8859-1 -t UTF-8 OLD > NEW"

#: The endings of CSV, which alone may be in another encoding.
CSV_SUFFIXES = (".csv", ".tsv")

_FIRST = 0xFDD0  # of the 32 noncharacters: 16 for a byte's high half, 16 for its low half
_MARKED = re.compile("[\ufdd0-\ufdef]{2}")
_ERRORS = "spojoin-marks"


def how_to_recode(path: Path) -> str:
    """What to do with a file whose text isn't UTF-8."""
    is_csv = any(suffix.lower() in CSV_SUFFIXES for suffix in path.suffixes[-2:])
    return f"{HOW_TO_RECODE}; or say how it is written, such as --csv encoding=latin-1" if is_csv else HOW_TO_RECODE


class BadCell(NamedTuple):
    """The first cell of a row whose text isn't UTF-8: its column, its bytes, and the row's text with replacements."""

    column: str
    value: bytes
    text: str

    def sentence(self, path: Path) -> str:
        """What is wrong, in which field, and what to do."""
        return f"field {self.column}: {self.value!r} in {path.name} isn't UTF-8 text; {how_to_recode(path)}"


class Comments:
    """Takes lines that begin with a character out of text that comes in pieces; none of those within quotes."""

    def __init__(self, mark: str, quote: str) -> None:
        self._mark = mark
        self._quote = quote
        self._is_quoted = False
        self._rest = ""

    def without(self, text: str, *, is_last: bool) -> str:
        """The whole lines of the text so far that are none, and haven't been given yet."""
        whole, line_end, self._rest = (self._rest + text).rpartition("\n")
        if is_last:
            whole, line_end, self._rest = whole + line_end + self._rest, "", ""
        lines = whole.split("\n") if whole or line_end else []
        return "".join(f"{line}\n" for line in lines if not self._is_comment(line))

    def _is_comment(self, line: str) -> bool:
        if not self._is_quoted and line.removeprefix("\ufeff").startswith(self._mark):
            return True
        if self._quote and line.count(self._quote) % 2:
            self._is_quoted = not self._is_quoted
        return False


class Utf8Stream:
    """A stream of bytes as UTF-8, with two noncharacters for each byte that is no text; `end` follows the last byte.

    encoding: of the bytes; comments: takes lines out, if there are any to take
    has_marks: whether there were bytes so far that are no text; is_stopped: whether nothing more shall be read
    """

    def __init__(
        self, file: pa.NativeFile, end: bytes = b"", encoding: str = "utf-8", comments: Comments | None = None
    ) -> None:
        self.has_marks = False
        self.is_stopped = False
        self.closed = False
        self._file = file
        self._end: bytes | None = end
        self._ready = b""
        self._decoder: Any = codecs.getincrementaldecoder(encoding)(_ERRORS)
        self._comments = comments

    def read(self, size: int) -> bytes:
        """Exactly `size` more bytes, fewer only at the end: the caller has room for no more."""
        while len(self._ready) < size and self._end is not None and not self.is_stopped:
            piece = self._file.read(size - len(self._ready))
            self._ready += self._encoded(self._decoder.decode(piece, not piece), is_last=not piece)
            if not piece:
                self._ready, self._end = self._ready + self._end, None
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready

    def close(self) -> None:
        """Does nothing to the file: its opener closes it."""
        self.closed = True

    def _encoded(self, text: str, *, is_last: bool) -> bytes:
        self.has_marks = self.has_marks or (not text.isascii() and is_marked(text))
        return (text if self._comments is None else self._comments.without(text, is_last=is_last)).encode()


def is_marked(text: str) -> bool:
    """Whether text of a Utf8Stream has bytes that weren't UTF-8."""
    return _MARKED.search(text) is not None


def unmarked(text: str) -> bytes:
    """The bytes that text of a Utf8Stream was made of."""
    pieces = _MARKED.split(text)
    marks = [bytes([(ord(m[0][0]) - _FIRST) << 4 | ord(m[0][1]) - _FIRST - 16]) for m in _MARKED.finditer(text)]
    return b"".join(piece.encode() + mark for piece, mark in zip(pieces, [*marks, b""], strict=True))


def marked_cells(batch: pa.RecordBatch) -> dict[int, BadCell]:
    """By row, the first cell with bytes that weren't UTF-8; all columns are strings of a Utf8Stream."""
    found: dict[int, BadCell] = {}
    for name in batch.schema.names:
        is_bad = pc.match_substring_regex(batch.column(name), _MARKED.pattern)
        for row in pc.indices_nonzero(is_bad).to_pylist():
            values = [unmarked(text or "") for text in batch.slice(row, 1).to_pylist()[0].values()]
            text = b",".join(values).decode(errors="replace")
            found.setdefault(row, BadCell(name, unmarked(batch.column(name)[row].as_py()), text))
    return found


def cells_not_utf8(batch: pa.RecordBatch) -> dict[int, BadCell]:
    """By row, the first cell of a text column (string, large string) whose bytes aren't UTF-8."""
    names = [each.name for each in batch.schema if pa.types.is_string(each.type) or pa.types.is_large_string(each.type)]
    if all(_is_whole_text(batch.column(name)) for name in names):
        return {}
    cells = [batch.column(name).cast(pa.large_binary()).to_pylist() for name in names]
    found: dict[int, BadCell] = {}
    for row, values in enumerate(zip(*cells, strict=True)):
        for name, value in zip(names, values, strict=True):
            if value is not None and not is_utf8(value):
                text = b",".join(each or b"" for each in values).decode(errors="replace")
                found.setdefault(row, BadCell(name, value, text))
    return found


def json_cell_not_utf8(line: bytes) -> BadCell | None:
    """The first field of a JSON object whose text isn't UTF-8; None where there is no such object or no such field."""
    try:
        row = json.loads(line.decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    for name, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, str) and not is_utf8(value.encode("latin-1", errors="ignore")):
            return BadCell(name, value.encode("latin-1", errors="ignore"), line.decode(errors="replace"))
    return None


def is_utf8(text: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_characters(text: str) -> bool:
    """Whether the text can be written as UTF-8: escapes can name half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole_text(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.end]
    return "".join(chr(_FIRST + (byte >> 4)) + chr(_FIRST + 16 + (byte & 15)) for byte in bad), error.end


codecs.register_error(_ERRORS, _marks)
