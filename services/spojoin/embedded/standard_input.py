"""Standard input as a file: inputs are read more than once, so it is stored until the process ends."""

from __future__ import annotations

import atexit
import functools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from spojoin.embedded.content import COMPRESSED_SUFFIXES, kind_of, naming_the_file
from spojoin.embedded.named_files import open_file_number
from spojoin.errors import ConfigurationError, SpoJoinError

#: What stands for standard input, and for standard output, where a file is expected.
DASH = Path("-")
_NAME = "standard input"
_HEAD_BYTES = 4096
#: The ending of what is read, by the name of its format.
_ENDINGS = {"an Arrow IPC (Feather) file": ".arrow", "an Arrow IPC stream": ".arrow"}


def is_standard_input(path: Path) -> bool:
    """Whether it is `-`, or leads to the process's standard input as /dev/stdin does."""
    return path == DASH or open_file_number(path) == 0


@functools.cache
def standard_input() -> Path:
    """The file in which standard input is stored; its ending says the format, which its first bytes show.

    Raises ConfigurationError where it is closed, a terminal, empty or Parquet.
    """
    if sys.stdin is None:
        raise ConfigurationError("standard input is closed: pipe a file into the command, as with < trips.csv")
    if sys.stdin.isatty():
        raise ConfigurationError("standard input is the keyboard: pipe a file into the command, as with < trips.csv")
    folder = tempfile.mkdtemp(prefix="spojoin-input-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return stored(sys.stdin.buffer, Path(folder))


def stored(source: BinaryIO, folder: Path) -> Path:
    """`source` as a file in `folder`, which must be empty. Raises ConfigurationError where it is empty or Parquet."""
    path = folder / _NAME
    with path.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    if not path.stat().st_size:
        raise ConfigurationError("standard input is empty")
    return path.rename(folder / f"{_NAME}{_ending(path)}")


def _ending(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    kind = kind_of(head)
    compression = kind.suffix if kind and kind.suffix in COMPRESSED_SUFFIXES else ""
    if compression:
        with naming_the_file(path), pa.CompressedInputStream(str(path), COMPRESSED_SUFFIXES[compression]) as unpacked:
            head = unpacked.read(_HEAD_BYTES)
        kind = kind_of(head)
    if kind and kind.suffix == ".parquet":
        raise ConfigurationError("standard input holds Parquet, whose index stands at its end: name the file instead")
    return (_ENDINGS.get(kind.name if kind else "") or _text_ending(head)) + (compression or "")


def _text_ending(head: bytes) -> str:
    """The ending of a text format; what is no text at all is refused as CSV, by its content."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return ".json"
    first = head.split(b"\n", 1)[0]
    return ".tsv" if b"\t" in first and b"," not in first else ".csv"


@contextmanager
def naming_standard_input(path: Path) -> Iterator[None]:
    """Errors that name the file in which standard input is stored name standard input; `path` is any file."""
    try:
        yield
    except SpoJoinError as error:
        if path.stem.split(".")[0] != _NAME:
            raise
        raise type(error)(str(error).replace(str(path), _NAME)) from error
