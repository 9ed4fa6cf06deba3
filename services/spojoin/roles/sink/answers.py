"""From the matches of a frame to its result rows: answers on arrival, and answers on close (rule P16)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.aggregates.functions import function_of
from spojoin.aggregates.partners import partners_of
from spojoin.aggregates.totals import Totals
from spojoin.arrays import I64
from spojoin.expressions.types import value_type
from spojoin.kernels.chosen import first_listed
from spojoin.kernels.segments import before, places_within
from spojoin.measures.ratings import Rater
from spojoin.measures.weights import Weigher
from spojoin.model import Aggregate, Best, Choice, EmitOn, Grouped, JoinKind, Output, Query
from spojoin.protocol.frame_evaluation import probe_range
from spojoin.roles.sink.assembly import FrameSpan
from spojoin.roles.sink.closed_rows import NO_ROWS, ClosedRows, Residual, closed_rows, without_own
from spojoin.roles.sink.history import History
from spojoin.roles.sink.output_rows import (
    answered_only,
    bitmap_rows,
    count_rows,
    cut_probes,
    listed_pairs,
    matches,
    pair_rows,
)
from spojoin.roles.sink.pairs import NO_ROW, Answers, Each, PairProgram, Projection, SeqPairs
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Matches
from spojoin.wire.sums import Sums, added, no_sums

_NO_PLACES = np.empty(0, np.uint16)


class Answering:
    """Makes the rows of a query's output, and counts the matches in them."""

    def __init__(self, query: Query, histories: Sequence[History], each: Each) -> None:
        self._query = query
        self._histories = histories
        self._residual = Residual(query) if query.residuals else None
        self._projection = Projection(query, each)
        self._left = LeftAnswers(query, self._projection) if query.asks and not query.both_ask else None
        self._full = FullAnswers(query, self._projection) if query.both_ask else None
        self._weigher = Weigher(SearchPlan(query).measures)
        self.matches = 0
        self.cut_probes = 0

    @property
    def failures(self) -> int:
        """How many pairs had no value for an expression of both sides (cumulative)."""
        return self._projection.program.failures + (0 if self._residual is None else self._residual.program.failures)

    def answer_span(self, span: FrameSpan, directions: list[Matches]) -> Answers:
        """The result rows for a span's positions, from the matches that all parts have found there, by direction."""
        answers = (
            self._answers_on_close(span, directions)
            if span.frame.closings
            else self._answers_at_arrival(span, directions)
        )
        self.matches += answers.matches
        return answers

    # -- rows that answer on arrival

    def _answers_at_arrival(self, span: FrameSpan, directions: list[Matches]) -> Answers:
        """One answer for each row of the frame, with the pairs that meet the residual conditions."""
        query, (frame, begin, end) = self._query, span
        if self._residual is not None:
            directions = [self._true_pairs(self._residual, span, *each) for each in enumerate(directions)]
        total = matches(query, directions, frame, begin, end)
        self.cut_probes += cut_probes(query, directions, frame, begin, end)
        match query.results.output:
            case Output.ROWS:
                return self._selected(span, directions, total)
            case Output.PAIRS:
                rows = pair_rows(query, frame, begin, end, directions, self._histories)
            case Output.BITMAP:
                rows = bitmap_rows(query, frame, begin, end, directions)
            case _:
                rows = count_rows(query, frame, begin, end, directions)
        return Answers(answered_only(rows, frame), matches=total)

    def _true_pairs(self, residual: Residual, span: FrameSpan, number: int, found: Matches) -> Matches:
        direction = self._query.directions[number]
        positions = span.frame.slices[direction.probe].positions
        first, last = probe_range(positions, span.begin, span.end)
        probes = span.frame.first_seq + positions[first:last].astype(np.int64)
        return residual.true_matches(found, probes, as_left=direction.as_left, histories=self._histories)

    def _selected(self, span: FrameSpan, directions: list[Matches], total: int) -> Answers:
        frame = span.frame
        left, right = listed_pairs(self._query, *span, directions)
        probes: I64 = np.maximum(left, right)
        if len(frame.silent):
            answered = frame.silent[probes - frame.first_seq] == 0
            probes, left, right = probes[answered], left[answered], right[answered]
        pairs = SeqPairs(left, right, self._histories)
        traces = pairs.traces(probes) if self._query.results.is_traced else None
        return Answers(self._projection.select_rows(pairs), probes, traces, total)

    # -- rows that answer on close

    def _answers_on_close(self, span: FrameSpan, directions: list[Matches]) -> Answers:
        """The answers of each side's rows that close at these positions."""
        frame, begin, end = span
        closed, places = [NO_ROWS for _ in frame.closings], [_NO_PLACES for _ in frame.closings]
        for side, closing in enumerate(frame.closings if begin < end else ()):
            found = without_own(closing, begin, end, directions[side], self._weigh)
            if self._residual is not None:
                first, last = probe_range(closing.positions, begin, end)
                probes = closing.seqs[closing.searching[first:last]]
                found = self._residual.true_matches(found, probes, as_left=side == 0, histories=self._histories)
            rows, at = closed_rows(closing, begin, end, found), closing.all_places[closing.rows_at(begin, end)]
            if len(frame.silent):
                kept = frame.silent[at] == 0
                rows, at = rows.where(kept), at[kept]
            closed[side], places[side] = rows, at
        if self._full is not None:
            first_answer = sum(closing.first for closing in frame.closings)
            numbers = [first_answer + at.astype(np.int64) for at in places]
            return self._full.answer_rows(closed, numbers, self._histories)
        assert self._left is not None, "rows close where left rows ask"
        return self._left.answer_rows(closed[0], self._histories)

    def _weigh(self, seqs: I64) -> Sums:
        """The weights of right rows by seq."""
        columns = SeqPairs(seqs, seqs, self._histories).columns(self._weigher.uses)
        return self._weigher.of(columns, len(seqs))


