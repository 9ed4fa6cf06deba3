"""Rows that can be read, and read again, as Arrow data: of a join, a file, a table, or what DuckDB makes of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spojoin.embedded.reasons import Reasons, merged
from spojoin.embedded.rejects import RejectsOfReadings, RejectsWriter


class ArrowRows(ABC):
    """Rows as Arrow's C stream, each reading a new one.

    is_inner: whether what is made of the rows also reports those that they refuse; parts: what they are made of
    """

    is_inner = True

    def __init__(self, schema: pa.Schema, parts: Iterable[object] = ()) -> None:
        self.schema = schema
        inner = {id(each): each for each in parts if isinstance(each, ArrowRows) and each.is_inner}
        self.parts: Sequence[ArrowRows] = list(inner.values())
        self.rejects = RejectsOfReadings()
        #: the figures of rows refused in the last reading, as of `Reasons`
        self.report: Mapping[str, Any] = Reasons().figures(0)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""

    def write_rejects(self, writer: RejectsWriter) -> None:
        """Write the rows that are refused from now on, here and by what these rows are made of, each once."""
        self.rejects.writer = writer
        for each in self.parts:
            each.write_rejects(writer)

    def _note(self, *figures: Mapping[str, Any]) -> None:
        """Report figures of these rows beside those of what they are made of."""
        self.report = merged([*figures, *(each.report for each in self.parts)])

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, which makes them while it is read."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream of the rows, for other libraries."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Arrow's C schema of the columns."""
        return self.schema.__arrow_c_schema__()
