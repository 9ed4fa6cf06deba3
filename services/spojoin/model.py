"""A validated query as frozen data. Every other room reads it; nothing here parses.

Join attributes become *codes*: one int64 for each tuple and key column. Codes have the same signed order as the
column's values, so indexes, kernels and the wire handle a single type.

- Domain.INTEGER: the code is the value itself, times 10**scale for decimals; dates are days, timestamps microseconds.
- Domain.FLOAT: the code holds the bits of the IEEE double, folded so that signed integers order as the doubles do;
  -0.0 is stored as 0.0, and NaN as one value above all others.
- Domain.ASSIGNED: the router gives each value (text, bytes) its own number; only `=` and `!=` compare these.

NULL has no code: a row whose index condition is NULL joins nothing, and takes no place among the codes.
"""

from __future__ import annotations

import decimal
import enum
import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from spojoin.windows import Window


class Op(enum.IntEnum):
    """How a stored or left value compares with the other side; kernels switch on the integers, which never change."""

    LT = 0
    LE = 1
    GT = 2
    GE = 3
    EQ = 4
    NE = 5
    BAND_LT = 6
    BAND_LE = 7

    @property
    def flipped(self) -> Op:
        """The operator for swapped operands: a < b is b > a."""
        return OPERATORS[self].flipped

    @property
    def is_band(self) -> bool:
        """Whether the operator compares the distance between two values with a width."""
        return self >= Op.BAND_LT


class Operator(NamedTuple):
    """The properties of an operator.

    sign: how SQL writes it
    compare: compares values or arrays of them; for a band, distances and widths
    flipped: the operator for swapped operands
    negated: the operator that is true if this one is false; None for bands
    relaxed: the operator that is also true for equal values; `=` and `!=` stay as they are
    """

    sign: str
    compare: Callable[[Any, Any], Any]
    flipped: Op
    negated: Op | None
    relaxed: Op
    is_strict: bool


#: The one table of operators.
OPERATORS = {
    Op.LT: Operator("<", operator.lt, Op.GT, Op.GE, Op.LE, is_strict=True),
    Op.LE: Operator("<=", operator.le, Op.GE, Op.GT, Op.LE, is_strict=False),
    Op.GT: Operator(">", operator.gt, Op.LT, Op.LE, Op.GE, is_strict=True),
    Op.GE: Operator(">=", operator.ge, Op.LE, Op.LT, Op.GE, is_strict=False),
    Op.EQ: Operator("=", operator.eq, Op.EQ, Op.NE, Op.EQ, is_strict=False),
    Op.NE: Operator("!=", operator.ne, Op.NE, Op.EQ, Op.NE, is_strict=False),
    Op.BAND_LT: Operator("<", operator.lt, Op.BAND_LT, None, Op.BAND_LE, is_strict=True),
    Op.BAND_LE: Operator("<=", operator.le, Op.BAND_LE, None, Op.BAND_LE, is_strict=False),
}


class Domain(enum.IntEnum):
    """How codes are made from values."""

    INTEGER = 0
    FLOAT = 1
    ASSIGNED = 2


class Rounding(enum.Enum):
    """The integer that replaces a double if the other side of a comparison is an integer or a decimal.

    A value x of the other side is exact, so x < d iff x < ceil(d), and so on. BELOW and AT_MOST avoid the operator's
    strictness: x < d iff x <= ceil(d) - 1, which fits int64 even if ceil(d) doesn't. DOUBLE is the reverse, for `!=`:
    it replaces an integer or decimal with the equal double. A value without an equal double differs from all doubles.
    """

    BELOW = "the greatest integer below"
    AT_MOST = "the greatest integer that is not above"
    ABOVE = "the least integer above"
    AT_LEAST = "the least integer that is not below"
    EQUAL = "the equal integer"
    DOUBLE = "the equal double"


class Order(enum.StrEnum):
    """How tuples of all inputs get their one total order."""

    ARRIVAL = "arrival"
    EVENT_TIME = "event_time"


class EmitOn(enum.StrEnum):
    """When a row answers: on arrival, about earlier partners, or once no later row can join it, about all partners."""

    ARRIVAL = "arrival"
    CLOSE = "close"


