"""Arrow IPC files (Feather) and streams in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from spojoin.embedded.columnar_reader import ColumnarReader
from spojoin.embedded.content import reading_with_sentences
from spojoin.embedded.parquet_reader import CHUNK_ROWS
from spojoin.errors import ConfigurationError

#: The first bytes of an Arrow IPC file; a stream has none of its own.
FILE_MAGIC = b"ARROW1"


class ArrowReader(ColumnarReader):
    """An Arrow IPC file, or a stream in a file; columns keep their types."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        self._raw = pa.OSFile(str(path), "rb")
        self._size = self._raw.size()
        try:
            self._batches = _opened(self._raw)
        except (pa.ArrowInvalid, OSError) as error:
            raise ConfigurationError(f"{path}: no whole Arrow IPC file or stream ({error}); write it again") from error
        self._check_columns(self._batches.schema.names)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns and types of the file."""
        return self._batches.schema

    @property
    def fraction(self) -> float:
        """By bytes of the file."""
        return self._raw.tell() / self._size if self._size else 1.0

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most CHUNK_ROWS rows."""
        position = 0
        for batch in _each(self._batches):
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                piece = batch.slice(start, CHUNK_ROWS)
                checked = self._checked(piece, position)
                position += piece.num_rows
                yield checked


def _opened(raw: pa.NativeFile) -> Any:  # noqa: ANN401  (two readers without a common base)
    head = raw.read(len(FILE_MAGIC))
    raw.seek(0)
    return pa.ipc.open_file(raw) if head == FILE_MAGIC else pa.ipc.open_stream(raw)


def _each(batches: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    if isinstance(batches, pa.ipc.RecordBatchFileReader):
        return (batches.get_batch(at) for at in range(batches.num_record_batches))
    return iter(batches)
