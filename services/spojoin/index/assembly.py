"""The matches of one evaluation, gathered node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.index.evaluation import Collected, NodeMatches
from spojoin.index.node import Node
from spojoin.kernels.chosen import Chosen, listed
from spojoin.kernels.segments import append_segments, before, sort_segments
from spojoin.wire.records import Matches
from spojoin.wire.sums import Sums, added

_UNLIMITED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Taking:
    """What is taken from partners besides their number: sums of their weights, and for each choice the first `count`.

    latest: by choice, whether the latest of equal ones comes first
    enough: how many partners are counted at most; None for all
    """

    sums: bool = False
    latest: tuple[bool, ...] = ()
    count: int = 0
    enough: int | None = None

    @property
    def chooses(self) -> bool:
        """Whether partners are chosen, and listed."""
        return bool(self.latest)

    def nothing(self, m: int) -> list[Chosen]:
        """Room for the chosen partners of m probes, by choice."""
        return [Chosen(m, self.count) for _ in self.latest]


NOTHING_TAKEN = Taking()


class Assembly:
    """Sums the counts of m probes and, if partners are wanted, joins each probe's segments of all nodes.

    If weights are summed, it adds these sums as well; if partners are chosen, `chosen` has them by choice. A probe's
    partners ascend. If a limit cuts them, nodes come in index order, so that the first `limit` are the earliest.
    """

    def __init__(self, m: int, with_partners: bool, limit: int | None, taking: Taking = NOTHING_TAKEN) -> None:
        self._counts = np.zeros(m, np.int64)
        self._with_partners = with_partners
        places = m if with_partners else 0
        self._taken = np.zeros(places, np.int64)
        #: how many partners each probe may still take, int64 (m,); empty if none are wanted
        self.room = np.full(places, _UNLIMITED if limit is None else limit)
        self._segments: list[tuple[I64, I64, I64]] = []
        #: whether nodes were listed, and whether a node was added later that may lie among them
        self._has_listed = self._may_descend = False
        self._sums: list[Sums] = []
        self._latest = taking.latest
        self._enough = taking.enough
        self.chosen = taking.nothing(m)

    def __len__(self) -> int:
        return len(self._counts)

    def lack(self) -> NDArray[np.bool_]:
        """Which probes need more partners, bool (m,), if some number is enough."""
        assert self._enough is not None, "a search that ends early knows how many partners are enough"
        return self._counts < self._enough

    def add(self, matches: I64 | NodeMatches | Collected, node: Node) -> None:
        """Add one node's counts, int64 (m,), and its sums or partners, if there are any."""
        if isinstance(matches, NodeMatches):
            self.add_counts(matches.counts)
            self.add_sums(matches.sums)
            self.add_chosen(matches.chosen)
            return
        if isinstance(matches, np.ndarray):
            self.add_counts(matches)
            return
        counts, begins, lengths, found = matches
        self._counts += counts
        self.room -= lengths
        self._may_descend = self._has_listed
        self._append(begins, lengths, node.partners(found))

    def add_listed(self, begins: I64, lengths: I64, partners: I64) -> None:
        """Add partners in some nodes: for each probe, `lengths` of them from `begins` on, int64 (m,) each."""
        self._counts += lengths
        self._has_listed = True
        self._append(begins, lengths, partners)

    def _append(self, begins: I64, lengths: I64, partners: I64) -> None:
        self._taken += lengths
        if len(partners):
            self._segments.append((begins, lengths, partners))

    def add_counts(self, counts: I64) -> None:
        """Add counts, int64 (m,), of one or more nodes."""
        self._counts += counts

    def add_sums(self, sums: Sums) -> None:
        """Add the sums of one or more nodes."""
        self._sums.append(sums)

    def add_chosen(self, chosen: Sequence[Chosen]) -> None:
        """Add the first partners, by choice, of one or more nodes."""
        for kept, more in zip(self.chosen, chosen, strict=True):
            kept.add(more)

    def matches(self) -> Matches:
        """The matches of all added nodes."""
        if self._enough is not None:  # so that counts don't depend on the order of the search
            return Matches(np.minimum(self._counts, self._enough))
        sums = added(self._sums) if self._sums else None
        if self.chosen:
            return Matches(self._counts, *listed([*zip(self.chosen, self._latest, strict=True)]), sums)
        if not self._with_partners:
            return Matches(self._counts, sums=sums)
        offsets = before(self._taken)
        partners, places = np.empty(offsets[-1], np.int64), offsets[:-1].copy()
        for begins, lengths, segment in self._segments:
            append_segments(begins, lengths, segment, places, partners)
        if self._may_descend:
            sort_segments(offsets, partners)
        return Matches(self._counts, offsets, partners)
