"""A statement over tables, data frames and files, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spojoin.embedded.arguments import RowsLike
from spojoin.embedded.engine import Engine
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.readers import open_reader
from spojoin.embedded.results import Results
from spojoin.embedded.run import engine_for
from spojoin.embedded.statements import BareStatement, StatementOptions, bare_statement
from spojoin.embedded.table_reader import TableReader
from spojoin.embedded.writers import result_schema
from spojoin.model import Stream
from spojoin.query.schema import arrow_schema


def sql(
    statement: str,
    /,
    *,
    time: str | Mapping[str, str] | None = None,
    lateness: str | None = None,
    limit: int | None = None,
    **tables: RowsLike | str | Path,
) -> Results:
    """Join tables and files by a SQL statement, and give its rows as they are read.

        import spojoin

        cheaper = spojoin.sql(
            "SELECT l.id, r.id AS other, l.fare - r.fare AS saved FROM trips AS l JOIN trips AS r "
            "ON l.distance < r.distance AND l.fare > r.fare WINDOW AS (SLIDE INTERVAL '1K' ON '10K')",
            trips=frame,
        ).to_pandas()

    Args:
        statement: one SELECT over two sides; a side is a table given by name or the path of a file in quotes.
        time: the event-time column of all, or of each by name; needed where a table has several timestamps and rows
            are ordered by time: with two tables, and in time windows.
        lateness: how far event times may run backwards, such as "5 s".
        limit: the most partners listed of one row.
        tables: Arrow tables, data frames of pandas or Polars, dicts of arrays, readers, generators of these, or paths.

    Raises ConfigurationError where the statement or the tables are wrong, BadData where they can't be read.

    """
    times = {"": time} if isinstance(time, str) else dict(time or {})
    found = bare_statement(statement, tables, StatementOptions(times, lateness, limit))
    return Results(result_schema(found.query, []), lambda: _started(found))


def _started(found: BareStatement) -> tuple[Engine, list[InputFile]]:
    query = found.query
    inputs = [_input(found, number, stream) for number, stream in enumerate(query.inputs)]
    return engine_for(query), inputs


def _input(found: BareStatement, number: int, stream: Stream) -> InputFile:
    source, needs_time = found.sources[stream.name], found.query.needs_time
    schema = arrow_schema(stream, needs_time)
    is_path = isinstance(source, str | Path)
    reader = open_reader(Path(source), schema, None) if is_path else TableReader(stream.name, source, schema)
    return InputFile(number, stream, reader, iter(reader), reader.key_type, needs_time)
