"""Parquet files in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spojoin.embedded.content import reading_with_sentences
from spojoin.embedded.file_reader import Reader
from spojoin.errors import ConfigurationError

#: Rows of a chunk.
CHUNK_ROWS = 1 << 16


class ParquetReader(Reader):
    """Parquet; columns keep the file's own types."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
        except pa.ArrowInvalid as error:
            raise ConfigurationError(f"{path}: not a whole Parquet file ({error}); write or copy it again") from error
        self._check_columns(self._file.schema_arrow.names)
        self._rows_read = 0

    @property
    def key_type(self) -> pa.DataType:
        """int64 for any integer key, else text."""
        if self.key is None or pa.types.is_integer(self._file.schema_arrow.field(self.key).type):
            return pa.int64()
        return pa.string()

    @property
    def fraction(self) -> float:
        """By rows."""
        rows: int = self._file.metadata.num_rows
        return self._rows_read / rows if rows else 1.0

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most CHUNK_ROWS rows."""
        for batch in self._file.iter_batches(CHUNK_ROWS, columns=self.schema.names):
            text = self._without_bad_text(batch.select(self.schema.names), self._rows_read)
            self._rows_read += batch.num_rows
            yield text
