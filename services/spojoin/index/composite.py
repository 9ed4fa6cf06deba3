"""Equalities at no cost: other conditions are searched only among the tuples with the probe's keys.

The tuples with equal keys are one interval [s, e) of ranks in every composite order that begins with the key columns,
and each further condition is an interval within it. Two conditions are a rectangle of the permutation between two such
orders, which maps [s, e) onto itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.index.conditions import RankCondition, conditions
from spojoin.kernels.counting import CONDITIONS_MAX
from spojoin.model import Direction, Op, RolePredicate


@dataclass(frozen=True, slots=True)
class KeyedSearch:
    """A direction's conditions other than equalities, at most CONDITIONS_MAX.

    slots: the stored key columns; probe_slots: the probes' keys in the same order
    """

    slots: tuple[int, ...]
    probe_slots: tuple[int, ...]
    conditions: tuple[RankCondition, ...]


def searches_by_key(direction: Direction) -> bool:
    """Whether a direction has equalities, and few enough other conditions."""
    equal, others = _parted(direction)
    together = len({p.target_slot for p in others if p.op is not Op.NE})
    return bool(equal) and together + sum(p.op is Op.NE for p in others) <= CONDITIONS_MAX


def keyed_search(direction: Direction) -> KeyedSearch:
    """The search by keys of a direction that `searches_by_key` accepts."""
    equal, others = _parted(direction)
    slots = tuple(sorted(equal))
    return KeyedSearch(slots, tuple(equal[s] for s in slots), tuple(conditions(others)))


def _parted(direction: Direction) -> tuple[dict[int, int], list[RolePredicate]]:
    """The probe's slot by the equal stored slot, and all other predicates, including a second equality of a slot."""
    equal: dict[int, int] = {}
    others = []
    for p in direction.predicates:
        if p.op is Op.EQ and p.target_slot not in equal:
            equal[p.target_slot] = p.probe_slot
        else:
            others.append(p)
    return equal, others