class JoinKind(enum.StrEnum):
    """Which rows a join returns; a RIGHT join is a LEFT join with swapped sides."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


class Output(enum.StrEnum):
    """What a probe yields."""

    COUNT = "count"
    PAIRS = "pairs"
    BITMAP = "bitmap"
    ROWS = "rows"


class TypeName(enum.StrEnum):
    """Column types of a schema."""

    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    STRING = "string"
    BOOLEAN = "boolean"
    UUID = "uuid"
    BINARY = "binary"
    MAP = "map"
    CARRIED = "carried"


#: Families of types: values of one family can be compared with each other.
INTEGERS = frozenset({TypeName.INT, TypeName.LONG})
FLOATING = frozenset({TypeName.FLOAT, TypeName.DOUBLE})
NUMBERS = INTEGERS | FLOATING | {TypeName.DECIMAL}
MOMENTS = frozenset({TypeName.DATE, TypeName.TIMESTAMP})


class TimeUnit(enum.StrEnum):
    """The unit of a timestamp that is a number since 1970."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


#: The time zone of instants unless something names another.
UTC = "UTC"
#: Moves a decimal's point without rounding, for any decimal that a message may hold.
EXACT = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
#: How many digits of a decimal fit 64 bits.
CODED_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A declared type; precision and scale are 0 except for decimal(p,s).

    unit: the unit of timestamp(unit); None if the schema names none, and for other types
    zone: the time zone in which an instant's values are shown; None for a timestamp without a zone
    arrow: the Arrow type of the data if it is wider than the type's own, and of carried values, such as lists;
        None otherwise
    is_ranked: whether the data defines the order of the values, as ordered categories do
    """

    name: TypeName
    precision: int = 0
    scale: int = 0
    unit: TimeUnit | None = None
    zone: str | None = None
    arrow: Hashable | None = None
    is_ranked: bool = False

    def __str__(self) -> str:
        if self.arrow is not None:
            return str(self.arrow)
        if self.name is TypeName.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        name = self.name.value if self.zone is None else f"{self.name.value}tz"
        options = [None if self.unit is None else self.unit.value, None if self.zone == UTC else self.zone]
        given = ", ".join(each for each in options if each is not None)
        return f"{name}({given})" if given else name

    @property
    def is_coded(self) -> bool:
        """Whether a signed 64-bit code orders the values: numbers, booleans and moments, but not texts."""
        if self.name is TypeName.DECIMAL:
            return self.precision <= CODED_DIGITS_MAX
        return self.name not in (TypeName.STRING, TypeName.UUID, TypeName.BINARY, TypeName.MAP, TypeName.CARRIED)


@dataclass(frozen=True, slots=True)
class Column:
    """A column reference inside an expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal number, kept exact."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, where operator is + - * or /; evaluated as written for doubles, exactly for integers."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Computed:
    """Any deterministic expression of one side's columns, which the expression engine evaluates.

    sql: the expression in DuckDB's dialect, with columns named as in the schema
    columns: the columns that it names, in order
    type: the type of its value
    """

    sql: str
    columns: tuple[str, ...]
    type: ColumnType


Expression = Column | Constant | Arithmetic | Computed


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One expression of one stream that predicates compare, and how its codes are made.

    rounding: how doubles are rounded that are compared with integers or decimals; None otherwise
    has_no_nan: whether a NaN makes the condition untrue, as in a band; otherwise NaN is the greatest double
    marks_void: whether it marks void rows: its value is 0 for other rows, and for a void row a number that equals none
        of the other side
    """

    expression: Expression
    domain: Domain
    scale: int
    text: str
    rounding: Rounding | None = None
    has_no_nan: bool = False
    marks_void: bool = False


@dataclass(frozen=True, slots=True)
class Predicate:
    """`left op right`; slots index the streams' key columns.

    `width` is a band's half width in the domain of codes: a scaled integer (INTEGER) or a double (FLOAT). It is 0 for
    other operators.
    """

    op: Op
    left_slot: int
    right_slot: int
    domain: Domain
    width: int | float
    text: str


#: The column that holds the numbers of rows, unless the schema has a column of that name.
SEQ = "seq"
#: The column with the headers of a Kafka record, unless the schema has a column of that name.
HEADERS = "headers"
HEADERS_TYPE = ColumnType(TypeName.MAP)
#: The header that carries distributed traces (W3C Trace Context), and the payload column that holds it.
TRACEPARENT = "traceparent"
TRACE = f"{HEADERS}['{TRACEPARENT}']"


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one side's rows: only rows that meet it get a number. `text` is the condition as written."""

    condition: Computed
    text: str


@dataclass(frozen=True, slots=True)
class Member:
    """A stream that an input feeds: its number in the query, its filter, and the slots of its keys in the input.

    asks: whether each of its rows asks for one answer
    """

    stream: int
    filter: Filter | None
    slots: tuple[int, ...]
    asks: bool = False


