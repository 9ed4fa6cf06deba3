"""A direction's predicates for the probes of a frame, as few conditions on stored columns as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.index.keys import ProbeKeys, probe_keys
from spojoin.index.node import Node
from spojoin.kernels.bounds import BEGINS, BELOW, ENDS, UPTO, bounds
from spojoin.kernels.ranks import Sought, ranks, sought
from spojoin.model import Direction, Op, RolePredicate

I64 = NDArray[np.int64]
#: By the slot of a column and what is searched in it: the ranks where each begins and ends, int64 (m,) each.
Known = dict[tuple[int, Sought], tuple[I64, I64]]


@dataclass(frozen=True, slots=True)
class RankEdge:
    """An end of rank intervals: before (0) or after (1) the codes equal to what is sought."""

    sought: Sought
    side: int


@dataclass(frozen=True, slots=True)
class RankCondition:
    """The rank in `slot` lies from every edge of `begins` on and before every edge of `ends`.

    complement: the condition is that it doesn't; visit: int64 (m,), the probes in an order that keeps neighbours close
    """

    slot: int
    begins: tuple[RankEdge, ...]
    ends: tuple[RankEdge, ...]
    complement: bool
    visit: I64


@dataclass(frozen=True, slots=True)
class RankInterval:
    """A condition within a node: the rank in `slot` lies in [a, b), or, where `complement`, doesn't; int64 (m,)."""

    slot: int
    a: I64
    b: I64
    complement: bool
    visit: I64


class Probes:
    """The probes of a frame, with each column sorted once, however many directions and nodes it is searched in.

    codes: int64 (m,) by the probe stream's slot; sort: gives a column sorted, where the caller may have it so
    """

    def __init__(self, codes: tuple[I64, ...], sort: Callable[[int], Sought] | None = None) -> None:
        self._codes = codes
        self._sort = sort or (lambda slot: sought(codes[slot]))
        self._sought: dict[int, Sought] = {}
        self._keys: dict[tuple[int, ...], ProbeKeys] = {}

    def conditions(self, direction: Direction) -> list[RankCondition]:
        """The conditions of a direction, `direction.condition_count` of them."""
        return self.together(direction.predicates)

    def keys(self, slots: tuple[int, ...]) -> ProbeKeys:
        """The probes, grouped by what they have in `slots`."""
        if slots not in self._keys:
            self._keys[slots] = probe_keys([self._sorted(slot) for slot in slots])
        return self._keys[slots]

    def together(self, predicates: Iterable[RolePredicate]) -> list[RankCondition]:
        """The conditions that predicates make: those on one stored column, `!=` apart, become one."""
        single = [self._condition(p) for p in predicates]
        together: dict[int, RankCondition] = {}
        for condition in single:
            if not condition.complement:
                known = together.get(condition.slot)
                together[condition.slot] = condition if known is None else _both(known, condition)
        return [*together.values(), *(c for c in single if c.complement)]

    def _condition(self, predicate: RolePredicate) -> RankCondition:
        op, slot = predicate.op, predicate.probe_slot
        probes = self._sorted(slot)
        if op in (Op.BAND_LT, Op.BAND_LE):
            lo, hi = (sought(ends, probes) for ends in bounds(op, predicate.domain, predicate.width, self._codes[slot]))
            return RankCondition(
                predicate.target_slot, (RankEdge(lo, BELOW),), (RankEdge(hi, UPTO),), False, probes.probes
            )
        begins = (RankEdge(probes, BEGINS[op]),) if op in BEGINS else ()
        ends = (RankEdge(probes, ENDS[op]),) if op in ENDS else ()
        return RankCondition(predicate.target_slot, begins, ends, op is Op.NE, probes.probes)

    def _sorted(self, slot: int) -> Sought:
        if slot not in self._sought:
            self._sought[slot] = self._sort(slot)
        return self._sought[slot]


def located(condition: RankCondition, node: Node, known: Known) -> RankInterval:
    """A condition's rank intervals in a node; `known` holds earlier searches in that node, and grows."""
    begins, ends = (
        [_ranks(edge, condition.slot, node, known) for edge in e] for e in (condition.begins, condition.ends)
    )
    m = len(condition.visit)
    a = reduce(np.maximum, begins) if begins else np.zeros(m, np.int64)
    b = reduce(np.minimum, ends) if ends else np.full(m, node.size)
    return RankInterval(
        condition.slot, a, np.maximum(a, b) if begins and ends else b, condition.complement, condition.visit
    )


def _ranks(edge: RankEdge, slot: int, node: Node, known: Known) -> I64:
    key = slot, edge.sought
    if key not in known:
        known[key] = ranks(node.columns[slot].keys, edge.sought)
    return known[key][edge.side]


def _both(a: RankCondition, b: RankCondition) -> RankCondition:
    return RankCondition(a.slot, a.begins + b.begins, a.ends + b.ends, False, a.visit)
