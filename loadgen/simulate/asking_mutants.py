"""Planted bugs in rows that ask (P16), of one side or in a FULL JOIN of both: their closing and their partners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.simulate.mutants import Mutant, Patches, planted
from spojoin.aggregates.partners import Partners
from spojoin.arrays import I64
from spojoin.columns.codes import CodeColumn
from spojoin.columns.extract import Extractor
from spojoin.kernels.chosen import Chosen
from spojoin.kernels.segments import before
from spojoin.protocol import frame_evaluation
from spojoin.roles.router import asking, frame_maker, slicing
from spojoin.roles.router.asking import Asking, AskingSide, OpenRows
from spojoin.roles.router.queue import Cut
from spojoin.roles.sink import answers, assembly, history, trimming
from spojoin.roles.sink.answers import AggregateColumns, LeftGroups
from spojoin.roles.sink.assembly import combined
from spojoin.roles.sink.closed_rows import ClosedRows, closed_rows
from spojoin.roles.sink.history import History
from spojoin.roles.sink.pairs import NO_ROW, SeqPairs
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import NO_OWN, OWN_VOID, Batch, Closing, Frame, Matches, StreamSlice

ASKING_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, ASKING_MUTANTS)


# --- when rows close --------------------------------------------------------------------------------------------------


@_mutant("closes-one-row-early", "with each row that closes, the next one closes as well, if it is there")
def _closes_one_row_early() -> Patches:
    return closing_early(sides=(0, 1))


def closing_early(sides: Sequence[int]) -> Patches:
    """With each row of these sides that closes, the next row closes too, if there is one."""
    clipped = AskingSide._clipped

    def one_more(self: AskingSide, until: I64) -> I64:
        found = clipped(self, until)
        if self.stream not in sides:
            return found
        return np.minimum(np.where(found > self.open.first, found + 1, found), max(self.open.end, self.open.first))

    return [patch.object(AskingSide, "_clipped", one_more)]


@_mutant("closes-one-row-late", "a row closes only when the one after it may")
def _closes_one_row_late() -> Patches:
    clipped = AskingSide._clipped

    def one_less(self: AskingSide, until: I64) -> I64:
        return np.maximum(clipped(self, until) - 1, self.open.first)

    return [patch.object(AskingSide, "_clipped", one_less)]


@_mutant("watermark-closes-all", "an event time that inputs have reached closes all rows up to it, windows or not")
def _watermark_closes_all() -> Patches:
    without_rows = Asking.cut_without_rows

    def all_of_them(self: Asking, watermark_us: int | None) -> Cut:
        cut = without_rows(self, watermark_us)
        if watermark_us is None:
            return cut
        ends = [min(side.open.end, end + 1) for side, end in zip(self.sides, cut.ends, strict=True)]
        return replace(cut, ends=ends)

    return [patch.object(Asking, "cut_without_rows", all_of_them)]


@_mutant("closes-again-after-a-restart", "a router that starts again takes rows of its batches for open")
def _closes_again_after_a_restart() -> Patches:
    def all_held(self: AskingSide) -> None:
        self.open.finish_restore(0)

    return [patch.object(AskingSide, "finish_restore", all_held)]


@_mutant("open-rows-forgotten", "a router that starts again doesn't learn of open rows from batches")
def _open_rows_forgotten() -> Patches:
    def nothing(_: OpenRows, _batch: Batch) -> None:
        return

    return [patch.object(OpenRows, "restore_batch", nothing)]


@_mutant("windows-of-one-side", "the log and batches are kept for the windows of new rows, not of open ones")
def _windows_of_one_side() -> Patches:
    def of_new_rows(frame: Frame, target: int) -> int:
        return int(frame.slices[1 - target].lower[0]) if len(frame.slices) > 1 else int(frame.slices[0].lower[0])

    return [
        patch.object(module, "first_reached", of_new_rows)
        for module in (frame_evaluation, frame_maker, slicing, history, trimming)
    ]


# --- partners ---------------------------------------------------------------------------------------------------------


@_mutant("later-partners-forgotten", "a row finds what was there before the frame with which it closes")
def _later_partners_forgotten() -> Patches:
    closing = OpenRows.closing_rows

    def before_the_frame(self: OpenRows, end: int, after: I64, reached: int, *, has_own: bool) -> Closing:
        return closing(self, end, np.zeros_like(after), reached, has_own=has_own)

    return [patch.object(OpenRows, "closing_rows", before_the_frame)]


@_mutant("whole-frame-found", "a row finds all tuples of the frame with which it closes")
def _whole_frame_found() -> Patches:
    closing = OpenRows.closing_rows

    def all_of_it(self: OpenRows, end: int, after: I64, reached: int, *, has_own: bool) -> Closing:
        last = np.full_like(after, after.max()) if len(after) else after
        return closing(self, end, last, reached, has_own=has_own)

    return [patch.object(OpenRows, "closing_rows", all_of_it)]


@_mutant("own-partner", "a row of a self join is its own partner, where the conditions allow it")
def _own_partner() -> Patches:
    def itself_too(_closing: Closing, _begin: int, _end: int, matches: Matches, _weigh: object) -> Matches:
        return matches

    return [patch.object(answers, "without_own", itself_too)]


@_mutant("own-by-number", "each row of a self join is taken off its partners, found or not")
def _own_by_number() -> Patches:
    def always(_direction: object, left: object, _right: object, _at: I64) -> NDArray[np.bool_]:
        return np.ones(len(left), np.bool_)  # type: ignore[arg-type]

    return [patch.object(asking, "_matches", always)]


@_mutant("null-searches", "a row whose index condition is NULL searches by the code that stands for NULL")
def _null_searches() -> Patches:
    columns = asking._columns

    def never_void(carrier: StreamSlice | Batch, seqs: I64, codes: tuple[I64, ...], lower: I64) -> list[I64]:
        own = carrier.own
        return columns(
            replace(carrier, own=None if own is None else np.where(own == OWN_VOID, NO_OWN, own)), seqs, codes, lower
        )

    return [patch.object(asking, "_columns", never_void)]


@_mutant("null-gives-no-answer", "a row whose index condition is NULL gets no answer")
def _null_gives_no_answer() -> Patches:

    def searching_only(closing: Closing, begin: int, end: int, matches: Matches) -> ClosedRows:
        rows = closing.rows_at(begin, end)
        kept = np.isin(closing.all_places[rows], closing.positions)
        return closed_rows(closing, begin, end, matches).where(kept)

    return [patch.object(answers, "closed_rows", searching_only)]


# --- answers ----------------------------------------------------------------------------------------------------------


@_mutant("null-row-beside-a-match", "a LEFT JOIN puts out a row of NULLs beside a single partner")
def _null_row_beside_a_match() -> Patches:
    with_none = ClosedRows.with_none

    def beside(self: ClosedRows) -> ClosedRows:
        left, right = self.pairs()
        lengths = np.bincount(np.searchsorted(self.seqs, left), minlength=len(self.seqs))
        single = np.flatnonzero(lengths == 1)
        if self.offsets is None or not len(single):
            return with_none(self)
        partners = np.insert(right, self.offsets[single + 1], -1)
        offsets = before(lengths + (lengths == 1))
        return with_none(ClosedRows(self.seqs, self.counts, offsets, partners))

    return [patch.object(ClosedRows, "with_none", beside)]


@_mutant("having-ignores-nulls", "HAVING keeps a group for which it is NULL, or false by one")
def _having_ignores_nulls() -> Patches:
    rows = LeftGroups.grouped_pairs

    def one_more(self: LeftGroups, found: ClosedRows, histories: Sequence[History]) -> tuple[SeqPairs, I64]:
        having, self._having = self._having, None
        try:
            return rows(self, found, histories)
        finally:
            self._having = having

    return [patch.object(LeftGroups, "grouped_pairs", one_more)]


@_mutant("aggregate-without-the-last", "aggregates leave out the last partner of a row that has several")
def _aggregate_without_the_last() -> Patches:
    values = AggregateColumns.column_values

    def without_last(self: AggregateColumns, found: ClosedRows, histories: Sequence[History]) -> list[pa.Array]:
        if found.offsets is None or found.partners is None:
            return values(self, found, histories)
        lengths = np.diff(found.offsets)
        last = np.zeros(len(found.partners), np.bool_)
        last[found.offsets[1:][lengths > 1] - 1] = True
        offsets = before(lengths - (lengths > 1))
        fewer = ClosedRows(found.seqs, found.counts, offsets, found.partners[~last], found.sums)
        return values(self, fewer, histories)

    return [patch.object(AggregateColumns, "column_values", without_last)]


@_mutant("best-cut-in-parts", "each part lists as many partners as the best that are wanted, the earliest")
def _best_cut_in_parts() -> Patches:
    def wanted(self: SearchPlan) -> int | None:
        best = self.query.answers.best
        return best.count if best is not None else None

    return [patch.object(SearchPlan, "part_limit", property(wanted))]


@_mutant("chosen-too-few", "each part lists one partner fewer than the best that are wanted, though at least one")
def _chosen_too_few() -> Patches:
    wanted = SearchPlan.chosen_count.fget  # type: ignore[attr-defined]
    return [patch.object(SearchPlan, "chosen_count", property(lambda self: max(wanted(self) - 1, 1)))]


@_mutant("extremes-of-one-part", "of parts that choose partners, those of the newest one are taken")
def _extremes_of_one_part() -> Patches:
    def of_newest(found: list[Matches], limit: int | None) -> Matches:
        every = combined(found, limit)
        if every.offsets is None or (np.diff(every.offsets) == every.counts).all():
            return every
        return Matches(every.counts, found[-1].offsets, found[-1].partners, every.sums)

    return [patch.object(assembly, "combined", of_newest)]


@_mutant("extremes-of-the-last-node", "what a later node has chosen replaces what earlier ones have")
def _extremes_of_the_last_node() -> Patches:
    def replaced(self: Chosen, other: Chosen) -> None:
        found = other.lengths > 0
        for own, others in ((self.codes, other.codes), (self.ties, other.ties), (self.lengths, other.lengths)):
            own[found] = others[found]

    return [patch.object(Chosen, "add", replaced)]


@_mutant("maximum-merged-as-a-sum", "what several parts have found for a maximum is added, not compared")
def _maximum_merged_as_a_sum() -> Patches:
    def added(self: Partners, *, is_greatest: bool) -> pa.Array:
        if not is_greatest or len(self.arguments) > 1:
            return first(self, is_greatest=is_greatest)
        values = pc.if_else(pa.array(self.counted), self.arguments[0], None).to_pylist()
        maxima = [[value for value in values[a:b] if value is not None] for a, b in pairwise(self.offsets.tolist())]
        return pa.array([sum(each) if each else None for each in maxima], self.arguments[0].type)

    first = Partners.first_by_code
    return [patch.object(Partners, "first_by_code", added)]


@_mutant("answers-by-the-newest-part", "a row has a partner only where the newest part has found one")
def _semi_by_the_mutable_part() -> Patches:

    def newest(found: list[Matches], limit: int | None) -> Matches:
        return combined(found[-1:], limit) if found[0].partners is None else combined(found, limit)

    return [patch.object(assembly, "combined", newest)]


FULL_MUTANTS: dict[str, Mutant] = {}
_full_mutant = partial(planted, FULL_MUTANTS)


@_full_mutant("right-row-beside-a-match", "a right row is given back with NULLs beside its pairs on close")
def _right_row_beside_a_match() -> Patches:
    def all_of_them(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
        return rows.seqs, np.full(len(rows.seqs), NO_ROW, np.int64), numbers

    return [patch.object(answers, "_alone", all_of_them)]


@_full_mutant(
    "right-closes-one-row-early", "with each right row that closes, the next one closes as well, if it is there"
)
def _right_closes_one_row_early() -> Patches:
    return closing_early(sides=(1,))


@_full_mutant(
    "right-rows-forgotten", "a router that starts again learns of open left rows from batches, not of right ones"
)
def _right_rows_forgotten() -> Patches:
    restore = Asking.restore_batch

    def left_alone(self: Asking, batch: Batch) -> None:
        if batch.stream == 0:
            restore(self, batch)

    return [patch.object(Asking, "restore_batch", left_alone)]


@_full_mutant("void-rows-found", "a row whose index condition is NULL is found by the code that stands for NULL")
def _void_rows_found() -> Patches:
    def unmarked(
        _: Extractor, made: list[CodeColumn], _joins: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.int64], ...]:
        return tuple(each.codes for each in made)

    return [patch.object(Extractor, "_codes", unmarked)]


@_full_mutant(
    "left-before-right", "all left rows that close with a frame answer before the right ones, whenever they close"
)
def _left_before_right() -> Patches:
    place = asking._place

    def by_side(closings: Sequence[Closing], moments: Sequence[I64]) -> None:
        place(closings, [np.full_like(own, side) for side, own in enumerate(moments)])

    return [patch.object(asking, "_place", by_side)]
