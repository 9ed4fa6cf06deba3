"""A validated query as frozen data: what every other room reads. Nothing here parses.

Join attributes become *codes*: one int64 a tuple and key column whose signed order is the order of the column's
type, so that indexes, kernels and the wire know a single type.

- Domain.INTEGER: the code is the value itself, times 10**scale for decimals; dates are days, timestamps microseconds.
- Domain.FLOAT: the code holds the bits of the IEEE double, folded so that signed integers order as the doubles do;
  -0.0 is stored as 0.0, and NaN as one value above all others.
- Domain.ASSIGNED: the router gives each value (text, bytes) a number of its own; only `=` and `!=` compare them.

NULL gets no code: a row whose index condition is NULL joins nothing, and takes no place among the codes.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property


class Op(enum.IntEnum):
    """How a stored or left value compares with the other side; the integers are stable: kernels switch on them."""

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
        return _FLIPPED.get(self, self)


_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


class Domain(enum.IntEnum):
    """How codes are made from values."""

    INTEGER = 0
    FLOAT = 1
    ASSIGNED = 2


class Rounding(enum.Enum):
    """The integer that stands for a double where the other side of a comparison is an integer or a decimal.

    A value x of the other side is exact, so that x < d iff x < ceil(d), and so on. The first two keep the operator's
    strictness out: x < d iff x <= ceil(d) - 1, which stays within int64 where ceil(d) doesn't. DOUBLE is the other way
    round, for `!=`: of an integer or decimal the double that it equals; one that equals none differs from all doubles.
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
    """When a row answers: as it comes, about earlier partners; or when no later row can join it, about all."""

    ARRIVAL = "arrival"
    CLOSE = "close"


class JoinKind(enum.StrEnum):
    """Which rows a join puts out; a RIGHT one is a LEFT one whose sides are turned."""

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


class TimeUnit(enum.StrEnum):
    """The unit of a timestamp that is a number since 1970."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


#: The zone of instants of which nothing names another.
UTC = "UTC"
#: Digits of decimals that fit 64 bits.
CODED_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A declared type; precision and scale are 0 except for decimal(p,s).

    unit: of timestamp(unit) only; None where the schema names none
    zone: of a timestamp that is an instant, the time zone that its values are shown in; None of one without a zone
    arrow: the Arrow type that data has where it is wider than the type's own, and of carried values, such as lists;
        None of all others
    is_ranked: whether the data has an order of its own for the values, as ordered categories have
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
        """Whether a signed 64-bit code orders its values: numbers, booleans and moments, not texts."""
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
    """`left operator right` with operator one of + - * /; doubles evaluate it as written, integers exactly."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Computed:
    """Any deterministic expression of one side's columns, which the expression engine evaluates.

    sql: in DuckDB's dialect, over columns named as in the schema; columns: those that it names, in order
    type: of its value
    """

    sql: str
    columns: tuple[str, ...]
    type: ColumnType


Expression = Column | Constant | Arithmetic | Computed


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One expression of one stream that predicates compare, and how its codes are made.

    rounding: of doubles that are compared with integers or decimals; None for all others
    has_no_nan: whether a NaN makes the condition untrue, as within a band, in place of being the greatest double
    marks_void: whether it marks rows of which an index condition is NULL: 0 for all others, and for these a number
        that equals none of the other side
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

    `width` is the band's half width as a code-domain number: scaled integer (INTEGER) or double (FLOAT); else 0.
    """

    op: Op
    left_slot: int
    right_slot: int
    domain: Domain
    width: int | float
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """Length and slide in tuples (`is_time` False) or microseconds (True); slide divides length."""

    is_time: bool
    length: int
    slide: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds on the difference of two event times: `lower_us` <= right's - left's <= `upper_us`, in microseconds.

    held: the predicates, as written, that the windows express: no service evaluates them
    """

    lower_us: int
    upper_us: int
    held: tuple[str, ...] = ()


