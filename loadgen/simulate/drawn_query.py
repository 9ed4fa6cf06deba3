"""Draws a query in two forms: the join that the oracle computes, and the product's model of it.

Domains are tiny so that ties are frequent. Some contain a type's difficult values: neighbours above 2**53, extremes of
64 bits, signed zeros, infinities, sums that doubles round.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from random import Random

from loadgen.simulate import probabilities as odds
from loadgen.simulate.oracle import Comparison, OracleJoin, Value
from spojoin.model import (
    OPERATORS,
    Arithmetic,
    Column,
    ColumnType,
    Constant,
    Domain,
    Expression,
    KeyColumn,
    Op,
    Order,
    Output,
    Predicate,
    Query,
    ResultContent,
    RowOrder,
    Stream,
    TypeName,
)
from spojoin.windows import IntervalWindow, RowWindow, TimeWindow, Window

#: Event times are drawn in steps of half a second, so that several share one.
TICK_US = 500_000
_STREAM_NAMES = ("west", "east")
_COLUMN_NAMES = ("a", "b", "c")
_PLAIN_OPS = tuple(op for op in Op if not op.is_band)
_WHOLE, _REAL, _EXTREME, _DATE, _TIMESTAMP = range(5)
#: The family of text columns, which statements add.
TEXT = -1
_BAND_OPS = tuple(op for op in Op if op.is_band)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A drawn column: its declared type, its values, and whether arithmetic on it stays in its type.

    Columns of one family may be compared with each other.
    """

    name: str
    type: ColumnType
    domain: tuple[Value, ...]
    may_compute: bool
    family: int


#: The columns of each stream.
Attributes = tuple[tuple[Attribute, ...], ...]
Schema = dict[str, ColumnType]


def schemas_of(attributes: Attributes) -> list[Schema]:
    """The schema of each stream, without its time and its key."""
    return [{each.name: each.type for each in own} for own in attributes]


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A query as the oracle's join and as the product's model, with the columns that it was drawn from."""

    join: OracleJoin
    query: Query
    attributes: Attributes


def draw_query(rng: Random) -> DrawnQuery:
    """Draw a query, entirely from `rng`."""
    is_self = rng.random() < odds.SELF_JOIN
    attributes = _draw_attributes(rng, 1 if is_self else 2)
    comparisons = _draw_comparisons(rng, attributes)
    order = Order.EVENT_TIME if rng.random() < odds.EVENT_TIME_ORDER else Order.ARRIVAL
    return _draw_rest(rng, attributes, comparisons, order)


def redraw_query(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """Another query over the same columns; arrival order stays, since rows without times can't be ordered by time."""
    is_timed = drawn.query.order.by is Order.EVENT_TIME
    order = Order.EVENT_TIME if is_timed and rng.random() < odds.KEEPS_EVENT_TIME_ORDER else Order.ARRIVAL
    return _draw_rest(rng, drawn.attributes, _draw_comparisons(rng, drawn.attributes), order)


def _draw_comparisons(rng: Random, attributes: Attributes) -> tuple[Comparison, ...]:
    predicates = rng.choices(odds.PREDICATES, odds.PREDICATES_WEIGHTS)[0]
    return tuple(_draw_comparison(rng, attributes) for _ in range(predicates))


def _draw_rest(rng: Random, attributes: Attributes, comparisons: tuple[Comparison, ...], order: Order) -> DrawnQuery:
    is_self = len(attributes) == 1
    output = rng.choices((Output.COUNT, Output.PAIRS, Output.BITMAP), odds.OUTPUT_WEIGHTS)[0]
    limit = rng.randint(*odds.PAIR_LIMIT_RANGE) if output is Output.PAIRS and rng.random() < odds.PAIR_LIMIT else None
    join = OracleJoin(is_self, comparisons, _draw_window(rng, order), output, limit)
    lateness_us = rng.choice(odds.LATENESS_TICKS) * TICK_US if order is Order.EVENT_TIME else 0
    query = as_model(join, schemas_of(attributes), RowOrder(order, lateness_us))
    return DrawnQuery(join, query, attributes)


