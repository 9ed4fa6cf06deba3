"""What left rows that ask must be answered: partners by the nested loop, their answers by Spark and plain Python."""

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
    """How many left rows are answered once the services are at rest."""

    least: int
    most: int


def answered(query: Query, tuples: Tuples) -> AnsweredRows:
    """On close a row stays open while the window of a right row to come may reach it.

    Where event time decides it may have passed more than the rows say, by heartbeats and idle inputs.
    """
    lefts = tuples.seqs(LEFT)
    if query.emit is EmitOn.ARRIVAL:
        return AnsweredRows(len(lefts), len(lefts))
    window = query.window_over(LEFT)
    if not window.is_time:
        closed = max(window_begin(window, len(lefts)), 0)
        return AnsweredRows(closed, closed)
    assert tuples.times_us is not None, "a time window needs times"
    highs = [tuples.times_us[tuples.stream == number] for number in range(len(query.inputs))]
    if not all(map(len, highs)):
        return AnsweredRows(0, len(lefts))
    reached = min(int(times.max()) for times in highs) - query.lateness_us
    closed = int(np.searchsorted(tuples.times_us[lefts], window_begin(window, reached), "left"))
    return AnsweredRows(closed, len(lefts))


class AskedSource(PairSource):
    """Lists left rows with their partners; spans are of left rows."""

    def _in_order(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64, I64]:
        """The left rows [first, end), each before its pairs: places among left rows, and the seqs of both sides."""
        own = loop.seqs[LEFT]
        last = min(end, len(own))
        first = min(first, last)
        left, right = self._partners(loop, first, last)
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

    def _partners(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64]:
        """The pairs of the left rows [first, end): with right rows before each, and on close with those behind it."""
        left, right = loop.pairs(LEFT, np.arange(first, end))
        if self.query.emit is EmitOn.ARRIVAL or first == end:
            return left, right
        lower, upper = loop.role_windows[RIGHT]
        later, earlier = loop.pairs(RIGHT, np.flatnonzero((upper > first) & (lower < end)))
        own = loop.seqs[LEFT]
        within = (earlier >= own[first]) & (earlier <= own[end - 1])
        return np.concatenate((left, earlier[within])), np.concatenate((right, later[within]))


class AskedRows(PairRows):
    """The answers of spans of left rows, as a Spark job."""

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
