"""Checks of the files that a run reads and writes: that they are files, and that no output overwrites another file.

Files are compared, not names: links, `./` and one folder mounted twice don't hide that two are the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spojoin.errors import ConfigurationError

#: Links followed from one to the next before a path counts as a ring, as in Linux.
_LINKS_MAX = 40

#: What begins an address, of which a path has one slash only.
_ADDRESS = re.compile(r"(https?|s3a?|gs|gcs|hf|abfss?|hdfs|ftp):/")
_NOT_FILES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a disk device",
}


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file and the option that names it: `option` is what stands before the path, such as "--input trips="."""

    option: str
    path: Path

    def __str__(self) -> str:
        return f"{self.option}{self.path}"


def check_inputs(files: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError for the first that can't be read as a file."""
    for file in files:
        check_readable(file.path)


def check_readable(path: Path) -> None:
    """Raises ConfigurationError where `path` is missing or isn't a file."""
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


_READ_TWICE = "inputs are read more than once, so save it as a file, such as trips.csv, and name that"


def check_outputs(files: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError for the first where no file can be written."""
    for file in files:
        _check_folder(file)
        if file.path.is_dir():
            raise ConfigurationError(f"{file} is a folder; name a file in it")
        kind = _kind(file.path)
        if kind in (stat.S_IFSOCK, stat.S_IFBLK):
            raise ConfigurationError(f"{file} is {_NOT_FILES[kind]}, which results aren't written to; name a file")


def check_apart(reads: Sequence[NamedFile], writes: Sequence[NamedFile]) -> None:
    """Raises ConfigurationError where an option would write a file that another option reads or writes."""
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
    """Whether bytes go to `path` as they come: a pipe, a device or /dev/stdout can't be replaced by a file."""
    return open_file_number(path) is not None or _kind(path) in (stat.S_IFIFO, stat.S_IFCHR)


def open_file_number(path: Path) -> int | None:
    """The number of this process's open file that `path` leads to: 1 for /dev/stdout; None for other paths."""
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
    """What two paths of one file have in common, through links and folders mounted twice."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _keeps_nothing(path: Path) -> bool:
    """Whether it is a terminal or /dev/null, where nothing can be destroyed."""
    return _kind(path) == stat.S_IFCHR


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None
