"""Makes queries from statements without a query file; schemas and event times come from the data or from options."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spojoin.columns.inferred import InferredSchema
from spojoin.embedded.file_paths import files_of, identity
from spojoin.embedded.input_options import Columns, SideSource
from spojoin.embedded.python_rows import ReadOnce
from spojoin.embedded.side_columns import check_named, check_orders, columns_of, form_of, hinting
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import (
    ColumnType,
    CsvOptions,
    EmitOn,
    JoinKind,
    Order,
    Output,
    Query,
    TableSource,
    TypeName,
)
from spojoin.query.assemble import Choices, StreamOptions, assemble
from spojoin.query.conditions import NotIndexable
from spojoin.query.durations import parse_lateness_us
from spojoin.query.interval import Unbounded
from spojoin.query.parsed import ParsedStatement, as_table, parse_sql
from spojoin.query.places import PlaceAt, places_in
from spojoin.query.statement import JoinSide
from spojoin.suggest import listed, unknown

#: What reports call a query without a name.
NAME = "statement"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_TIMES = (TypeName.TIMESTAMP, TypeName.DATE)


class NoEventTime(ConfigurationError):
    """Rows need an event time, but no column is known to hold it."""


@dataclass(frozen=True, slots=True)
class StatementOptions:
    """The options of a statement: what its SQL can't say.

    times: event-time columns by the statement's names of files or tables; under "" the one for all others
    lateness: how far event times may run backwards, such as "5 s"; limit: the most partners listed for one row
    schemas, csv: the types of columns and how CSV is written, by the same names as `times`
    ends: whether inputs end, so that all rows can be read first; a join without a window then joins all rows
    """

    times: Mapping[str, str]
    lateness: str | None = None
    limit: int | None = None
    schemas: Mapping[str, Columns] = field(default_factory=dict)
    csv: Mapping[str, CsvOptions] = field(default_factory=dict)
    ends: bool = False


def times_by_name(time: str | Mapping[str, str] | None) -> dict[str, str]:
    """Event-time columns by input; `time` is one column for all inputs or one for each."""
    return {"": time} if isinstance(time, str) else dict(time or {})


@dataclass(frozen=True, slots=True)
class BareStatement:
    """A statement as a query, and its sources: for each stream a path or a table."""

    query: Query
    sources: Mapping[str, object]


def bare_statement(
    sql: str, tables: Mapping[str, object], options: StatementOptions, line_at: PlaceAt | None = None
) -> BareStatement:
    """The query of a statement over the given tables and the files that it names. Raises ConfigurationError.

    A table or file joined with itself keeps its order, unless its event time is named; two inputs are ordered by event
    time. If inputs end and nothing limits which rows may meet, all rows meet.

    line_at: gives the place of each character of `sql`, if `sql` is a part of another text
    """
    with mistakes_of_statement():
        return _bare(sql, tables, options, line_at or places_in(sql))


def statement_of_streams(sql: str, schemas: Mapping[str, Columns], options: StatementOptions) -> Query:
    """The query of a statement over streams whose rows are pushed. Raises ConfigurationError.

    Rows keep the order in which they come, unless the statement has a time window or no window, or an event time is
    named.

    schemas: the columns of each stream, by the statement's names
    """
    with mistakes_of_statement():
        return _of_streams(sql, schemas, options)


@contextmanager
def mistakes_of_statement() -> Iterator[None]:
    """Within the block, put "sql" before each error's message, so that it names the statement."""
    try:
        yield
    except QueryError as error:
        if not str(error).startswith("sql"):
            error.args = (f"sql, {error}",)
        raise
    except RecursionError as error:
        raise QueryError("sql: nested too deeply: expected a simpler statement") from error


def _bare(sql: str, tables: Mapping[str, object], options: StatementOptions, line_at: PlaceAt) -> BareStatement:
    parsed = parse_sql(sql, line_at)
    joined = parsed.statement.left, parsed.statement.right
    named = [_source(side, tables) for side in joined]
    _check_used(tables, joined)
    sources = [each if isinstance(each, Path) else tables[each] for each in named]
    sides = [SideSource(side, _stream_name(side), each) for side, each in zip(joined, sources, strict=True)]
    check_named(sides, options.schemas, options.csv)
    schemas = columns_of(parsed.statement, sides, options.schemas, options.csv, options.times)
    check_orders(parsed.statement, sides, schemas, options.csv)
    read = _Read(sql, options, tuple(sources), tuple(schemas), _is_one(named, sources))
    with hinting(sides, schemas, options.csv, sql):
        return _of_some_rows(parsed, read)


