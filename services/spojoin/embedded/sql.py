"""Runs a statement over tables, data frames and files in this process."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.divided_statement import DividedStatement, divide_statement
from spojoin.embedded.input_options import GivenCsv, GivenSchema, csv_by_name, schema_by_name
from spojoin.embedded.python_rows import RowsLike, checked_number, readable_tables
from spojoin.embedded.refusal_report import RejectLimit, parse_reject_limit, warn_or_raise
from spojoin.embedded.statements import StatementOptions, times_by_name, warn_of_notes

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

    Each reading runs the join again, but readers and generators can be read only once. All libraries that accept
    Arrow's C stream interface can read the results: `polars.DataFrame(results)`, `duckdb.sql("FROM results")`.
    """

    is_inner = False

    def __init__(self, statement: DividedStatement, limit: RejectLimit) -> None:
        self._rows = statement.rows()
        self._statement = statement
        self._limit = limit
        super().__init__(self._rows.schema)

    @property
    def rejected(self) -> Mapping[str, int]:
        """The number of rows refused in the last reading, by reason."""
        found: Mapping[str, int] = self.report["rejected_by_reason"]
        return found

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows in batches. Raises BadData at the end if more rows were refused than `max_rejects` allows."""
        try:
            yield from self._rows
        finally:
            self.report = self._rows.report
        join = self._statement.join
        warn_or_raise(self.report, join.query if join else None, self._limit)

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401  (pyarrow's own)
        """All rows as a pandas data frame. options: see `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars data frame."""
        import polars as pl  # noqa: PLC0415  (its users have it)

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame), "a table gives a data frame"
        return frame

    def head(self, rows: int = 5) -> pa.Table:
        """The first rows as an Arrow table; the join ends once it has found them."""
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
        """How the statement is evaluated, as `spojoin sql --explain` shows it. Reads no rows."""
        from spojoin.embedded.explained import explained  # noqa: PLC0415  (loads rich)

        return explained(self._statement)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<spojoin.Results, columns {columns}>"


def sql(
    statement: str,
    /,
    *,
    time: str | Mapping[str, str] | None = None,
    lateness: str | None = None,
    limit: int | None = None,
    max_rejects: str | float = "50%",
    schema: GivenSchema | None = None,
    csv: GivenCsv | None = None,
    threads: int | None = None,
    **tables: RowsLike | str | Path,
) -> Results:
    """Join tables and files by a SQL statement; its rows are joined while they are read.

        >>> import pandas, spojoin
        >>> trips = pandas.DataFrame({"id": [1, 2, 3], "miles": [3.0, 2.0, 4.0], "fare": [9.0, 12.0, 8.5]})
        >>> spojoin.sql("SELECT l.id, r.id AS other, l.fare - r.fare AS saved FROM trips AS l JOIN trips AS r "
        ...     "ON l.miles < r.miles AND l.fare > r.fare WINDOW AS (SLIDE INTERVAL '1K' ON '10K')",
        ...     trips=trips).to_pandas()
           id  other  saved
        0   2      1    3.0
        1   1      3    0.5
        2   2      3    3.5

    The join begins when results are read. A table joined with itself is read in its order; two tables are merged by
    event time.

    Args:
        statement: a SELECT over two sides, alone or as a part of more SQL. A side is the name of a given table or, in
        quotes, the path of a file, a pattern of several files, or '-' for standard input.
        time: the event-time column of all tables, or of each table by name; needed if a table has several timestamps.
        lateness: how far event times may run backwards, such as "5 s".
        limit: the most partners that are listed for one row.
        max_rejects: how many rows may be refused: a share such as 0.1 or "10%", or a number of rows. Up to this limit
        you get a warning. If more rows are refused, or all rows, reading ends with BadData.
        schema: the types of columns that the data don't show, such as {"x": "double", "ts": "timestamp(ns)"}; for
        several inputs, a dict of such dicts by name.
        csv: how CSV is written, such as {"delim": ";", "decimal": ","}; for several files, a dict of such dicts by
        name.
        threads: how many threads share the work; by default one for each core. It doesn't change the results.
        tables: Arrow tables, data frames of pandas or Polars, dicts of arrays; lists and generators of these, or of
        rows as dicts; readers; or paths. A NaN in a pandas column of NumPy floats is NULL, as in pandas.

    Raises ConfigurationError if the statement or the tables are wrong, and BadData if they can't be read.

    """
    allowed, shared = parse_reject_limit(max_rejects, "max_rejects="), checked_number("threads", threads)
    times, partners = times_by_name(time), checked_number("limit", limit)
    options = StatementOptions(times, lateness, partners, schema_by_name(schema), csv_by_name(csv), ends=True)
    divided = divide_statement(statement, readable_tables(tables), options, shared)
    warn_of_notes(*(join.query for join in divided.joins.values()))
    return Results(divided, allowed)
