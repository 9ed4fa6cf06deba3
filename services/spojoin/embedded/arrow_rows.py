"""Rows that can be read, and read again, as Arrow data: of a join, a file, a table, or what DuckDB makes of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from spojoin.embedded.reasons import Reasons


class ArrowRows(ABC):
    """Rows as Arrow's C stream, each reading a new one."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        #: the figures of rows refused in the last reading, as of `Reasons`
        self.report: Mapping[str, Any] = Reasons().figures(0)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, which makes them while it is read."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream of the rows, for other libraries."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Arrow's C schema of the columns."""
        return self.schema.__arrow_c_schema__()