def as_interval_join(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """The same comparisons over an interval of event times instead of a window; for queries in event-time order."""
    join, query = drawn.join, drawn.query
    upper_us = rng.choice(odds.INTERVAL_UPPER_TICKS) * TICK_US
    lower_us = -upper_us if join.is_self else -rng.choice(odds.INTERVAL_LOWER_TICKS) * TICK_US
    window = IntervalWindow(lower_us, upper_us, _held(lower_us, upper_us))
    bounded = replace(join, window=window, interval_us=(lower_us, upper_us))
    return replace(drawn, join=bounded, query=as_model(bounded, [each.schema for each in query.inputs], query.order))


# --- drawing ----------------------------------------------------------------------------------------------------------


def _draw_window(rng: Random, order: Order) -> Window:
    is_time = order is Order.EVENT_TIME and rng.random() < odds.TIME_WINDOW
    unit = TICK_US if is_time else 1
    slide = rng.choice(odds.SLIDE) * unit
    return (TimeWindow if is_time else RowWindow)(slide * rng.choice(odds.LENGTH_SLIDES), slide)


def _draw_attributes(rng: Random, streams: int) -> Attributes:
    """Columns for each stream. Columns of one name belong to one family, so that statements may compare them."""
    families = [rng.choices(_FAMILIES, odds.FAMILY_WEIGHTS)[0] for _ in _COLUMN_NAMES]
    return tuple(
        tuple(family(rng, name) for family, name in zip(families, _COLUMN_NAMES, strict=True)) for _ in range(streams)
    )


def _whole(rng: Random, name: str) -> Attribute:
    kind = rng.choice(odds.WHOLE_TYPES)
    if kind == "int":
        return Attribute(name, ColumnType(TypeName.INT), tuple(range(-3, rng.randint(0, 5))), True, _WHOLE)
    if kind == "long":
        return Attribute(name, ColumnType(TypeName.LONG), tuple(2**53 + i for i in range(-1, 5)), True, _WHOLE)
    base = Decimal(rng.choice((0, 9007199254740993)))
    steps = tuple(base + Decimal(i) / 4 for i in range(-2, 4))
    return Attribute(name, ColumnType(TypeName.DECIMAL, 18, 2), steps, True, _WHOLE)


def _real(rng: Random, name: str) -> Attribute:
    if rng.random() < odds.SINGLE_PRECISION:
        singles = tuple(_single(v) for v in (-0.0, 0.0, 0.1, 0.2, 0.3, 1.0, 1e30))
        return Attribute(name, ColumnType(TypeName.FLOAT), singles, True, _REAL)
    domain: tuple[Value, ...] = (-0.3, -0.1, -0.0, 0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 1.0)
    if rng.random() < odds.INFINITIES:
        domain += (float("inf"), float("-inf"), 5e-324, -1.7976931348623157e308)
    return Attribute(name, ColumnType(TypeName.DOUBLE), domain, True, _REAL)


def _extreme(_: Random, name: str) -> Attribute:
    ends = (-(2**63), -(2**63) + 1, -(2**63) + 2, -1, 0, 1, 2**63 - 3, 2**63 - 2, 2**63 - 1)
    return Attribute(name, ColumnType(TypeName.LONG), ends, False, _EXTREME)


def _date(rng: Random, name: str) -> Attribute:
    first = rng.choice((-2, 19_000))
    return Attribute(name, ColumnType(TypeName.DATE), tuple(range(first, first + 5)), False, _DATE)


def _timestamp(rng: Random, name: str) -> Attribute:
    first = rng.choice((-2, 1_700_000_000_000_000))
    return Attribute(name, ColumnType(TypeName.TIMESTAMP), tuple(range(first, first + 5)), False, _TIMESTAMP)


_Family = Callable[[Random, str], Attribute]
_FAMILIES: tuple[_Family, ...] = (_whole, _real, _extreme, _date, _timestamp)


def _single(value: float) -> float:
    """The nearest IEEE single, as a Python float."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _draw_comparison(rng: Random, attributes: Attributes) -> Comparison:
    left = rng.choice([a for a in attributes[0] if a.family != TEXT])
    family = left.family
    right = rng.choice([a for a in attributes[-1] if a.family == family])
    ieee = family == _REAL
    op = rng.choice(_PLAIN_OPS + (_BAND_OPS * 2 if family <= _EXTREME else ()))
    return Comparison(
        _draw_side(rng, left, attributes[0]),
        op,
        _draw_side(rng, right, attributes[-1]),
        _draw_width(rng, op, family),
        ieee,
    )


def _draw_width(rng: Random, op: Op, family: int) -> Fraction:
    if not op.is_band:
        return Fraction(0)
    if family == _EXTREME:
        return Fraction(rng.choice((1, 2, 2**63 - 1)))
    widths = ("0.1", "0.2", "0.25", "1", "2") if op is Op.BAND_LT else ("0", "0.1", "0.25", "1", "3")
    return Fraction(rng.choice(widths))


def _draw_side(rng: Random, attribute: Attribute, siblings: tuple[Attribute, ...]) -> Expression:
    column = Column(attribute.name)
    if not attribute.may_compute or rng.random() < odds.PLAIN_COLUMN:
        return column
    number = Constant(Fraction(rng.choice(("1", "2", "3", "0.5"))))
    summands = [a for a in siblings if a.may_compute and a.family == attribute.family]
    return rng.choice(
        (
            Arithmetic("+", column, number),
            Arithmetic("-", column, number),
            Arithmetic("*", number, column),
            Arithmetic(rng.choice("+-"), column, Column(rng.choice(summands).name)),
        )
    )


# --- the product's model ----------------------------------------------------------------------------------------------


def as_model(join: OracleJoin, schemas: Sequence[Schema], order: RowOrder) -> Query:
    """The query as validated data; equal expressions of a stream share one key column.

    A self join whose sides compare different expressions has two streams.
    """
    keys: tuple[list[KeyColumn], ...] = tuple([] for _ in schemas)
    predicates = tuple(_predicate(c, keys, schemas) for c in join.comparisons)
    if {p.left_slot for p in predicates} != {p.right_slot for p in predicates} and join.is_self:
        keys = [], []
        predicates = tuple(_predicate(c, keys, schemas) for c in join.comparisons)
    needs_time = join.window.needs_time or order.by is Order.EVENT_TIME
    streams = tuple(
        Stream(
            _STREAM_NAMES[0 if join.is_self else number],
            schemas[0 if join.is_self else number],
            "ts" if needs_time else None,
            "id",
            tuple(stream_keys),
        )
        for number, stream_keys in enumerate(keys)
    )
    text = as_yaml(join, schemas, order)
    results = ResultContent(join.output, join.limit)
    return Query("simulated", streams, predicates, join.window, text, order, results=results)


def _held(lower_us: int, upper_us: int) -> tuple[str, str]:
    """The interval as predicates in SQL, written with whole milliseconds."""
    low = f"l.ts - INTERVAL '{-lower_us // 1000} MS'"
    return f"r.ts >= {low}", f"r.ts <= l.ts + INTERVAL '{upper_us // 1000} MS'"


def _predicate(c: Comparison, keys: tuple[list[KeyColumn], ...], schemas: Sequence[Schema]) -> Predicate:
    scale = 0
    if not c.ieee:
        scale = max(_scale(c.left, schemas[0]), _scale(c.right, schemas[-1]), _digits(c.width))
    domain = Domain.FLOAT if c.ieee else Domain.INTEGER
    width = float(c.width) if c.ieee else int(c.width * 10**scale)
    left_slot = _slot(keys[0], KeyColumn(c.left, domain, scale, as_sql(c.left, "l")))
    right_slot = _slot(keys[-1], KeyColumn(c.right, domain, scale, as_sql(c.right, "r")))
    return Predicate(c.op, left_slot, right_slot, domain, width, comparison_sql(c))


def _slot(keys: list[KeyColumn], key: KeyColumn) -> int:
    for slot, known in enumerate(keys):
        if (known.expression, known.domain, known.scale) == (key.expression, key.domain, key.scale):
            return slot
    keys.append(key)
    return len(keys) - 1


def _scale(expression: Expression, schema: Schema) -> int:
    if isinstance(expression, Column):
        return schema[expression.name].scale
    if isinstance(expression, Constant):
        return _digits(expression.value)
    assert isinstance(expression, Arithmetic), "the engine's expressions aren't drawn"
    scales = _scale(expression.left, schema), _scale(expression.right, schema)
    return sum(scales) if expression.operator == "*" else max(scales)


def _digits(value: Fraction) -> int:
    """The number of decimal places; drawn constants have few."""
    return next(d for d in range(10) if (value * 10**d).denominator == 1)


# --- for people -------------------------------------------------------------------------------------------------------


def as_sql(expression: Expression, side: str) -> str:
    """The expression as SQL, its columns qualified by `side`."""
    if isinstance(expression, Column):
        return f"{side}.{expression.name}"
    if isinstance(expression, Constant):
        return _decimal(expression.value)
    assert isinstance(expression, Arithmetic), "the engine's expressions aren't drawn"
    return f"{as_sql(expression.left, side)} {expression.operator} {as_sql(expression.right, side)}"


def comparison_sql(c: Comparison) -> str:
    """The comparison as SQL; bands as `ABS(l - r) < w`."""
    left, right = as_sql(c.left, "l"), as_sql(c.right, "r")
    if c.ignores_case:
        left, right = f"lower({left})", f"lower({right})"
    if not c.op.is_band:
        return f"{left} {OPERATORS[c.op].sign} {right}"
    return f"ABS(({left}) - ({right})) {OPERATORS[c.op].sign} {_decimal(c.width)}"


def as_yaml(join: OracleJoin, schemas: Sequence[Schema], order: RowOrder) -> str:
    """The query file of this query."""
    time = "" if order.by is Order.ARRIVAL and not join.window.needs_time else ", time: ts"
    lines = ["name: simulated", "streams:"]
    for name, columns in zip(_STREAM_NAMES, schemas, strict=False):
        schema = ", ".join(
            [f"{column}: '{kind}'" for column, kind in columns.items()]
            + (["ts: timestamp"] if time else [])
            + ["id: long"]
        )
        lines.append(f"  {name}: {{schema: {{{schema}}}{time}, key: id}}")
    asking = join.asking
    on = [*(comparison_sql(c) for c in join.comparisons), *_between(join), *(each.sql() for each in join.residuals)]
    filters = [each.sql() for side in join.filters for each in side]
    if asking is not None:  # WHERE applies after an outer join
        on += [each.sql() for each in join.filters[1]]
        filters = [each.sql() for each in join.filters[0]]
    condition = " AND ".join(on)
    selected = [f"{term.sql()} AS {name}" for name, term in join.select]
    selected += [f"{one.sql()} AS {name}" for name, one in (asking.aggregates if asking is not None else ())]
    select = ", ".join(selected) or "*"
    kind = "" if asking is None or asking.join == "INNER" else f"{asking.join} "
    window = [] if join.interval_us else [f"  WINDOW AS (SLIDE INTERVAL {_interval(join.window)})"]
    lines += [
        "sql: |",
        f"  SELECT {select} FROM {_STREAM_NAMES[0]} AS l {kind}JOIN {_STREAM_NAMES[0 if join.is_self else 1]} AS r",
        f"  ON {condition}",
        *([f"  WHERE {' AND '.join(filters)}"] if filters else []),
        *([] if asking is None else [f"  {clause}" for clause in asking.clauses()]),
        *window,
        *([] if asking is None else [f"  {asking.emit()}"]),
        f"order: {order.by}",
        f"output: {join.output}",
    ]
    if order.lateness_us:
        lines.append(f"lateness: '{order.lateness_us // 1000} ms'")
    if join.limit is not None:
        lines.append(f"limit: {join.limit}")
    return "\n".join(lines) + "\n"


def _between(join: OracleJoin) -> list[str]:
    if join.interval_us is None:
        return []
    low, high = (text.split(" ", 2)[2] for text in _held(*join.interval_us))
    return [f"r.ts BETWEEN {low} AND {high}"]


def _interval(window: Window) -> str:
    if window.needs_time:
        return f"'{window.slide // 1000} ms' ON '{window.length // 1000} ms'"
    return f"'{window.slide}' ON '{window.length}'"


def _decimal(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else str(float(value))
