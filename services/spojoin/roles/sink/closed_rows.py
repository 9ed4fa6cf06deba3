"""The basis of all forms of answers: the matches that residual conditions keep, and rows with their partners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.segments import before, marked_each
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import probe_range
from spojoin.roles.sink.pairs import NO_ROW, HeldColumns, SeqPairs, residual_program
from spojoin.wire.records import NO_OWN, Closing, Matches
from spojoin.wire.sums import Sums, added


@dataclass(frozen=True, slots=True, eq=False)
class ClosedRows:
    """n rows of one side and their partners.

    seqs: int64 (n,); counts: int64 (n,), how many partners each row has
    offsets: int64 (n + 1,) and partners: int64, the seqs of all or of chosen partners; None if only counted
    sums: what partners add to aggregates; None if it isn't summed, or if all sums are 0
    """

    seqs: I64
    counts: I64
    offsets: I64 | None = None
    partners: I64 | None = None
    sums: Sums | None = None

    def where(self, kept: NDArray[np.bool_]) -> ClosedRows:
        """The rows that a mask keeps."""
        if kept.all():
            return self
        sums = None if self.sums is None else self.sums[kept]
        if self.offsets is None or self.partners is None:
            return ClosedRows(self.seqs[kept], self.counts[kept], sums=sums)
        lengths = np.diff(self.offsets)
        partners = self.partners[np.repeat(kept, lengths)]
        return ClosedRows(self.seqs[kept], self.counts[kept], before(lengths[kept]), partners, sums)

    def pairs(self) -> tuple[I64, I64]:
        """The seqs of the row and of the partner of each pair."""
        assert self.offsets is not None, "partners are listed where pairs are asked for"
        assert self.partners is not None, "partners are listed where pairs are asked for"
        return np.repeat(self.seqs, np.diff(self.offsets)), self.partners

    def with_none(self) -> ClosedRows:
        """The same rows, with NO_ROW as the partner of those that have none."""
        _, partners = self.pairs()
        assert self.offsets is not None, "partners are listed where pairs are asked for"
        lengths = np.diff(self.offsets)
        if lengths.all():
            return self
        partners = np.insert(partners, self.offsets[:-1][lengths == 0], NO_ROW)
        return ClosedRows(self.seqs, self.counts, before(np.maximum(lengths, 1)), partners, self.sums)


_NONE = np.empty(0, np.int64)
NO_ROWS = ClosedRows(_NONE, _NONE, np.zeros(1, np.int64), _NONE)


def closed_rows(closing: Closing, begin: int, end: int, matches: Matches) -> ClosedRows:
    """The rows that close at positions [begin, end), with the matches of the searching ones."""
    first, last = probe_range(closing.positions, begin, end)
    chosen = closing.rows_at(begin, end)
    at = closing.searching[first:last] - chosen.start
    seqs = closing.seqs[chosen]
    counts = np.zeros(len(seqs), np.int64)
    counts[at] = matches.counts
    sums = None if matches.sums is None else _spread(matches.sums, at, len(seqs))
    if matches.offsets is None or matches.partners is None:
        return ClosedRows(seqs, counts, sums=sums)
    lengths = np.zeros(len(seqs), np.int64)
    lengths[at] = np.diff(matches.offsets)
    return ClosedRows(seqs, counts, before(lengths), matches.partners, sums)


def _spread(sums: Sums, at: I64, n: int) -> Sums:
    """The sums of n rows, of which only the rows at `at` have sums."""
    rows = np.zeros((len(sums.keys), n), np.int64)
    rows[:, at] = sums.rows
    return Sums(sums.keys, rows)


# P16.4
def without_own(closing: Closing, begin: int, end: int, matches: Matches, weigh: Callable[[I64], Sums]) -> Matches:
    """The matches of searching rows without the rows themselves; weigh: returns rows' weights by seq, int64 (n,)."""
    if closing.own is None:
        return matches
    first, last = probe_range(closing.positions, begin, end)
    has_own = closing.own[first:last] > NO_OWN
    seqs = closing.seqs[closing.searching[first:last]]
    counts = matches.counts - has_own
    sums = None if matches.sums is None else _less(matches.sums, has_own, weigh(seqs[has_own]))
    if matches.offsets is None or matches.partners is None:
        return Matches(counts, sums=sums)
    others = with_partners(matches, matches.partners != np.repeat(seqs, np.diff(matches.offsets)))
    return Matches(counts, others.offsets, others.partners, sums)


def _less(sums: Sums, chosen: NDArray[np.bool_], weights: Sums) -> Sums:
    """The sums, less one row's weights for each chosen row."""
    rows = np.zeros((len(weights.keys), len(chosen)), np.int64)
    rows[:, chosen] = -weights.rows
    return added([sums, Sums(weights.keys, rows)])


class Residual:
    """Filters pairs by the conditions that no index answers."""

    def __init__(self, query: Query) -> None:
        self.program = residual_program(query)

    def true_matches(
        self, matches: Matches, probes: I64, *, as_left: bool, histories: Sequence[HeldColumns]
    ) -> Matches:
        """The matches of one direction that meet the conditions; probes: int64 (m,), their seqs."""
        assert matches.offsets is not None, "pairs are listed to be filtered"
        assert matches.partners is not None, "pairs are listed to be filtered"
        own = np.repeat(probes, np.diff(matches.offsets))
        left, right = (own, matches.partners) if as_left else (matches.partners, own)
        return with_partners(matches, self.program.are_true(SeqPairs(left, right, histories)))


def with_partners(matches: Matches, kept: NDArray[np.bool_]) -> Matches:
    """Matches with only those listed partners that a mask keeps."""
    assert matches.offsets is not None, "pairs are listed to be filtered"
    assert matches.partners is not None, "pairs are listed to be filtered"
    lengths = marked_each(kept, matches.offsets)
    return Matches(lengths, before(lengths), matches.partners[kept])
