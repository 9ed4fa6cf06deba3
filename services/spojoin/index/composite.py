"""Equalities at no cost: conditions beside them are searched among the tuples that have the probe's keys.

The tuples with equal keys are one interval [s, e) of ranks in every composite order that begins with the key columns,
and each further condition is an interval within it. Two of them are a rectangle of the permutation between two such
orders, which maps [s, e) onto itself: so an end of the rectangle that no condition sets may lie at the end of the node
as well as at that of the group, where a dominance count needs no search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.index.conditions import Known, Probes, RankCondition, RankEdge
from spojoin.index.keys import ProbeKeys
from spojoin.index.node import Node
from spojoin.kernels import wavelet
from spojoin.kernels.composite import nested_ranks
from spojoin.kernels.ranks import ranks
from spojoin.model import Direction, Op, RolePredicate

I64 = NDArray[np.int64]

#: So many conditions beside equalities are answered in logarithmic time.
CONDITIONS_MAX = 2


@dataclass(frozen=True, slots=True)
class KeyedSearch:
    """A direction's conditions beside its equalities, at most CONDITIONS_MAX.

    slots: the stored key columns; keys: the probes' keys in the same order
    """

    slots: tuple[int, ...]
    keys: ProbeKeys
    conditions: tuple[RankCondition, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Each probe's group in a node, the ranks [s, e) in every order that begins with its keys: int64 (m,)."""

    s: I64
    e: I64

    @property
    def size(self) -> I64:
        return self.e - self.s


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where ranks in an order begin and end within the group; None: with it. The order is that of `slots`."""

    slots: tuple[int, ...]
    a: I64 | None
    b: I64 | None
    complement: bool

    def size(self, group: _Group) -> I64:
        """How many ranks it has, int64 (m,)."""
        return (group.e if self.b is None else self.b) - (group.s if self.a is None else self.a)


def searches_by_key(direction: Direction) -> bool:
    """Whether a direction has equalities, and few enough conditions beside them."""
    equal, others = _parted(direction)
    together = len({p.target_slot for p in others if p.op is not Op.NE})
    return bool(equal) and together + sum(p.op is Op.NE for p in others) <= CONDITIONS_MAX


def keyed_search(probes: Probes, direction: Direction) -> KeyedSearch | None:
    """The search of a direction by its keys, or None where `searches_by_key` doesn't hold."""
    if not searches_by_key(direction):
        return None
    equal, others = _parted(direction)
    slots = tuple(sorted(equal))
    return KeyedSearch(slots, probes.keys(tuple(equal[s] for s in slots)), tuple(probes.together(others)))


def count(node: Node, search: KeyedSearch, known: Known) -> I64:
    """Matches of m probes among all tuples of a node, int64 (m,); `known` holds earlier searches in it, and grows."""
    group = _group(node, search, known)
    inside = [_inside(node, search, condition, known) for condition in search.conditions]
    if not inside:
        return group.size
    if len(inside) == 1:
        return group.size - inside[0].size(group) if inside[0].complement else inside[0].size(group)
    return _count_two(node, group, inside[0], inside[1])


def _count_two(node: Node, group: _Group, x: _Inside, y: _Inside) -> I64:
    """A rectangle of ranks; complements by inclusion and exclusion."""
    both = _overlap(node, group, x, y)
    if x.complement and y.complement:
        return group.size - x.size(group) - y.size(group) + both
    if x.complement:
        return y.size(group) - both
    return x.size(group) - both if y.complement else both


def _overlap(node: Node, group: _Group, x: _Inside, y: _Inside) -> I64:
    """The tuples in both. All before the group in one order are so in the other, and all behind it: such leave."""
    x, y = (x, y) if x.slots <= y.slots else (y, x)
    begin, end = np.zeros_like(group.s), np.full_like(group.s, node.size)
    a, c = (begin if inside.a is None else inside.a for inside in (x, y))
    b, d = (end if inside.b is None else inside.b for inside in (x, y))
    if x.slots == y.slots:
        both = np.asarray(np.maximum(np.minimum(b, d) - np.maximum(a, c), 0), np.int64)
    else:
        both = wavelet.rectangle_counts(node.wavelet(x.slots, y.slots), node.size, a, b, c, d)
    if x.a is None and y.a is None:
        both -= group.s
    if x.b is None and y.b is None:
        both -= node.size - group.e
    return both


def _group(node: Node, search: KeyedSearch, known: Known) -> _Group:
    key = search.slots, search.keys.grouping
    if key not in known:
        group = search.keys.grouping.group
        s, e = _group_ends(node, search.slots, search.keys, known)
        known[key] = np.take(s, group), np.take(e, group)
    return _Group(*known[key])


def _group_ends(node: Node, slots: tuple[int, ...], keys: ProbeKeys, known: Known) -> tuple[I64, I64]:
    """By the probes' group, where it begins and ends in a node: int64 (g,) each."""
    if (slots, keys) not in known:
        s, e = ranks(node.columns[slots[0]].keys, keys.first)
        for k, wanted in enumerate(keys.further):
            s, e = nested_ranks(node.composite(slots[: k + 2]).codes, s, e, wanted)
        known[slots, keys] = s, e
    return known[slots, keys]


def _inside(node: Node, search: KeyedSearch, condition: RankCondition, known: Known) -> _Inside:
    slots = (*search.slots, condition.slot)
    begins, ends = (
        [_ranks(node, slots, search.keys, edge, known) for edge in edges]
        for edges in (condition.begins, condition.ends)
    )
    a = reduce(np.maximum, begins) if begins else None
    b = reduce(np.minimum, ends) if ends else None
    return _Inside(slots, a, b if a is None or b is None else np.maximum(a, b), condition.complement)


def _ranks(node: Node, slots: tuple[int, ...], keys: ProbeKeys, edge: RankEdge, known: Known) -> I64:
    wanted = keys.nested(edge.sought)
    if (slots, wanted) not in known:
        s, e = _group_ends(node, slots[:-1], keys, known)
        known[slots, wanted] = nested_ranks(node.composite(slots).codes, s, e, wanted)
    return known[slots, wanted][edge.side]


def _parted(direction: Direction) -> tuple[dict[int, int], list[RolePredicate]]:
    """The probe's slot by the stored one that equals it, and all other predicates, a second equality among them."""
    equal: dict[int, int] = {}
    others = []
    for p in direction.predicates:
        if p.op is Op.EQ and p.target_slot not in equal:
            equal[p.target_slot] = p.probe_slot
        else:
            others.append(p)
    return equal, others