#: The column that holds the numbers of rows, where the schema has none of that name.
SEQ = "seq"
#: The column with the headers of a Kafka record, where the schema has none of that name.
HEADERS = "headers"
HEADERS_TYPE = ColumnType(TypeName.MAP)
#: The header that distributed traces travel in (W3C Trace Context), and the payload column that holds it.
TRACEPARENT = "traceparent"
TRACE = f"{HEADERS}['{TRACEPARENT}']"


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one side's rows: only rows of which it is true take a number. `text` is as written."""

    condition: Computed
    text: str


@dataclass(frozen=True, slots=True)
class Member:
    """A stream that an input feeds: its number in the query, its filter, and its keys among the input's, in order.

    asks: whether each of its rows asks for one answer
    """

    stream: int
    filter: Filter | None
    slots: tuple[int, ...]
    asks: bool = False


#: The bit, beside those of streams, of a row of stream 0 that asks but finds nothing, as an index condition is NULL of
#: it; the next bit is of stream 1.
ASKS_NOTHING = 2


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where the rows of a table come from: a file by its path, a topic by its name, or neither where they are given.

    refresh_ms: of a topic, how long changes are gathered before they make a version
    """

    file: str | None = None
    topic: str | None = None
    refresh_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How CSV is written; None where nothing is said, and the page says what is taken then.

    delim, quote, escape, comment: characters; decimal, thousands: those of numbers
    dateformat, timestampformat: in the words of strptime, as DuckDB has them
    nullstr: words for NULL; header: whether the first line has names; names: those of the columns, in order
    skip: lines before the header
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


#: Of CSV of which nothing is said.
AS_THE_PAGE_SAYS = CsvOptions()


@dataclass(frozen=True, slots=True)
class FileForm:
    """What is known of a stream's file besides its columns.

    csv: how it is written, where it is CSV
    guessed: columns whose types its first rows have told, so that a later value may be of another
    valueless: columns of text of which those rows have no value
    """

    csv: CsvOptions = AS_THE_PAGE_SAYS
    guessed: frozenset[str] = frozenset()
    valueless: frozenset[str] = frozenset()


#: Of a stream of whose file nothing is known.
NO_FORM = FileForm()


#: As a stream's `time`, where its schema has no such column: the timestamp that Kafka keeps with each record.
RECORD_TIME = "record"


@dataclass(frozen=True, slots=True)
class Stream:
    """One logical stream: rows that pass a filter, in order.

    keys: the key columns that predicates use, in slot order
    filter: None where all rows pass
    payload: columns that travel with the rows, because results, residual conditions or equalities of texts need them
    members: of an input that feeds two streams, both; empty for a stream that is its own input
    envelope: the field of a message that holds the row, such as Debezium's `after`; None where it is the message
    asks: whether each row asks for one answer about all its partners, as left rows may, and those of a FULL JOIN do
    query: the query whose results its rows are; None where producers write them
    table: where its rows come from if it is a table, which other versions replace as a whole; None of a stream
    file: what is known of its file, if it is read from one
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
        """The streams that this input feeds, where it is number `number` of a query's inputs."""
        return self.members or (Member(number, self.filter, tuple(range(len(self.keys))), self.asks),)

    @property
    def is_record_timed(self) -> bool:
        """Whether the event time is the timestamp of the Kafka record, not a column."""
        return self.time == RECORD_TIME and RECORD_TIME not in self.schema

    @property
    def time_column(self) -> str | None:
        """The column that holds the event time, if one does."""
        return None if self.is_record_timed else self.time


@dataclass(frozen=True, slots=True)
class Use:
    """A column that an expression names: its side (0 left, 1 right), its name and its type.

    is_number: whether it is the number of the side's row
    """

    side: int
    name: str
    type: ColumnType
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class PairExpression:
    """An expression of both sides of a pair.

    sql: in DuckDB's dialect, over columns named by `pair_column`; uses: those columns, in order
    type: of its value
    """

    sql: str
    uses: tuple[Use, ...]
    type: ColumnType
    text: str

    @property
    def column(self) -> Use | None:
        """The column that it is, if it is nothing more."""
        return self.uses[0] if [quoted_column(use) for use in self.uses] == [self.sql] else None


