"""Counts of probes in whole nodes, in one or a few calls for each frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from spojoin.arrays import I64
from spojoin.index.assembly import Taking
from spojoin.index.conditions import Probes
from spojoin.index.node import Node
from spojoin.index.plan import NodePlan
from spojoin.kernels import choosing, counting, summing
from spojoin.kernels.chosen import Chosen
from spojoin.kernels.pieces import TaskRunner
from spojoin.wire.sums import Sums, added

#: How many calls each thread has, so that a late thread can leave its last call to others.
_CALLS_A_THREAD = 2


class WholeCounts:
    """Counts of probes in whole nodes, in the directions of a plan."""

    def __init__(self, plan: NodePlan) -> None:
        self._plan = plan
        #: the last nodes, how many threads shared them, and the shares
        self._shared: tuple[list[Node], int, list[_Share]] = [], 0, []

    def among(self, nodes: list[Node], probes: Probes, m: int, runner: TaskRunner) -> I64:
        """The matches of m probes among all tuples of some nodes, by direction: int64 (d, m)."""
        plan = self._plan.for_probes(probes)
        calls = [partial(counting.counts, share.directories, plan, m) for share in self._shares(nodes, runner)]
        return reduce(_added, runner.each(calls))

    def summed(self, nodes: list[Node], probes: Probes, m: int, runner: TaskRunner) -> tuple[I64, Sums]:
        """The matches of m probes in the only direction, int64 (m,), and the sums of their weights."""
        plan = self._plan.for_probes(probes)
        found = runner.each([partial(self._sums, plan, m, share) for share in self._shares(nodes, runner)])
        return reduce(_added, [counts for counts, _ in found]), added([sums for _, sums in found])

    def _sums(self, plan: counting.CountPlan, m: int, share: _Share) -> tuple[I64, Sums]:
        if share.weighed is None:
            share.weighed = self._weighed(share.nodes)
        keys, entries = share.weighed
        counts, rows = summing.sums(share.directories, entries, plan, m)
        return counts, Sums(keys, rows)

    def _weighed(self, nodes: list[Node]) -> tuple[I64, I64]:
        keys: I64 = np.unique(np.concatenate([node.weights.keys for node in nodes]))
        pair = self._plan.rectangles[0] if self._plan.rectangles else None
        entries = [[node.sum_entry(key, self._plan.orders[0], pair) for key in keys.tolist()] for node in nodes]
        return keys, np.array(entries, np.int64).reshape(len(nodes), len(keys), summing.ENTRY)

    def chosen(
        self, nodes: list[Node], probes: Probes, taking: Taking, m: int, runner: TaskRunner
    ) -> tuple[I64, list[Chosen]]:
        """The matches of m probes in the only direction, int64 (m,), and the first of them by choice."""
        plan = self._plan.for_probes(probes)
        found = runner.each([partial(self._chosen, plan, m, taking, share) for share in self._shares(nodes, runner)])
        counts, kept = found[0]
        for others, more in found[1:]:
            counts += others
            for one, other in zip(kept, more, strict=True):
                one.add(other)
        return counts, kept

    def _chosen(self, plan: counting.CountPlan, m: int, taking: Taking, share: _Share) -> tuple[I64, list[Chosen]]:
        if share.ordered is None:
            share.ordered = self._ordered(share.nodes, taking)
        return choosing.chosen(share.directories, share.ordered, plan, m, taking.count)

    def _ordered(self, nodes: list[Node], taking: Taking) -> I64:
        pair, orders = self._plan.rectangles[0] if self._plan.rectangles else None, self._plan.orders[0]
        entries = [
            [node.choice_entry(k, orders, pair, is_latest=latest) for k, latest in enumerate(taking.latest)]
            for node in nodes
        ]
        return np.array(entries, np.int64)

    def _shares(self, nodes: list[Node], runner: TaskRunner) -> list[_Share]:
        known, threads, shared = self._shared
        if known != nodes or threads != runner.threads:
            key = self._plan.places, tuple(self._plan.rectangles)
            runner.each([partial(node.directory, *key) for node in nodes if not node.has_directory(*key)])
            shares = _shared_out(nodes, runner.threads)
            shared = [_Share(some, np.stack([node.directory(*key) for node in some])) for some in shares]
            self._shared = list(nodes), runner.threads, shared
        return shared


@dataclass(slots=True)
class _Share:
    """Nodes that one call counts, and their directories.

    weighed: once weights are summed, the nodes' keys and their entries
    ordered: once partners are chosen, the entries of the choices' orders
    """

    nodes: list[Node]
    directories: I64
    weighed: tuple[I64, I64] | None = None
    ordered: I64 | None = None


def _added(totals: I64, counts: I64) -> I64:
    totals += counts
    return totals


def _shared_out(nodes: Sequence[Node], threads: int) -> list[list[Node]]:
    """Nodes in shares that take about equal time: a search takes one step for each doubling of a node's size."""
    if threads == 1:
        return [list(nodes)]
    shares: list[list[Node]] = [[] for _ in range(min(len(nodes), _CALLS_A_THREAD * threads))]
    steps = [0] * len(shares)
    for node in sorted(nodes, key=lambda each: each.size, reverse=True):
        least = steps.index(min(steps))
        shares[least].append(node)
        steps[least] += node.size.bit_length()
    return shares
