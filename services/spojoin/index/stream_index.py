"""The window index of a PO-Join worker over one stream: batches in, matches of probes out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spojoin.index import composite, evaluation, merging
from spojoin.index.assembly import Assembly
from spojoin.index.conditions import Known, Probes, RankCondition, RankInterval, located
from spojoin.index.evaluation import Collected
from spojoin.index.node import Node, from_batch
from spojoin.index.work import Work
from spojoin.kernels.bitmaps import CHUNK_MAX
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.model import Direction, Output
from spojoin.wire.records import NO_GROUP, Batch, Matches

I64 = NDArray[np.int64]

#: The largest node for counts by one to three conditions: a larger wavelet matrix doesn't fit into the cache.
COUNT_MAX = 1 << 20

#: Searches of a probe in a node from which threads pay: fewer take less time than to wake one.
TOGETHER_MIN = 1 << 13


#: A direction's conditions, and by composite ranks if it has equalities.
Search = tuple[list[RankCondition], "composite.KeyedSearch | None"]


class StreamIndex:
    """Immutable tuples of one stream, evaluated for the directions that search it.

    Batches may come in any order and repeatedly. Every evaluation gives its window's first index, which is never below
    an expired one; the window ends with the last tuple added.

    target: the stream; directions: the query's directions that search it, all with the same probes
    output, limit: what a probe yields, and how many partners at most (the counts stay whole)
    is_self: a partner's seq is its index as long as no row of the stream lacks one
    work: counts merges and builds
    """

    def __init__(
        self,
        target: int,
        directions: Sequence[Direction],
        output: Output,
        limit: int | None,
        is_self: bool,
        work: Work | None = None,
    ) -> None:
        self.target = target
        self.directions = tuple(directions)
        self.output = output
        self.limit = limit
        self.is_self = is_self
        self.work = Work() if work is None else work
        self._counts_only = output is Output.COUNT
        self._with_seqs = not self._counts_only
        #: directions that ask the same, as both of a self join by bands alone do, are searched once
        self._searches = list({d.predicates: d for d in self.directions}.values())
        self._slots = sorted({p.target_slot for direction in directions for p in direction.predicates})
        self._by_wavelet = self._counts_only and all(_few_conditions(direction) for direction in directions)
        self._with_permutations = self._by_wavelet and not all(map(composite.searches_by_key, directions))
        self._node_max = COUNT_MAX if self._by_wavelet else CHUNK_MAX
        self._nodes: list[Node] = []
        self._batch_ends: dict[int, int] = {}
        self._expired = 0
        self._group = NO_GROUP

    @property
    def tuples(self) -> int:
        """Tuples held, including those behind the window that share a node with others."""
        return sum(node.size for node in self._nodes)

    @property
    def nodes(self) -> int:
        """Nodes held."""
        return len(self._nodes)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays held."""
        return sum(node.nbytes for node in self._nodes)

    def add(self, batch: Batch) -> None:
        """Add a batch; a known, expired or empty one changes nothing."""
        if batch.batch_id in self._batch_ends or batch.end <= max(self._expired, batch.first):
            return
        self._batch_ends[batch.batch_id] = batch.end
        at = merging.insert(self._nodes, self._node_of(batch))
        merging.grow(self._nodes, at, self._size_max(batch.group))
        self._close_groups(batch.group)

    def expire(self, lower_index: int) -> None:
        """Forget batches whose tuples all have indexes smaller than `lower_index`.

        Batches that were merged with later ones may stay: at most one tuple in merging.BEHIND_ONE_IN.
        """
        self._expired = max(self._expired, lower_index)
        self._nodes = [node for node in self._nodes if node.end > self._expired]
        merging.drop_head(self._nodes, self._expired)
        self._batch_ends = {batch: end for batch, end in self._batch_ends.items() if end > self._expired}

    def evaluate(self, codes: tuple[I64, ...], lower: I64) -> tuple[Matches, ...]:
        """The matches of m probes in each of the index's directions, among all tuples held with index >= lower.

        codes: int64 (m,) per key column of the probe stream, by slot; lower: int64 (1,) or (m,)
        """
        m = len(codes[self.directions[0].predicates[0].probe_slot])
        assemblies = [Assembly(m, not self._counts_only, self.limit) for _ in self._searches]
        if m > 0:
            self._evaluate_nodes(Probes(codes), lower, assemblies)
        found = {s.predicates: assembly.matches() for s, assembly in zip(self._searches, assemblies, strict=True)}
        return tuple(found[direction.predicates] for direction in self.directions)

    def _evaluate_nodes(self, probes: Probes, lower: I64, assemblies: list[Assembly]) -> None:
        low, high = int(lower.min()), int(lower.max())
        merging.part(self._nodes, low, high, evaluation.MASKED_MAX)
        wanted = [probes.conditions(direction) for direction in self._searches]
        keyed = [composite.keyed_search(probes, direction) for direction in self._searches]
        asked = list(zip(wanted, keyed, strict=True))
        nodes = [node for node in self._nodes if node.end > low]
        runner = self._runner(len(assemblies[0].room) * len(nodes))
        together = max(1, len(nodes)) if runner.threads > 1 else 1
        for at in range(0, len(nodes), together):
            some = nodes[at : at + together]
            searches = [
                partial(self._search, node, asked, lower if node.first < high else None, assemblies) for node in some
            ]
            for node, found in zip(some, runner.each(searches), strict=True):
                for assembly, matches in zip(assemblies, found, strict=True):
                    assembly.add(matches, node)

    def _runner(self, searches: int) -> TaskRunner:
        """Nodes are searched together, each by one thread, which builds its structures: unless one awaits another.

        searches: how often a probe is searched in a node
        """
        is_in_turn = searches < TOGETHER_MIN or not (self.limit is None or self._counts_only)
        return IN_TURN if is_in_turn else self.work.runner

    def _search(
        self, node: Node, asked: list[Search], lower: I64 | None, assemblies: list[Assembly]
    ) -> list[I64 | Collected]:
        known: Known = {}
        is_whole = self._counts_only and lower is None and node.size > evaluation.SCAN_MAX
        return [
            composite.count(node, keyed, known)
            if is_whole and keyed is not None
            else self._search_one(node, [located(c, node, known) for c in conditions], lower, assembly.room)
            for (conditions, keyed), assembly in zip(asked, assemblies, strict=True)
        ]

    def _search_one(self, node: Node, intervals: list[RankInterval], lower: I64 | None, room: I64) -> I64 | Collected:
        if lower is None:
            if self._counts_only:
                return evaluation.count(node, intervals)
            return evaluation.collect(node, intervals, room)
        m = len(intervals[0].a)
        begin, end = np.resize(node.offsets_below(lower), m), np.full(m, node.size)
        if self._counts_only:
            return evaluation.count_masked(node, intervals, begin, end)
        return evaluation.collect_masked(node, intervals, begin, end, room)

    def _node_of(self, batch: Batch) -> Node:
        return from_batch(
            batch, self._slots, with_seqs=self._with_seqs, with_permutations=self._with_permutations, work=self.work
        )

    def _size_max(self, group: int) -> int:
        """The most tuples of a node: a quarter of the window if windows leave it gradually, since it is split again."""
        if group >= 0:
            return self._node_max
        return min(self._node_max, max(self.tuples >> 2, 4 * evaluation.MASKED_MAX))

    def _close_groups(self, group: int) -> None:
        if group > self._group >= 0:
            merging.close(self._nodes, self._group, self._node_max)
        elif 0 <= group < self._group:
            merging.close(self._nodes, group, self._node_max)
        self._group = max(self._group, group)


def _few_conditions(direction: Direction) -> bool:
    return direction.condition_count <= 3 or composite.searches_by_key(direction)
