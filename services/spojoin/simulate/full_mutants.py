"""Planted bugs in what rows of both sides ask in a FULL JOIN (P16); each must be found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from spojoin.query.codes import CodeColumn
from spojoin.query.extract import Extractor
from spojoin.roles.router import asking
from spojoin.roles.router.asking import Asking
from spojoin.roles.sink import full_answers
from spojoin.roles.sink.closed_rows import ClosedRows
from spojoin.roles.sink.pairs import NO_ROW
from spojoin.simulate.asking_mutants import closing_early
from spojoin.simulate.mutants import Mutant, Patches, planted
from spojoin.wire.records import I64, Batch, Closing

FULL_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, FULL_MUTANTS)


@_mutant("right-row-beside-a-match", "a right row is given back with NULLs beside its pairs on close")
def _right_row_beside_a_match() -> Patches:
    def all_of_them(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
        return rows.seqs, np.full(len(rows.seqs), NO_ROW, np.int64), numbers

    return [patch.object(full_answers, "_alone", all_of_them)]


@_mutant("right-closes-one-row-early", "with each right row that closes, the next one closes as well, if it is there")
def _right_closes_one_row_early() -> Patches:
    return closing_early(sides=(1,))


@_mutant("right-rows-forgotten", "a router that starts again learns of open left rows from batches, not of right ones")
def _right_rows_forgotten() -> Patches:
    restore = Asking.restore

    def left_alone(self: Asking, batch: Batch) -> None:
        if batch.stream == 0:
            restore(self, batch)

    return [patch.object(Asking, "restore", left_alone)]


@_mutant("void-rows-found", "a row of which an index condition is NULL is found by what stands for it")
def _void_rows_found() -> Patches:
    def unmarked(
        _: Extractor, made: list[CodeColumn], _joins: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.int64], ...]:
        return tuple(each.codes for each in made)

    return [patch.object(Extractor, "_codes", unmarked)]


@_mutant("left-before-right", "all left rows that close with a frame answer before the right ones, whenever they close")
def _left_before_right() -> Patches:
    place = asking._place

    def by_side(closings: Sequence[Closing], moments: Sequence[I64]) -> None:
        place(closings, [np.full_like(own, side) for side, own in enumerate(moments)])

    return [patch.object(asking, "_place", by_side)]