def _of_some_rows(parsed: ParsedStatement, read: _Read) -> BareStatement:
    """The query of rows that meet in a window or an interval, or of all rows if nothing limits them."""
    right = parsed.statement.right
    try:
        meets_by_time = not (read.is_one or right.is_table) or _is_bounded_by_time(parsed)
        return _of_two(parsed, read, needs_time=meets_by_time or bool(read.options.times))
    except (Unbounded, NoEventTime, NotIndexable):
        if not _may_mean_all_rows(parsed, read.options):
            raise
    return _of_two(parsed.over_all_rows(), read, needs_time=False, notes=(_note_of_all_rows(parsed),))


@dataclass(frozen=True, slots=True)
class _Read:
    """The inputs and options of a statement. sources, schemas: by side; is_one: whether both sides are one source."""

    sql: str
    options: StatementOptions
    sources: tuple[object, ...]
    schemas: tuple[InferredSchema, ...]
    is_one: bool


def _may_mean_all_rows(parsed: ParsedStatement, options: StatementOptions) -> bool:
    """Whether the statement may join all rows: it has nothing that needs rows in an order."""
    is_told = options.times or options.lateness is not None or parsed.emit_clause is EmitOn.ARRIVAL
    return options.ends and parsed.window is None and not is_told


def _note_of_all_rows(parsed: ParsedStatement) -> str:
    what = "neither WINDOW nor an interval of event times says which rows may meet, so all rows do, as in SQL"
    return (
        what
        if parsed.statement.join.kind is JoinKind.FULL
        else f"{what}: {as_table(parsed.statement.right)} means the same"
    )


def _of_two(parsed: ParsedStatement, read: _Read, *, needs_time: bool, notes: tuple[str, ...] = ()) -> BareStatement:
    """The statement over two sides. If a source must be read twice but can't be, it is loaded into memory."""
    joined, sources = (parsed.statement.left, parsed.statement.right), read.sources
    is_self = read.is_one and not parsed.statement.right.is_table and not (parsed.window and parsed.window.holds_all)
    if read.is_one and not is_self and isinstance(sources[0], ReadOnce):
        sources = (sources[0].read_all(),) * 2
    names = _stream_names(joined, is_self=is_self)
    sides = list(zip(joined, names, read.schemas, strict=True))
    query = _query(parsed, sides, read.options, read.sql, needs_time=needs_time, notes=notes)
    return BareStatement(query, dict(zip(names, sources, strict=True)))


def _of_streams(sql: str, schemas: Mapping[str, Columns], options: StatementOptions) -> Query:
    parsed = parse_sql(sql, places_in(sql))
    joined = parsed.statement.left, parsed.statement.right
    names = [_stream_of(side, schemas) for side in joined]
    _check_used(schemas, joined)
    sides = [(side, name, InferredSchema(schemas[name])) for side, name in zip(joined, names, strict=True)]
    return _query(parsed, sides, options, sql, needs_time=bool(options.times) or _is_bounded_by_time(parsed))


def _is_bounded_by_time(parsed: ParsedStatement) -> bool:
    if parsed.statement.right.is_table:
        return False
    return parsed.window is None or parsed.window.needs_time


def _query(
    parsed: ParsedStatement,
    sides: Sequence[tuple[JoinSide, str, InferredSchema]],
    options: StatementOptions,
    sql: str,
    *,
    needs_time: bool,
    notes: tuple[str, ...] = (),
) -> Query:
    """The query over the sides; each side has its stream's name and columns."""
    _check_times(options, sides)
    if parsed.statement.right.is_table and options.times:
        raise ConfigurationError(
            f"event time: '{parsed.statement.right.stream}' is a table, and the rows that ask about it answer in their "
            "own order: expected none"
        )
    left, right = (_stream(*each, options, needs_time=needs_time) for each in sides)
    order = Order.EVENT_TIME if needs_time else Order.ARRIVAL
    lateness_us = _lateness(options, needs_time=needs_time)
    choices = Choices(NAME, sql, Output.ROWS, order=order, limit=options.limit, lateness_us=lateness_us, notes=notes)
    return assemble(parsed, (left, right), choices)


def _check_times(options: StatementOptions, sides: Sequence[tuple[JoinSide, str, InferredSchema]]) -> None:
    known = dict.fromkeys(side.stream for side, _, _ in sides)
    names = {name for _, name, _ in sides}
    for given in options.times:
        if given and given not in known and given not in names:
            raise ConfigurationError(f"event time: {unknown('stream or file', given, known)}")


def _stream_of(side: JoinSide, schemas: Mapping[str, Columns]) -> str:
    """The stream that a side names; case only counts if names differ in nothing else."""
    found = _named(side, schemas)
    if found is None:
        raise QueryError(unknown("stream", side.stream, schemas), side.line)
    return found


