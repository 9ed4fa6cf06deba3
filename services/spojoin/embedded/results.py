"""The rows that a statement gives, read as they are made."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spojoin.embedded.around import Around
from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.refused_words import tell_refused
from spojoin.embedded.reject_limit import RejectLimit

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl


class Results(ArrowRows):
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

    is_inner = False

    def __init__(self, statement: Around, limit: RejectLimit) -> None:
        self._rows = statement.rows()
        self._statement = statement
        self._limit = limit
        super().__init__(self._rows.schema)

    @property
    def rejected(self) -> Mapping[str, int]:
        """Rows refused in the last reading, by reason."""
        found: Mapping[str, int] = self.report["rejected_by_reason"]
        return found

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, batch by batch. Raises BadData at the end if more rows were refused than `max_rejects` allows."""
        try:
            yield from self._rows
        finally:
            self.report = self._rows.report
        join = self._statement.join
        tell_refused(self.report, join.query if join else None, self._limit)

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

    def head(self, rows: int = 5) -> pa.Table:
        """The first rows as an Arrow table; the join ends when they are there."""
        found, left = [], rows
        with closing(iter(self)) as batches:
            while left > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, self.schema)

    def show(self, rows: int = 40) -> None:
        """Print the first rows as a table."""
        from spojoin.embedded.table_for_people import first_rows_text  # noqa: PLC0415  (loads rich)

        print(first_rows_text(self.head(rows + 1), rows))

    def explain(self) -> str:
        """How the statement is evaluated, as `spojoin sql --explain` shows it; no rows are read."""
        from spojoin.embedded.explained import explained  # noqa: PLC0415  (loads rich)

        return explained(self._statement)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<spojoin.Results, columns {columns}>"