#: The bit of a void row of stream 0: it asks but finds nothing. Lower bits stand for the streams, the next higher bit
#: for void rows of stream 1.
ASKS_NOTHING = 2


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where a table's rows come from: a file's path, a topic's name, or neither if they are given in Python.

    refresh_ms: how long changes of a topic are gathered before they make a version
    """

    file: str | None = None
    topic: str | None = None
    refresh_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written; None means not given, and the manual states the default.

    delim, quote, escape, comment: characters
    decimal, thousands: the decimal point and the thousands separator of numbers
    dateformat, timestampformat: strptime formats, as in DuckDB
    nullstr: words for NULL
    header: whether the first line has names; names: the column names, in order
    skip: how many lines come before the header
    """

    delim: str | None = None
    quote: str = '"'
    escape: str | None = None
    decimal: str = "."
    thousands: str | None = None
    dateformat: str | None = None
    timestampformat: str | None = None
    encoding: str = "utf-8"
    nullstr: tuple[str, ...] | None = None
    comment: str | None = None
    header: bool | None = None
    names: tuple[str, ...] | None = None
    skip: int = 0


#: The options of CSV for which none are given.
AS_THE_PAGE_SAYS = CsvOptions()


@dataclass(frozen=True, slots=True)
class FileForm:
    """What is known about a stream's file besides its columns.

    csv: how the file is written, if it is CSV
    guessed: columns whose types were inferred from the first rows, so a later value may have another type
    valueless: text columns that have no value in those rows
    """

    csv: CsvOptions = AS_THE_PAGE_SAYS
    guessed: frozenset[str] = frozenset()
    valueless: frozenset[str] = frozenset()


#: The form of a file about which nothing is known.
NO_FORM = FileForm()


#: The timestamp of the Kafka record, as a stream's `time`, unless the schema has a column of that name.
RECORD_TIME = "record"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: rows that pass a filter, in order.

    keys: the key columns that predicates use, in slot order
    filter: None if all rows pass
    payload: columns that travel with the rows, because results, residual conditions or equalities of texts need them
    members: the two streams that an input feeds; empty for a stream that is its own input
    envelope: the field of a message that holds the row, such as Debezium's `after`; None if the message is the row
    asks: whether each row asks for one answer about all its partners: left rows may, and all rows of a FULL JOIN do
    query: the query whose results are the stream's rows; None if producers write them
    table: where the rows of a table come from; None for a stream that is no table
    file: what is known about the file, if the stream is read from one
    """

    name: str
    schema: dict[str, ColumnType]
    time: str | None
    key: str | None
    keys: tuple[KeyColumn, ...]
    filter: Filter | None = None
    payload: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    envelope: str | None = None
    asks: bool = False
    query: str | None = None
    table: TableSource | None = None
    file: FileForm = NO_FORM

    def type_of(self, column: str) -> ColumnType:
        """The type of a column that expressions use."""
        if column in self.schema or column not in (HEADERS, TRACE):
            return self.schema[column]
        return HEADERS_TYPE if column == HEADERS else ColumnType(TypeName.STRING)

    def fed(self, number: int) -> tuple[Member, ...]:
        """The streams that this input feeds; number: its number among the query's inputs."""
        return self.members or (Member(number, self.filter, tuple(range(len(self.keys))), self.asks),)

    @property
    def is_record_timed(self) -> bool:
        """Whether the event time is the timestamp of the Kafka record, not a column."""
        return self.time == RECORD_TIME and RECORD_TIME not in self.schema

    @property
    def time_column(self) -> str | None:
        """The column that holds the event time, or None."""
        return None if self.is_record_timed else self.time


@dataclass(frozen=True, slots=True)
class Use:
    """A column that an expression names: its side (0 left, 1 right), its name and its type.

    is_number: whether the column is the row's number
    """

    side: int
    name: str
    type: ColumnType
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class PairExpression:
    """An expression of both sides of a pair.

    sql: the expression in DuckDB's dialect, with columns named by `pair_column`; uses: those columns, in order
    type: the type of its value
    """

    sql: str
    uses: tuple[Use, ...]
    type: ColumnType
    text: str

    @property
    def column(self) -> Use | None:
        """The column, if the expression is just one; otherwise None."""
        return self.uses[0] if [quoted_column(use) for use in self.uses] == [self.sql] else None


