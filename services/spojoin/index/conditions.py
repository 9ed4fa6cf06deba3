"""A direction's predicates as the fewest conditions on stored columns, and what a frame's probes seek there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from spojoin.arrays import I64
from spojoin.index.keys import ProbeKeys, probe_keys
from spojoin.index.node import Node
from spojoin.kernels.bounds import BEGINS, BELOW, ENDS, UPTO, bounds
from spojoin.kernels.ranks import Sought, ranks, sought
from spojoin.model import Op, RolePredicate


@dataclass(frozen=True, slots=True)
class Seek:
    """The value for which each probe searches: its code in `slot`, or an end of the band around it."""

    slot: int
    band: RolePredicate | None = None
    is_upper: bool = False


#: By a column's slot and what is sought in it: the ranks where each probe's value begins and ends, int64 (m,) each.
Known = dict[tuple[int, Seek], tuple[I64, I64]]


@dataclass(frozen=True, slots=True)
class RankEdge:
    """An end of rank intervals: before (0) or after (1) the codes that equal the sought value."""

    seek: Seek
    side: int


@dataclass(frozen=True, slots=True)
class RankCondition:
    """The rank in `slot` lies at or after every edge of `begins` and before every edge of `ends`.

    complement: whether the condition is negated; visit: the probes' column whose order keeps neighbours close
    """

    slot: int
    begins: tuple[RankEdge, ...]
    ends: tuple[RankEdge, ...]
    complement: bool
    visit: Seek


@dataclass(frozen=True, slots=True)
class RankInterval:
    """A condition within a node: the rank in `slot` lies in [a, b), or outside if `complement`; a, b: int64 (m,).

    visit: int64 (m,), the probes in an order that keeps neighbours close
    """

    slot: int
    a: I64
    b: I64
    complement: bool
    visit: I64


class Probes:
    """The m probes of a frame, with each column sorted once for all directions and nodes.

    codes: int64 (m,) by the probe stream's slot; sort: returns a sorted column, if the caller may have it already
    """

    def __init__(self, codes: tuple[I64, ...], sort: Callable[[int], Sought] | None = None) -> None:
        self._codes = codes
        self._sort = sort or (lambda slot: sought(codes[slot]))
        self._sought: dict[Seek, Sought] = {}
        self._keys: dict[tuple[int, ...], ProbeKeys] = {}

    def only(self, places: I64) -> Probes:
        """The probes at `places`, int64 (k,)."""
        return Probes(tuple(column[places] for column in self._codes))

    def keys(self, slots: tuple[int, ...]) -> ProbeKeys:
        """The probes, grouped by their codes in `slots`."""
        if slots not in self._keys:
            self._keys[slots] = probe_keys([self.sought(Seek(slot)) for slot in slots])
        return self._keys[slots]

    def sought(self, seek: Seek) -> Sought:
        """The values for which all probes search, in ascending order."""
        found = self._sought.get(seek)
        if found is None:
            self._sought[seek] = found = self._sort(seek.slot) if seek.band is None else self._band_end(seek, seek.band)
        return found

    def _band_end(self, seek: Seek, band: RolePredicate) -> Sought:
        ends = bounds(band.op, band.domain, band.width, self._codes[seek.slot])
        return sought(ends[seek.is_upper], self.sought(Seek(seek.slot)))


def conditions(predicates: Iterable[RolePredicate]) -> list[RankCondition]:
    """The conditions of predicates: all on one stored column become one, except `!=`."""
    single = [_condition(p) for p in predicates]
    together: dict[int, RankCondition] = {}
    for condition in single:
        if not condition.complement:
            known = together.get(condition.slot)
            together[condition.slot] = condition if known is None else _both(known, condition)
    return [*together.values(), *(c for c in single if c.complement)]


def _condition(predicate: RolePredicate) -> RankCondition:
    op, own = predicate.op, Seek(predicate.probe_slot)
    if op.is_band:
        lower, upper = (Seek(own.slot, predicate, is_upper) for is_upper in (False, True))
        ends_of_band = (RankEdge(lower, BELOW),), (RankEdge(upper, UPTO),)
        return RankCondition(predicate.target_slot, *ends_of_band, False, own)
    begins = (RankEdge(own, BEGINS[op]),) if op in BEGINS else ()
    ends = (RankEdge(own, ENDS[op]),) if op in ENDS else ()
    return RankCondition(predicate.target_slot, begins, ends, op is Op.NE, own)


def located(condition: RankCondition, node: Node, probes: Probes, known: Known) -> RankInterval:
    """A condition's rank intervals in a node; known: earlier searches in that node, to which this adds its own."""
    begins, ends = (
        [_ranks(edge, condition.slot, node, probes, known) for edge in e] for e in (condition.begins, condition.ends)
    )
    visit = probes.sought(condition.visit).probes
    a = reduce(np.maximum, begins) if begins else np.zeros(len(visit), np.int64)
    b = reduce(np.minimum, ends) if ends else np.full(len(visit), node.size)
    return RankInterval(condition.slot, a, np.maximum(a, b) if begins and ends else b, condition.complement, visit)


def _ranks(edge: RankEdge, slot: int, node: Node, probes: Probes, known: Known) -> I64:
    key = slot, edge.seek
    if key not in known:
        known[key] = ranks(node.keys(slot), probes.sought(edge.seek))
    return known[key][edge.side]


def _both(a: RankCondition, b: RankCondition) -> RankCondition:
    return RankCondition(a.slot, a.begins + b.begins, a.ends + b.ends, False, a.visit)
