"""What the logical AND asks of the kernels for a frame, in pieces that threads can share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spojoin.kernels.chosen import Chosen, ValueOrder, listed
from spojoin.kernels.intervals16 import and_counts, collect_counted
from spojoin.kernels.masked import masked_sums
from spojoin.kernels.pieces import IN_TURN, TaskRunner, shares
from spojoin.kernels.segments import before
from spojoin.wire.records import I64, U16

#: Stored tuples compared with a probe from which threads pay: fewer take less time than to wake one.
TOGETHER_MIN = 1 << 22


@dataclass(frozen=True, slots=True)
class Asked:
    """m probes of one direction and its n stored tuples, as rank intervals by predicate.

    positions: uint16 (n,) each; starts, lengths: uint16 (m,) each; lower, upper: int64 (m,), offsets within [0, n]
    """

    positions: Sequence[U16]
    starts: Sequence[U16]
    lengths: Sequence[U16]
    lower: I64
    upper: I64

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, share: slice) -> Asked:
        starts, lengths = [one[share] for one in self.starts], [one[share] for one in self.lengths]
        return Asked(self.positions, starts, lengths, self.lower[share], self.upper[share])

    @property
    def comparisons(self) -> int:
        """Pairs of a probe and a stored tuple."""
        return len(self) * len(self.positions[0])

    def counts(self) -> I64:
        """How many stored tuples satisfy all predicates, int64 (m,)."""
        return and_counts(self.positions, self.starts, self.lengths, self.lower, self.upper)

    def sums(self, weights: I64) -> tuple[I64, I64]:
        """The counts, and the sums of the weights of these, int64 (k, m); weights: int64 (k, n)."""
        return masked_sums(self.positions, self.starts, self.lengths, self.lower, self.upper, weights)

    def choose(self, counts: I64, orders: Sequence[ValueOrder], count: int) -> list[Chosen]:
        """The first `count` of these in each order; counts: how many they are."""
        kept = [Chosen(len(self), count) for _ in orders]
        for one, order in zip(kept, orders, strict=True):
            one.add_masked(order, self.positions, (self.starts, self.lengths), (self.lower, self.upper), counts)
        return kept

    def collect(self, counts: I64, limit: int | None) -> tuple[I64, I64]:
        """Offsets int64 (m + 1,), and the places of the first `limit` of these of each; counts: how many they are."""
        return collect_counted(self.positions, self.starts, self.lengths, self.lower, self.upper, counts, limit)


def counted(asked: Sequence[Asked], runner: TaskRunner) -> list[I64]:
    """The counts of each direction, its probes shared out."""
    runner = worthwhile(asked, runner)
    if runner.threads == 1:
        return [one.counts() for one in asked]
    counts = runner.each([one[share].counts for one in asked for share in shares(len(one), runner.threads)])
    return np.split(np.concatenate(counts), np.cumsum([len(one) for one in asked])[:-1])


def summed(asked: Asked, weights: I64, runner: TaskRunner) -> tuple[I64, I64]:
    """Counts, int64 (m,), and sums, int64 (k, m), of one direction, its probes shared out; weights: int64 (k, n)."""
    runner = worthwhile([asked], runner)
    found = runner.each([partial(asked[share].sums, weights) for share in shares(len(asked), runner.threads)])
    return np.concatenate([counts for counts, _ in found]), np.concatenate([sums for _, sums in found], axis=1)


def chosen(
    asked: Asked, counts: I64, orders: Sequence[ValueOrder], wanted: tuple[int, Sequence[bool]], runner: TaskRunner
) -> tuple[I64, I64]:
    """The first of one direction's in each order, its probes shared out: offsets int64 (m + 1,), and seqs.

    wanted: how many of each order, and by order whether of equal ones the latest comes first
    """
    runner, (count, latest) = worthwhile([asked], runner), wanted
    pieces = [
        partial(asked[share].choose, counts[share], orders, count) for share in shares(len(asked), runner.threads)
    ]
    found = [listed([*zip(kept, latest, strict=True)]) for kept in runner.each(pieces)]
    lengths = [np.diff(offsets) for offsets, _ in found]
    return before(np.concatenate(lengths)), np.concatenate([partners for _, partners in found])


def worthwhile(asked: Sequence[Asked], runner: TaskRunner) -> TaskRunner:
    """`runner` where there is enough to do for threads."""
    return runner if sum(one.comparisons for one in asked) >= TOGETHER_MIN * runner.reluctance else IN_TURN