def _named(side: JoinSide, known: Iterable[str]) -> str | None:
    alike = [name for name in known if name.lower() == side.stream.lower()]
    if side.stream in alike:
        return side.stream
    return alike[0] if len(alike) == 1 else None


def _source(side: JoinSide, tables: Mapping[str, object]) -> str | Path:
    """The source of a side: the name of a table, in upper or lower case, or the path of a file."""
    name = _named(side, tables)
    if name is not None:
        return name
    if side.is_file:
        return Path(side.stream)
    if tables:
        raise QueryError(unknown("table", side.stream, tables), side.line)
    if Path(side.stream).exists():
        raise QueryError(f"'{side.stream}' could be a name: write its path with a slash, './{side.stream}'", side.line)
    raise QueryError(
        f"'{side.stream}' is no file: expected its path in quotes, such as FROM '{side.stream}.csv' AS {side.alias}",
        side.line,
    )


def _is_one(named: Sequence[str | Path], sources: Sequence[object]) -> bool:
    """Whether both sides are one table or one file, even if two paths name the file."""
    if named[0] == named[1]:
        return True
    paths = [Path(source) for source in sources if isinstance(source, str | Path)]
    if len(paths) < len(sources):
        return False
    left, right = ([identity(file) for file in files_of(path)] for path in paths)
    return left == right


def _check_used(tables: Mapping[str, object], joined: tuple[JoinSide, JoinSide]) -> None:
    used = {side.stream.lower() for side in joined}
    for name in tables:
        if name.lower() not in used:
            raise ConfigurationError(f"table {name!r} isn't used by the statement: expected FROM or JOIN of it")


def _stream_names(joined: tuple[JoinSide, JoinSide], *, is_self: bool) -> tuple[str, str]:
    """The names of both sides' streams: the same if they are one source. A file's is its name without the ending."""
    left, right = (_stream_name(side) for side in joined)
    if is_self:
        return left, left
    return (left, right) if left != right else (f"{left}_1", f"{right}_2")


def _stream_name(side: JoinSide) -> str:
    if not side.is_file:
        return side.stream
    stem = Path(side.stream).name.split(".")[0]
    return _NOT_IN_NAMES.sub("_", stem).strip("_")[:200] or ("stdin" if side.stream == "-" else "files")


def _stream(
    side: JoinSide, name: str, found: InferredSchema, options: StatementOptions, *, needs_time: bool
) -> StreamOptions:
    given = options.times.get(side.stream) or options.times.get(name) or options.times.get("")
    schema = dict(found.columns)
    if given is not None and given not in schema:
        why = found.left_out.get(given) or unknown("column", given, schema)
        raise ConfigurationError(f"event time of {side.stream}: {why}")
    time = given or (_event_time(side, schema) if needs_time else None)
    table = TableSource(side.stream if side.is_file else None) if side.is_table else None
    form = form_of(found, (side.stream, _stream_name(side)), options.csv)
    return StreamOptions(name, schema, time, None, side.line, table=table, left_out=found.left_out, file=form)


def _event_time(side: JoinSide, schema: Mapping[str, ColumnType]) -> str:
    """The column that must be the event time: the only timestamp, or if there is none, the only date."""
    for kind in _TIMES:
        found = [name for name, each in schema.items() if each.name is kind]
        if len(found) == 1:
            return found[0]
        if found:
            raise NoEventTime(
                f"which column of {side.stream} is its event time? Expected one of {listed(found)}: --time "
                f"{side.stream}={found[0]}, or time={{'{side.stream}': '{found[0]}'}} in Python"
            )
    raise NoEventTime(
        f"{side.stream} has no timestamp, which would put its rows in order: name the column that is its event time, "
        f"--time {side.stream}=COLUMN, or time={{'{side.stream}': COLUMN}} in Python (whole numbers are milliseconds)"
    )


def _lateness(options: StatementOptions, *, needs_time: bool) -> int | None:
    if options.lateness is None:
        return None
    found = parse_lateness_us(options.lateness)
    if found is None:
        raise ConfigurationError(f"lateness '{options.lateness}': expected a duration such as '5 s' or '1 min'")
    if not needs_time:
        raise ConfigurationError(
            "lateness needs rows in the order of event time: expected a time window, two inputs, or `time`"
        )
    return found


def warn_of_notes(*queries: Query) -> None:
    """Warn of the queries' notes; the warnings point at the user's call."""
    for note in dict.fromkeys(note for query in queries for note in query.notes):
        warnings.warn(note, stacklevel=3)
