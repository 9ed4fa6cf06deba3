"""A query from its statement and what else is known: the same for query files and for statements alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spojoin.errors import QueryError
from spojoin.model import (
    AGGREGATE,
    ALL_ROWS,
    NO_FORM,
    ColumnType,
    Computed,
    Domain,
    EmitOn,
    FileForm,
    Interval,
    JoinKind,
    LayoutChoice,
    Method,
    Order,
    Output,
    PairExpression,
    Query,
    Stream,
    TableSource,
    Window,
)
from spojoin.query.answers import StatementAnswers, read_answers
from spojoin.query.asof import with_nearest
from spojoin.query.asof_clauses import split_asof
from spojoin.query.condition import Condition, read_condition
from spojoin.query.dialects import translating
from spojoin.query.engine_check import check_statement, checkable
from spojoin.query.foreign import check_from, check_paths, check_words
from spojoin.query.grouping import has_aggregates
from spojoin.query.itself import note_of_itself
from spojoin.query.natural import with_names
from spojoin.query.places import PlaceAt
from spojoin.query.scope import Scope
from spojoin.query.statement import JoinSide, Statement, parse_statement
from spojoin.query.tables import check_left, split_tables, table_window
from spojoin.query.window import split_emit, split_window, with_emit
from spojoin.query.zones import check_clocks


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """A stream as it is declared; line: where, for errors; query, table, file: as in `Stream`.

    left_out: by name, a sentence about a column of the data that no statement can name
    """

    name: str
    schema: dict[str, ColumnType]
    time: str | None
    key: str | None
    line: int
    envelope: str | None = None
    query: str | None = None
    table: TableSource | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    file: FileForm = NO_FORM


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement, its window clause if there is one, when rows shall answer if it says so, and where it ends.

    text: as written; plain: without these clauses; line_at: gives the line of a character of either
    """

    statement: Statement
    window: Window | None
    end: int
    text: str
    plain: str
    line_at: PlaceAt
    said: EmitOn | None

    @property
    def emit(self) -> EmitOn:
        """When rows answer: on close where they ask and nothing is said, and at arrival about a table, which is all."""
        if self.statement.right.is_table:
            return EmitOn.ARRIVAL
        return self.said or (EmitOn.CLOSE if self.asks else EmitOn.ARRIVAL)

    @property
    def asks(self) -> bool:
        """As in `Query`."""
        return self.said is EmitOn.CLOSE or self.statement.right.is_table or self._asks_in_itself

    @property
    def _asks_in_itself(self) -> bool:
        """Whether left rows ask, whenever they answer, of whatever the right side is."""
        statement = self.statement
        is_more = statement.join is not JoinKind.INNER or statement.is_asof or statement.qualify is not None
        return is_more or has_aggregates(statement)

    def check_emit(self) -> None:
        """QueryError where left rows ask in a window, and the statement doesn't say when they answer."""
        if self.window is not None and self.said is None and self._asks_in_itself:
            raise QueryError(
                "in a WINDOW this statement must say when rows answer: EMIT ON ARRIVAL, when a row comes, about its "
                "earlier partners alone, or EMIT ON CLOSE, when its window has passed, about all partners; expected "
                "one of the two at the end",
                self.end,
                instead=with_emit(self.text, EmitOn.CLOSE, self.line_at),
            )

    def emit_in(self, interval: Interval | None) -> EmitOn:
        """When rows answer; where all partners come before the row that asks, both times are one, its arrival."""
        is_before = interval is not None and interval.upper_us < 0 and self.statement.join is not JoinKind.FULL
        return EmitOn.ARRIVAL if is_before and self._asks_in_itself else self.emit

    def over_all_rows(self) -> ParsedStatement:
        """The same over inputs that end: the right side is a table; in a FULL JOIN, both sides wait for each other."""
        if self.statement.join is JoinKind.FULL:
            return replace(self, window=ALL_ROWS, said=EmitOn.CLOSE)
        return replace(self, statement=replace(self.statement, right=replace(self.statement.right, is_table=True)))

    @property
    def gives_rows(self) -> bool:
        """Whether results have the columns of a select list unless another output is chosen."""
        return self.asks or not self.statement.is_star


