"""Counts of a frame's probes in whole nodes: what they ask, written once, and nodes counted in a call or a few."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.index.composite import KeyedSearch, keyed_search, searches_by_key
from spojoin.index.conditions import Probes, RankCondition
from spojoin.index.keys import ProbeKeys
from spojoin.index.node import Node, Place
from spojoin.kernels import counting
from spojoin.kernels.composite import Nested
from spojoin.kernels.pieces import TaskRunner
from spojoin.kernels.ranks import Sought
from spojoin.model import Direction

I64 = NDArray[np.int64]

#: Calls for each thread: one that is late leaves the last to others.
_CALLS_A_THREAD = 2
_NONE = -1


def serves(direction: Direction) -> bool:
    """Whether a direction's matches in a whole node are counted so: by few conditions, equalities apart."""
    return searches_by_key(direction) or direction.condition_count <= counting.CONDITIONS_MAX


class FrameCounts:
    """Counts of m probes in the given directions, for each of which `serves` holds."""

    def __init__(self, probes: Probes, directions: Sequence[Direction], m: int) -> None:
        self._m = m
        self._searches = _Searches()
        self._rectangles: list[tuple[Place, Place]] = []
        self._groups: list[NDArray[np.uint32]] = []
        self._edges: list[tuple[int, ...]] = []
        rows = [self._direction(d, probes, direction) for d, direction in enumerate(directions)]
        self._plan = counting.CountPlan(
            *self._searches.written(),
            directions=np.array(rows),
            edges=np.array(self._edges, np.int64).reshape(-1, 5),
            groups=np.stack(self._groups) if self._groups else np.empty((0, m), np.uint32),
        )

    def among(self, nodes: Sequence[Node], runner: TaskRunner) -> I64:
        """The matches among all tuples of some nodes, by direction: int64 (d, m)."""
        key = tuple(self._searches.places), tuple(self._rectangles)
        runner.each([partial(node.directory, *key) for node in nodes if not node.has_directory(*key)])
        calls = [
            partial(counting.counts, np.stack([node.directory(*key) for node in some]), self._plan, self._m)
            for some in _shared_out(nodes, runner.threads)
        ]
        return reduce(_added, runner.each(calls))

    def _direction(self, d: int, probes: Probes, direction: Direction) -> list[int]:
        if searches_by_key(direction):
            return self._keyed(d, keyed_search(probes, direction))
        return self._written(d, probes.conditions(direction), (), None, (_NONE, _NONE))

    def _keyed(self, d: int, search: KeyedSearch) -> list[int]:
        keys = search.keys
        group = self._searches.add(search.slots[0], keys.first)
        for k, wanted in enumerate(keys.further):
            group = self._searches.add(search.slots[: k + 2], wanted, group)
        self._groups.append(keys.grouping.group)
        return self._written(d, search.conditions, search.slots, keys, (group, len(self._groups) - 1))

    def _written(
        self,
        d: int,
        conditions: Sequence[RankCondition],
        slots: tuple[int, ...],
        keys: ProbeKeys | None,
        group: tuple[int, int],
    ) -> list[int]:
        """A direction's row. `slots` and `group`: the key columns, where the probes' groups are found and numbered."""
        conditions = sorted(conditions, key=lambda condition: condition.slot)
        places: list[Place] = [(*slots, c.slot) if slots else c.slot for c in conditions]
        for at, (condition, place) in enumerate(zip(conditions, places, strict=True)):
            for is_end, edges in enumerate((condition.begins, condition.ends)):
                for edge in edges:
                    wanted = edge.sought if keys is None else keys.nested(edge.sought)
                    self._edges.append((d, at, is_end, self._searches.add(place, wanted, group[0]), edge.side))
        signs = [-1 if condition.complement else 1 for condition in conditions]
        return [*group, self._matrix(places), *signs, *[0] * (counting.CONDITIONS_MAX - len(signs))]

    def _matrix(self, places: list[Place]) -> int:
        if len(set(places)) < 2:
            return _NONE
        pair = places[0], places[1]
        if pair not in self._rectangles:
            self._rectangles.append(pair)
        return self._rectangles.index(pair)


class _Searches:
    """The searches of a node, each made once, however many directions use what it finds."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._numbers: dict[tuple[Place, Sought | Nested], int] = {}
        self._outer: list[int] = []

    def add(self, place: Place, wanted: Sought | Nested, outer: int = _NONE) -> int:
        """The number of the search for what is wanted; `outer`: that of its groups."""
        key = place, wanted
        if key not in self._numbers:
            self._numbers[key] = len(self.places)
            self.places.append(place)
            self._outer.append(outer)
        return self._numbers[key]

    def written(self) -> tuple[I64, I64, I64, I64]:
        """The fields values, places, starts and searches of `counting.CountPlan`."""
        wanted = [wanted for _, wanted in self._numbers]
        starts = [one.starts if isinstance(one, Nested) else np.empty(0, np.int64) for one in wanted]
        ends = np.cumsum([len(one.values) for one in wanted])
        begins = ends - [len(one.values) for one in wanted]
        starts_at = np.cumsum([0, *map(len, starts[:-1])])
        return (
            np.concatenate([one.values for one in wanted]),
            np.concatenate([one.places if isinstance(one, Nested) else one.probes for one in wanted]),
            np.concatenate(starts),
            np.stack((begins, ends, self._outer, starts_at), axis=1),
        )


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