class LeftAnswers:
    """Makes the results of left rows."""

    def __init__(self, query: Query, projection: Projection) -> None:
        answers = query.answers
        self._join = answers.join
        self._projection = projection
        self._is_traced = query.results.is_traced
        self._best = BestPartners(answers.best) if answers.best is not None else None
        self._grouped = LeftGroups(query, answers.grouped) if answers.grouped is not None else None
        self._where = PairProgram([answers.where]) if answers.where is not None else None

    def answer_rows(self, found: ClosedRows, histories: Sequence[History]) -> Answers:
        """The results of left rows, in their order."""
        if self._grouped is not None:
            pairs, probes = self._grouped.grouped_pairs(found, histories)
        else:
            pairs = self._kept(SeqPairs(*self._chosen(found, histories), histories))
            probes = pairs.left
        traces = pairs.traces(probes) if self._is_traced else None
        return Answers(self._projection.select_rows(pairs), probes, traces, int(found.counts.sum()))

    def _kept(self, pairs: SeqPairs) -> SeqPairs:
        """The pairs that meet WHERE, if it applies after the choice."""
        if self._where is None or not len(pairs.left):
            return pairs
        kept = self._where.are_true(pairs)
        return SeqPairs(pairs.left[kept], pairs.right[kept], pairs.histories)

    def _chosen(self, found: ClosedRows, histories: Sequence[History]) -> tuple[I64, I64]:
        """The pairs that are results, by the seqs of their sides."""
        if self._join in (JoinKind.SEMI, JoinKind.ANTI):
            kept = found.seqs[(found.counts > 0) == (self._join is JoinKind.SEMI)]
            return kept, np.full(len(kept), NO_ROW, np.int64)
        if self._best is not None:
            found = self._best.first_partners(found, histories)
        return (found.with_none() if self._join is JoinKind.LEFT else found).pairs()


class BestPartners:
    """Keeps the first partners of each row in an order."""

    def __init__(self, best: Best) -> None:
        self._best = best
        self._program = PairProgram([key.expression for key in best.order])
        self._rater = None if best.choice is None else Rater([best.choice])

    def first_partners(self, found: ClosedRows, histories: Sequence[History]) -> ClosedRows:
        """The rows with only their best partners."""
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
        rank = places_within(lengths)
        if self._best.has_ties:
            kept = order[_equal_first(keys[:-1], order, found.offsets, lengths)]
            counts = np.bincount(group[kept], minlength=len(lengths))
            return ClosedRows(found.seqs, found.counts, before(counts), right[kept])
        kept = order[rank < self._best.count]
        return ClosedRows(found.seqs, found.counts, before(np.minimum(lengths, self._best.count)), right[kept])

    def _first(self, rater: Rater, choice: Choice, found: ClosedRows, pairs: SeqPairs) -> ClosedRows:
        """The rows with only their best partners, by ratings of the right rows."""
        assert found.offsets is not None, "partners are listed where the best are chosen"
        ratings = rater.of(pairs.columns(rater.uses), len(pairs.right))
        first = first_listed(ratings.of(0), pairs.right, found.offsets, (choice.count, choice.is_latest))
        kept = np.arange(choice.count) < first.lengths[:, None]
        partners = first.seqs(is_latest=choice.is_latest)[kept]
        return ClosedRows(found.seqs, found.counts, before(first.lengths), partners)


def _equal_first(keys: list[list[np.ndarray]], order: I64, offsets: I64, lengths: I64) -> np.ndarray:
    """Whether each partner, in order, equals the first one of its left row by all keys: bool (n,)."""
    first = order[np.repeat(offsets[:-1], lengths)]
    found: np.ndarray = np.logical_and.reduce([part[order] == part[first] for key in keys for part in key])
    return found


def _sortable(values: pa.Array, is_descending: bool, nulls_first: bool) -> list[np.ndarray]:
    """Columns, most significant first, that NumPy sorts as SQL sorts the values: NULLs separate, NaN the greatest."""
    nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    dense = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return [nulls != nulls_first, np.where(nulls, 0, -dense if is_descending else dense)]