@dataclass(frozen=True, slots=True)
class Measure:
    """What a partner adds to aggregates, if it has a value and passes the filter: 1, and the value.

    argument: None for COUNT(*); is_summed: whether values are added up, not only counted
    """

    argument: PairExpression | None
    filter: PairExpression | None
    is_summed: bool

    @property
    def expressions(self) -> tuple[PairExpression, ...]:
        """The expressions that are evaluated for a partner."""
        return tuple(each for each in (self.argument, self.filter) if each is not None)

    def serves(self, one: Aggregate) -> bool:
        """Whether a count, sum or mean can be computed from this measure."""
        return (self.argument, self.filter) == one.measured


@dataclass(frozen=True, slots=True)
class Choice:
    """The first partners of a left row in an order of right rows: all that an answer needs from each part.

    key: what orders the partners; None if only their numbers do
    is_latest: whether, among equal partners, the highest number comes first rather than the lowest
    needed: expressions that must not be NULL for a chosen partner
    filter: which rows may be chosen; None for all
    count: how many partners are chosen
    """

    key: SortKey | None
    is_latest: bool = False
    needed: tuple[PairExpression, ...] = ()
    filter: PairExpression | None = None
    count: int = 1

    @property
    def expressions(self) -> tuple[PairExpression, ...]:
        """The expressions that are evaluated for a right row."""
        key = () if self.key is None else (self.key.expression,)
        return (*key, *self.needed, *(() if self.filter is None else (self.filter,)))

    @property
    def is_of_right_rows(self) -> bool:
        """Whether the choice depends on right rows alone, in an order that codes have."""
        is_coded = self.key is None or self.key.expression.type.is_coded
        return is_coded and all(use.side == 1 for each in self.expressions for use in each.uses)


#: A value of `Use.side` for an aggregate; `Use.name` is then its number.
AGGREGATE = 2
#: Parts choose partners for an answer that needs at most this many; for more, they list all partners.
CHOSEN_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """The properties of an aggregate function that a plan needs; `spojoin.aggregates` has the functions themselves.

    name: DuckDB's name in lower case: part of the query's meaning, and of its fingerprint
    takes_nulls: whether a partner without a value counts
    is_counted, is_summed: whether it suffices that each part counts, or sums up, its partners' values
    """

    name: str
    takes_nulls: bool = False
    is_counted: bool = False
    is_summed: bool = False

    def choice(self, _of: Aggregate) -> Choice | None:
        """The choice of the partner that has the aggregate's value, if that partner is the first in an order."""
        return None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of all partners of a left row.

    arguments: the first is aggregated; empty for COUNT(*)
    share: the quantile, between 0 and 1
    filter: which partners count; None for all
    order: the order in which partners are taken; by their numbers if empty
    is_distinct: whether only the first of equal values counts
    separator: what stands between texts that are joined
    """

    function: AggregateFunction
    arguments: tuple[PairExpression, ...]
    type: ColumnType
    text: str
    share: Fraction | None = None
    filter: PairExpression | None = None
    order: tuple[SortKey, ...] = ()
    is_distinct: bool = False
    separator: str = ""

    @property
    def needed(self) -> tuple[PairExpression, ...]:
        """The expressions that are evaluated for each pair: the arguments, then the order, then the filter."""
        order = (key.expression for key in self.order)
        return (*self.arguments, *order, *(() if self.filter is None else (self.filter,)))

    @property
    def measured(self) -> tuple[PairExpression | None, PairExpression | None]:
        """The argument of a count, sum or mean, and its filter."""
        return next(iter(self.arguments), None), self.filter

    @property
    def is_sum(self) -> bool:
        """Whether the parts' counts or sums of right rows' values add up to the aggregate."""
        is_added = (self.function.is_counted or self.function.is_summed) and not self.is_distinct
        return is_added and all(use.side == 1 for each in self.needed for use in each.uses)

    @property
    def choice(self) -> Choice | None:
        """The choice of the partner that has the aggregate's value, if it is the first in an order of right rows."""
        found = None if self.order else self.function.choice(self)
        return found if found is not None and found.is_of_right_rows else None

    @property
    def is_plain_count(self) -> bool:
        """Whether the aggregate is the number of partners, or of partners that have a value in one column."""
        is_column = all(each.column is not None for each in self.arguments)
        return self.function.is_counted and self.filter is None and is_column and not self.is_distinct


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression by which partners are ordered."""

    expression: PairExpression
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Best:
    """The first `count` partners of each left row in an order; their numbers break ties.

    has_ties: whether all partners that are equal to the first by the order, apart from their numbers, are kept as well
    nearest: the condition of an ASOF join that determines the first partner, as written
    """

    count: int
    order: tuple[SortKey, ...]
    has_ties: bool = False
    nearest: str = field(default="", compare=False)

    @property
    def choice(self) -> Choice | None:
        """The choice that each part makes, if one value and the numbers order the right rows."""
        last = next((k for k, key in enumerate(self.order) if _is_right_number(key)), None)
        if last is None or last > 1 or self.count > CHOSEN_MAX or self.has_ties:
            return None
        found = Choice(self.order[0] if last else None, self.order[last].is_descending, count=self.count)
        return found if found.is_of_right_rows else None


def _is_right_number(key: SortKey) -> bool:
    column = key.expression.column
    return column is not None and column.side == 1 and column.is_number


@dataclass(frozen=True, slots=True)
class Grouped:
    """One row of results for each left row: aggregates, and a condition on them (HAVING), None if there is none."""

    aggregates: tuple[Aggregate, ...]
    having: PairExpression | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of results: its name, its expression, and the expression's column if it is just one (`plain`)."""

    name: str
    expression: PairExpression
    plain: Use | None