@dataclass(frozen=True, slots=True)
class Measure:
    """What a partner adds to aggregates: 1, and its value, where it has one and the filter holds.

    argument: None of COUNT(*); is_summed: whether values are added up, not only counted
    """

    argument: PairExpression | None
    filter: PairExpression | None
    is_summed: bool

    @property
    def expressions(self) -> tuple[PairExpression, ...]:
        """What is evaluated of a partner."""
        return tuple(each for each in (self.argument, self.filter) if each is not None)

    def serves(self, one: Aggregate) -> bool:
        """Whether it gives an aggregate, a count, sum or mean."""
        return (self.argument, self.filter) == one.measured


@dataclass(frozen=True, slots=True)
class Choice:
    """The first partners of a left row in an order of right rows: all that an answer needs of each part.

    key: by what they are ordered, None where by their numbers alone
    is_latest: of equal ones the highest number comes first, not the lowest
    needed: expressions that have a value for each of them; filter: which rows are among them, None for all
    count: how many
    """

    key: SortKey | None
    is_latest: bool = False
    needed: tuple[PairExpression, ...] = ()
    filter: PairExpression | None = None
    count: int = 1

    @property
    def expressions(self) -> tuple[PairExpression, ...]:
        """What is evaluated of a row."""
        key = () if self.key is None else (self.key.expression,)
        return (*key, *self.needed, *(() if self.filter is None else (self.filter,)))

    @property
    def is_of_right_rows(self) -> bool:
        """Whether it asks right rows alone, and by values that a code orders."""
        is_coded = self.key is None or self.key.expression.type.is_coded
        return is_coded and all(use.side == 1 for each in self.expressions for use in each.uses)


#: In place of a side: an aggregate, of which `Use.name` is the number.
AGGREGATE = 2
#: Parts choose partners for an answer that needs at most so many of them; of more they list all.
CHOSEN_MAX = 16


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of all partners of a left row.

    function: in lower case, as DuckDB calls it
    arguments: the first is what is aggregated; none for COUNT(*)
    share: of a quantile, between 0 and 1; filter: which partners count, None for all
    order: in which partners are taken, by their numbers where none is given; is_distinct: of equal values the first
    separator: of texts that are joined
    """

    function: str
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
        """What is evaluated of each pair: the arguments, then the order, then the filter."""
        order = (key.expression for key in self.order)
        return (*self.arguments, *order, *(() if self.filter is None else (self.filter,)))

    @property
    def takes_nulls(self) -> bool:
        """Whether a partner without a value counts."""
        return self.function in ("first", "last", "list")

    @property
    def measured(self) -> tuple[PairExpression | None, PairExpression | None]:
        """The argument of a count, sum or mean, and its filter."""
        return next(iter(self.arguments), None), self.filter

    @property
    def is_sum(self) -> bool:
        """Whether what parts of the partners give adds up to it, and only they are asked."""
        is_added = self.function in ("count", "sum", "avg") and not self.is_distinct
        return is_added and all(use.side == 1 for each in self.needed for use in each.uses)

    @property
    def choice(self) -> Choice | None:
        """The partner whose values it gives, where it is the first in an order of right rows."""
        if self.order:
            return None
        if self.function in ("first", "last", "any_value"):
            needed = () if self.takes_nulls else self.arguments
            found = Choice(None, self.function == "last", needed=needed, filter=self.filter)
        elif self.function in ("min", "max", "arg_min", "arg_max"):
            key = SortKey(self.arguments[-1], self.function.endswith("max"), nulls_first=False)
            found = Choice(key, needed=self.arguments, filter=self.filter)
        else:
            return None
        return found if found.is_of_right_rows else None

    @property
    def is_plain_count(self) -> bool:
        """Whether it is the number of partners, or of those that have a value of one column."""
        is_column = all(each.column is not None for each in self.arguments)
        return self.function == "count" and self.filter is None and is_column and not self.is_distinct


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression by which partners are ordered."""

    expression: PairExpression
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Best:
    """The first `count` partners of each left row in an order, ties by the partners' numbers.

    has_ties: whether all that are equal to the first one by the order, but for their numbers, are kept as well
    nearest: of an ASOF join the condition that says which partner is the first, as written
    """

    count: int
    order: tuple[SortKey, ...]
    has_ties: bool = False
    nearest: str = field(default="", compare=False)

    @property
    def choice(self) -> Choice | None:
        """The same of each part, where right rows are ordered by one value and their numbers."""
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
    """One row of results a left row: aggregates, and the condition on them that chooses rows, None for all."""

    aggregates: tuple[Aggregate, ...]
    having: PairExpression | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of results: its name, its expression, and the column that it is if it is just one."""

    name: str
    expression: PairExpression
    plain: Use | None


def pair_column(side: int, name: str) -> str:
    """The name of a side's column among a pair's."""
    return f"{side}.{name}"


def quoted_column(use: Use) -> str:
    """The same as an expression in SQL."""
    return '"' + pair_column(use.side, use.name).replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class RolePredicate:
    """A predicate seen from a probe: a stored code matches iff `stored op probe`.

    `op` is already oriented to the stored side. `probe_slot` is a slot of the probe's stream, `target_slot` of the
    stored stream.
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
        """The number of intervals that a search intersects: one a stored column, and one for each `!=`."""
        together = {p.target_slot for p in self.predicates if p.op is not Op.NE}
        return len(together) + sum(p.op is Op.NE for p in self.predicates)


