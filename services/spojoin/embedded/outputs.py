"""Output files that appear whole or not at all, written while the join goes on."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from spojoin.embedded.file_paths import NamedFile, is_written_directly, open_file_number
from spojoin.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

#: The ending of an unfinished file's name; a run that is killed leaves such a file.
UNFINISHED = ".partial"

#: How many characters of the file's name its temporary file's name has, which must stay below 255 bytes.
_NAME_MAX = 50

#: Bytes of batches that may wait to be written: what the join makes while the largest row group is encoded.
ROOM_BYTES = 64 << 20


class WholeOrNothing(ABC):
    """A context that is completed at the end of its block, or abandoned if the block ends with an error."""

    @abstractmethod
    def close(self) -> None:
        """Write what is still held, and end."""

    @abstractmethod
    def abandon(self, error: BaseException) -> None:
        """End without writing more, so that the output doesn't look whole; `error` is the reason."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon(error)


class TableWriter(WholeOrNothing):
    """A file that takes record batches of one schema. rows: the number of rows written so far."""

    rows: int

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows."""


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file being written: its name, its temporary file (None if it has none), and the sink for its bytes."""

    file: NamedFile
    beside: Path | None
    sink: pa.NativeFile


class Outputs(WholeOrNothing):
    """The outputs of one run: all appear at the end of the block, none if it ends with an error.

    The error gets a note that says what happened to each output.
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
        """Close all files, then rename them, so that a full disk changes nothing."""
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
        """Remove incomplete files; the error gets a note that says what happened to each output."""
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
    """A sink that writes to `path` directly. An open file of the process goes on at its position, and isn't emptied."""
    number = open_file_number(path)
    file = path.open("wb") if number is None else os.fdopen(os.dup(number), "wb")
    sink: Any = pa.PythonFile(file, "w")
    return sink


def _make_safe(staged: _Staged) -> None:
    """Write a file to the disk before it replaces another, and give it the other's mode."""
    mode = None if staged.beside is None else _mode(_target(staged.file.path))
    if staged.beside is None or mode is None:
        return
    with staged.beside.open("rb") as file:
        os.fsync(file.fileno())
    staged.beside.chmod(mode)


def _discarded(staged: _Staged) -> str:
    """Remove an incomplete file, and return a sentence about what the path holds now."""
    with contextlib.suppress(OSError, ValueError):  # the first error is the one to report
        staged.sink.close()
    path = staged.file.path
    if staged.beside is None:
        return f"what {path} has received is not the whole"
    if not staged.beside.exists():
        return f"{path} is whole"
    staged.beside.unlink()
    return f"{path} stays as it was before" if path.exists() else f"{path} was not written"


def _target(path: Path) -> Path:
    """The file that a link leads to, so that the link isn't replaced."""
    return Path(os.path.realpath(path))


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


class WriterBehind(TableWriter):
    """A writer that writes batches in its own thread, in order; a later call raises the thread's error."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "spojoin-writer")
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._waiting_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch's rows, and wait while too many bytes are still to be written before them."""
        while self._waiting and (self._waiting[0][0].done() or self._waiting_bytes > ROOM_BYTES):
            self._wait()
        self._waiting.append((self._thread.submit(self._writer.write, batch), batch.nbytes))
        self._waiting_bytes += batch.nbytes

    def close(self) -> None:
        """Write the waiting batches and close the file. If a batch failed, raise its error and abandon the file."""
        try:
            while self._waiting:
                self._wait()
        except BaseException as error:
            self.abandon(error)
            raise
        self._thread.shutdown()
        self._writer.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is."""
        self._thread.shutdown(cancel_futures=True)
        self._writer.abandon(error)

    def _wait(self) -> None:
        written, size = self._waiting.popleft()
        self._waiting_bytes -= size
        written.result()
