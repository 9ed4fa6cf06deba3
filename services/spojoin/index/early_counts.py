"""Counts of probes for which a few partners are enough: most probes find them in the first node, and stop there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.index.conditions import Probes
from spojoin.index.counts import WholeCounts
from spojoin.index.node import Node
from spojoin.index.plan import NodePlan
from spojoin.kernels.pieces import TaskRunner

#: Probes that need more partners are searched separately if they are at most one in this many.
_APART_ONE_IN = 2


class EarlyCounts:
    """Counts in the only direction of a plan, until each probe has `enough`.

    The smallest node is searched first, since most probes find enough in any node, then the largest, then the others.
    """

    def __init__(self, plan: NodePlan, enough: int) -> None:
        self._enough = enough
        #: one for each of the three steps, since each keeps the directories of the nodes that it last counted
        self._counts = [WholeCounts(plan) for _ in range(3)]

    def among(self, nodes: list[Node], probes: Probes, lack: NDArray[np.bool_], runner: TaskRunner) -> I64:
        """The matches of m probes, int64 (m,): all of them, or enough; undefined for probes that lack none.

        lack: bool (m,), which probes need matches
        """
        by_size = sorted(nodes, key=lambda node: node.size)
        found = np.zeros(len(lack), np.int64)
        for some, counts in zip((by_size[:1], by_size[1:][-1:], by_size[1:-1]), self._counts, strict=True):
            places = np.flatnonzero(lack & (found < self._enough))
            if not some or not len(places):
                break
            if len(places) * _APART_ONE_IN > len(lack):
                found += counts.among(some, probes, len(lack), runner)[0]
            else:
                found[places] += counts.among(some, probes.only(places), len(places), runner)[0]
        return np.where(lack, found, 0)