@dataclass(frozen=True, slots=True)
class Choices:
    """What a query says besides its statement. order: None where it says nothing; output: see `chosen_output`.

    order_line: where the order is chosen, for errors; notes: as in `Query`, what else is known to be said
    """

    name: str
    text: str
    output: Output
    order: Order | None = None
    order_line: int = 1
    limit: int | None = None
    method: Method = field(default_factory=Method)
    layout: LayoutChoice = field(default_factory=LayoutChoice)
    notes: tuple[str, ...] = ()


def parse_sql(sql: str, line_at: PlaceAt) -> ParsedStatement:
    """The statement and its window clause; `line_at` gives the place of a character of `sql`."""
    end = line_at(len(sql.rstrip()) - 1)
    with translating(sql):
        check_words(sql, line_at)
        check_from(sql, line_at)
        without_emit, said = split_emit(sql, line_at)
        without_window, window = split_window(without_emit, line_at)
        without_tables, tables = split_tables(without_window, line_at)
        plain, asof = split_asof(without_tables, sql, line_at)
        check_paths(plain, line_at)
        statement = parse_statement(plain, line_at, tables, asof)
    check_left(statement)
    return ParsedStatement(statement, window, end, sql, plain, line_at, said)


def assemble(
    parsed: ParsedStatement, sides: tuple[StreamOptions, StreamOptions], choices: Choices, lateness_us: int | None
) -> Query:
    """The query that a statement means over the streams of its two sides. Raises QueryError."""
    parsed = replace(parsed, statement=with_names(parsed.statement, [side.schema for side in sides]))
    with translating(parsed.text):
        return _assembled(parsed, sides, choices, lateness_us)


def _assembled(
    parsed: ParsedStatement, sides: tuple[StreamOptions, StreamOptions], choices: Choices, lateness_us: int | None
) -> Query:
    scope, asks = _scope(parsed.statement, sides), parsed.asks
    parsed = replace(parsed, statement=with_nearest(parsed.statement, scope))
    condition = read_condition(parsed.statement, scope, _window(parsed, choices), parsed.end, asks=asks)
    order = choices.order or (Order.ARRIVAL if condition.interval is None else Order.EVENT_TIME)
    used = sides[: len(condition.keys)]
    _check_time(condition.window, order, choices.order_line, used)
    _check_limit(choices.limit, parsed)
    answers = read_answers(parsed.statement, scope) if choices.output is Output.ROWS else StatementAnswers()
    select = answers.select
    needed = _payload([*answers.expressions, *condition.residuals], len(condition.keys))
    if select or _needs_engine(condition):
        _check_by_engine(parsed, scope)
    parsed.check_emit()
    found = Query(
        name=choices.name,
        streams=_streams(used, condition, needed, asking=2 if parsed.statement.join is JoinKind.FULL else int(asks)),
        predicates=condition.predicates,
        window=condition.window,
        order=order,
        output=choices.output,
        limit=choices.limit,
        lateness_us=lateness_us or 0,
        has_lateness=lateness_us is not None,
        text=choices.text,
        method=choices.method,
        layout=choices.layout,
        interval=condition.interval,
        select=select,
        residuals=condition.residuals,
        emit=parsed.emit_in(condition.interval),
        join=parsed.statement.join,
        grouped=answers.grouped,
        best=answers.best,
        where=answers.where,
    )
    return replace(found, notes=(*choices.notes, *_notes(found, parsed.statement.right)))


def _window(parsed: ParsedStatement, choices: Choices) -> Window | None:
    """The statement's window, or that of its table; None where event times must bound it."""
    if parsed.statement.right.is_table:
        return table_window(parsed.statement, parsed.window, choices.order, parsed.end)
    return parsed.window


