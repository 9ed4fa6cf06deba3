"""Parquet files in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spojoin.embedded.columnar_reader import ColumnarReader
from spojoin.embedded.content import reading_with_sentences
from spojoin.errors import ConfigurationError

#: Rows of a chunk.
CHUNK_ROWS = 1 << 16


class ParquetReader(ColumnarReader):
    """Parquet; columns keep the file's own types."""

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
        """By rows."""
        rows: int = self._file.metadata.num_rows
        return self._rows_read / rows if rows else 1.0

    @reading_with_sentences
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of at most CHUNK_ROWS rows."""
        for batch in self._file.iter_batches(CHUNK_ROWS, columns=self.schema.names):
            checked = self._checked(batch, self._rows_read)
            self._rows_read += batch.num_rows
            yield checked
