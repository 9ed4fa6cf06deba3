"""A statement alone, without a query file: schemas and event times come from the data that it names, or beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spojoin.embedded.given_tables import ReadOnce
from spojoin.embedded.named_files import identity
from spojoin.embedded.patterns import files_of
from spojoin.embedded.side_columns import check_named, check_orders, columns_of, form_of, hinting
from spojoin.embedded.side_source import SideSource
from spojoin.embedded.source_options import Columns
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import (
    ALL_ROWS,
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
from spojoin.query.assemble import Choices, ParsedStatement, StreamOptions, assemble, parse_sql
from spojoin.query.condition import NotIndexable
from spojoin.query.inferred import InferredSchema
from spojoin.query.interval import Unbounded
from spojoin.query.places import PlaceAt, places_in
from spojoin.query.statement import JoinSide
from spojoin.query.tables import as_table
from spojoin.query.units import parse_lateness_us
from spojoin.suggest import listed, unknown

#: The name of a query that has none, in reports.
NAME = "statement"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_TIMES = (TypeName.TIMESTAMP, TypeName.DATE)


class NoEventTime(ConfigurationError):
    """Rows need an event time, and no column is known to be it."""


@dataclass(frozen=True, slots=True)
class StatementOptions:
    """What a statement doesn't say.

    times: the event-time columns by the names of files or tables as the statement has them; under "" for all others
    lateness: how far event times may run backwards, such as "5 s"; limit: partners listed of one row
    schemas, csv: the types of columns and how files are written, by the same names as `times`
    ends: whether inputs end and all their rows can be read first: what bounds no window is then joined with all rows
    """

    times: Mapping[str, str]
    lateness: str | None = None
    limit: int | None = None
    schemas: Mapping[str, Columns] = field(default_factory=dict)
    csv: Mapping[str, CsvOptions] = field(default_factory=dict)
    ends: bool = False


def times_by_name(time: str | Mapping[str, str] | None) -> dict[str, str]:
    """The event-time columns by name, as options have them, of one column for all or one for each."""
    return {"": time} if isinstance(time, str) else dict(time or {})


@dataclass(frozen=True, slots=True)
class BareStatement:
    """A statement as a query, and what each of its streams is read from: a path or a table."""

    query: Query
    sources: Mapping[str, object]


def bare_statement(
    sql: str, tables: Mapping[str, object], options: StatementOptions, line_at: PlaceAt | None = None
) -> BareStatement:
    """The query that a statement means over tables, by name, and the files that it names. Raises ConfigurationError.

    One table or file joined with itself is a stream in its order, unless its event time is named; two are ordered by
    event time. Where inputs end, and nothing says which of their rows may meet, all do.

    line_at: the places of its characters, where they aren't those of `sql`
    """
    with mistakes_of_statement():
        return _bare(sql, tables, options, line_at or places_in(sql))


def statement_of_streams(sql: str, schemas: Mapping[str, Columns], options: StatementOptions) -> Query:
    """The query that a statement means over streams whose rows are pushed. Raises ConfigurationError.

    Rows are in the order in which they come, unless the statement's window is in time, there is none, or an event time
    is named.

    schemas: the columns of each stream, by the name that the statement has
    """
    with mistakes_of_statement():
        return _of_streams(sql, schemas, options)


@contextmanager
def mistakes_of_statement() -> Iterator[None]:
    """Errors say that they are of the statement."""
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
    """The statement over rows that meet in a window or an interval; over all where nothing bounds them."""
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
    """What a statement is read with; sources, schemas: of its two sides; is_one: whether they are one source."""

    sql: str
    options: StatementOptions
    sources: tuple[object, ...]
    schemas: tuple[InferredSchema, ...]
    is_one: bool


def _may_mean_all_rows(parsed: ParsedStatement, options: StatementOptions) -> bool:
    """Whether nothing is said that only has a meaning for rows that come one after the other."""
    is_told = options.times or options.lateness is not None or parsed.said is EmitOn.ARRIVAL
    return options.ends and parsed.window is None and not is_told


def _note_of_all_rows(parsed: ParsedStatement) -> str:
    what = "neither WINDOW nor an interval of event times says which rows may meet, so all rows do, as in SQL"
    return (
        what if parsed.statement.join is JoinKind.FULL else f"{what}: {as_table(parsed.statement.right)} means the same"
    )


def _of_two(parsed: ParsedStatement, read: _Read, *, needs_time: bool, notes: tuple[str, ...] = ()) -> BareStatement:
    """The statement over its two sides; a source that is read twice is taken into memory where it can't be."""
    joined, sources = (parsed.statement.left, parsed.statement.right), read.sources
    is_self = read.is_one and not parsed.statement.right.is_table and parsed.window != ALL_ROWS
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
    return parsed.window is None or parsed.window.is_time


def _query(
    parsed: ParsedStatement,
    sides: Sequence[tuple[JoinSide, str, InferredSchema]],
    options: StatementOptions,
    sql: str,
    *,
    needs_time: bool,
    notes: tuple[str, ...] = (),
) -> Query:
    """The query over the sides, each with its stream's name and columns."""
    _check_times(options, sides)
    if parsed.statement.right.is_table and options.times:
        raise ConfigurationError(
            f"event time: '{parsed.statement.right.stream}' is a table, and the rows that ask about it answer in their "
            "own order: expected none"
        )
    left, right = (_stream(*each, options, needs_time=needs_time) for each in sides)
    order = Order.EVENT_TIME if needs_time else Order.ARRIVAL
    choices = Choices(NAME, sql, Output.ROWS, order=order, limit=options.limit, notes=notes)
    return assemble(parsed, (left, right), choices, _lateness(options, needs_time=needs_time))


def _check_times(options: StatementOptions, sides: Sequence[tuple[JoinSide, str, InferredSchema]]) -> None:
    known = dict.fromkeys(side.stream for side, _, _ in sides)
    names = {name for _, name, _ in sides}
    for given in options.times:
        if given and given not in known and given not in names:
            raise ConfigurationError(f"event time: {unknown('stream or file', given, known)}")


def _stream_of(side: JoinSide, schemas: Mapping[str, Columns]) -> str:
    """The stream that a side names, without regard to case unless several are alike."""
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
    """What a side is read from: the name of a table, without regard to case, or the path of a file."""
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
    """Whether both sides are one table or one file, whatever the paths by which they name it."""
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
    """Streams' names: of files, their names without endings; both sides have one name iff they are one source."""
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
    """The only column that can be one: a timestamp, or else a date."""
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
