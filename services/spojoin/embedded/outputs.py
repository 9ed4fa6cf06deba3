"""Output files that appear whole or not at all.

Bytes go to a file beside the place, which takes its name when all outputs are done. Where a run ends before that, the
file beside goes, and what stood at the place stays. A pipe, a device or /dev/stdout takes bytes as they come.
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

from spojoin.embedded.places import NamedFile, is_written_directly, open_file_number
from spojoin.embedded.whole import Whole
from spojoin.errors import ConfigurationError

#: Ends the name of a file that is not whole yet; one that stands alone is left from a run that was killed.
UNFINISHED = ".partial"
#: Characters of the place's name in that of the file beside it: together they stay below the 255 bytes of a name.
_NAME_MAX = 50


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file being written: its place, where its bytes go (None: straight to the place), and what takes them."""

    place: NamedFile
    beside: Path | None
    sink: pa.NativeFile


class Outputs(Whole):
    """The outputs of one run: all put in their places at the end of the block, none where it ends with an error.

    The error is given a note that says what became of each.
    """

    def __init__(self) -> None:
        self._staged: list[_Staged] = []

    def open(self, place: NamedFile) -> pa.NativeFile:
        """What takes the bytes of an output; whoever writes closes it. Raises ConfigurationError where none can be."""
        beside = None if is_written_directly(place.path) else _made_beside(place)
        sink = _direct_sink(place.path) if beside is None else pa.OSFile(str(beside), "wb")
        self._staged.append(_Staged(place, beside, sink))
        return sink

    def close(self) -> None:
        """Put all in their places; all are closed before the first is renamed, so that a full disk changes nothing."""
        try:
            for each in self._staged:
                each.sink.close()
                _make_safe(each)
            for each in self._staged:
                if each.beside:
                    each.beside.replace(_target(each.place.path))
        except BaseException as error:
            self.abandon(error)
            raise

    def abandon(self, error: BaseException) -> None:
        """Remove what isn't whole; the error gets a note that says what became of each."""
        left = [_discarded(each) for each in self._staged]
        if left:
            error.add_note("; ".join(left))


def _made_beside(place: NamedFile) -> Path:
    """A new file in the folder of the file that the place leads to, for its eyes only who may read that one."""
    target = _target(place.path)
    if target.exists() and not os.access(target, os.W_OK):
        raise ConfigurationError(f"{place}: permission denied; choose another place or change its permissions")
    beside = target.parent / f"{target.name[:_NAME_MAX]}.{secrets.token_hex(4)}{UNFINISHED}"
    mode = _mode(target)
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode | stat.S_IWUSR))
    except OSError as error:
        raise ConfigurationError(
            f"{place}: no file can be made in {target.parent} ({error.strerror}); choose another place"
        ) from error
    return beside


def _direct_sink(path: Path) -> pa.NativeFile:
    """An open file of the process is gone on with where it stands: opened by its name it would be emptied."""
    number = open_file_number(path)
    file = path.open("wb") if number is None else os.fdopen(os.dup(number), "wb")
    sink: Any = pa.PythonFile(file, "w")
    return sink


def _make_safe(staged: _Staged) -> None:
    """What takes another file's place has its mode, and is on the disk first."""
    mode = None if staged.beside is None else _mode(_target(staged.place.path))
    if staged.beside is None or mode is None:
        return
    with staged.beside.open("rb") as file:
        os.fsync(file.fileno())
    staged.beside.chmod(mode)


def _discarded(staged: _Staged) -> str:
    """Remove what isn't whole; a sentence about what is at the place now."""
    with contextlib.suppress(OSError, ValueError):  # the error under way is the one to report
        staged.sink.close()
    path = staged.place.path
    if staged.beside is None:
        return f"what {path} has received is not the whole"
    if not staged.beside.exists():
        return f"{path} is whole"
    staged.beside.unlink()
    return f"{path} stays as it was before" if path.exists() else f"{path} was not written"


def _target(path: Path) -> Path:
    """Where a link leads: it stays a link."""
    return Path(os.path.realpath(path))


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