def pair_column(side: int, name: str) -> str:
    """The name of a side's column in a pair."""
    return f"{side}.{name}"


def quoted_column(use: Use) -> str:
    """The quoted name of a side's column in a pair, for SQL."""
    return '"' + pair_column(use.side, use.name).replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class RolePredicate:
    """A predicate seen from a probe: a stored code matches iff `stored op probe`.

    `op` is already oriented to the stored side. `probe_slot` is a slot of the probe's stream, and `target_slot` one of
    the stored stream.
    """

    op: Op
    probe_slot: int
    target_slot: int
    domain: Domain
    width: int | float


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of evaluation: tuples of stream `probe` search the window of stream `target`."""

    probe: int
    target: int
    as_left: bool
    predicates: tuple[RolePredicate, ...]

    @property
    def condition_count(self) -> int:
        """The number of intervals that a search intersects: one for each stored column, and one for each `!=`."""
        together = {p.target_slot for p in self.predicates if p.op is not Op.NE}
        return len(together) + sum(p.op is Op.NE for p in self.predicates)


OptionValue = int | float | str
#: The method of a query that names none: permutations as wavelet matrices, in the default layout.
DEFAULT_METHOD = "spo"


@dataclass(frozen=True, slots=True)
class Method:
    """The method by which the window is searched, with all its options.

    `spojoin run` searches by any method. Services use the default, or any method within another layout's workers.
    """

    name: str = DEFAULT_METHOD
    options: tuple[tuple[str, OptionValue], ...] = ()


#: The layout of a query that names none: batches of consecutive tuples go to PO-Join workers in turn.
DEFAULT_LAYOUT = "batch"


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The layout that spreads the work over workers, with all its options.

    workers: how many workers; 0 for as many as there are
    has_mutable_part: whether new tuples wait in a mutable part, which answers for every frame, until they are batched
    """

    name: str = DEFAULT_LAYOUT
    workers: int = 0
    options: tuple[tuple[str, OptionValue], ...] = ()
    has_mutable_part: bool = True


#: A part of topic names, which no query's name may contain: `<query>.generation.<topic>.<number>`.
GENERATION_PART = "generation"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The one order of all rows, and how long event time waits.

    lateness_us: how far a stream's times may run backwards
    idle_timeout_us: how long event time waits for an input without records, by their timestamps; None: without limit
    has_lateness: whether the lateness was given, even as zero; otherwise the rows of inputs that end are sorted
    """

    by: Order = Order.ARRIVAL
    lateness_us: int = 0
    idle_timeout_us: int | None = None
    has_lateness: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RowAnswers:
    """When rows answer, and with what.

    where: which of the pairs that an ASOF join chooses are results
    """

    emit: EmitOn = EmitOn.ARRIVAL
    join: JoinKind = JoinKind.INNER
    grouped: Grouped | None = None
    best: Best | None = None
    where: PairExpression | None = None

    @property
    def expressions(self) -> Iterator[PairExpression]:
        """The expressions of both sides' columns that choose and aggregate partners."""
        if self.grouped is not None:
            yield from (each for one in self.grouped.aggregates for each in one.needed)
            yield from [] if self.grouped.having is None else [self.grouped.having]
        if self.best is not None:
            yield from (key.expression for key in self.best.order)
        yield from [] if self.where is None else [self.where]


