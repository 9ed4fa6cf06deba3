"""The file of refused rows: the position of each, why it was refused, and its values."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson
import pyarrow as pa

from spojoin.embedded.formats import ResultFormat, format_of
from spojoin.embedded.table_writer import TableWriter
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.embedded.writers import open_writer, packed

#: `row` holds the row's values as a JSON object.
_TEXTS = ("stream", "reason", "detail", "row")
_SCHEMA = pa.schema([pa.field("position", pa.int64())] + [pa.field(name, pa.string()) for name in _TEXTS])


@dataclass(frozen=True, slots=True)
class Reject:
    """A refused row: its position in its input (from 0), and its values by column, or its text if it had no columns."""

    position: int
    stream: str
    reason: str
    detail: str
    row: Mapping[str, object] | str | None

    @property
    def offset(self) -> int:
        """The position, under its name in messages."""
        return self.position


class RejectsWriter(WholeOrNothing):
    """Appends rejects to a file, as JSON lines (the row as an object) or in another format (the row as JSON text).

    `sink` takes the bytes instead of a file at `path`, and is closed with the writer.
    """

    def __init__(self, path: Path, sink: pa.NativeFile | None = None) -> None:
        sink = pa.OSFile(str(path), "wb") if sink is None else sink
        is_lines = format_of(path) in (ResultFormat.JSON, ResultFormat.TABLE)
        self._table: TableWriter | None = None if is_lines else open_writer(path, _SCHEMA, sink)
        self._file = packed(path, sink) if is_lines else sink
        self._lock = threading.Lock()  # several inputs may be read at once

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append; order is kept."""
        with self._lock:
            if self._table:
                self._table.write(_as_batch(list(rejects)))
            else:
                lines = (orjson.dumps(each, default=str, option=orjson.OPT_APPEND_NEWLINE) for each in rejects)
                self._file.write(b"".join(lines))

    def close(self) -> None:
        """Close the file."""
        (self._table or self._file).close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is, without what would make it look whole."""
        if self._table:
            self._table.abandon(error)
        else:
            with contextlib.suppress(OSError):  # what went wrong before is what to report
                self._file.close()


class RejectsOfReadings:
    """The rejects of rows that may be read again: each reading finds the same ones, and each is written once."""

    def __init__(self) -> None:
        self.writer: RejectsWriter | None = None
        self._written = 0
        self._found = 0

    def begin(self) -> Self | None:
        """What takes the rejects of a new reading; None where they aren't written."""
        self._found = 0
        return self if self.writer else None

    def write(self, rejects: Sequence[Reject]) -> None:
        """Append those that no reading has found before."""
        new = rejects[max(self._written - self._found, 0) :]
        self._found += len(rejects)
        self._written += len(new)
        if self.writer:
            self.writer.write(new)


def _as_batch(rejects: list[Reject]) -> pa.RecordBatch:
    rows = [
        {
            "position": r.position,
            "stream": r.stream,
            "reason": r.reason,
            "detail": r.detail,
            "row": orjson.dumps(r.row, default=str).decode(),
        }
        for r in rejects
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)
