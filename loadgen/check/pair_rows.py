"""The expected rows of a select list: pairs of the nested loop, filtered and projected by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.pandas.types import from_arrow_schema

from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.ordering import Ordered, StreamRows
from loadgen.check.output_digest import rows_sha256
from loadgen.check.partners import aggregates, needed
from loadgen.check.results import Pairs
from loadgen.check.rows import kept_columns
from loadgen.check.spark_sql import arrow_type, spark_sql, spark_type
from loadgen.check.verdict import expected_pairs
from spojoin.arrays import I64
from spojoin.model import AGGREGATE, PairExpression, Query, Use, pair_column

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

Batches = Iterable[pa.RecordBatch]

#: The number of pairs that a task hands to Spark at once.
PAIRS_AT_ONCE = 65_536
#: The number of a missing row of a side.
NO_ROW = -1
_FLAGS = [("span", pa.int64()), ("is_end", pa.bool_()), ("is_pair", pa.bool_()), ("is_right", pa.bool_())]
DIGEST_SCHEMA = pa.schema([("span", pa.int64()), ("rows", pa.int64()), ("digest", pa.string())])


class Span(NamedTuple):
    """Consecutive probes [first, end)."""

    first: int
    end: int


class SpanRows(NamedTuple):
    """The rows of a span: their number and digest."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class PairSource:
    """Everything that a task needs to list pairs.

    columns: by use, its values by seq; None for the seq itself
    """

    query: Query
    tuples: Tuples
    uses: tuple[Use, ...]
    columns: tuple[pa.Array | None, ...]

    @classmethod
    def of(cls, query: Query, ordered: Ordered, inputs: Sequence[StreamRows]) -> PairSource:
        """From numbered inputs in their order."""
        uses = tuple(dict.fromkeys(use for each in _expressions(query) for use in each.uses if use.side != AGGREGATE))
        columns = [None if use.is_number else _by_seq(query, use, ordered, inputs) for use in uses]
        return cls(query, ordered.tuples(query, inputs), uses, tuple(columns))

    @property
    def schema(self) -> pa.Schema:
        """The schema of lists: span, end of span, pair, right row alone, and u<i>, the use's values."""
        fields = [(f"u{i}", arrow_type(use.type)) for i, use in enumerate(self.uses)]
        return pa.schema([*_FLAGS, *fields])

    def pairs(self, loop: NestedLoop, spans: Sequence[tuple[int, Span]]) -> Iterator[pa.RecordBatch]:
        """The lists of consecutive numbered spans, in order, followed by the spans' ends."""
        places, left, right = self._in_order(loop, spans[0][1].first, spans[-1][1].end)
        numbers = np.array([number for number, _ in spans], np.int64)
        own = numbers[np.searchsorted([span.end for _, span in spans], places, "right")]
        for at in range(0, len(own), PAIRS_AT_ONCE):
            piece = slice(at, at + PAIRS_AT_ONCE)
            yield self._batch(own[piece], left[piece], right[piece])
        ends = [pa.array(numbers), *(pa.repeat(pa.scalar(flag), len(numbers)) for flag in (True, False, False))]
        nothing = [pa.nulls(len(numbers), field.type) for field in list(self.schema)[len(_FLAGS) :]]
        yield pa.RecordBatch.from_arrays([*ends, *nothing], schema=self.schema)

    def _in_order(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64, I64]:
        """The seqs (probe, left, right) of the pairs of probes [first, end), in this order."""
        last = min(end, len(self.tuples))
        found, _ = expected_pairs(self.query, loop, np.arange(min(first, last), last))
        left, right = _sides(found)
        order = np.lexsort((right, left, found.probe))
        return found.probe[order], left[order], right[order]

    def _batch(self, spans: I64, left: I64, right: I64) -> pa.RecordBatch:
        are_none = left == NO_ROW, right == NO_ROW
        sides = pa.array(left, mask=are_none[0]), pa.array(right, mask=are_none[1])
        values = [
            sides[use.side] if column is None else column.take(sides[use.side])
            for use, column in zip(self.uses, self.columns, strict=True)
        ]
        is_end = pa.repeat(pa.scalar(False), len(spans))
        flags = is_end, pa.array(~(are_none[0] | are_none[1])), pa.array(are_none[0])
        return pa.RecordBatch.from_arrays([pa.array(spans), *flags, *values], schema=self.schema)


def _by_seq(query: Query, use: Use, ordered: Ordered, inputs: Sequence[StreamRows]) -> pa.Array:
    """A column's value by seq, NULL for tuples of the other input."""
    number = query.fed_by[min(use.side, len(query.streams) - 1)]
    at = kept_columns(query.inputs[number]).index(use.name)
    column = inputs[number].table[f"c{at}"].combine_chunks()
    return column.take(pa.array(ordered.index, mask=ordered.stream != number))


