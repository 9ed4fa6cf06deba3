"""A statement over tables, data frames and files, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spojoin.embedded.arguments import RowsLike, checked_number
from spojoin.embedded.around import statement_around
from spojoin.embedded.given_tables import given
from spojoin.embedded.reject_limit import parse_reject_limit
from spojoin.embedded.results import Results
from spojoin.embedded.said import warn_of_notes
from spojoin.embedded.source_options import GivenCsv, GivenSchema, csv_by_name, schema_by_name
from spojoin.embedded.statements import StatementOptions, times_by_name


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
    """Join tables and files by a SQL statement, and give its rows as they are read.

        >>> import pandas, spojoin
        >>> trips = pandas.DataFrame({"id": [1, 2, 3], "miles": [3.0, 2.0, 4.0], "fare": [9.0, 12.0, 8.5]})
        >>> spojoin.sql("SELECT l.id, r.id AS other, l.fare - r.fare AS saved FROM trips AS l JOIN trips AS r "
        ...     "ON l.miles < r.miles AND l.fare > r.fare WINDOW AS (SLIDE INTERVAL '1K' ON '10K')",
        ...     trips=trips).to_pandas()
           id  other  saved
        0   2      1    3.0
        1   1      3    0.5
        2   2      3    3.5

    Nothing is joined before results are read. A table joined with itself is in its own order; two are merged by time.

    Args:
        statement: a SELECT over two sides, also as a part of more SQL; a side is a table given by name, or in quotes
            the path of a file, a pattern of several, or '-' for standard input.
        time: the event-time column of all, or of each by name; needed where a table has several timestamps.
        lateness: how far event times may run backwards, such as "5 s".
        limit: the most partners listed of one row.
        max_rejects: how many rows may be refused, a share such as 0.1 or "10%", or a number of rows; below it a warning
            tells of them, above it, or where all are refused, reading ends with BadData.
        schema: the types of columns where data don't tell them, such as {"x": "double", "ts": "timestamp(ns)"}; of
            several inputs a dict of these by name.
        csv: how CSV is written, such as {"delim": ";", "decimal": ","}; of several files a dict of these by name.
        threads: how many share the work, by default one for each core; results don't depend on it.
        tables: Arrow tables, data frames of pandas or Polars, dicts of arrays; lists and generators of these, or of
            rows as dicts; readers; or paths. A NaN in a pandas column of NumPy's floats is NULL, as in pandas.

    Raises ConfigurationError where the statement or the tables are wrong, BadData where they can't be read.

    """
    allowed, shared = parse_reject_limit(max_rejects, "max_rejects="), checked_number("threads", threads)
    times, partners = times_by_name(time), checked_number("limit", limit)
    options = StatementOptions(times, lateness, partners, schema_by_name(schema), csv_by_name(csv), ends=True)
    around = statement_around(statement, given(tables), options, shared)
    warn_of_notes(*(join.query for join in around.joins.values()))
    return Results(around, allowed)