class LeftGroups:
    """One row for each left row: its aggregates, and HAVING."""

    def __init__(self, query: Query, grouped: Grouped) -> None:
        self._is_outer = query.answers.join is JoinKind.LEFT
        self._aggregates = AggregateColumns(query, grouped)
        self._having = None if grouped.having is None else PairProgram([grouped.having])

    def grouped_pairs(self, found: ClosedRows, histories: Sequence[History]) -> tuple[SeqPairs, I64]:
        """The rows that are results, in the form over which the select list is evaluated, and their seqs."""
        if not self._is_outer:
            found = found.where(found.counts > 0)
        columns = {str(k): values for k, values in enumerate(self._aggregates.column_values(found, histories))}
        pairs = SeqPairs(found.seqs, np.full(len(found.seqs), NO_ROW, np.int64), histories, columns)
        if self._having is None or not len(found.seqs):
            return pairs, found.seqs
        kept = self._having.are_true(pairs)
        columns = {name: values.filter(pa.array(kept)) for name, values in columns.items()}
        seqs = found.seqs[kept]
        return SeqPairs(seqs, np.full(len(seqs), NO_ROW, np.int64), histories, columns), seqs


class AggregateColumns:
    """The aggregates of a query; in an outer join a row without partners counts as one pair with NULLs."""

    def __init__(self, query: Query, grouped: Grouped) -> None:
        self._aggregates = grouped.aggregates
        self._measures = SearchPlan(query).measures
        self._is_outer = query.answers.join is JoinKind.LEFT
        self._listed = [one for one in grouped.aggregates if not self._is_summed(one)]
        self._program = PairProgram([each for one in self._listed for each in one.needed])
        self._none = Weigher(self._measures).of_none() if self._is_outer and self._measures else None

    def _is_summed(self, one: Aggregate) -> bool:
        return bool(self._measures) and one.is_sum

    def column_values(self, found: ClosedRows, histories: Sequence[History]) -> list[pa.Array]:
        """For each aggregate, one value for each left row."""
        summed, listed = iter(self._of_sums(found)), iter(self._of_partners(found, histories))
        return [next(summed if self._is_summed(one) else listed) for one in self._aggregates]

    def _of_sums(self, found: ClosedRows) -> list[pa.Array]:
        if not self._measures:
            return []
        counts, sums = found.counts, no_sums(len(found.counts)) if found.sums is None else found.sums
        if self._none is not None:
            alone = (counts == 0).astype(np.int64)
            counts = counts + alone
            sums = added([sums, Sums(self._none.keys, self._none.rows * alone)])
        columns = []
        for one in filter(self._is_summed, self._aggregates):
            number = next(k for k, measure in enumerate(self._measures) if measure.serves(one))
            columns.append(function_of(one).summed(Totals(one, number, counts, sums, found.seqs)))
        return columns

    def _of_partners(self, found: ClosedRows, histories: Sequence[History]) -> list[pa.Array]:
        if not self._listed:
            return []
        if found.partners is None:
            with_none = np.maximum(found.counts, 1) if self._is_outer else found.counts
            return [pa.array(found.counts if one.needed else with_none) for one in self._listed]
        rows = found.with_none() if self._is_outer else found
        assert rows.offsets is not None, "partners are listed where they are aggregated"
        given, columns = iter(self._program.run(SeqPairs(*rows.pairs(), histories))), []
        for one in self._listed:
            partners = partners_of(one, [next(given) for _ in one.needed], rows.offsets, rows.seqs)
            columns.append(function_of(one).listed(partners).cast(value_type(one.type)))
        return columns


class FullAnswers:
    """Makes the results of rows of both sides.

    On arrival, the later row of a pair answers, which may be of either side. On close, a left row answers with its
    pairs, so a right row only answers if it has none.
    """

    def __init__(self, query: Query, projection: Projection) -> None:
        self._projection = projection
        self._at_close = query.answers.emit is EmitOn.CLOSE
        self._is_traced = query.results.is_traced

    def answer_rows(self, found: Sequence[ClosedRows], numbers: Sequence[I64], histories: Sequence[History]) -> Answers:
        """The results of left and right rows; numbers: by side, int64 (n,), the number of each row's answer.

        Rows don't answer in the order of their seqs, so results contain these numbers, which ascend.
        """
        left, partners, of_left = _paired(found[0], numbers[0])
        right, others, of_right = (_alone if self._at_close else _paired)(found[1], numbers[1])
        together = np.concatenate([of_left, of_right])
        order = np.argsort(together, kind="stable")
        pairs = SeqPairs(np.concatenate([left, others])[order], np.concatenate([partners, right])[order], histories)
        traces = pairs.traces(np.concatenate([left, right])[order]) if self._is_traced else None
        total = sum(int(rows.counts.sum()) for rows in (found[:1] if self._at_close else found))
        return Answers(self._projection.select_rows(pairs), together[order], traces, total)


def _paired(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
    """For each result of one side's rows: the row, its partner or NO_ROW, and the number of its answer."""
    whole = rows.with_none()
    return *whole.pairs(), np.repeat(numbers, np.maximum(rows.counts, 1))


def _alone(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
    """For each row without partners: the row, NO_ROW, and the number of its answer."""
    kept = rows.counts == 0
    return rows.seqs[kept], np.full(np.count_nonzero(kept), NO_ROW, np.int64), numbers[kept]
