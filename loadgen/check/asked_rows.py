"""What rows that ask must be answered: partners by the nested loop, their answers by Spark and plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check.nested_loop import NestedLoop, Tuples, window_begin
from loadgen.check.pair_rows import NO_ROW, PAIRS_AT_ONCE, Batches, PairRows, PairSource, Span
from loadgen.check.partners import Row, aggregates, answers, needed
from loadgen.check.spark_sql import arrow_type, spark_sql
from spojoin.model import EmitOn, JoinKind, Query

I64 = NDArray[np.int64]

LEFT, RIGHT = 0, 1


class AnsweredRows(NamedTuple):
    """How many rows are answered once the services are at rest."""

    least: int
    most: int


def answered(query: Query, tuples: Tuples) -> AnsweredRows:
    """How many rows of the left side, or of both."""
    sides = [_answered(query, tuples, side) for side in ((LEFT, RIGHT) if query.both_ask else (LEFT,))]
    return AnsweredRows(sum(each.least for each in sides), sum(each.most for each in sides))


def _answered(query: Query, tuples: Tuples, side: int) -> AnsweredRows:
    """On close a row stays open while the window of a row to come of the other side may reach it.

    Where event time decides it may have passed more than the rows say, by heartbeats and idle inputs.
    """
    own = tuples.seqs(side)
    if query.emit is EmitOn.ARRIVAL:
        return AnsweredRows(len(own), len(own))
    window = query.window_over(side)
    if not window.is_time:
        closed = max(window_begin(window, len(own)), 0)
        return AnsweredRows(closed, closed)
    assert tuples.times_us is not None, "a time window needs times"
    highs = [tuples.times_us[tuples.stream == number] for number in range(len(query.inputs))]
    if not all(map(len, highs)):
        return AnsweredRows(0, len(own))
    reached = min(int(times.max()) for times in highs) - query.lateness_us
    closed = int(np.searchsorted(tuples.times_us[own], window_begin(window, reached), "left"))
    return AnsweredRows(closed, len(own))


def partners(query: Query, loop: NestedLoop, side: int, first: int, end: int) -> tuple[I64, I64]:
    """The rows [first, end) of a side with their partners: those before each, and on close those behind it."""
    own, other = loop.pairs(side, np.arange(first, end))
    if query.emit is EmitOn.ARRIVAL or first == end:
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
        """Whether one partner says as much as all."""
        return self.query.join in (JoinKind.SEMI, JoinKind.ANTI) and not self.query.residuals


class AskedRows(PairRows):
    """The answers of spans of rows that ask, as a Spark job."""

    def _rows(self, groups: Sequence[Sequence[tuple[int, Span]]]) -> DataFrame:
        """As of pairs: Spark evaluates what partners give, answers are made of it, and Spark selects from them."""
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
        if query.grouped is not None and query.grouped.having is not None:
            found = found.where(F.expr(f"is_end OR ({spark_sql(query.grouped.having.sql, self._names)})"))
        return self._selected(found)


def _each_row(batches: Batches, schema: pa.Schema) -> Iterator[Row]:
    for batch in batches:
        yield from batch.rename_columns(schema.names).to_pylist()


def _batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, PAIRS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)
