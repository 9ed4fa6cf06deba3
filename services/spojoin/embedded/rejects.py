"""The file of refused rows: where each stood, why it was refused, and its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import pyarrow as pa

from spojoin.embedded.writers import TableWriter, open_writer

#: `row` holds the row's values as a JSON object.
_TEXTS = ("stream", "reason", "detail", "row")
_SCHEMA = pa.schema([pa.field("position", pa.int64())] + [pa.field(name, pa.string()) for name in _TEXTS])


@dataclass(frozen=True, slots=True)
class Reject:
    """A refused row: its place in its input (from 0), and its values by column or its text where it had no columns."""

    position: int
    stream: str
    reason: str
    detail: str
    row: Mapping[str, object] | str | None

    @property
    def offset(self) -> int:
        """The position, by the name that it has in messages."""
        return self.position


class RejectsWriter:
    """Appends rejects to a file, as JSON lines (the row as an object) or Parquet (the row as JSON text)."""

    def __init__(self, path: Path) -> None:
        self._json = None if path.suffix.lower() in {".parquet", ".pq"} else path
        self._table: TableWriter | None = open_writer(path, _SCHEMA) if self._json is None else None
        self._file = self._json.open("wb") if self._json else None

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append; order is kept."""
        if self._file:
            self._file.writelines(orjson.dumps(r, default=str, option=orjson.OPT_APPEND_NEWLINE) for r in rejects)
        elif self._table:
            self._table.write(_as_batch(list(rejects)))

    def close(self) -> None:
        """Close the file."""
        for file in (self._file, self._table):
            if file:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
