"""The naive oracle: the join's definition as a plain nested loop over values.

Nothing here is shared with the product but the names of the query model (operators, expression trees): no codes, no
indexes, no frames. Exact columns compute in `int` and `Decimal` under a context that refuses to round; doubles
compute in `float`, as written.
"""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from spojoin.model import Arithmetic, Column, Constant, Expression, Op, Output, Window

Value = int | float | Decimal | None
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
    """`left op right` over values; `ieee` says that it computes in doubles, `width` is the band's half width."""

    left: Expression
    op: Op
    right: Expression
    width: Fraction
    ieee: bool


@dataclass(frozen=True, slots=True)
class OracleJoin:
    """The query as the oracle sees it: one stream or two, comparisons, window and output.

    interval_us: right's time minus left's, both ends included; then every earlier tuple counts, without a window
    """

    is_self: bool
    comparisons: tuple[Comparison, ...]
    window: Window
    output: Output
    limit: int | None
    interval_us: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """What one tuple finds: earlier partners' seqs, ascending, as the left and as the right side of pairs."""

    seq: int
    row: SourceRow
    as_left: tuple[int, ...]
    as_right: tuple[int, ...]


# --- values -----------------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, values: Mapping[str, Value], ieee: bool) -> Value:
    """The expression's value for one row; null wherever a column is null."""
    if isinstance(expression, Column):
        return _column(values[expression.name], ieee)
    if isinstance(expression, Constant):
        return _constant(expression.value, ieee)
    left = evaluate(expression.left, values, ieee)
    right = evaluate(expression.right, values, ieee)
    if left is None or right is None:
        return None
    return _arithmetic(expression, left, right, ieee)


def is_refused(value: Value) -> bool:
    """Whether it is null or NaN, which can't be ordered, so that its row takes no part."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def holds(op: Op, left: Value, right: Value, width: Fraction, ieee: bool) -> bool:
    """Whether `left op right` is true."""
    if op in _BANDS:
        return _BANDS[op](_distance(left, right, ieee), _constant(width, ieee))
    return _PLAIN[op](left, right)


def _column(value: Value, ieee: bool) -> Value:
    return float(value) if ieee and value is not None else value


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


_PLAIN: Mapping[Op, Callable[..., bool]] = {
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
    Op.EQ: lambda a, b: a == b,
    Op.NE: lambda a, b: a != b,
}
_BANDS: Mapping[Op, Callable[..., bool]] = {Op.BAND_LT: lambda d, w: d < w, Op.BAND_LE: lambda d, w: d <= w}
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
    """Whether a row has everything that the join needs: a time where one is used, and ordered join values."""
    if needs_time and row.time_us is None:
        return False
    return not any(is_refused(evaluate(e, row.values, ieee)) for e, ieee in _sides_of(join, row.stream))


def _sides_of(join: OracleJoin, stream: int) -> Iterator[tuple[Expression, bool]]:
    for c in join.comparisons:
        if stream == 0:
            yield c.left, c.ieee
        if stream == 1 or join.is_self:
            yield c.right, c.ieee


def split_late(rows: Iterable[SourceRow], lateness_us: int) -> tuple[list[SourceRow], list[SourceRow]]:
    """Valid rows, each partition's in its order -> (in time, late).

    A row is late iff its time is below the largest time seen before in its partition, less the lateness.
    """
    high: dict[tuple[int, int], int] = {}
    in_time: list[SourceRow] = []
    late: list[SourceRow] = []
    for row in rows:
        time = _time(row)
        seen = high.get((row.stream, row.partition), time)
        (late if time < seen - lateness_us else in_time).append(row)
        high[row.stream, row.partition] = max(seen, time)
    return in_time, late


def merge_by_time(rows: Iterable[SourceRow]) -> list[SourceRow]:
    """The one order of event time: by time, ties by stream, partition, offset and row."""
    return sorted(rows, key=lambda row: (_time(row), row.position))


def _time(row: SourceRow) -> int:
    assert row.time_us is not None, f"{row.position} has no time"
    return row.time_us


# --- the join ---------------------------------------------------------------------------------------------------------


def nested_loop(join: OracleJoin, order: Sequence[SourceRow], first_indexes: Sequence[int] = (0, 0)) -> Iterator[Probe]:
    """Every tuple against every earlier tuple of the opposite stream in its window, in the total order.

    first_indexes: the number of each stream's first tuple, where others came before this order; seqs go on likewise
    """
    first_seq = first_indexes[0] if join.is_self else sum(first_indexes)
    seen: dict[int, list[_Stored]] = defaultdict(list)
    for seq, row in enumerate(order, first_seq):
        tuple_ = _Stored(seq, row, _sides(join, row, 0), _sides(join, row, 1))
        target = 0 if join.is_self else 1 - row.stream
        earlier = seen[target]
        members = earlier[:] if join.interval_us else list(_window(join.window, row, earlier, first_indexes[target]))
        yield Probe(
            seq,
            row,
            tuple(u.seq for u in members if _plays(join, row, 0) and _matches(join, tuple_, u)),
            tuple(u.seq for u in members if _plays(join, row, 1) and _matches(join, u, tuple_)),
        )
        seen[row.stream].append(tuple_)


@dataclass(frozen=True, slots=True)
class _Stored:
    seq: int
    row: SourceRow
    left: tuple[Value, ...]
    right: tuple[Value, ...]


def _plays(join: OracleJoin, row: SourceRow, side: int) -> bool:
    return join.is_self or row.stream == side


def _sides(join: OracleJoin, row: SourceRow, side: int) -> tuple[Value, ...]:
    if not _plays(join, row, side):
        return ()
    return tuple(evaluate(c.right if side else c.left, row.values, c.ieee) for c in join.comparisons)


def _window(window: Window, probe: SourceRow, stored: list[_Stored], first: int) -> Iterable[_Stored]:
    if window.is_time:
        bound = _round_up(_time(probe), window.slide) - window.length
        return (u for u in stored if _time(u.row) >= bound)
    return stored[max(0, _round_up(first + len(stored), window.slide) - window.length - first) :]


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _matches(join: OracleJoin, left: _Stored, right: _Stored) -> bool:
    if join.interval_us and not _is_within(join.interval_us, _time(right.row) - _time(left.row)):
        return False
    return all(
        holds(c.op, a, b, c.width, c.ieee) for c, a, b in zip(join.comparisons, left.left, right.right, strict=True)
    )


def _is_within(interval_us: tuple[int, int], difference_us: int) -> bool:
    return interval_us[0] <= difference_us <= interval_us[1]