def _expressions(query: Query) -> list[PairExpression]:
    grouped = query.answers.grouped
    having = [grouped.having] if grouped is not None and grouped.having is not None else []
    return [*(each.expression for each in query.results.select), *query.residuals, *needed(query).values(), *having]


def _sides(pairs: Pairs) -> tuple[I64, I64]:
    is_right = pairs.direction == 1
    return np.where(is_right, pairs.partner, pairs.probe), np.where(is_right, pairs.probe, pairs.partner)


class PairRows:
    """The rows of spans, as a Spark job."""

    def __init__(self, spark: SparkSession, source: PairSource) -> None:
        self._spark, self._source = spark, source
        self._shared = spark.sparkContext.broadcast(source)
        self._names = {pair_column(use.side, use.name): f"u{i}" for i, use in enumerate(source.uses)}
        self._names |= {pair_column(AGGREGATE, str(k)): name for k, name in enumerate(aggregates(source.query))}

    def digests(self, groups: Sequence[Sequence[tuple[int, Span]]]) -> dict[int, SpanRows]:
        """Digests by the span's number. Each group holds one task's consecutive spans."""
        if not groups:
            return {}
        query = self._source.query
        schema = select_schema(query)

        def summed_up(batches: Batches) -> Iterator[pa.RecordBatch]:
            return _digests(batches, schema)

        found = self._rows(groups).mapInArrow(summed_up, from_arrow_schema(DIGEST_SCHEMA)).toArrow()
        return {row["span"]: SpanRows(row["rows"], row["digest"]) for row in found.to_pylist()}

    def rows(self, number: int, span: Span) -> pa.Table:
        found = self._rows([[(number, span)]]).where("NOT is_end").drop("span", "is_end").toArrow()
        return found.rename_columns([each.name for each in self._source.query.results.select])

    def close(self) -> None:
        """Release the data that tasks share."""
        self._shared.destroy()

    def _rows(self, groups: Sequence[Sequence[tuple[int, Span]]]) -> DataFrame:
        """Rows of span, is_end and the select list's columns r<i>, in order within a task; ends follow a group."""
        return self._selected(self._listed(groups))

    def _listed(self, groups: Sequence[Sequence[tuple[int, Span]]]) -> DataFrame:
        """The source's pairs whose residual conditions are true, with their places among all of its pairs."""
        query = self._source.query
        tasks = min(len(groups), 4 * self._spark.sparkContext.defaultParallelism)
        numbers = self._spark.range(0, len(groups), 1, tasks)
        schema = from_arrow_schema(self._source.schema, prefer_timestamp_ntz=True)
        pairs = numbers.mapInArrow(_listing(self._shared, groups), schema)
        if not query.residuals:
            return pairs
        holds = " AND ".join(f"({spark_sql(each.sql, self._names)})" for each in query.residuals)
        return pairs.where(F.expr(f"NOT is_pair OR ({holds})"))

    def _selected(self, pairs: DataFrame) -> DataFrame:
        columns = [
            self._expression(each.expression).alias(f"r{i}") for i, each in enumerate(self._source.query.results.select)
        ]
        return pairs.select("span", "is_end", *columns)

    def _expression(self, each: PairExpression) -> Column:
        return F.expr(f"CAST({spark_sql(each.sql, self._names)} AS {spark_type(each.type)})")


def _listing(
    shared: Broadcast[PairSource], groups: Sequence[Sequence[tuple[int, Span]]]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def listed(numbers: Batches) -> Iterator[pa.RecordBatch]:
        source = shared.value
        loop = NestedLoop(source.query, source.tuples)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from source.pairs(loop, groups[number])

    return listed


def select_schema(query: Query) -> pa.Schema:
    """The columns of results."""
    return pa.schema([(each.name, arrow_type(each.expression.type)) for each in query.results.select])


def _digests(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One row per span, as soon as its end comes; spans ascend."""
    held: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        is_end = np.asarray(table["is_end"].to_numpy(), np.bool_)
        held.append(table.filter(pa.array(~is_end)).drop_columns(["is_end"]))
        if not is_end.any():
            continue
        rows, ended = pa.concat_tables(held), table["span"].to_numpy()[is_end]
        bounds = np.searchsorted(rows["span"].to_numpy(), [ended, ended + 1])
        values = rows.drop_columns(["span"]).rename_columns(schema.names).cast(schema)
        parts = [values.slice(begin, end - begin) for begin, end in bounds.T.tolist()]
        found = ended.tolist(), [part.num_rows for part in parts], [rows_sha256(part) for part in parts]
        yield pa.RecordBatch.from_pydict(dict(zip(DIGEST_SCHEMA.names, found, strict=True)), DIGEST_SCHEMA)
        held = [rows.slice(int(bounds.max()))]
