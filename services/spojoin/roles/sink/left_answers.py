"""Results of a query whose left rows ask: one answer a row, made of all its partners (rule P16)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.kernels.chosen import first_listed
from spojoin.kernels.segments import before
from spojoin.measures.rater import Rater
from spojoin.model import Aggregate, Best, Choice, Grouped, JoinKind, Query
from spojoin.roles.sink.aggregates import AggregateColumns
from spojoin.roles.sink.closed_rows import ClosedRows
from spojoin.roles.sink.history import History
from spojoin.roles.sink.pairs import NO_ROW, Answers, PairProgram, Projection, SeqPairs
from spojoin.roles.sink.summed import SummedColumns
from spojoin.wire.records import I64


class LeftAnswers:
    """Makes the results of left rows."""

    def __init__(self, query: Query, projection: Projection) -> None:
        self._join = query.join
        self._projection = projection
        self._is_traced = query.is_traced
        self._best = BestPartners(query.best) if query.best is not None else None
        self._grouped = LeftGroups(query, query.grouped) if query.grouped is not None else None
        self._where = PairProgram([query.where]) if query.where is not None else None

    def rows(self, found: ClosedRows, histories: Sequence[History]) -> Answers:
        """The results of left rows, in their order."""
        if self._grouped is not None:
            pairs, probes = self._grouped.rows(found, histories)
        else:
            pairs = self._kept(SeqPairs(*self._chosen(found, histories), histories))
            probes = pairs.left
        traces = pairs.traces(probes) if self._is_traced else None
        return Answers(self._projection.rows(pairs), probes, traces)

    def _kept(self, pairs: SeqPairs) -> SeqPairs:
        """The pairs of which WHERE is true, where it is behind the choice."""
        if self._where is None or not len(pairs.left):
            return pairs
        kept = self._where.are_true(pairs)
        return SeqPairs(pairs.left[kept], pairs.right[kept], pairs.histories)

    def _chosen(self, found: ClosedRows, histories: Sequence[History]) -> tuple[I64, I64]:
        """The pairs that are put out, by the seqs of their sides."""
        if self._join in (JoinKind.SEMI, JoinKind.ANTI):
            kept = found.seqs[(found.counts > 0) == (self._join is JoinKind.SEMI)]
            return kept, np.full(len(kept), NO_ROW, np.int64)
        if self._best is not None:
            found = self._best.of(found, histories)
        return (found.with_none() if self._join is JoinKind.LEFT else found).pairs()


class BestPartners:
    """Keeps the first partners of each row in an order."""

    def __init__(self, best: Best) -> None:
        self._best = best
        self._program = PairProgram([key.expression for key in best.order])
        self._rater = None if best.choice is None else Rater([best.choice])

    def of(self, found: ClosedRows, histories: Sequence[History]) -> ClosedRows:
        """The rows with their best partners alone."""
        left, right = found.pairs()
        if not len(left):
            return found
        assert found.offsets is not None, "partners are listed where the best are chosen"
        lengths = np.diff(found.offsets)
        if self._rater is not None and self._best.choice is not None:
            return self._first(self._rater, self._best.choice, found, SeqPairs(left, right, histories))
        group = np.repeat(np.arange(len(lengths)), lengths)
        values = self._program.run(SeqPairs(left, right, histories))
        keys = [
            _sortable(v, key.is_descending, key.nulls_first) for v, key in zip(values, self._best.order, strict=True)
        ]
        order = np.lexsort([*(part for key in reversed(keys) for part in reversed(key)), group])
        rank = np.arange(len(order)) - np.repeat(found.offsets[:-1], lengths)
        if self._best.has_ties:
            kept = order[_equal_first(keys[:-1], order, found.offsets, lengths)]
            counts = np.bincount(group[kept], minlength=len(lengths))
            return ClosedRows(found.seqs, found.counts, before(counts), right[kept])
        kept = order[rank < self._best.count]
        return ClosedRows(found.seqs, found.counts, before(np.minimum(lengths, self._best.count)), right[kept])

    def _first(self, rater: Rater, choice: Choice, found: ClosedRows, pairs: SeqPairs) -> ClosedRows:
        """The same by ratings of the right rows."""
        assert found.offsets is not None, "partners are listed where the best are chosen"
        ratings = rater.of(pairs.columns(rater.uses), len(pairs.right))
        first = first_listed(ratings.of(0), pairs.right, found.offsets, (choice.count, choice.is_latest))
        kept = np.arange(choice.count) < first.lengths[:, None]
        partners = first.seqs(is_latest=choice.is_latest)[kept]
        return ClosedRows(found.seqs, found.counts, before(first.lengths), partners)


def _equal_first(keys: list[list[np.ndarray]], order: I64, offsets: I64, lengths: I64) -> np.ndarray:
    """Of partners in their order, bool (n,): whether each equals the first of its left row by all keys."""
    first = order[np.repeat(offsets[:-1], lengths)]
    found: np.ndarray = np.logical_and.reduce([part[order] == part[first] for key in keys for part in key])
    return found


def _sortable(values: pa.Array, is_descending: bool, nulls_first: bool) -> list[np.ndarray]:
    """Columns that NumPy sorts as SQL sorts the values, most significant first: NULLs apart, NaN the greatest."""
    nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    dense = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return [nulls != nulls_first, np.where(nulls, 0, -dense if is_descending else dense)]


class LeftGroups:
    """One row for each left row: its aggregates, and HAVING."""

    def __init__(self, query: Query, grouped: Grouped) -> None:
        self._is_outer = query.join is JoinKind.LEFT
        self._aggregates = _columns(query, grouped, is_outer=self._is_outer)
        self._having = None if grouped.having is None else PairProgram([grouped.having])

    def rows(self, found: ClosedRows, histories: Sequence[History]) -> tuple[SeqPairs, I64]:
        """The rows that are put out, as what the select list is evaluated over, and their seqs."""
        if not self._is_outer:
            found = found.only(found.counts > 0)
        columns = {str(k): values for k, values in enumerate(self._aggregates.values(found, histories))}
        pairs = SeqPairs(found.seqs, np.full(len(found.seqs), NO_ROW, np.int64), histories, columns)
        if self._having is None or not len(found.seqs):
            return pairs, found.seqs
        kept = self._having.are_true(pairs)
        columns = {name: values.filter(pa.array(kept)) for name, values in columns.items()}
        seqs = found.seqs[kept]
        return SeqPairs(seqs, np.full(len(seqs), NO_ROW, np.int64), histories, columns), seqs


def _columns(
    query: Query, grouped: Grouped, *, is_outer: bool
) -> AggregateColumns | SummedColumns | PartlySummedColumns:
    """What makes the aggregates: of sums, of partners, or of both."""
    if not query.measures:
        return AggregateColumns(grouped.aggregates, is_outer=is_outer)
    summed = [one for one in grouped.aggregates if one.is_sum]
    of_sums = SummedColumns(summed, query.measures, is_outer=is_outer)
    if len(summed) == len(grouped.aggregates):
        return of_sums
    others = [one for one in grouped.aggregates if not one.is_sum]
    return PartlySummedColumns(grouped.aggregates, of_sums, AggregateColumns(others, is_outer=is_outer))


class PartlySummedColumns:
    """Aggregates of which parts have summed some, and chosen partners for the others."""

    def __init__(self, aggregates: Sequence[Aggregate], summed: SummedColumns, others: AggregateColumns) -> None:
        self._aggregates = aggregates
        self._summed = summed
        self._others = others

    def values(self, found: ClosedRows, histories: Sequence[History]) -> list[pa.Array]:
        """By aggregate one value a left row."""
        sums, others = iter(self._summed.values(found, histories)), iter(self._others.values(found, histories))
        return [next(sums if one.is_sum else others) for one in self._aggregates]
