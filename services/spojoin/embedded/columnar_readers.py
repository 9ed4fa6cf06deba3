"""Readers of files that hold typed columns: Parquet, Arrow IPC (Feather) and Arrow streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spojoin.columns.values import is_uuid, uuid_texts
from spojoin.embedded.file_content import reading_with_sentences
from spojoin.embedded.file_reader import Reader
from spojoin.errors import ConfigurationError

#: Rows of a chunk.
CHUNK_ROWS = 1 << 16

#: The first bytes of an Arrow IPC file; a stream has none of its own.
FILE_MAGIC = b"ARROW1"


class ColumnarReader(Reader):
    """Reads typed columns, which keep the file's types, except for UUIDs, which become text."""

    @property
    @abstractmethod
    def file_schema(self) -> pa.Schema:
        """The columns and types of the file."""

    @property
    def key_type(self) -> pa.DataType:
        """int64 for any integer key, otherwise text."""
        if self.key is None or pa.types.is_integer(self.file_schema.field(self.key).type):
            return pa.int64()
        return pa.string()

    def _checked(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The wanted columns of a batch whose first row is at position `first`."""
        wanted = [_plain(batch.column(name)) for name in self.schema.names]
        return self._without_bad_text(pa.RecordBatch.from_arrays(wanted, names=self.schema.names), first)


def _plain(column: pa.Array[Any]) -> pa.Array[Any]:
    return uuid_texts(column) if is_uuid(column.type) else column


class ParquetReader(ColumnarReader):
    """Reads Parquet; columns keep the file's types."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
        except pa.ArrowInvalid as error:
            raise ConfigurationError(f"{path}: not a whole Parquet file ({error}); write or copy it again") from error
        self._check_columns(self._file.schema_arrow.names)
        self._rows_read = 0

    @property
    def file_schema(self) -> pa.Schema:
        """The columns and types of the file."""
        return self._file.schema_arrow

    @property
    def fraction(self) -> float:
        """The fraction of the rows that has been read."""
        rows: int = self._file.metadata.num_rows
        return self._rows_read / rows if rows else 1.0

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most CHUNK_ROWS rows."""
        for batch in self._file.iter_batches(CHUNK_ROWS, columns=self.schema.names):
            checked = self._checked(batch, self._rows_read)
            self._rows_read += batch.num_rows
            yield checked


class ArrowReader(ColumnarReader):
    """Reads an Arrow IPC file, or a stream in a file; columns keep their types."""

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
        """The fraction of the file's bytes that has been read."""
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
