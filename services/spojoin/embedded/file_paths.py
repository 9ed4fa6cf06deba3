"""Paths of inputs and outputs: files, patterns, folders and standard input, and checks of such paths."""

from __future__ import annotations

import atexit
import functools
import glob
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from spojoin.embedded.file_content import COMPRESSED_SUFFIXES, content_kind, naming_the_file
from spojoin.errors import ConfigurationError, SpoJoinError

#: How many links are followed before a path counts as circular, as in Linux.
_LINKS_MAX = 40

#: The beginning of an address; in a Path, only one of its slashes is left.
_ADDRESS = re.compile(r"(https?|s3a?|gs|gcs|hf|abfss?|hdfs|ftp):/")
_NOT_FILES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a disk device",
}

_READ_TWICE = "inputs are read more than once, so save it as a file, such as trips.csv, and name that"

#: The path that stands for standard input or standard output.
DASH = Path("-")
_NAME = "standard input"
_HEAD_BYTES = 4096

#: The ending under which standard input is stored, by the name of its format.
_ENDINGS = {"an Arrow IPC (Feather) file": ".arrow", "an Arrow IPC stream": ".arrow"}


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file and the option that names it; `option` is the text before the path, such as "--input trips="."""

    option: str
    path: Path

    def __str__(self) -> str:
        return f"{self.option}{self.path}"


def check_inputs(files: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError for the first input that can't be read as a file."""
    for file in files:
        check_readable(file.path)


def check_readable(path: Path) -> None:
    """Raises ConfigurationError if `path` is missing or isn't a file."""
    if open_file_number(path) is not None:
        raise ConfigurationError(f"{path} is standard input or a pipe of the shell; {_READ_TWICE}")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a file in it")
    if not path.exists():
        address = _ADDRESS.match(str(path))
        way = "" if address is None else f": {address[1]} addresses aren't read, so download the file and name that"
        raise ConfigurationError(f"{path}: no such file{way}")
    kind = _NOT_FILES.get(stat.S_IFMT(path.stat().st_mode))
    if kind:
        raise ConfigurationError(f"{path} is {kind}; {_READ_TWICE}")


