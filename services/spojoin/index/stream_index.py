"""The window index of a PO-Join worker over one stream: batches in, matches of probes out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import compress, groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.index import composite, evaluation, merging
from spojoin.index.assembly import NOTHING_TAKEN, Assembly, Taking
from spojoin.index.conditions import Known, Probes, RankCondition, RankInterval, conditions, located
from spojoin.index.counts import WholeCounts
from spojoin.index.early_counts import EarlyCounts
from spojoin.index.evaluation import Collected, NodeMatches
from spojoin.index.lists import AskedNodes, WholeLists
from spojoin.index.node import Node, from_batch
from spojoin.index.plan import NodePlan, serves
from spojoin.index.work import Work
from spojoin.kernels.bitmaps import CHUNK_MAX
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.kernels.ranks import Sought
from spojoin.kernels.ratings import Ratings
from spojoin.kernels.segments import distinct, one_each
from spojoin.model import Direction, Output
from spojoin.wire.records import NO_GROUP, Batch, Matches
from spojoin.wire.sums import Sums

#: The largest node for counts by one to three conditions: a larger wavelet matrix doesn't fit into the cache.
COUNT_MAX = 1 << 20

#: From this many searches of a probe in a node on, threads pay; fewer take less time than waking one.
TOGETHER_MIN = 1 << 13

_first, _size = attrgetter("first"), attrgetter("size")

#: A direction's conditions, and where its matches are gathered.
Search = tuple[Sequence[RankCondition], Assembly]


class StreamIndex:
    """Immutable tuples of one stream, evaluated for the directions that search it.

    Batches may come in any order and repeatedly. Every evaluation names its window's first index, which is never below
    an expired one; the window ends with the last added tuple, or with an earlier one (`below`).

    directions: the query's directions that search the stream, all with the same probes
    output, limit: what a probe yields, and how many partners at most (counts are complete nevertheless)
    taking: what is taken from partners besides their counts, if anything; then there is one direction
    is_self: whether a partner's seq is its index as long as the stream has no void row
    work: counts merges and builds
    searched_one_in: one in how many frames searches it; if few do, more nodes cost less than to merge them
    """

    def __init__(
        self,
        directions: Sequence[Direction],
        output: Output,
        limit: int | None,
        is_self: bool,
        work: Work | None = None,
        *,
        taking: Taking = NOTHING_TAKEN,
    ) -> None:
        self.directions = tuple(directions)
        self.output, self.limit, self.is_self = output, limit, is_self
        self.work = Work() if work is None else work
        self.searched_one_in = 1
        self._counts_only = output is Output.COUNT
        self._taking, self._is_taking = taking, taking.sums or taking.chooses
        self._with_seqs = taking.chooses or not self._counts_only
        #: directions with equal searches, such as both of a self join with only bands, are searched once
        self._searches = list({d.predicates: d for d in self.directions}.values())
        searched = [search.predicates for search in self._searches]
        #: by direction, the number of its search
        self._numbers = [searched.index(direction.predicates) for direction in self.directions]
        self._probe_slot = self.directions[0].predicates[0].probe_slot
        self._conditions = [conditions(direction.predicates) for direction in self._searches]
        self._lists = self._lists_whole()
        #: by search, whether whole nodes are counted or listed by a plan
        self._is_planned = [(self._counts_only or self._lists) and serves(search) for search in self._searches]
        self._plans_all = all(self._is_planned)
        plan = NodePlan([*compress(self._searches, self._is_planned)])
        self._whole_lists, self._whole_counts = WholeLists(plan), WholeCounts(plan)
        self._early_counts = self._ended_early(plan)
        self._slots = sorted({p.target_slot for direction in directions for p in direction.predicates})
        few = serves if self._is_taking else _few_conditions
        self._by_wavelet = self._counts_only and all(few(direction) for direction in directions)
        self._with_permutations = self._by_wavelet and not all(map(composite.searches_by_key, directions))
        self._node_max = COUNT_MAX if self._by_wavelet or self._lists else CHUNK_MAX
        self._nodes: list[Node] = []
        #: the nodes, and how many structures were built, when bytes were last summed; and the sum
        self._weighed: tuple[list[Node], int, int] = [], 0, 0
        self._batch_ends: dict[int, int] = {}
        self._first_end, self._expired, self._group = 0, 0, NO_GROUP

    def _lists_whole(self) -> bool:
        """Whether partners in whole nodes are listed by a plan, in all directions."""
        wants_all = not self._counts_only and not self._is_taking and self.limit is None
        return wants_all and all(map(serves, self._searches))

    def _ended_early(self, plan: NodePlan) -> EarlyCounts | None:
        """The counter of whole nodes if a few partners are enough, otherwise None."""
        enough = self._taking.enough if self._counts_only and self._plans_all else None
        return None if enough is None else EarlyCounts(plan, enough)

    @property
    def tuples(self) -> int:
        """Held tuples, including those that have left the window but share a node with others."""
        return sum(map(_size, self._nodes))

    @property
    def nodes(self) -> int:
        return len(self._nodes)

    @property
    def nbytes(self) -> int:
        """Bytes of all held arrays."""
        nodes, builds, weight = self._weighed
        if nodes != self._nodes or builds != self.work.builds:
            weight = sum(node.nbytes for node in self._nodes)
            self._weighed = list(self._nodes), self.work.builds, weight
        return weight

    def add(self, batch: Batch, weights: Sums | None = None, ratings: Ratings | None = None) -> None:
        """Add a batch unless it is known, expired or empty.

        weights, ratings: of its tuples, if partners are summed or chosen
        """
        if batch.batch_id in self._batch_ends or batch.end <= max(self._expired, batch.first):
            return
        self._batch_ends[batch.batch_id] = batch.end
        self._first_end = min(self._batch_ends.values())
        at = merging.insert(self._nodes, self._node_of(batch, weights, ratings))
        merging.grow(self._nodes, at, self._size_max(batch.group))
        self._close_groups(batch.group)

    def end_group(self, group: int) -> None:
        """Merge the nodes of a group that gets no further batch, before the probes that come with its end."""
        self._close_groups(group + 1)

    def expire(self, lower_index: int) -> None:
        """Forget batches whose tuples all have indexes below `lower_index`.

        Batches that were merged with later ones may stay: at most one tuple in merging.BEHIND_ONE_IN.
        """
        self._expired = max(self._expired, lower_index)
        if self._nodes and self._nodes[0].end <= self._expired:
            self._nodes = [node for node in self._nodes if node.end > self._expired]
        merging.drop_head(self._nodes, self._expired)
        if self._first_end <= self._expired:
            self._batch_ends = {batch: end for batch, end in self._batch_ends.items() if end > self._expired}
            self._first_end = min(self._batch_ends.values(), default=self._expired + 1)

    @contextmanager
    def below(self, index: int) -> Iterator[None]:
        """Within the context, evaluations find only tuples with indexes below `index`."""
        at = merging.cut(self._nodes, index)
        above = self._nodes[at:]
        del self._nodes[at:]
        try:
            yield
        finally:
            self._nodes += above

    def evaluate(
        self, codes: tuple[I64, ...], lower: I64, sort: Callable[[int], Sought] | None = None
    ) -> tuple[Matches, ...]:
        """The matches of m probes in each of the index's directions, among all held tuples with index >= lower.

        codes: int64 (m,) per key column of the probe stream, by slot; lower: int64 (1,) or (m,); sort: as in `Probes`
        """
        m = len(codes[self._probe_slot])
        assemblies = [Assembly(m, not self._counts_only, self.limit, self._taking) for _ in self._searches]
        if m > 0 and self._nodes:
            self._evaluate_nodes(Probes(codes, sort), lower, assemblies)
        found = [assembly.matches() for assembly in assemblies]
        return tuple([found[number] for number in self._numbers])

    def ask(self, codes: tuple[I64, ...], lower: I64, sort: Callable[[int], Sought] | None = None) -> AskedIndex | None:
        """The search of m probes, to be answered for some of them at a time; arguments as in `evaluate`.

        None if it can only be answered at once: if partners aren't listed, or some windows hold part of a node.
        """
        if not self._lists:
            return None
        m = len(codes[self._probe_slot])
        nodes = [node for node in self._nodes if node.end > lower[0]] if m else []  # some wait for earlier frames
        runner = self._runner(m * len(nodes))
        if not nodes:
            return AskedIndex(None, self._numbers, runner)
        if self._whole_from(lower) > len(self._nodes) - len(nodes) or len(self._answered_whole(nodes, None)) < len(
            nodes
        ):
            return None
        return AskedIndex(self._whole_lists.ask(nodes, Probes(codes, sort), runner), self._numbers, runner)

    def _evaluate_nodes(self, probes: Probes, lower: I64, assemblies: list[Assembly]) -> None:
        runner = self._runner(len(assemblies[0]) * len(self._nodes))
        whole_from = self._whole_from(lower)
        if whole_from > 0:
            bounds: list[int] = distinct(lower).tolist()
            merging.part(self._nodes, partial(self._is_cut, bounds), evaluation.MASKED_MAX)
            whole_from = self._whole_from(lower)
            reached = [node for node in self._nodes[:whole_from] if node.end > bounds[0]]
            self._search(reached, probes, (lower, bounds), assemblies, runner)
        self._search(self._nodes[whole_from:], probes, None, assemblies, runner)

    def _whole_from(self, lower: I64) -> int:
        """The number of nodes before the first one that, like all later ones, lies in every probe's window."""
        last = int(lower[0]) if len(lower) == 1 else int(lower.max())
        return 0 if self._nodes[0].first >= last else bisect_left(self._nodes, last, key=_first)

    def _search(
        self,
        nodes: list[Node],
        probes: Probes,
        lower: tuple[I64, list[int]] | None,
        assemblies: list[Assembly],
        runner: TaskRunner,
    ) -> None:
        """Search nodes; lower: each probe's bound, and the distinct bounds; None if every window holds all nodes."""
        searches = list(zip(self._conditions, assemblies, strict=True))
        whole = self._answered_whole(nodes, lower)
        if whole:
            self._answer(whole, probes, lower, [*compress(assemblies, self._is_planned)], runner)
            unplanned = [one for one, is_planned in zip(searches, self._is_planned, strict=True) if not is_planned]
            self._search_nodes(probes, whole, None, unplanned, runner)
        if len(whole) < len(nodes):
            others = [node for node in nodes if node not in whole]
            self._search_nodes(probes, others, lower and lower[0], searches, runner)

    def _answered_whole(self, nodes: list[Node], lower: tuple[I64, list[int]] | None) -> list[Node]:
        """The nodes that are counted or listed as a whole in some directions."""
        if not any(self._is_planned):
            return []
        return [
            node
            for node in nodes
            if node.size > evaluation.SCAN_MAX and (lower is None or not self._is_cut(lower[1], node))
        ]

    def _is_cut(self, bounds: list[int], node: Node) -> bool:
        """Whether some probe's window holds part of a node or, unless all directions are planned, may miss the node."""
        if not self._plans_all:
            return node.end > bounds[0] and node.first < bounds[-1]
        above = bisect_right(bounds, node.first)
        return above < len(bounds) and bounds[above] < node.end

    def _answer(
        self,
        nodes: list[Node],
        probes: Probes,
        lower: tuple[I64, list[int]] | None,
        assemblies: list[Assembly],
        runner: TaskRunner,
    ) -> None:
        """Count or list nodes that each probe's window holds completely or not at all; `lower` as in `_search`."""
        if lower is None:
            self._answer_alike(nodes, probes, None, assemblies, runner)
            return
        of_probes, bounds = lower
        for reached, some in groupby(nodes, lambda node: bisect_right(bounds, node.first)):
            missed = of_probes >= bounds[reached] if reached < len(bounds) else None
            self._answer_alike(list(some), probes, missed, assemblies, runner)

    def _answer_alike(
        self,
        nodes: list[Node],
        probes: Probes,
        missed: NDArray[np.bool_] | None,
        assemblies: list[Assembly],
        runner: TaskRunner,
    ) -> None:
        """Count or list nodes that lie in the windows of the same probes; missed: (m,), the other probes."""
        if self._lists:
            asked = self._whole_lists.ask(nodes, probes, runner)
            for by_direction in asked.partners(0, len(assemblies[0]), runner):
                for assembly, (begins, lengths, partners) in zip(assemblies, by_direction, strict=True):
                    if missed is not None:
                        lengths[missed] = 0
                    assembly.add_listed(begins, lengths, partners)
            return
        if self._is_taking:
            self._take_alike(nodes, probes, missed, assemblies[0], runner)
            return
        if self._early_counts is not None:
            lack = assemblies[0].lack()
            found = self._early_counts.among(nodes, probes, lack if missed is None else lack & ~missed, runner)
            assemblies[0].add_counts(found)
            return
        found = self._whole_counts.among(nodes, probes, len(assemblies[0]), runner)
        if missed is not None:
            found[:, missed] = 0
        for assembly, of_direction in zip(assemblies, found, strict=True):
            assembly.add_counts(of_direction)

    def _take_alike(
        self,
        nodes: list[Node],
        probes: Probes,
        missed: NDArray[np.bool_] | None,
        assembly: Assembly,
        runner: TaskRunner,
    ) -> None:
        """Sum or choose, or both, in the only direction."""
        m = len(assembly)
        if self._taking.chooses:
            found, chosen = self._whole_counts.chosen(nodes, probes, self._taking, m, runner)
            for one in chosen:
                if missed is not None:
                    one.lengths[missed] = 0
            assembly.add_chosen(chosen)
        if self._taking.sums:
            found, sums = self._whole_counts.summed(nodes, probes, m, runner)
            if missed is not None:
                sums.rows[:, missed] = 0
            assembly.add_sums(sums)
        if missed is not None:
            found[missed] = 0
        assembly.add_counts(found)

    def _search_nodes(
        self, probes: Probes, nodes: list[Node], lower: I64 | None, searches: Sequence[Search], runner: TaskRunner
    ) -> None:
        if not nodes or not searches:
            return
        high = 0 if lower is None else int(lower.max())
        rooms = [assembly.room for _, assembly in searches]
        together = len(nodes) if runner.threads > 1 else 1
        for at in range(0, len(nodes), together):
            some = nodes[at : at + together]
            tasks = [
                partial(self._search_node, node, probes, searches, lower if node.first < high else None, rooms)
                for node in some
            ]
            for node, found in zip(some, runner.each(tasks), strict=True):
                for (_, assembly), matches in zip(searches, found, strict=True):
                    assembly.add(matches, node)

    def _runner(self, searches: int) -> TaskRunner:
        """The runner for nodes, each searched by one thread, which builds its structures; in turn if a limit applies.

        searches: how often a probe is searched in a node
        """
        runner = self.work.runner
        is_little = searches < TOGETHER_MIN * runner.reluctance
        return IN_TURN if is_little or not (self.limit is None or self._counts_only) else runner

    def _search_node(
        self, node: Node, probes: Probes, searches: Sequence[Search], lower: I64 | None, rooms: list[I64]
    ) -> list[I64 | NodeMatches | Collected]:
        known: Known = {}
        return [
            self._search_one(node, [located(c, node, probes, known) for c in wanted], lower, room)
            for (wanted, _), room in zip(searches, rooms, strict=True)
        ]

    def _search_one(
        self, node: Node, intervals: list[RankInterval], lower: I64 | None, room: I64
    ) -> I64 | NodeMatches | Collected:
        m = len(intervals[0].a)
        slices = None if lower is None else (one_each(node.offsets_below(lower), m), np.full(m, node.size))
        if self._is_taking:
            return self._take(node, intervals, slices)
        if slices is None:
            if self._counts_only:
                return evaluation.count(node, intervals)
            return evaluation.collect(node, intervals, room)
        if self._counts_only:
            return evaluation.count_masked(node, intervals, *slices)
        return evaluation.collect_masked(node, intervals, *slices, room)

    def _take(self, node: Node, intervals: list[RankInterval], slices: tuple[I64, I64] | None) -> NodeMatches:
        """The sums of a node, or its first tuples, or both."""
        kept, latest = self._taking.nothing(len(intervals[0].a)), self._taking.latest
        if slices is None:
            return evaluation.taken(node, intervals, kept, latest)
        return evaluation.taken_masked(node, intervals, slices, kept, latest)

    def _node_of(self, batch: Batch, weights: Sums | None, ratings: Ratings | None) -> Node:
        node = from_batch(
            batch,
            self._slots,
            with_seqs=self._with_seqs,
            with_permutations=self._with_permutations,
            work=self.work,
            weights=weights,
        )
        if ratings is not None:
            node.ratings = ratings
        return node

    def _size_max(self, group: int) -> int:
        """How many tuples a node of one group may have."""
        return self._left_max() if group == NO_GROUP else self._node_max

    def _left_max(self) -> int:
        """How many tuples a node may have that windows leave in parts, so that it is split: a quarter of the window."""
        return min(self._node_max, max(self.tuples >> 2, 4 * evaluation.MASKED_MAX))

    def _close_groups(self, group: int) -> None:
        if group > self._group >= 0:
            merging.close(self._nodes, self._group, self._node_max)
            is_seldom = self._counts_only and self.searched_one_in >= merging.FAN_IN
            merging.gather(self._nodes, group, self._left_max(), merging.FAN_IN if is_seldom else 2)
        elif 0 <= group < self._group:
            merging.close(self._nodes, group, self._node_max)
        self._group = max(self._group, group)


@dataclass(frozen=True, slots=True)
class AskedIndex:
    """The search of m probes in an index, which changes only after all answers.

    nodes: the search of its nodes, None if there is nothing to search
    numbers: by direction, the number of its search
    """

    nodes: AskedNodes | None
    numbers: Sequence[int]
    runner: TaskRunner

    @property
    def most(self) -> int:
        """How many partners all probes together have at most."""
        return 0 if self.nodes is None else sum(self.nodes.most[number] for number in self.numbers)

    def matches(self, first: int, last: int) -> tuple[Matches, ...]:
        """The matches of probes [first, last) in each of the index's directions."""
        assemblies = [Assembly(last - first, True, None) for _ in range(max(self.numbers) + 1)]
        for by_direction in () if self.nodes is None else self.nodes.partners(first, last, self.runner):
            for assembly, found in zip(assemblies, by_direction, strict=True):
                assembly.add_listed(*found)
        answers = [assembly.matches() for assembly in assemblies]
        return tuple([answers[number] for number in self.numbers])


def _few_conditions(direction: Direction) -> bool:
    return direction.condition_count <= 3 or composite.searches_by_key(direction)