#: The window over a table: all of it. It begins with the table's version, however many rows have come before.
WHOLE_TABLE = Window(False, 2**62, 1)
#: The window over rows of two inputs that both end: all rows of the other side, once both have ended.
ALL_ROWS = Window(False, 10**9, 1)
#: Of the rows that ask about a table nobody finds any.
_NO_WINDOW = Window(False, 1, 1)

OptionValue = int | float | str
#: What searches where a query names no method: permutations as wavelet matrices, in the default layout.
DEFAULT_METHOD = "spo"


@dataclass(frozen=True, slots=True)
class Method:
    """By what method the window is searched, and the method's options, complete.

    `spojoin run` searches by any method. Services search by the default one, or by any within another layout's workers.
    """

    name: str = DEFAULT_METHOD
    options: tuple[tuple[str, OptionValue], ...] = ()


#: How work is spread where a query names no layout: batches of consecutive tuples go to PO-Join workers in turn.
DEFAULT_LAYOUT = "batch"


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """By what layout the work is spread over workers, with its options, complete; workers 0: as many as there are.

    has_mutable_part: whether new tuples wait in a mutable part, which reports on every frame, until they are batched
    """

    name: str = DEFAULT_LAYOUT
    workers: int = 0
    options: tuple[tuple[str, OptionValue], ...] = ()
    has_mutable_part: bool = True


#: A part of topics' names between dots, which no query's name may have: `<query>.generation.<topic>.<number>`.
GENERATION_PART = "generation"


