"""Compares a file's first bytes with the format that its name says, and names the file in Arrow's errors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from spojoin.embedded.text import CSV_SUFFIXES
from spojoin.errors import BadData, ConfigurationError

#: Arrow's name of the compression, by the ending of compressed text.
COMPRESSED_SUFFIXES: dict[str, Literal["gzip", "bz2", "zstd"]] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_PARQUET_SUFFIXES = (".parquet", ".pq")
_HEAD_BYTES = 64


class Kind(NamedTuple):
    """A format by its first bytes.

    suffix: the ending of its files; None where spojoin can't read them, or only by another ending; then `advice` says
        what to do
    """

    magic: bytes
    name: str
    suffix: str | None
    advice: str = ""


_SAVE_AS = "save it as CSV, JSON lines or Parquet"
_ARROW_ADVICE = "let its name end in .arrow, or save it as Parquet"
_UTF16_ADVICE = "save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW; CSV is also read by --csv encoding=utf-16"
_KINDS = (
    Kind(b"PAR1", "Parquet", ".parquet"),
    Kind(b"\x1f\x8b", "gzip", ".gz"),
    Kind(b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    Kind(b"BZh", "bzip2", ".bz2"),
    Kind(b"ARROW1", "an Arrow IPC (Feather) file", None, _ARROW_ADVICE),
    Kind(b"\xff\xff\xff\xff", "an Arrow IPC stream", None, _ARROW_ADVICE),
    Kind(b"\xff\xfe", "UTF-16 text", None, _UTF16_ADVICE),
    Kind(b"\xfe\xff", "UTF-16 text", None, _UTF16_ADVICE),
    Kind(b"PK\x03\x04", "a ZIP archive, as .xlsx files are", None, f"unpack it, or {_SAVE_AS}"),
    Kind(b"\xd0\xcf\x11\xe0", "an old Excel sheet", None, _SAVE_AS),
    Kind(b"\xfd7zXZ", "xz", None, "unpack it, or compress it with gzip or zstd"),
    Kind(b"\x04\x22\x4d\x18", "lz4", None, "unpack it, or compress it with gzip or zstd"),
    Kind(b"ORC", "ORC", None, _SAVE_AS),
    Kind(b"Obj\x01", "Avro", None, _SAVE_AS),
    Kind(b"SQLite format 3", "an SQLite database", None, _SAVE_AS),
)


def check_content(path: Path, suffix: str) -> None:
    """Raises ConfigurationError where the file at `path` isn't in the format that its ending says.

    `suffix` is the ending of the format, without that of a compression: .csv for trips.csv.gz.
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
    found = kind_of(head)
    if found is None:
        raise ConfigurationError(f"{path} holds no {expected.name}, whatever its ending says; name it by what it holds")
    raise ConfigurationError(f"{path} holds {found.name}, whatever its ending says; {_advice(found, path)}")


def _check_text(what: str, path: Path, head: bytes, first: str = "") -> None:
    """`first` is what to do before anything else."""
    found = kind_of(head)
    if found is not None:
        raise ConfigurationError(f"{what} holds {found.name}, whatever its ending says; {first}{_advice(found, path)}")
    if _PAGE.match(head):
        advice = f"{first}open it: a failed download often leaves an error page"
        raise ConfigurationError(f"{what} holds a web page, whatever its ending says; {advice}")
    if path.suffix.lower() in CSV_SUFFIXES and head.lstrip().startswith(b"{"):
        advice = f"{first}name it {path.with_suffix('.jsonl')}"
        raise ConfigurationError(f"{what} holds JSON, whatever its ending says; {advice}")


def kind_of(head: bytes) -> Kind | None:
    """The format, None for text: a line of column names may begin with the same letters as some format."""
    if not any(byte < 9 or 14 <= byte < 32 or byte >= 128 for byte in head):
        return None
    return next((kind for kind in _KINDS if head.startswith(kind.magic)), None)


def _advice(found: Kind, path: Path) -> str:
    if found.suffix is None:
        return found.advice
    return f"name it {path.with_suffix('.parquet') if found.suffix == '.parquet' else f'{path}{found.suffix}'}"


@contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Turns Arrow's errors about a file's content into BadData with its path and what to do."""
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