def _check_by_engine(parsed: ParsedStatement, scope: Scope) -> None:
    written = (parsed.statement.left.stream, parsed.statement.right.stream)
    schemas = {name.lower(): schema for name, schema in zip(written, scope.schemas, strict=True)}
    check_statement(checkable(parsed.plain, parsed.statement, scope), schemas, parsed.line_at)


def _notes(query: Query, right: JoinSide) -> Iterator[str]:
    """What the statement's author may not expect."""
    if all(query.streams[0].keys[p.left_slot].marks_void for p in query.predicates) and query.predicates:
        yield "no condition can be found in an index, so each row is compared with all rows of the other side"
    quote = "'" if right.is_file else "" if right.stream.isidentifier() else '"'
    if note := note_of_itself(query, f"{quote}{right.stream}{quote}"):
        yield note


def _streams(
    sides: Sequence[StreamOptions], condition: Condition, payloads: Sequence[tuple[str, ...]], *, asking: int
) -> tuple[Stream, ...]:
    """The streams of the sides; asking: how many of them ask, the left one first."""
    parts = zip(sides, condition.keys, condition.filters, payloads, strict=False)  # a self join has one more filter
    return tuple(
        Stream(
            side.name,
            side.schema,
            side.time,
            side.key,
            tuple(keys),
            passing,
            payload,
            envelope=side.envelope,
            asks=number < asking,
            query=side.query,
            table=side.table,
            file=side.file,
        )
        for number, (side, keys, passing, payload) in enumerate(parts)
    )


def _needs_engine(condition: Condition) -> bool:
    """Whether any condition is more than a comparison of sums of columns."""
    keys = [key for columns in condition.keys for key in columns]
    return bool(
        any(condition.filters)
        or condition.residuals
        or any(isinstance(key.expression, Computed) or key.domain is Domain.ASSIGNED for key in keys)
    )


def _scope(statement: Statement, sides: tuple[StreamOptions, StreamOptions]) -> Scope:
    left, right = statement.left, statement.right
    return Scope(
        (left.alias, right.alias),
        (sides[0].schema, sides[1].schema),
        (sides[0].name, sides[1].name),
        statement.line_of,
        (sides[0].time, sides[1].time),
        (sides[0].key, sides[1].key),
        (sides[0].left_out, sides[1].left_out),
        statement.using,
    )


def _check_time(window: Window, order: Order, order_line: int, used: Sequence[StreamOptions]) -> None:
    if window.is_time and order is Order.ARRIVAL:
        raise QueryError("a time window needs event-time order: add 'order: event_time'", order_line)
    for stream in used:
        if order is Order.EVENT_TIME and stream.time is None:
            raise QueryError(
                f"stream {stream.name}: missing time column: order event_time needs 'time: <column>'", stream.line
            )
    if order is Order.EVENT_TIME:
        times = [(each.time or "", each.schema.get(each.time or "")) for each in used]
        known = [(f"{each.name}.{time}", kind) for each, (time, kind) in zip(used, times, strict=True) if kind]
        check_clocks(known, used[-1].line)


def _check_limit(limit: int | None, parsed: ParsedStatement) -> None:
    if limit is not None and parsed.asks:
        raise QueryError(
            f"limit {limit} is of a row's partners as they come: expected QUALIFY ROW_NUMBER() OVER (PARTITION BY "
            f"{parsed.statement.left.alias} ORDER BY ...) <= {limit} in the statement",
            parsed.line_at(0),
        )


def _payload(expressions: Sequence[PairExpression], streams: int) -> list[tuple[str, ...]]:
    """By stream, the columns that pairs need; both sides of a stream that joins itself share them."""
    found: list[dict[str, None]] = [{} for _ in range(streams)]
    for use in (use for each in expressions for use in each.uses if not (use.is_number or use.side == AGGREGATE)):
        found[min(use.side, streams - 1)][use.name] = None
    return [tuple(names) for names in found]
