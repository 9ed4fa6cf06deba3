"""A statement alone, without a query file: schemas and event times come from the data that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spojoin.embedded.inferred_schema import schema_with_notes
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import ColumnType, Order, Output, Query, TypeName
from spojoin.query.assemble import Choices, StreamOptions, assemble, parse_sql
from spojoin.query.places import places_in
from spojoin.query.statement import JoinSide
from spojoin.query.units import parse_duration_us
from spojoin.suggest import listed, unknown

#: The name of a query that has none, in reports.
NAME = "statement"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_TIMES = (TypeName.TIMESTAMP, TypeName.DATE)


@dataclass(frozen=True, slots=True)
class StatementOptions:
    """What a statement doesn't say.

    times: the event-time columns by the names of files or tables as the statement has them; under "" for all others
    lateness: how far event times may run backwards, such as "5 s"; limit: partners listed of one row
    """

    times: Mapping[str, str]
    lateness: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class BareStatement:
    """A statement as a query, and what each of its streams is read from: a path or a table."""

    query: Query
    sources: Mapping[str, object]


def bare_statement(sql: str, tables: Mapping[str, object], options: StatementOptions) -> BareStatement:
    """The query that a statement means over tables, by name, and the files that it names. Raises ConfigurationError.

    One table or file joined with itself is a stream in its order; two are ordered by event time.
    """
    try:
        return _bare(sql, tables, options)
    except QueryError as error:
        error.args = (f"sql, {error}",)
        raise
    except RecursionError as error:
        raise QueryError("sql: nested too deeply: expected a simpler statement") from error


def _bare(sql: str, tables: Mapping[str, object], options: StatementOptions) -> BareStatement:
    parsed = parse_sql(sql, places_in(sql))
    joined = parsed.statement.left, parsed.statement.right
    sources = [_source(side, tables) for side in joined]
    _check_used(tables, joined)
    names = _stream_names(joined)
    needs_time = names[0] != names[1] or parsed.window is None or parsed.window.is_time
    sides = [_stream(*each, options, needs_time=needs_time) for each in zip(joined, names, sources, strict=True)]
    order = Order.EVENT_TIME if needs_time else Order.ARRIVAL
    choices = Choices(NAME, sql, Output.ROWS, order=order, limit=options.limit)
    query = assemble(parsed, (sides[0], sides[1]), choices, _lateness(options, needs_time=needs_time))
    return BareStatement(query, dict(zip(names, sources, strict=True)))


def _source(side: JoinSide, tables: Mapping[str, object]) -> object:
    """What a side is read from: a table by its name, without regard to case, or the file of that path."""
    if side.stream in tables:
        return tables[side.stream]
    alike = [name for name in tables if name.lower() == side.stream.lower()]
    if len(alike) == 1:
        return tables[alike[0]]
    if side.is_file:
        return Path(side.stream)
    if tables:
        raise QueryError(unknown("table", side.stream, tables), side.line)
    raise QueryError(
        f"'{side.stream}' is no file: expected its path in quotes, such as FROM '{side.stream}.csv' AS {side.alias}",
        side.line,
    )


def _check_used(tables: Mapping[str, object], joined: tuple[JoinSide, JoinSide]) -> None:
    used = {side.stream.lower() for side in joined}
    for name in tables:
        if name.lower() not in used:
            raise ConfigurationError(f"table {name!r} isn't used by the statement: expected FROM or JOIN of it")


def _stream_names(joined: tuple[JoinSide, JoinSide]) -> tuple[str, str]:
    """Streams' names: of files, their names without endings; both sides have one name iff they are one source."""
    left, right = (_stream_name(side) for side in joined)
    if joined[0].stream.lower() == joined[1].stream.lower():
        return left, left
    return (left, right) if left != right else (f"{left}_1", f"{right}_2")


def _stream_name(side: JoinSide) -> str:
    if not side.is_file:
        return side.stream
    stem = Path(side.stream).name.split(".")[0]
    return _NOT_IN_NAMES.sub("_", stem).strip("_")[:200] or "stdin"


def _stream(side: JoinSide, name: str, source: object, options: StatementOptions, *, needs_time: bool) -> StreamOptions:
    found = schema_with_notes(source)
    given = options.times.get(side.stream) or options.times.get(name) or options.times.get("")
    schema = dict(found.columns)
    if given is not None and given not in schema:
        raise ConfigurationError(f"event time of {side.stream}: {unknown('column', given, schema)}")
    time = given or (_event_time(side, schema) if needs_time else None)
    return StreamOptions(name, schema, time, None, side.line)


def _event_time(side: JoinSide, schema: Mapping[str, ColumnType]) -> str:
    """The only column that can be one: a timestamp, or else a date."""
    for kind in _TIMES:
        found = [name for name, each in schema.items() if each.name is kind]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigurationError(
                f"which column of {side.stream} is its event time? Expected one of {listed(found)}: --time "
                f"{side.stream}={found[0]}, or time={{'{side.stream}': '{found[0]}'}} in Python"
            )
    raise ConfigurationError(
        f"{side.stream} has no timestamp, which would put its rows in order: name the column that is its event time, "
        f"--time {side.stream}=COLUMN, or time={{'{side.stream}': COLUMN}} in Python (whole numbers are milliseconds)"
    )


def _lateness(options: StatementOptions, *, needs_time: bool) -> int:
    if options.lateness is None:
        return 0
    found = parse_duration_us(options.lateness)
    if found is None:
        raise ConfigurationError(f"lateness '{options.lateness}': expected a duration such as '5 s' or '1 min'")
    if not needs_time:
        raise ConfigurationError("lateness needs rows in the order of event time: expected a time window or two inputs")
    return found