@dataclass(frozen=True)  # without slots: it keeps what is asked often
class Query:
    """A validated query. `streams` holds one stream (self join) or two (left, right).

    interval: of an interval join; `window` is then the longer of the two that follow from it
    select: the columns of results, for output `rows`; residuals: further conditions on a pair, which filter it
    result_key: the column of results that gives messages of single rows their key
    is_traced: whether such messages carry the `TRACEPARENT` of the row that answered
    emit, join, grouped, best: when rows answer, and what
    where: which pairs are results, of those that an ASOF join chooses
    notes: what the statement's author may not expect, in sentences, each to be said once beside the answer
    idle_timeout_us: how long event time waits for an input without records, by their timestamps; None for ever
    has_lateness: whether the lateness was given, zero too; else rows of inputs that end are sorted
    """

    name: str
    streams: tuple[Stream, ...]
    predicates: tuple[Predicate, ...]
    window: Window
    order: Order
    output: Output
    limit: int | None
    lateness_us: int
    text: str
    method: Method = Method()
    layout: LayoutChoice = LayoutChoice()
    interval: Interval | None = None
    select: tuple[Selected, ...] = ()
    residuals: tuple[PairExpression, ...] = ()
    result_key: str | None = None
    is_traced: bool = False
    emit: EmitOn = EmitOn.ARRIVAL
    join: JoinKind = JoinKind.INNER
    grouped: Grouped | None = None
    best: Best | None = None
    where: PairExpression | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)
    idle_timeout_us: int | None = None
    has_lateness: bool = field(default=False, compare=False)

    @property
    def asks(self) -> bool:
        """Whether the left rows ask, each for one answer about all its partners; else both sides answer at arrival."""
        is_more = self.join is not JoinKind.INNER or bool(self.grouped or self.best)
        return self.emit is EmitOn.CLOSE or is_more or self.has_table

    @property
    def has_table(self) -> bool:
        """Whether the right side is a table, about which left rows ask."""
        return self.streams[-1].table is not None

    @property
    def both_ask(self) -> bool:
        """Whether right rows ask as left rows do."""
        return self.join is JoinKind.FULL

    @property
    def is_self(self) -> bool:
        """Whether one stream joins itself, within one window."""
        return len(self.streams) == 1

    @property
    def is_of_one_input(self) -> bool:
        """Whether one input feeds both sides; if they differ in what they take of it, they are two streams."""
        return len({stream.name for stream in self.streams}) == 1

    @cached_property
    def inputs(self) -> tuple[Stream, ...]:
        """What is read: each stream, or one input for the two streams of a self join.

        They stay the same objects, by which readers know what they have prepared for an input.
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
        """Names that tell the streams apart: those of the inputs, with the side where both sides read one input."""
        if not self.shares_input:
            return tuple(stream.name for stream in self.streams)
        return tuple(f"{stream.name} as {side}" for stream, side in zip(self.streams, ("left", "right"), strict=True))

    @property
    def shares_input(self) -> bool:
        """Whether one input feeds two streams, so that a row may stand in both."""
        return len(self.streams) > 1 and self.is_of_one_input

    @property
    def fed_by(self) -> tuple[int, ...]:
        """By stream, the number of the input that feeds it."""
        return tuple(number for number, source in enumerate(self.inputs) for _ in source.fed(number))

    @property
    def lists_pairs(self) -> bool:
        """Whether each part lists all partners that it finds; else it counts them, and may sum them up, or choose."""
        is_less = self.output is Output.COUNT or self.only_counts or self.measures or self.choices
        return bool(self.residuals) or not is_less

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """What each part sums up of the partners that it finds; nothing where counts suffice, or a list is due."""
        if self.grouped is None or self.only_counts or self.residuals:
            return ()
        aggregates = [one for one in self.grouped.aggregates if one.is_sum]
        if not all(one.is_sum or one.choice for one in self.grouped.aggregates):
            return ()
        summed = [one.measured for one in aggregates if one.function != "count"]
        return tuple(Measure(*each, each in summed) for each in dict.fromkeys(one.measured for one in aggregates))

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Which partners each part lists, where an answer needs no others; nothing where counts or sums suffice."""
        if self.residuals or self.only_counts:
            return ()
        if self.best is not None:
            return () if self.best.choice is None else (self.best.choice,)
        if self.grouped is None:
            return ()
        found = [one.choice for one in self.grouped.aggregates if not one.is_sum]
        return () if None in found else tuple(dict.fromkeys(each for each in found if each is not None))

    @property
    def chosen_count(self) -> int:
        """How many partners a part lists for each choice: one more where a left row may find itself."""
        finds_itself = self.is_of_one_input and self.emit is EmitOn.CLOSE
        return max([choice.count for choice in self.choices], default=0) + finds_itself

    @property
    def enough(self) -> int | None:
        """How many partners a part needs to find of a left row, None for all.

        A SEMI or ANTI JOIN asks whether there is one, and the row itself may be among what a part finds.
        """
        is_asked = self.join in (JoinKind.SEMI, JoinKind.ANTI) and not self.residuals
        return 2 if is_asked else None

    @property
    def only_counts(self) -> bool:
        """Whether the number of partners is all that an answer needs."""
        if self.grouped is not None:
            return all(self._counts_partners(one) for one in self.grouped.aggregates)
        return self.join in (JoinKind.SEMI, JoinKind.ANTI)

    def _counts_partners(self, one: Aggregate) -> bool:
        return one.is_plain_count and all(map(self._has_value, (use for each in one.arguments for use in each.uses)))

    def _has_value(self, use: Use) -> bool:
        """Whether a column is NULL in no partner: the time, or one compared by itself, which NULL makes untrue."""
        right = self.streams[-1]
        is_compared = Column(use.name) in (key.expression for key in right.keys)
        is_time = self.needs_time and use.name == right.time_column
        return use.side == 1 and (use.is_number or is_compared or is_time)

    def lists(self, direction: Direction) -> bool:
        """Whether each part lists what it finds in one direction; else it counts.

        A right row of a FULL JOIN on close asks only whether there is any left row, unless its partners are filtered.
        """
        asks_whether = self.both_ask and not direction.as_left and self.emit is EmitOn.CLOSE and not self.residuals
        return self.lists_pairs and not asks_whether

    def intervals(self, direction: Direction) -> int:
        """How many intervals a search intersects; the mark of void rows takes nearly all tuples, and costs none."""
        return direction.condition_count - self.both_ask

    def searched_for(self, direction: Direction) -> Output:
        """What each part yields: partners or counts."""
        return Output.PAIRS if self.lists(direction) else Output.COUNT

    @property
    def part_limit(self) -> int | None:
        """How many partners a part may list; with residual conditions, those that hold aren't known there."""
        return None if self.residuals or self.asks else self.limit

    @property
    def has_pair_payload(self) -> bool:
        """Whether results or residual conditions need columns of the rows of a pair."""
        return any(stream.payload for stream in self.streams)

    @property
    def carries_keys(self) -> bool:
        """Whether results name both sides of a pair by the users' keys."""
        return self.output is Output.PAIRS

    @property
    def needs_time(self) -> bool:
        """Whether tuples carry an event time: a time window or event-time order."""
        return self.window.is_time or self.order is Order.EVENT_TIME

    @property
    def key_slots(self) -> tuple[int, ...] | None:
        """The slots of the streams' join key: the columns of the first equality, which are equal in every match.

        None without an equality. In a self join it must compare a column with itself: else a tuple has two keys.
        """
        equal = [(p.left_slot, p.right_slot) for p in self.predicates if p.op is Op.EQ]
        if self.is_self:
            return next(((left,) for left, right in equal if left == right), None)
        return next(iter(equal), None)

    def window_over(self, stream: int) -> Window:
        """The window over a stream's tuples; those of an interval join's two streams differ in length.

        The later tuple of a pair probes: a right one reaches back by `upper_us`, a left one by -`lower_us`.
        """
        if self.has_table and stream == 0:
            return _NO_WINDOW
        if self.interval is None or self.is_self:
            return self.window
        back = -self.interval.lower_us if stream else self.interval.upper_us
        return Window(True, max(back, 0), 1)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of evaluation, left probes first: both, but where only left rows ask."""
        right = len(self.streams) - 1
        from_left = Direction(0, right, True, tuple(_as_seen_from_left(p) for p in self.predicates))
        if self.asks and not self.both_ask:
            return (from_left,)
        return from_left, Direction(right, 0, False, tuple(_as_seen_from_right(p) for p in self.predicates))


def _as_seen_from_left(p: Predicate) -> RolePredicate:
    return RolePredicate(p.op.flipped, p.left_slot, p.right_slot, p.domain, p.width)


def _as_seen_from_right(p: Predicate) -> RolePredicate:
    return RolePredicate(p.op, p.right_slot, p.left_slot, p.domain, p.width)
