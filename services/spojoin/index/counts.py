"""Counts of probes in whole nodes: what they ask, written once, and nodes counted in a call or a few a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.index.assembly import Taking
from spojoin.index.composite import KeyedSearch, keyed_search, searches_by_key
from spojoin.index.conditions import Probes, RankCondition, Seek, conditions
from spojoin.index.node import Node, Place
from spojoin.kernels import choosing, counting, summing
from spojoin.kernels.chosen import Chosen
from spojoin.kernels.composite import Nested
from spojoin.kernels.pieces import TaskRunner
from spojoin.kernels.ranks import Sought
from spojoin.model import Direction
from spojoin.wire.sums import Sums, added

I64 = NDArray[np.int64]

#: Calls for each thread: one that is late leaves the last to others.
_CALLS_A_THREAD = 2
_NONE = -1
_NO_STARTS, _NO_GROUPS = np.empty(0, np.int64), np.empty((0, 0), np.uint32)


def serves(direction: Direction) -> bool:
    """Whether a direction's matches in a whole node are counted so: by few conditions, equalities apart."""
    return searches_by_key(direction) or direction.condition_count <= counting.CONDITIONS_MAX


class WholeCounts:
    """Counts of probes in whole nodes, in directions for each of which `serves` holds.

    What they ask of a node is written once; of a frame there remains what its probes seek.
    """

    def __init__(self, directions: Sequence[Direction]) -> None:
        self._searches = _Searches()
        self._rectangles: list[tuple[Place, Place]] = []
        #: by grouping, the slots of the probes' keys
        self._groupings: list[tuple[int, ...]] = []
        self._edges: list[tuple[int, ...]] = []
        #: by direction, the orders in which its conditions are intervals, or its groups
        self._orders: list[list[Place]] = []
        self._rows = np.array([self._direction(d, direction) for d, direction in enumerate(directions)])
        self._edge_rows = np.array(self._edges, np.int64).reshape(-1, 5)
        #: nodes and how many threads shared them, and the shares, kept until others are asked for
        self._shared: tuple[list[Node], int, list[_Share]] = [], 0, []

    def among(self, nodes: list[Node], probes: Probes, m: int, runner: TaskRunner) -> I64:
        """The matches of m probes among all tuples of some nodes, by direction: int64 (d, m)."""
        plan = self._plan(probes)
        calls = [partial(counting.counts, share.directories, plan, m) for share in self._shares(nodes, runner)]
        return reduce(_added, runner.each(calls))

    def summed(self, nodes: list[Node], probes: Probes, m: int, runner: TaskRunner) -> tuple[I64, Sums]:
        """The matches of m probes in the only direction, int64 (m,), and the sums of their weights."""
        plan = self._plan(probes)
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
        pair = self._rectangles[0] if self._rectangles else None
        entries = [[node.sum_entry(key, self._orders[0], pair) for key in keys.tolist()] for node in nodes]
        return keys, np.array(entries, np.int64).reshape(len(nodes), len(keys), summing.ENTRY)

    def chosen(
        self, nodes: list[Node], probes: Probes, taking: Taking, m: int, runner: TaskRunner
    ) -> tuple[I64, list[Chosen]]:
        """The matches of m probes in the only direction, int64 (m,), and by choice the first of them."""
        plan = self._plan(probes)
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
        pair, orders = self._rectangles[0] if self._rectangles else None, self._orders[0]
        entries = [
            [node.choice_entry(k, orders, pair, is_latest=latest) for k, latest in enumerate(taking.latest)]
            for node in nodes
        ]
        return np.array(entries, np.int64)

    def _plan(self, probes: Probes) -> counting.CountPlan:
        groups = [probes.keys(slots).grouping.group for slots in self._groupings]
        return counting.CountPlan(
            *self._searches.written(probes),
            directions=self._rows,
            edges=self._edge_rows,
            groups=np.stack(groups) if groups else _NO_GROUPS,
        )

    def _shares(self, nodes: list[Node], runner: TaskRunner) -> list[_Share]:
        known, threads, shared = self._shared
        if known != nodes or threads != runner.threads:
            key = tuple(self._searches.places), tuple(self._rectangles)
            runner.each([partial(node.directory, *key) for node in nodes if not node.has_directory(*key)])
            shares = _shared_out(nodes, runner.threads)
            shared = [_Share(some, np.stack([node.directory(*key) for node in some])) for some in shares]
            self._shared = list(nodes), runner.threads, shared
        return shared

    def _direction(self, d: int, direction: Direction) -> list[int]:
        if searches_by_key(direction):
            return self._keyed(d, keyed_search(direction))
        return self._written(d, conditions(direction.predicates), None, (_NONE, _NONE))

    def _keyed(self, d: int, search: KeyedSearch) -> list[int]:
        group = _NONE
        for k in range(len(search.slots)):
            place = search.slots[: k + 1] if k else search.slots[0]
            group = self._searches.add(place, _SoughtKey(search.probe_slots, k), group)
        self._groupings.append(search.probe_slots)
        return self._written(d, search.conditions, search, (group, len(self._groupings) - 1))

    def _written(
        self, d: int, wanted: Sequence[RankCondition], keyed: KeyedSearch | None, group: tuple[int, int]
    ) -> list[int]:
        """A direction's row. `group`: where the probes' groups, if `keyed`, are found and numbered."""
        wanted = sorted(wanted, key=lambda condition: condition.slot)
        places: list[Place] = [(*keyed.slots, c.slot) if keyed else c.slot for c in wanted]
        self._orders.append(places or [self._searches.places[group[0]]])
        for at, (condition, place) in enumerate(zip(wanted, places, strict=True)):
            for is_end, edges in enumerate((condition.begins, condition.ends)):
                for edge in edges:
                    code = _SoughtWithin(keyed.probe_slots, edge.seek) if keyed else edge.seek
                    self._edges.append((d, at, is_end, self._searches.add(place, code, group[0]), edge.side))
        signs = [-1 if condition.complement else 1 for condition in wanted]
        return [*group, self._matrix(places), *signs, *[0] * (counting.CONDITIONS_MAX - len(signs))]

    def _matrix(self, places: list[Place]) -> int:
        if len(set(places)) < 2:
            return _NONE
        pair = places[0], places[1]
        if pair not in self._rectangles:
            self._rectangles.append(pair)
        return self._rectangles.index(pair)


