"""The naive oracle: the join's definition as a plain nested loop over values.

It shares only the names of the query model (operators, expression trees) with the product, but no codes, indexes or
frames. Exact columns compute in `int` and `Decimal` under a context that refuses to round; doubles compute in `float`,
as written.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from loadgen.simulate.asking import LeftQuestion
from loadgen.simulate.conditions import Cell, Condition, Term, are_true, ordered
from loadgen.window import window_begin, window_end
from spojoin.model import Arithmetic, Column, Constant, Expression, Op, Output
from spojoin.windows import Window

Value = Cell
#: The comparison of values, and for bands, distances and widths; defined here, independently of the product.
_PLAIN: Mapping[Op, Callable[[Any, Any], bool]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}
_BANDS: Mapping[Op, Callable[[Any, Any], bool]] = {Op.BAND_LT: operator.lt, Op.BAND_LE: operator.le}
_EXACT = decimal.Context(prec=200, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.DivisionByZero])


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One input row: its position, its event time in microseconds, its key and its column values."""

    stream: int
    partition: int
    offset: int
    row: int
    time_us: int | None
    key: int | str
    values: Mapping[str, Value]

    @property
    def position(self) -> tuple[int, int, int, int]:
        """The row's identity: stream, partition, offset of its message, row in the message."""
        return self.stream, self.partition, self.offset, self.row


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right` over values.

    width: the band's half width; ieee: whether it computes in doubles; ignores_case: whether it ignores the case of
    texts
    """

    left: Expression
    op: Op
    right: Expression
    width: Fraction
    ieee: bool
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class OracleJoin:
    """The oracle's query: one stream or two, comparisons, window and output.

    interval_us: the range of right's time minus left's, both ends included; then there is no window filters: conditions
    on the rows of the left and of the right side; a row takes part if it passes a side's
    residuals: further conditions on pairs
    select: names and terms of the result columns, for output rows
    keeps_nulls: whether a row with NULL or NaN in a comparison takes part, as in SQL, or is refused
    asking: the question of left rows; None if both sides answer at arrival
    """

    is_self: bool
    comparisons: tuple[Comparison, ...]
    window: Window
    output: Output
    limit: int | None
    interval_us: tuple[int, int] | None = None
    filters: tuple[tuple[Condition, ...], tuple[Condition, ...]] = ((), ())
    residuals: tuple[Condition, ...] = ()
    select: tuple[tuple[str, Term], ...] = ()
    keeps_nulls: bool = False
    asking: LeftQuestion | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """The seqs of a tuple's earlier partners, ascending, for the tuple as the left and as the right side."""

    seq: int
    row: SourceRow
    as_left: tuple[int, ...]
    as_right: tuple[int, ...]


# --- values -----------------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, values: Mapping[str, Value], ieee: bool) -> Value:
    """The expression's value for one row; null if a column is null."""
    if isinstance(expression, Column):
        return _column(values[expression.name], ieee)
    if isinstance(expression, Constant):
        return _constant(expression.value, ieee)
    assert isinstance(expression, Arithmetic), "the engine's expressions aren't drawn"
    left = evaluate(expression.left, values, ieee)
    right = evaluate(expression.right, values, ieee)
    if left is None or right is None:
        return None
    return _arithmetic(expression, left, right, ieee)


def is_refused(value: Value) -> bool:
    """Whether the value is null or NaN, which can't be ordered; its row then takes no part."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def holds(op: Op, left: Value, right: Value, width: Fraction, ieee: bool) -> bool:
    """Whether `left op right` is true; no comparison with NULL is, and no band with NaN."""
    if left is None or right is None:
        return False
    if op in _BANDS:
        return _BANDS[op](_distance(left, right, ieee), _constant(width, ieee))
    return _PLAIN[op](ordered(left), ordered(right))


def _column(value: Value, ieee: bool) -> Value:
    return float(value) if ieee and value is not None and not isinstance(value, str) else value


def _constant(value: Fraction, ieee: bool) -> Value:
    if ieee:
        return float(value)
    if value.denominator == 1:
        return value.numerator
    return _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _arithmetic(expression: Arithmetic, left: Value, right: Value, ieee: bool) -> Value:
    if ieee:
        return _FLOAT_ARITHMETIC[expression.operator](left, right)
    return _EXACT_ARITHMETIC[expression.operator](Decimal(left), Decimal(right))  # type: ignore[arg-type]


def _float_divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _distance(a: Value, b: Value, ieee: bool) -> Value:
    if ieee:
        return abs(float(a) - float(b))  # type: ignore[arg-type]
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b)
    return abs(_EXACT.subtract(Decimal(a), Decimal(b)))  # type: ignore[arg-type]


_FLOAT_ARITHMETIC: Mapping[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _float_divide,
}
_EXACT_ARITHMETIC: Mapping[str, Callable[..., Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
}


# --- who takes part, and in which order -------------------------------------------------------------------------------


def is_valid(join: OracleJoin, row: SourceRow, needs_time: bool) -> bool:
    """Whether a row has everything that the join needs: a time if one is used, and ordered join values."""
    if needs_time and row.time_us is None:
        return False
    return join.keeps_nulls or not any(
        is_refused(evaluate(e, row.values, ieee)) for e, ieee in _sides_of(join, row.stream)
    )


def plays(join: OracleJoin, row: SourceRow, side: int) -> bool:
    """Whether a row belongs to a side: it is in the side's stream, and passes its filter."""
    if not join.is_self and row.stream != side:
        return False
    return are_true(join.filters[side], (row.values, row.values))


def takes_part(join: OracleJoin, row: SourceRow) -> bool:
    """Whether a row takes a number."""
    return plays(join, row, 0) or plays(join, row, 1)


def _sides_of(join: OracleJoin, stream: int) -> Iterator[tuple[Expression, bool]]:
    for c in join.comparisons:
        if stream == 0:
            yield c.left, c.ieee
        if stream == 1 or join.is_self:
            yield c.right, c.ieee


#: By partition, a place (offset, row) and the largest time before it.
HighBefore = Mapping[tuple[int, int], tuple[tuple[int, int], int]]


def split_late(
    rows: Iterable[SourceRow], lateness_us: int, known: HighBefore | None = None
) -> tuple[list[SourceRow], list[SourceRow]]:
    """Split valid rows, each partition's in its order, into (in time, late).

    A row is late if its time is below the largest earlier time in its partition less the lateness. `known`: largest
    times before some places, if not all earlier rows are given.
    """
    high: dict[tuple[int, int], int] = {}
    in_time: list[SourceRow] = []
    late: list[SourceRow] = []
    for row in rows:
        time = _time(row)
        seen = high.get((row.stream, row.partition), time)
        place, before = (known or {}).get((row.stream, row.partition), ((0, 0), time))
        if (row.offset, row.row) >= place:
            seen = max(seen, before)
        (late if time < seen - lateness_us else in_time).append(row)
        high[row.stream, row.partition] = max(seen, time)
    return in_time, late


def merge_by_time(rows: Iterable[SourceRow]) -> list[SourceRow]:
    """The total order of event time: by time, then by stream, partition, offset and row."""
    return sorted(rows, key=lambda row: (_time(row), row.position))


def _time(row: SourceRow) -> int:
    assert row.time_us is not None, f"{row.position} has no time"
    return row.time_us


# --- the join ---------------------------------------------------------------------------------------------------------


def nested_loop(
    join: OracleJoin, order: Sequence[SourceRow], first_indexes: Sequence[int] = (0, 0), first_seq: int | None = None
) -> Iterator[Probe]:
    """Every tuple against every earlier tuple of the opposite side in its window, in the total order.

    first_indexes: the number of each stream's first tuple, if others preceded this order; a self join may have one for
    both sides. first_seq: the number of the very first tuple, by default their sum
    """
    firsts = first_indexes[0], first_indexes[-1]
    if first_seq is None:
        first_seq = firsts[0] if join.is_self else sum(firsts)
    seen: tuple[list[_Stored], list[_Stored]] = ([], [])
    for seq, row in enumerate(order, first_seq):
        tuple_ = _Stored(seq, row, {**row.values, "seq": seq}, _sides(join, row, 0), _sides(join, row, 1))
        own = [side for side in (0, 1) if plays(join, row, side)]
        found: list[tuple[int, ...]] = [(), ()]
        for side in own:
            members = _members(join, row, seen[1 - side], firsts[1 - side])
            pairs = [(tuple_, u) if side == 0 else (u, tuple_) for u in members]
            found[side] = tuple(u.seq for u, pair in zip(members, pairs, strict=True) if _matches(join, *pair))
        yield Probe(seq, row, *found)
        for side in own:
            seen[side].append(tuple_)


def partners_of_left(
    join: OracleJoin, order: Sequence[SourceRow], first_indexes: Sequence[int] = (0, 0), first_seq: int | None = None
) -> Iterator[tuple[int, SourceRow, list[int]]]:
    """Each left row with its number and the numbers of all its partners, or of the earlier ones, ascending.

    first_indexes, first_seq: as in `nested_loop`
    """
    assert join.asking is not None, "left rows ask"
    found: dict[int, list[int]] = {}
    rows = {}
    for probe in nested_loop(join, order, first_indexes, first_seq):
        if plays(join, probe.row, 0):
            found[probe.seq], rows[probe.seq] = list(probe.as_left), probe.row
        for left in probe.as_right if join.asking.at_close else ():
            found[left].append(probe.seq)
    for seq, partners in found.items():
        yield seq, rows[seq], partners


@dataclass(frozen=True, slots=True)
class FullAnswer:
    """A FULL join row's answer: its side, how many rows of the side precede it, and its partners, ascending."""

    side: int
    place: int
    seq: int
    partners: tuple[int, ...]


#: A moment after all rows.
_NEVER = 1 << 62


def full_answers(
    join: OracleJoin, order: Sequence[SourceRow], first_indexes: Sequence[int] = (0, 0), first_seq: int | None = None
) -> list[FullAnswer]:
    """The answer of each row of either side, in the order in which rows answer.

    At arrival, that is the order of the rows. On close, a row answers at the last event time that reaches it, or at the
    row of its side that moves the window past it; at the same moment, left rows come first.
    first_indexes, first_seq: as in `nested_loop`
    """
    assert join.asking is not None, "rows of both sides ask"
    probes = [*nested_loop(join, order, first_indexes, first_seq)]
    found: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    rows = {probe.seq: probe.row for probe in probes}
    for probe in probes:
        for side, earlier in enumerate((probe.as_left, probe.as_right)):
            if plays(join, probe.row, side):
                found[side][probe.seq] = list(earlier)
            for other in earlier if join.asking.at_close else ():
                found[1 - side][other].append(probe.seq)
    answers = []
    for side, partners in enumerate(found):
        own = [*partners]
        for place, seq in enumerate(own):
            moment = _moment(join, side, own, place, rows[seq]) if join.asking.at_close else seq
            answers.append((moment, side, seq, FullAnswer(side, place, seq, tuple(sorted(partners[seq])))))
    return [answer for *_, answer in sorted(answers, key=lambda each: each[:3])]


def _moment(join: OracleJoin, side: int, own: Sequence[int], place: int, row: SourceRow) -> int:
    """When a row closes: an event time, or the number of a row of its side."""
    if join.interval_us is not None:
        return _time(row) + max(join.interval_us[1] if side == 0 else -join.interval_us[0], 0)
    length, slide = join.window.length, join.window.slide
    if join.window.needs_time:
        return window_end(_time(row), length, slide)
    behind = next(count for count in range(place + 1, place + length + slide + 2) if _begin(join, count) > place)
    return own[behind - 1] if behind <= len(own) else _NEVER


def _begin(join: OracleJoin, count: int) -> int:
    return window_begin(count, join.window.length, join.window.slide)


def open_rows(join: OracleJoin, order: Sequence[SourceRow], time_us: int | None, side: int = 0) -> int:
    """The number of a side's open rows after the last row or an event time, since later rows may find them."""
    own = [row for row in order if plays(join, row, side)]
    assert join.asking is not None, "left rows ask"
    if not join.asking.at_close:
        return 0
    if join.interval_us is not None:
        kept_us = max(-join.interval_us[0] if side else join.interval_us[1], 0)
        return sum(time_us is None or _time(row) + kept_us >= time_us for row in own)
    if not join.window.needs_time:
        return min(len(own), len(own) - _begin(join, len(own)))
    begin = None if time_us is None else _begin(join, time_us)
    return sum(begin is None or _time(row) >= begin for row in own)


@dataclass(frozen=True, slots=True)
class _Stored:
    seq: int
    row: SourceRow
    values: Mapping[str, Value]
    left: tuple[Value, ...]
    right: tuple[Value, ...]


def _sides(join: OracleJoin, row: SourceRow, side: int) -> tuple[Value, ...]:
    if not join.is_self and row.stream != side:
        return ()
    return tuple(_compared(c, c.right if side else c.left, row) for c in join.comparisons)


def _compared(c: Comparison, expression: Expression, row: SourceRow) -> Value:
    value = evaluate(expression, row.values, c.ieee)
    return value.lower() if c.ignores_case and isinstance(value, str) else value


def _members(join: OracleJoin, row: SourceRow, earlier: list[_Stored], first: int) -> list[_Stored]:
    return earlier[:] if join.interval_us else list(_window(join.window, row, earlier, first))


def _window(window: Window, probe: SourceRow, stored: list[_Stored], first: int) -> Iterable[_Stored]:
    if window.needs_time:
        bound = window_begin(_time(probe), window.length, window.slide)
        return (u for u in stored if _time(u.row) >= bound)
    return stored[max(0, window_begin(first + len(stored), window.length, window.slide) - first) :]


def _matches(join: OracleJoin, left: _Stored, right: _Stored) -> bool:
    if join.interval_us is not None:
        lower_us, upper_us = join.interval_us
        if not lower_us <= _time(right.row) - _time(left.row) <= upper_us:
            return False
    compared = zip(join.comparisons, left.left, right.right, strict=True)
    return all(holds(c.op, a, b, c.width, c.ieee) for c, a, b in compared) and are_true(
        join.residuals, (left.values, right.values)
    )


def are_partners(join: OracleJoin, left: tuple[int, SourceRow], right: tuple[int, SourceRow]) -> bool:
    """Whether a left and a right row, each with its number, satisfy all conditions."""
    pair = [
        _Stored(seq, row, {**row.values, "seq": seq}, _sides(join, row, 0), _sides(join, row, 1))
        for seq, row in (left, right)
    ]
    return _matches(join, pair[0], pair[1])
