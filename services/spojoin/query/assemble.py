"""Makes a query from a statement, its streams and its options, for query files and for statements alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from spojoin.columns.arithmetic import LinearForm, linear_form
from spojoin.errors import QueryError
from spojoin.model import (
    AGGREGATE,
    NO_FORM,
    OPERATORS,
    ColumnType,
    Computed,
    Domain,
    Expression,
    FileForm,
    JoinKind,
    KeyColumn,
    LayoutChoice,
    Method,
    Op,
    Order,
    Output,
    PairExpression,
    Predicate,
    Query,
    ResultContent,
    RowAnswers,
    RowOrder,
    Stream,
    TableSource,
)
from spojoin.query.answers import read_answers
from spojoin.query.comparable import check_clocks
from spojoin.query.conditions import Condition, read_condition
from spojoin.query.dialects import correcting_dialects
from spojoin.query.engine_check import check_statement, checkable
from spojoin.query.nearest import with_nearest
from spojoin.query.parsed import ParsedStatement
from spojoin.query.scope import Scope
from spojoin.query.statement import JoinSide, Statement, with_natural_names
from spojoin.windows import WholeTable, Window


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """A stream as it is declared; line: the line of its declaration, for errors; query, table, file: as in `Stream`.

    left_out: by name, a sentence about each column of the data that no statement can name
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
class Choices:
    """The options of a query besides its statement. order, lateness_us: None if they aren't given.

    order_line: the line of that option, for errors; notes: notes for `Query` that are known beforehand
    """

    name: str
    text: str
    output: Output
    order: Order | None = None
    order_line: int = 1
    limit: int | None = None
    lateness_us: int | None = None
    idle_timeout_us: int | None = None
    method: Method = field(default_factory=Method)
    layout: LayoutChoice = field(default_factory=LayoutChoice)
    notes: tuple[str, ...] = ()


def assemble(parsed: ParsedStatement, sides: tuple[StreamOptions, StreamOptions], choices: Choices) -> Query:
    """The query of a statement over the streams of its two sides. Raises QueryError."""
    parsed = replace(parsed, statement=with_natural_names(parsed.statement, [side.schema for side in sides]))
    with correcting_dialects(parsed.text):
        return _assembled(parsed, sides, choices)


def _assembled(parsed: ParsedStatement, sides: tuple[StreamOptions, StreamOptions], choices: Choices) -> Query:
    scope, asks = _scope(parsed.statement, sides), parsed.asks
    statement = with_nearest(parsed.statement, scope)

    # the window, the conditions and the order
    window = parsed.window
    if statement.right.is_table:
        _check_table(statement.right.stream, window, choices.order, parsed.end)
        window = WholeTable()
    condition = read_condition(statement, scope, window, parsed.end, asks=asks)
    order = choices.order or (Order.EVENT_TIME if condition.window.sets_order else Order.ARRIVAL)
    used = sides[: len(condition.keys)]
    _check_time(condition.window, order, choices.order_line, used)
    if choices.limit is not None and asks:
        raise QueryError(
            f"limit {choices.limit} cuts a row's partners as they come, but here a row answers once about all of them: "
            f"expected QUALIFY ROW_NUMBER() OVER (PARTITION BY {statement.left.alias} ORDER BY ...) <= {choices.limit}",
            parsed.line_at(0),
        )

    # the answers
    select, answers = read_answers(statement, scope) if choices.output is Output.ROWS else ((), RowAnswers())
    if select or _needs_engine(condition):
        names = (statement.left.stream.lower(), statement.right.stream.lower())
        schemas = dict(zip(names, scope.schemas, strict=True))
        check_statement(checkable(parsed.plain, statement, scope), schemas, parsed.line_at)
    parsed.check_emit()

    expressions = [*(each.expression for each in select), *answers.expressions, *condition.residuals]
    payloads = _payload(expressions, len(condition.keys))
    asking = 2 if statement.join.kind is JoinKind.FULL else int(asks)
    query = Query(
        name=choices.name,
        streams=_streams(used, condition, payloads, asking=asking),
        predicates=condition.predicates,
        window=condition.window,
        text=choices.text,
        order=RowOrder(order, choices.lateness_us or 0, choices.idle_timeout_us, choices.lateness_us is not None),
        residuals=condition.residuals,
        answers=replace(answers, emit=parsed.emit_in(condition.window), join=statement.join.kind),
        results=ResultContent(choices.output, choices.limit, select),
        method=choices.method,
        layout=choices.layout,
    )
    return replace(query, notes=(*choices.notes, *_notes(query, statement.right)))


