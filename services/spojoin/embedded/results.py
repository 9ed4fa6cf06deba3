"""The rows that a statement gives, read as they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.embedded.fed_files import fed
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.refused import RefusedRows
from spojoin.embedded.refused_words import tell_refused
from spojoin.embedded.reject_limit import RejectLimit

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl


class Results:
    """A statement's rows as Arrow data, joined while they are read.

        >>> import polars, spojoin
        >>> fares = {"id": [1, 2, 3], "fare": [7.5, 5.0, 6.0]}
        >>> cheaper = spojoin.sql(
        ...     "SELECT l.id, r.id AS other FROM trips AS l JOIN trips AS r ON l.fare < r.fare "
        ...     "WINDOW AS (SLIDE INTERVAL '1' ON '1000')",
        ...     trips=fares,
        ... )
        >>> cheaper
        <spojoin.Results, columns id: int64, other: int64>
        >>> [batch.num_rows for batch in cheaper]
        [3]
        >>> cheaper.to_arrow().to_pylist()
        [{'id': 2, 'other': 1}, {'id': 2, 'other': 3}, {'id': 3, 'other': 1}]
        >>> polars.DataFrame(cheaper).shape
        (3, 2)

    Each reading joins anew, except of readers and generators, which can be read once. Anything that takes Arrow's C
    stream interface reads it: `polars.DataFrame(results)`, `duckdb.sql("FROM results")`.
    """

    def __init__(
        self, schema: pa.Schema, start: Callable[[], tuple[Engine, list[InputFile]]], limit: RejectLimit
    ) -> None:
        self.schema = schema
        #: rows refused in the last reading, by reason
        self.rejected: Mapping[str, int] = {}
        self._start = start
        self._limit = limit

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. Raises BadData at the end if more rows were refused than `max_rejects` allows."""
        engine, inputs = self._start()
        refused = RefusedRows(inputs, None)
        with closing(engine):
            for _, found in fed(engine, inputs):
                yield from found
                refused.write(engine.take_rejects())
            yield from engine.finish()
        refused.write(engine.take_rejects())
        report = refused.figures()
        self.rejected = report["rejected_by_reason"]
        tell_refused(report, engine.query, self._limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream of the rows, for other libraries."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Arrow's C schema of the columns."""
        return self.schema.__arrow_c_schema__()

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, which joins while it is read."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401  (pyarrow's own)
        """All rows as a pandas data frame; options: those of `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars data frame."""
        import polars as pl  # noqa: PLC0415  (its users have it)

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame), "a table gives a data frame"
        return frame

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<spojoin.Results, columns {columns}>"
