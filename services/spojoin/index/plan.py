"""The searches of directions in every node, prepared once, so that a frame only adds what its probes seek."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64
from spojoin.index.composite import KeyedSearch, keyed_search, searches_by_key
from spojoin.index.conditions import Probes, RankCondition, Seek, conditions
from spojoin.index.node import Place
from spojoin.kernels import counting
from spojoin.kernels.composite import Nested
from spojoin.kernels.ranks import Sought
from spojoin.model import Direction

_NONE = -1
_NO_STARTS, _NO_GROUPS = np.empty(0, np.int64), np.empty((0, 0), np.uint32)


def serves(direction: Direction) -> bool:
    """Whether a plan can describe a direction's search: it needs few conditions, not counting equalities."""
    return searches_by_key(direction) or direction.condition_count <= counting.CONDITIONS_MAX


class NodePlan:
    """The searches of a node by some directions, all of which `serves` accepts.

    rectangles: the pairs of orders in which two conditions of a direction are intervals
    orders: by direction, the orders in which its conditions, or its groups, are intervals
    wanted: by direction, its conditions in the same order
    """

    def __init__(self, directions: Sequence[Direction]) -> None:
        self._searches = _Searches()
        self.rectangles: list[tuple[Place, Place]] = []
        #: by grouping, the slots of the probes' keys
        self._groupings: list[tuple[int, ...]] = []
        self._edges: list[tuple[int, ...]] = []
        self.orders: list[list[Place]] = []
        self.wanted: list[list[RankCondition]] = []
        #: by direction, what its probes seek in the first search
        self._visited: list[Seek] = []
        self._rows = np.array([self._direction(d, direction) for d, direction in enumerate(directions)])
        self._edge_rows = np.array(self._edges, np.int64).reshape(-1, 5)

    @property
    def places(self) -> tuple[Place, ...]:
        """The searched orders, one for each search."""
        return tuple(self._searches.places)

    def for_probes(self, probes: Probes) -> counting.CountPlan:
        """The plan with what a frame's probes seek."""
        groups = [probes.keys(slots).grouping.group for slots in self._groupings]
        return counting.CountPlan(
            *self._searches.written(probes),
            directions=self._rows,
            edges=self._edge_rows,
            groups=np.stack(groups) if groups else _NO_GROUPS,
        )

    def visits(self, probes: Probes) -> I64:
        """For each direction, the probes in an order that keeps neighbours close, int64 (d, m)."""
        return np.stack([probes.sought(seek).probes for seek in self._visited])

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
        """A direction's row; group: if `keyed`, the search of the probes' groups, and their numbering."""
        wanted = sorted(wanted, key=lambda condition: condition.slot)
        places: list[Place] = [(*keyed.slots, c.slot) if keyed else c.slot for c in wanted]
        self.wanted.append(list(wanted))
        self._visited.append(Seek(keyed.probe_slots[0]) if keyed else wanted[0].visit)
        self.orders.append(places or [self._searches.places[group[0]]])
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
        if pair not in self.rectangles:
            self.rectangles.append(pair)
        return self.rectangles.index(pair)


@dataclass(frozen=True, slots=True)
class _SoughtKey:
    """The distinct codes of the probes' key column `number`, within groups of earlier key columns."""

    slots: tuple[int, ...]
    number: int

    def of(self, probes: Probes) -> Sought | Nested:
        keys = probes.keys(self.slots)
        return keys.further[self.number - 1] if self.number else keys.first


@dataclass(frozen=True, slots=True)
class _SoughtWithin:
    """The values for which the probes search, each within the group of its keys."""

    slots: tuple[int, ...]
    seek: Seek

    def of(self, probes: Probes) -> Sought | Nested:
        return probes.keys(self.slots).nested(probes.sought(self.seek))


_Wanted = Seek | _SoughtKey | _SoughtWithin


class _Searches:
    """The searches of a node, each made once for all directions that use its result."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._numbers: dict[tuple[Place, _Wanted], int] = {}
        self._outer: list[int] = []
        #: how the last values were divided, also as an array, since the next are usually divided in the same way
        self._parted: tuple[list[tuple[int, int, int, int]], I64] = [], np.empty((0, 4), np.int64)

    def add(self, place: Place, wanted: _Wanted, outer: int = _NONE) -> int:
        """The number of the search for `wanted`; outer: the number of the search for its groups."""
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