def _check_table(table: str, window: Window | None, order: Order | None, line: int) -> None:
    """QueryError if a statement with a table has a window, or event-time order."""
    if window is not None:
        raise QueryError(f"'{table}' is a table, whose rows are always in the window: remove the clause WINDOW", line)
    if order is Order.EVENT_TIME:
        raise QueryError(
            f"'{table}' is a table, and a row meets the version of it that is there when the row arrives: expected "
            "order arrival",
            line,
        )


def _check_time(window: Window, order: Order, order_line: int, used: Sequence[StreamOptions]) -> None:
    if window.needs_time and order is Order.ARRIVAL:
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


def _streams(
    sides: Sequence[StreamOptions], condition: Condition, payloads: Sequence[tuple[str, ...]], *, asking: int
) -> tuple[Stream, ...]:
    """The streams of the sides; asking: the number of sides that ask, the left one first."""
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
    """Whether a condition is more than a comparison of sums of columns, so that it needs the expression engine."""
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
        statement.join.using,
    )


def _payload(expressions: Sequence[PairExpression], streams: int) -> list[tuple[str, ...]]:
    """The columns that pairs need, by stream; the sides of a self join share them."""
    found: list[dict[str, None]] = [{} for _ in range(streams)]
    for use in (use for each in expressions for use in each.uses if not (use.is_number or use.side == AGGREGATE)):
        found[min(use.side, streams - 1)][use.name] = None
    return [tuple(names) for names in found]


def _notes(query: Query, right: JoinSide) -> Iterator[str]:
    """Notes on effects that the statement's author may not expect."""
    if all(query.streams[0].keys[p.left_slot].marks_void for p in query.predicates) and query.predicates:
        yield "no index can evaluate any of the conditions, so each row is compared with all rows of the other side"
    quote = "'" if right.is_file else "" if right.stream.isidentifier() else '"'
    if note := note_of_itself(query, f"{quote}{right.stream}{quote}"):
        yield note


def note_of_itself(query: Query, name: str) -> str | None:
    """A note on a self join if a row may be its own partner; None for other queries.

    It may be if one condition is always true for a row with itself and none is always false. Residual conditions, if
    any, decide.

    name: the stream's name as the statement writes it
    """
    if query.has_table or not query.is_of_one_input or query.residuals or not _may_meet(query):
        return None
    left, right = query.streams[0].keys, query.streams[-1].keys
    written = [p for p in query.predicates if not left[p.left_slot].marks_void]
    holds = [_holds(p, left[p.left_slot], right[p.right_slot]) for p in written]
    if False in holds or (query.window.meets_itself is None and True not in holds):
        return None
    how = "are" if all(holds) else "may be"
    return (
        f"no row is paired with itself, although all conditions {how} true of such a pair: in a self join a row meets "
        f"only other rows; JOIN TABLE({name}) also pairs it with itself"
    )


def _may_meet(query: Query) -> bool:
    """Whether both sides' filters let the same rows pass, and a row may be in its own window."""
    filters = [stream.filter.condition for stream in (query.streams[0], query.streams[-1]) if stream.filter is not None]
    return query.window.meets_itself is not False and (len(filters) < 2 or filters[0].sql == filters[1].sql)


def _holds(predicate: Predicate, left: KeyColumn, right: KeyColumn) -> bool | None:
    """Whether a condition is true for a row with itself; None if this depends on the row's values."""
    apart = _apart(left.expression, right.expression)
    if apart is None:
        return None if predicate.op not in (Op.EQ, Op.NE) else False
    if predicate.op.is_band:
        return bool(abs(apart) <= Fraction(predicate.width) / 10**left.scale)
    return bool(OPERATORS[predicate.op].compare(apart, 0))


def _apart(left: Expression, right: Expression) -> Fraction | None:
    """A row's left expression minus its right expression, if the difference is the same for all rows."""
    if isinstance(left, Computed) or isinstance(right, Computed):
        return Fraction(0) if left == right else None
    try:
        forms = linear_form(left), linear_form(right)
    except ValueError:
        return Fraction(0) if left == right else None
    return _constant(*forms)


def _constant(left: LinearForm, right: LinearForm) -> Fraction | None:
    return left.constant - right.constant if left.terms == right.terms else None
