"""The expected answers of rows that ask: the nested loop finds partners; Spark and plain Python compute answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.pair_rows import NO_ROW, PAIRS_AT_ONCE, Batches, PairRows, PairSource, Span
from loadgen.check.partners import Row, aggregates, answers, needed
from loadgen.check.spark_sql import arrow_type, spark_sql
from loadgen.window import window_begin, window_end
from spojoin.arrays import I64
from spojoin.model import EmitOn, JoinKind, Query

LEFT, RIGHT = 0, 1


class AnsweredRows(NamedTuple):
    """The number of rows with an answer when the services are at rest."""

    least: int
    most: int


def answered(query: Query, tuples: Tuples) -> AnsweredRows:
    """The number of answered rows of the left side, or of both sides."""
    sides = [_answered(query, tuples, side) for side in ((LEFT, RIGHT) if query.both_ask else (LEFT,))]
    return AnsweredRows(sum(each.least for each in sides), sum(each.most for each in sides))


def _answered(query: Query, tuples: Tuples, side: int) -> AnsweredRows:
    """The answered rows of a side; on close, a row stays open while a later row of the other side may reach it.

    In event-time order, heartbeats and idle inputs may have closed further rows.
    """
    own = tuples.seqs(side)
    if query.answers.emit is EmitOn.ARRIVAL:
        return AnsweredRows(len(own), len(own))
    window = query.window_over(side)
    if not window.needs_time:
        closed = max(window_begin(len(own), window.length, window.slide), 0)
        return AnsweredRows(closed, closed)
    assert tuples.times_us is not None, "a time window needs times"
    highs = [tuples.times_us[tuples.stream == number] for number in range(len(query.inputs))]
    if not all(map(len, highs)):
        return AnsweredRows(0, len(own))
    reached = min(int(times.max()) for times in highs) - query.order.lateness_us
    closed = int(np.searchsorted(tuples.times_us[own], window_begin(reached, window.length, window.slide), "left"))
    return AnsweredRows(closed, len(own))


def partners(query: Query, loop: NestedLoop, side: int, first: int, end: int) -> tuple[I64, I64]:
    """The rows [first, end) of a side with their partners: earlier rows, and on close later ones too."""
    own, other = loop.pairs(side, np.arange(first, end))
    if query.answers.emit is EmitOn.ARRIVAL or first == end:
        return own, other
    lower, upper = loop.role_windows[1 - side]
    later, earlier = loop.pairs(1 - side, np.flatnonzero((upper > first) & (lower < end)))
    seqs = loop.seqs[side]
    within = (earlier >= seqs[first]) & (earlier <= seqs[end - 1])
    return np.concatenate((own, earlier[within])), np.concatenate((other, later[within]))


class AskedSource(PairSource):
    """Lists left rows with their partners; spans are of left rows."""

    def _in_order(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64, I64]:
        """The left rows [first, end), each before its pairs: places among left rows, and the seqs of both sides."""
        own = loop.seqs[LEFT]
        last = min(end, len(own))
        first = min(first, last)
        left, right = partners(self.query, loop, LEFT, first, last)
        if self._asks_whether:
            left, kept = np.unique(left, return_index=True)
            right = right[kept]
        left = np.concatenate((own[first:last], left))
        right = np.concatenate((np.full(last - first, NO_ROW), right))
        order = np.lexsort((right, left))
        return np.searchsorted(own, left[order]), left[order], right[order]

    @property
    def _asks_whether(self) -> bool:
        """Whether one partner suffices for the answer."""
        return self.query.answers.join in (JoinKind.SEMI, JoinKind.ANTI) and not self.query.residuals


class AskedRows(PairRows):
    """The answers of spans of rows that ask, as a Spark job."""

    def _rows(self, groups: Sequence[Sequence[tuple[int, Span]]]) -> DataFrame:
        """As for pairs, but Spark evaluates partners' columns, Python makes answers, and Spark selects from them."""
        query, source = self._source.query, self._source
        listed = self._listed(groups)
        given = {name: (self._expression(each), arrow_type(each.type)) for name, each in needed(query).items()}
        columns = [column.alias(name) for name, (column, _) in given.items()]
        held = pa.schema([*source.schema, *((name, kind) for name, (_, kind) in given.items())])
        values = [(name, arrow_type(one.type)) for name, one in aggregates(query).items()]
        answer = pa.schema([*source.schema, *values])

        def answering(batches: Batches) -> Iterator[pa.RecordBatch]:
            return _batches(answers(query, _each_row(batches, held)), answer)

        found = listed.select("*", *columns).mapInArrow(answering, from_arrow_schema(answer, prefer_timestamp_ntz=True))
        grouped = query.answers.grouped
        if grouped is not None and grouped.having is not None:
            found = found.where(F.expr(f"is_end OR ({spark_sql(grouped.having.sql, self._names)})"))
        return self._selected(found)


def _each_row(batches: Batches, schema: pa.Schema) -> Iterator[Row]:
    for batch in batches:
        yield from batch.rename_columns(schema.names).to_pylist()


def _batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, PAIRS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


#: The moment of a row that never closes.
NEVER = np.int64(1) << 62


def moments(query: Query, tuples: Tuples, side: int) -> I64:
    """The moments at which the rows of a side answer: int64 (n,), ascending.

    At arrival, that is the row's seq. On close, it is the last event time that reaches the row, or the seq of the row
    of its side that moves the window past it.
    """
    seqs = tuples.seqs(side)
    if query.answers.emit is EmitOn.ARRIVAL:
        return seqs
    window = query.window_over(side)
    if window.needs_time:
        assert tuples.times_us is not None, "a time window needs times"
        reached: I64 = window_end(tuples.times_us[seqs], window.length, window.slide)
        return reached
    past: I64 = window_end(np.arange(len(seqs)), window.length, window.slide)
    return np.where(past < len(seqs), seqs[np.minimum(past, len(seqs) - 1)], NEVER) if len(seqs) else seqs


class FullSource(PairSource):
    """Lists rows of both sides with their partners; spans are of answers."""

    def _in_order(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64, I64]:
        """The answers [first, end), each row before its pairs: numbers of answers, and the seqs of both sides."""
        sides = [moments(self.query, self.tuples, side) for side in (LEFT, RIGHT)]
        is_right = np.repeat([False, True], [len(own) for own in sides])
        order = np.lexsort((is_right, np.concatenate(sides)))
        found = []
        for side in (LEFT, RIGHT):
            numbers = np.flatnonzero(is_right[order] == (side == RIGHT))
            some = slice(*np.searchsorted(numbers, (first, end)).tolist())
            own, other = partners(self.query, loop, side, some.start, some.stop)
            seqs = loop.seqs[side]
            own = np.concatenate((seqs[some], own))
            other = np.concatenate((np.full(some.stop - some.start, NO_ROW), other))
            pair = (own, other) if side == LEFT else (other, own)
            found.append((numbers[np.searchsorted(seqs, own)], *pair, other))
        answers, left, right, others = (np.concatenate(columns) for columns in zip(*found, strict=True))
        within = np.lexsort((others, answers))
        return answers[within], left[within], right[within]