def check_outputs(files: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError for the first output that can't be written."""
    for file in files:
        _check_folder(file)
        if file.path.is_dir():
            raise ConfigurationError(f"{file} is a folder; name a file in it")
        kind = _kind(file.path)
        if kind in (stat.S_IFSOCK, stat.S_IFBLK):
            raise ConfigurationError(f"{file} is {_NOT_FILES[kind]}, which results aren't written to; name a file")


def check_apart(reads: Sequence[NamedFile], writes: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError if an option would write a file that another option reads or writes."""
    seen = {identity(file.path): (file, "is read") for file in reads}
    for file in writes:
        if _keeps_nothing(file.path):
            continue
        other, use = seen.setdefault(identity(file.path), (file, "is written"))
        if other is not file:
            raise ConfigurationError(
                f"{file} names the same file as {other}, which {use}: it would be destroyed; name another file"
            )


def is_written_directly(path: Path) -> bool:
    """Whether bytes are written to `path` as they come, since it is a pipe, a device or the like, and not a file."""
    return open_file_number(path) is not None or _kind(path) in (stat.S_IFIFO, stat.S_IFCHR)


def open_file_number(path: Path) -> int | None:
    """The descriptor of this process's open file that `path` leads to, such as 1 for /dev/stdout; otherwise None."""
    for _ in range(_LINKS_MAX):
        folder = os.path.realpath(path.parent)
        if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name.isdigit():
            return int(path.name)
        here = Path(folder, path.name)
        if not here.is_symlink():
            return None
        path = Path(folder, here.readlink())
    return None


def _check_folder(file: NamedFile) -> None:
    folder = file.path.parent
    if file.path.exists() or folder.is_dir():
        return
    if folder.exists():
        raise ConfigurationError(f"{file}: {folder} is a file, not a folder; choose another place")
    raise ConfigurationError(f"{file}: there is no folder {folder}; make it (mkdir -p {folder}) or choose another")


def identity(path: Path) -> tuple[int, int] | str:
    """An identity that two paths of one file share, even through links and folders that are mounted twice."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _keeps_nothing(path: Path) -> bool:
    """Whether the path is a terminal or /dev/null, where nothing can be destroyed."""
    return _kind(path) == stat.S_IFCHR


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None


def is_standard_input(path: Path) -> bool:
    """Whether the path is `-`, or leads to the process's standard input as /dev/stdin does."""
    return path == DASH or open_file_number(path) == 0


@functools.cache
def standard_input() -> Path:
    """The file in which standard input is stored; its ending is the format that its first bytes show.

    Raises ConfigurationError if standard input is closed, a terminal, empty or Parquet.
    """
    if sys.stdin is None:
        raise ConfigurationError("standard input is closed: pipe a file into the command, as with < trips.csv")
    if sys.stdin.isatty():
        raise ConfigurationError("standard input is the keyboard: pipe a file into the command, as with < trips.csv")
    folder = tempfile.mkdtemp(prefix="spojoin-input-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return stored(sys.stdin.buffer, Path(folder))


def stored(source: BinaryIO, folder: Path) -> Path:
    """`source` as a file in `folder`, which must be empty. Raises ConfigurationError if it is empty or Parquet."""
    path = folder / _NAME
    with path.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    if not path.stat().st_size:
        raise ConfigurationError("standard input is empty")
    return path.rename(folder / f"{_NAME}{_ending(path)}")


def _ending(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    kind = content_kind(head)
    compression = kind.suffix if kind and kind.suffix in COMPRESSED_SUFFIXES else ""
    if compression:
        with naming_the_file(path), pa.CompressedInputStream(str(path), COMPRESSED_SUFFIXES[compression]) as unpacked:
            head = unpacked.read(_HEAD_BYTES)
        kind = content_kind(head)
    if kind and kind.suffix == ".parquet":
        raise ConfigurationError("standard input holds Parquet, whose index stands at its end: name the file instead")
    return (_ENDINGS.get(kind.name if kind else "") or _text_ending(head)) + (compression or "")


def _text_ending(head: bytes) -> str:
    """The ending of a text format; other content gets .csv too, and the reader of CSV then refuses it."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return ".json"
    first = head.split(b"\n", 1)[0]
    return ".tsv" if b"\t" in first and b"," not in first else ".csv"


@contextmanager
def naming_standard_input(path: Path) -> Iterator[None]:
    """Within the block, errors name standard input instead of the file in which it is stored; `path` is any file."""
    try:
        yield
    except SpoJoinError as error:
        if path.stem.split(".")[0] != _NAME:
            raise
        raise type(error)(str(error).replace(str(path), _NAME)) from error


def files_of(path: Path) -> list[Path]:
    """The files of a path: those of a pattern or folder, by name; the one of standard input; or the path itself.

    A writer's markers such as Spark's `_SUCCESS` and `.crc` are left out. A path with the characters of a pattern is no
    pattern if such a file exists. Raises ConfigurationError if no file fits.
    """
    if is_standard_input(path):
        return [standard_input()]
    is_folder = path.is_dir()
    if not is_folder and not is_pattern(path):
        return [path]
    if (path / "_delta_log").is_dir():
        raise ConfigurationError(
            f"{path} is a Delta table, whose log says which of its files count: give its rows in Python, as by "
            "deltalake.DeltaTable(path).to_pyarrow_table()"
        )
    names = glob.glob(str(path / "**" if is_folder else path), recursive=True)
    found = sorted(each for each in map(Path, names) if each.is_file() and not _is_mark(each, path))
    if not found:
        raise ConfigurationError(f"{path}: {'the folder has no file' if is_folder else 'no file fits this pattern'}")
    return found


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern for several files; it is not if a file with exactly this name exists."""
    return glob.has_magic(str(path)) and not path.exists()


def _is_mark(file: Path, asked: Path) -> bool:
    return any(part.startswith("_") and part not in asked.parts for part in file.parts) and asked.name[:1] != "_"
