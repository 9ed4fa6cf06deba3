"""Partners of probes in whole nodes, found in one call for each frame, or for each thread, which share the probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spojoin.arrays import I64, U32
from spojoin.index.conditions import Probes, RankCondition
from spojoin.index.node import Node
from spojoin.index.plan import NodePlan
from spojoin.kernels import counting, listing
from spojoin.kernels.pieces import TaskRunner

#: begins and lengths, int64 (m,), and what they are of
Segments = tuple[I64, I64, I64]

#: Reading switches to the other condition if its intervals are this many times as narrow.
_TURN = 4


@dataclass(frozen=True, slots=True)
class _Tables:
    """Nodes, the condition of each direction that is read, and what `listing` needs to know about them."""

    nodes: list[Node]
    read: list[int]
    directories: I64
    heads: I64
    entries: I64


@dataclass(frozen=True, slots=True)
class AskedNodes:
    """The search of m probes in whole nodes.

    wanted, signs, visits: as in `listing.partners`
    most: by direction, how many partners all probes together have at most
    """

    tables: _Tables
    wanted: U32
    signs: I64
    visits: I64
    most: list[int]

    def partners(self, first: int, last: int, runner: TaskRunner) -> Iterator[list[Segments]]:
        """For probes [first, last), by direction: begins and lengths of segments, and the ascending seqs in them.

        Threads share the probes: each yields the segments of some, with lengths 0 for all others.
        """
        tables, visits = self.tables, self.visits
        if last - first < visits.shape[1]:
            visits = np.stack([some[(first <= some) & (some < last)] for some in visits])
        shares = np.array_split(visits, runner.threads, axis=1)
        calls = [
            partial(listing.partners, tables.heads, tables.entries, self.wanted, self.signs, share) for share in shares
        ]
        for begins, lengths, seqs in runner.each(calls):
            yield [(begins[d, first:last], lengths[d, first:last], seqs) for d in range(len(visits))]


class WholeLists:
    """Partners of probes in whole nodes, in the directions of a plan."""

    def __init__(self, plan: NodePlan) -> None:
        self._plan = plan
        #: by direction, the condition whose intervals are read; and how many ranks its and the other's intervals have
        self._read = [_first_read(wanted) for wanted in self._plan.wanted]
        self._widths = np.zeros((len(plan.wanted), 2), np.int64)
        self._tables: _Tables | None = None

    def ask(self, nodes: list[Node], probes: Probes, runner: TaskRunner) -> AskedNodes:
        """The search of m probes in some nodes."""
        plan, visits = self._plan.for_probes(probes), self._plan.visits(probes)
        self._choose_read()
        tables = self._tables_of(nodes, runner)
        widths = np.zeros_like(self._widths)
        wanted = listing.asked(tables.directories, tables.entries, plan, visits.shape[1], widths)
        self._widths = widths
        return AskedNodes(tables, wanted, plan.directions[:, counting.SIGN :], visits, widths[:, 0].tolist())

    def _tables_of(self, nodes: list[Node], runner: TaskRunner) -> _Tables:
        known = self._tables
        if known is None or known.nodes != nodes or known.read != self._read:
            built = runner.each([partial(self._built, node) for node in nodes])
            directories, heads, entries = (np.array(each) for each in zip(*built, strict=True))
            self._tables = known = _Tables(list(nodes), list(self._read), directories, heads, entries)
        return known

    def _built(self, node: Node) -> tuple[I64, list[int], list[list[int]]]:
        """A node's directory, head and entries, with all the structures that they name."""
        entries = [self._entry(node, d) for d in range(len(self._read))]
        return node.directory(self._plan.places, ()), node.listing_head, entries

    def _entry(self, node: Node, d: int) -> list[int]:
        wanted, orders, read = self._plan.wanted[d], self._plan.orders[d], self._read[d]
        if len(wanted) < 2:
            return node.listing_entry(read, orders[0], None, None)
        other = wanted[1 - read]
        is_greatest = None if other.complement or bool(other.begins) == bool(other.ends) else bool(other.begins)
        return node.listing_entry(read, orders[read], orders[1 - read], is_greatest)

    def _choose_read(self) -> None:
        """Choose to read the condition whose intervals were much narrower so far."""
        for d, wanted in enumerate(self._plan.wanted):
            read = self._read[d]
            narrower = self._widths[d, 1] * _TURN < self._widths[d, 0]
            if len(wanted) == 2 and narrower and not wanted[1 - read].complement:
                self._read[d] = 1 - read


def _first_read(wanted: Sequence[RankCondition]) -> int:
    """The condition with two ends, if only one has them; never a complement if the other is an interval."""
    ranks = [2 * condition.complement - bool(condition.begins and condition.ends) for condition in wanted]
    return ranks.index(min(ranks)) if ranks else 0