@dataclass(frozen=True, slots=True)
class ResultContent:
    """What results contain.

    limit: how many partners of a probe, the earliest ones; None for all
    select: the columns of results, for output `rows`
    key: the column of results whose value becomes the key of a message with a single row
    is_traced: whether such messages carry the `TRACEPARENT` of the row that answered
    """

    output: Output = Output.COUNT
    limit: int | None = None
    select: tuple[Selected, ...] = ()
    key: str | None = None
    is_traced: bool = False


@dataclass(frozen=True)  # without slots: cached properties need a __dict__
class Query:
    """A validated query. `streams` holds one stream (self join) or two (left, right).

    residuals: further conditions that filter pairs
    notes: sentences about what the statement's author may not expect, each shown once beside the results
    """

    name: str
    streams: tuple[Stream, ...]
    predicates: tuple[Predicate, ...]
    window: Window
    text: str
    order: RowOrder = RowOrder()
    residuals: tuple[PairExpression, ...] = ()
    answers: RowAnswers = RowAnswers()
    results: ResultContent = ResultContent()
    method: Method = Method()
    layout: LayoutChoice = LayoutChoice()
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def asks(self) -> bool:
        """Whether each left row asks for one answer about all its partners; otherwise both sides answer on arrival."""
        return self.answers != RowAnswers() or self.has_table

    @property
    def has_table(self) -> bool:
        """Whether the right side is a table, about which left rows ask."""
        return self.streams[-1].table is not None

    @property
    def both_ask(self) -> bool:
        """Whether right rows ask as left rows do."""
        return self.answers.join is JoinKind.FULL

    @property
    def is_self(self) -> bool:
        """Whether one stream joins itself, within one window."""
        return len(self.streams) == 1

    @property
    def is_of_one_input(self) -> bool:
        """Whether one input feeds both sides, even if they differ in filter or columns and are thus two streams."""
        return len({stream.name for stream in self.streams}) == 1

    @cached_property
    def inputs(self) -> tuple[Stream, ...]:
        """The inputs: the streams, or one input for the two streams of a self join.

        They are always the same objects, so readers can key what they prepare for an input by its object.
        """
        if self.is_self or not self.is_of_one_input:
            return self.streams
        left, right = self.streams
        first = len(left.keys)
        members = (
            Member(0, left.filter, tuple(range(first)), left.asks),
            Member(1, right.filter, tuple(range(first, first + len(right.keys))), right.asks),
        )
        payload = tuple(dict.fromkeys((*left.payload, *right.payload)))
        return (
            replace(left, keys=(*left.keys, *right.keys), filter=None, payload=payload, members=members, asks=False),
        )

    @property
    def stream_names(self) -> tuple[str, ...]:
        """A unique name for each stream: the input's name, with the side if both sides read one input."""
        if not self.shares_input:
            return tuple(stream.name for stream in self.streams)
        return tuple(f"{stream.name} as {side}" for stream, side in zip(self.streams, ("left", "right"), strict=True))

    @property
    def shares_input(self) -> bool:
        """Whether one input feeds two streams, so a row may be in both."""
        return len(self.streams) > 1 and self.is_of_one_input

    @property
    def fed_by(self) -> tuple[int, ...]:
        """For each stream, the number of the input that feeds it."""
        return tuple(number for number, source in enumerate(self.inputs) for _ in source.fed(number))

    @property
    def carries_keys(self) -> bool:
        """Whether results name both sides of a pair by the users' keys."""
        return self.results.output is Output.PAIRS

    @property
    def needs_time(self) -> bool:
        """Whether tuples carry an event time: a time window or event-time order."""
        return self.window.needs_time or self.order.by is Order.EVENT_TIME

    def window_over(self, stream: int) -> Window:
        """The window over a stream's tuples."""
        return self.window.over(stream, is_self=self.is_self)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of evaluation, left probes first; only that one if only left rows ask."""
        right = len(self.streams) - 1
        from_left = Direction(0, right, True, tuple(_as_seen_from_left(p) for p in self.predicates))
        if self.asks and not self.both_ask:
            return (from_left,)
        return from_left, Direction(right, 0, False, tuple(_as_seen_from_right(p) for p in self.predicates))


def _as_seen_from_left(p: Predicate) -> RolePredicate:
    return RolePredicate(p.op.flipped, p.left_slot, p.right_slot, p.domain, p.width)


def _as_seen_from_right(p: Predicate) -> RolePredicate:
    return RolePredicate(p.op, p.right_slot, p.left_slot, p.domain, p.width)
