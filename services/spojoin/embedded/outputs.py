"""Output files that appear whole or not at all.

Bytes go to a temporary file in the same folder, which is renamed when all outputs are complete. If the run ends before,
the temporary file is removed and the earlier file stays. A pipe, a device or /dev/stdout takes bytes as they come.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spojoin.embedded.named_files import NamedFile, is_written_directly, open_file_number
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.errors import ConfigurationError

#: Ends the name of an unfinished file; one that nobody writes is left from a run that was killed.
UNFINISHED = ".partial"
#: Characters of the file's name in that of its temporary file, which must stay below 255 bytes.
_NAME_MAX = 50


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file being written: its name, its temporary file (None: bytes go to it), and the sink for its bytes."""

    file: NamedFile
    beside: Path | None
    sink: pa.NativeFile


class Outputs(WholeOrNothing):
    """The outputs of one run: all appear at the end of the block, none if it ends with an error.

    The error gets a note that says what became of each.
    """

    def __init__(self) -> None:
        self._staged: list[_Staged] = []

    def open(self, file: NamedFile) -> pa.NativeFile:
        """A sink for the bytes of an output, closed by its writer. Raises ConfigurationError if it can't be written."""
        beside = None if is_written_directly(file.path) else _made_beside(file)
        sink = _direct_sink(file.path) if beside is None else pa.OSFile(str(beside), "wb")
        self._staged.append(_Staged(file, beside, sink))
        return sink

    def close(self) -> None:
        """Rename all; every file is closed before the first is renamed, so that a full disk changes nothing."""
        try:
            for each in self._staged:
                each.sink.close()
                _make_safe(each)
            for each in self._staged:
                if each.beside:
                    each.beside.replace(_target(each.file.path))
        except BaseException as error:
            self.abandon(error)
            raise

    def abandon(self, error: BaseException) -> None:
        """Remove what isn't whole; the error gets a note that says what became of each."""
        left = [_discarded(each) for each in self._staged]
        if left:
            error.add_note("; ".join(left))


def _made_beside(file: NamedFile) -> Path:
    """A new temporary file in the folder of the file, with the same permissions to read it."""
    target = _target(file.path)
    if target.exists() and not os.access(target, os.W_OK):
        raise ConfigurationError(f"{file}: permission denied; choose another place or change its permissions")
    beside = target.parent / f"{target.name[:_NAME_MAX]}.{secrets.token_hex(4)}{UNFINISHED}"
    mode = _mode(target)
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode | stat.S_IWUSR))
    except OSError as error:
        raise ConfigurationError(
            f"{file}: no file can be made in {target.parent} ({error.strerror}); choose another place"
        ) from error
    return beside


def _direct_sink(path: Path) -> pa.NativeFile:
    """An open file of the process is continued at its position: opened by its name it would be emptied."""
    number = open_file_number(path)
    file = path.open("wb") if number is None else os.fdopen(os.dup(number), "wb")
    sink: Any = pa.PythonFile(file, "w")
    return sink


def _make_safe(staged: _Staged) -> None:
    """A file that replaces another gets its mode, and is on the disk first."""
    mode = None if staged.beside is None else _mode(_target(staged.file.path))
    if staged.beside is None or mode is None:
        return
    with staged.beside.open("rb") as file:
        os.fsync(file.fileno())
    staged.beside.chmod(mode)


def _discarded(staged: _Staged) -> str:
    """Remove what isn't whole; returns a sentence about what the path holds now."""
    with contextlib.suppress(OSError, ValueError):  # the error under way is the one to report
        staged.sink.close()
    path = staged.file.path
    if staged.beside is None:
        return f"what {path} has received is not the whole"
    if not staged.beside.exists():
        return f"{path} is whole"
    staged.beside.unlink()
    return f"{path} stays as it was before" if path.exists() else f"{path} was not written"


def _target(path: Path) -> Path:
    """The file that a link leads to: the link stays."""
    return Path(os.path.realpath(path))


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
