"""The base of the readers of files that hold typed columns: Parquet and Arrow IPC."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pyarrow as pa

from spojoin.embedded.file_reader import Reader
from spojoin.query.uuid_text import is_uuid, uuid_texts


class ColumnarReader(Reader):
    """Columns keep the file's own types, but for UUIDs, which become text."""

    @property
    @abstractmethod
    def file_schema(self) -> pa.Schema:
        """The columns and types of the file."""

    @property
    def key_type(self) -> pa.DataType:
        """int64 for any integer key, else text."""
        if self.key is None or pa.types.is_integer(self.file_schema.field(self.key).type):
            return pa.int64()
        return pa.string()

    def _checked(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The wanted columns of a batch whose first row is at position `first`."""
        wanted = [_plain(batch.column(name)) for name in self.schema.names]
        return self._without_bad_text(pa.RecordBatch.from_arrays(wanted, names=self.schema.names), first)


def _plain(column: pa.Array[Any]) -> pa.Array[Any]:
    return uuid_texts(column) if is_uuid(column.type) else column
