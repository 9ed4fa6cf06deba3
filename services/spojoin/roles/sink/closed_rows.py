"""Rows of a side that a frame answers, with their partners: what all forms of answers are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.segments import before
from spojoin.protocol.parts import probe_range
from spojoin.roles.sink.pairs import NO_ROW
from spojoin.roles.sink.residual import with_partners
from spojoin.wire.records import I64, NO_OWN, Closing, Matches
from spojoin.wire.sums import Sums, added


@dataclass(frozen=True, slots=True, eq=False)
class ClosedRows:
    """n rows of one side and their partners.

    seqs: int64 (n,); counts: int64 (n,), of all partners
    offsets: int64 (n + 1,) and partners: int64, seqs, all of them or those that were chosen; None where only counted
    sums: of what partners add to aggregates; None where nobody sums, or all are 0
    """

    seqs: I64
    counts: I64
    offsets: I64 | None = None
    partners: I64 | None = None
    sums: Sums | None = None

    def only(self, kept: NDArray[np.bool_]) -> ClosedRows:
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
    """The rows that close at positions [begin, end), with what those of them that search have found."""
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
    """The sums of n rows, of which those at some places have any."""
    rows = np.zeros((len(sums.keys), n), np.int64)
    rows[:, at] = sums.rows
    return Sums(sums.keys, rows)


def without_own(closing: Closing, begin: int, end: int, matches: Matches, weigh: Callable[[I64], Sums]) -> Matches:
    """What the rows that search have found, but for themselves; weigh: gives the weights of rows by seq, int64 (n,)."""
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
    """Sums of which some are less by weights, one each."""
    rows = np.zeros((len(weights.keys), len(chosen)), np.int64)
    rows[:, chosen] = -weights.rows
    return added([sums, Sums(weights.keys, rows)])