@dataclass(slots=True)
class _Share:
    """Nodes that one call counts, their directories, and once they are summed, their keys and the entries of these.

    ordered: once partners are chosen, the entries of the choices' orders
    """

    nodes: list[Node]
    directories: I64
    weighed: tuple[I64, I64] | None = None
    ordered: I64 | None = None


@dataclass(frozen=True, slots=True)
class _SoughtKey:
    """The distinct codes of the probes' key column `number`, within groups of those before it."""

    slots: tuple[int, ...]
    number: int

    def of(self, probes: Probes) -> Sought | Nested:
        keys = probes.keys(self.slots)
        return keys.further[self.number - 1] if self.number else keys.first


@dataclass(frozen=True, slots=True)
class _SoughtWithin:
    """What the probes search for, each within the group of its keys."""

    slots: tuple[int, ...]
    seek: Seek

    def of(self, probes: Probes) -> Sought | Nested:
        return probes.keys(self.slots).nested(probes.sought(self.seek))


_Wanted = Seek | _SoughtKey | _SoughtWithin


class _Searches:
    """The searches of a node, each made once, however many directions use what it finds."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._numbers: dict[tuple[Place, _Wanted], int] = {}
        self._outer: list[int] = []
        #: how the last values were parted, and that as an array: mostly the next are parted alike
        self._parted: tuple[list[tuple[int, int, int, int]], I64] = [], np.empty((0, 4), np.int64)

    def add(self, place: Place, wanted: _Wanted, outer: int = _NONE) -> int:
        """The number of the search for what is wanted; `outer`: that of its groups."""
        key = place, wanted
        if key not in self._numbers:
            self._numbers[key] = len(self.places)
            self.places.append(place)
            self._outer.append(outer)
        return self._numbers[key]

    def written(self, probes: Probes) -> tuple[I64, I64, I64, I64]:
        """The fields values, places, starts and searches of `counting.CountPlan`."""
        values, places, starts, rows = [], [], [], []
        end = starts_end = 0
        for (_, wanted), outer in zip(self._numbers, self._outer, strict=True):
            found = probes.sought(wanted) if isinstance(wanted, Seek) else wanted.of(probes)
            begin, end = end, end + len(found.values)
            rows.append((begin, end, outer, starts_end))
            values.append(found.values)
            if isinstance(found, Nested):
                places.append(found.places)
                starts.append(found.starts)
                starts_end += len(found.starts)
            else:
                places.append(found.probes)
        if rows != self._parted[0]:
            self._parted = rows, np.array(rows)
        all_starts = np.concatenate(starts) if starts else _NO_STARTS
        return np.concatenate(values), np.concatenate(places), all_starts, self._parted[1]


def _added(totals: I64, counts: I64) -> I64:
    totals += counts
    return totals


def _shared_out(nodes: Sequence[Node], threads: int) -> list[list[Node]]:
    """Nodes in shares that take about as long: a search takes a step for each doubling."""
    if threads == 1:
        return [list(nodes)]
    shares: list[list[Node]] = [[] for _ in range(min(len(nodes), _CALLS_A_THREAD * threads))]
    steps = [0] * len(shares)
    for node in sorted(nodes, key=lambda each: each.size, reverse=True):
        least = steps.index(min(steps))
        shares[least].append(node)
        steps[least] += node.size.bit_length()
    return shares
