"""Checks a file's content: whether its first bytes fit the format in its name, and whether its text is UTF-8."""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.errors import BadData, ConfigurationError

#: Arrow's name of the compression, by the ending of compressed text.
COMPRESSED_SUFFIXES: dict[str, Literal["gzip", "bz2", "zstd"]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_PARQUET_SUFFIXES = (".parquet", ".pq")
_HEAD_BYTES = 64

_SAVE_AS = "save it as CSV, JSON lines or Parquet"
_ARROW_ADVICE = "let its name end in .arrow, or save it as Parquet"
_UTF16_ADVICE = "save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW; CSV is also read by --csv encoding=utf-16"
HOW_TO_RECODE = "save it as UTF-8, as with: iconv -f ISO-8859-1 -t UTF-8 OLD > NEW"

#: The endings of CSV; other text must be UTF-8.
CSV_SUFFIXES = (".csv", ".tsv")
_FIRST = 0xFDD0  # of the 32 noncharacters: 16 for a byte's high half, 16 for its low half
_MARKED = re.compile("[\ufdd0-\ufdef]{2}")
_ERRORS = "spojoin-marks"


class ContentKind(NamedTuple):
    """A format that is recognized by its first bytes.

    suffix: the ending of its files; None if spojoin can't read the format, or only with another ending; `advice`
    then says what to do
    """

    magic: bytes
    name: str
    suffix: str | None
    advice: str = ""


_KINDS = (
    ContentKind(b"PAR1", "Parquet", ".parquet"),
    ContentKind(b"\x1f\x8b", "gzip", ".gz"),
    ContentKind(b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    ContentKind(b"BZh", "bzip2", ".bz2"),
    ContentKind(b"ARROW1", "an Arrow IPC (Feather) file", None, _ARROW_ADVICE),
    ContentKind(b"\xff\xff\xff\xff", "an Arrow IPC stream", None, _ARROW_ADVICE),
    ContentKind(b"\xff\xfe", "UTF-16 text", None, _UTF16_ADVICE),
    ContentKind(b"\xfe\xff", "UTF-16 text", None, _UTF16_ADVICE),
    ContentKind(b"PK\x03\x04", "a ZIP archive, as .xlsx files are", None, f"unpack it, or {_SAVE_AS}"),
    ContentKind(b"\xd0\xcf\x11\xe0", "an old Excel sheet", None, _SAVE_AS),
    ContentKind(b"\xfd7zXZ", "xz", None, "unpack it, or compress it with gzip or zstd"),
    ContentKind(b"\x04\x22\x4d\x18", "lz4", None, "unpack it, or compress it with gzip or zstd"),
    ContentKind(b"ORC", "ORC", None, _SAVE_AS),
    ContentKind(b"Obj\x01", "Avro", None, _SAVE_AS),
    ContentKind(b"SQLite format 3", "an SQLite database", None, _SAVE_AS),
)


def check_content(path: Path, suffix: str) -> None:
    """Raises ConfigurationError if the file at `path` isn't in the format that its ending says.

    `suffix` is the ending of the format, without the ending of a compression: .csv for trips.csv.gz.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    compression = path.suffix.lower()
    if compression in COMPRESSED_SUFFIXES:
        _check_binary(path, head, compression)
        with naming_the_file(path), pa.input_stream(str(path)) as unpacked:
            head = unpacked.read(_HEAD_BYTES)
        _check_text(f"{path}, unpacked,", path.with_suffix(""), head, "unpack it and ")
    elif suffix in _PARQUET_SUFFIXES:
        _check_binary(path, head, ".parquet")
    else:
        _check_text(str(path), path, head)


def _check_binary(path: Path, head: bytes, suffix: str) -> None:
    expected = next(kind for kind in _KINDS if kind.suffix == suffix)
    if head.startswith(expected.magic):
        return
    found = content_kind(head)
    if found is None:
        raise ConfigurationError(f"{path} holds no {expected.name}, whatever its ending says; name it by what it holds")
    raise ConfigurationError(f"{path} holds {found.name}, whatever its ending says; {_advice(found, path)}")


def _check_text(what: str, path: Path, head: bytes, first: str = "") -> None:
    """Raise ConfigurationError if the first bytes of a text show another content. first: what to do before that."""
    found = content_kind(head)
    if found is not None:
        raise ConfigurationError(f"{what} holds {found.name}, whatever its ending says; {first}{_advice(found, path)}")
    if _PAGE.match(head):
        advice = f"{first}open it: a failed download often leaves an error page"
        raise ConfigurationError(f"{what} holds a web page, whatever its ending says; {advice}")
    if path.suffix.lower() in CSV_SUFFIXES and head.lstrip().startswith(b"{"):
        advice = f"{first}name it {path.with_suffix('.jsonl')}"
        raise ConfigurationError(f"{what} holds JSON, whatever its ending says; {advice}")


def content_kind(head: bytes) -> ContentKind | None:
    """The format, or None for text: a line of column names may begin with the first bytes of a format."""
    if not any(byte < 9 or 14 <= byte < 32 or byte >= 128 for byte in head):
        return None
    return next((kind for kind in _KINDS if head.startswith(kind.magic)), None)


def _advice(found: ContentKind, path: Path) -> str:
    if found.suffix is None:
        return found.advice
    return f"name it {path.with_suffix('.parquet') if found.suffix == '.parquet' else f'{path}{found.suffix}'}"


@contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Turns Arrow's errors about a file's content into BadData, with the file's path and what to do."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's error, not Arrow's
            raise
        raise BadData(f"{path} can't be read on: {_sentence(path, str(error))}") from error


def _sentence(path: Path, error: str) -> str:
    compression = COMPRESSED_SUFFIXES.get(path.suffix.lower())
    if "Truncated compressed stream" in error:
        return f"its {compression} data break off before their end; copy or download it again"
    if compression and "CSV" not in error:
        return f"its {compression} data are damaged ({error}); copy or download it again"
    if "straddling" in error:
        return "a line is longer than 4 MiB, or a quote is opened and never closed; look for a quote without its pair"
    return error


class _HasPath(Protocol):
    path: Path


_R = TypeVar("_R", bound=_HasPath)


def reading_with_sentences(
    read: Callable[[_R], Iterator[pa.RecordBatch]],
) -> Callable[[_R], Iterator[pa.RecordBatch]]:
    """Decorates a reader's iteration, so that errors in it name the file."""

    @functools.wraps(read)
    def reading(reader: _R) -> Iterator[pa.RecordBatch]:
        with naming_the_file(reader.path):
            yield from read(reader)

    return reading


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
    """Removes comment lines, which begin with `mark`, from text in pieces; a line within quotes is not a comment."""

    def __init__(self, mark: str, quote: str) -> None:
        self._mark = mark
        self._quote = quote
        self._is_quoted = False
        self._rest = ""

    def without(self, text: str, *, is_last: bool) -> str:
        """The next whole lines that are not comments."""
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
    """Converts bytes to UTF-8, with two noncharacters for each invalid byte; `end` is put after the last byte.

    encoding: the encoding of the bytes; comments: removes comment lines, if there may be any
    has_marks: whether there were invalid bytes so far; is_stopped: whether to read no more
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
        """Exactly `size` more bytes, or fewer at the end: the caller has no room for more."""
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
    """By row, the first cell whose bytes weren't UTF-8; all columns hold text of a Utf8Stream."""
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
    """The first field of a JSON object whose text isn't UTF-8; None if there is no such object or no such field."""
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
    """Whether the text can be written as UTF-8; it can't if an escape gives half of a surrogate pair."""
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
