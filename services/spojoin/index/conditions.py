"""A role's predicates for the probes of a frame, as few code intervals as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.index.node import Node
from spojoin.kernels.bounds import bounds
from spojoin.kernels.ranks import rank_intervals
from spojoin.query.model import Op, Role, RolePredicate

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Condition:
    """The stored code of `slot` lies in [lo, hi], or, where `complement`, doesn't.

    lo, hi: int64 (m,), lo > hi where nothing lies; visit: int64 (m,), the probes in ascending order
    """

    slot: int
    lo: I64
    hi: I64
    complement: bool
    visit: I64


@dataclass(frozen=True, slots=True)
class Interval:
    """A condition within a node: the rank in `slot` lies in [a, b), or, where `complement`, doesn't; int64 (m,)."""

    slot: int
    a: I64
    b: I64
    complement: bool
    visit: I64


def conditions(role: Role, codes: tuple[I64, ...]) -> list[Condition]:
    """The conditions of m probes, `role.condition_count` of them.

    codes: the probes' key columns, int64 (m,) by the probe stream's slot
    Predicates on one stored column, `!=` apart, become one interval.
    """
    single = [_condition(p, codes[p.probe_slot]) for p in role.predicates]
    together: dict[int, Condition] = {}
    for condition in single:
        if not condition.complement:
            known = together.get(condition.slot)
            together[condition.slot] = condition if known is None else _intersection(known, condition)
    return [*together.values(), *(c for c in single if c.complement)]


def located(condition: Condition, node: Node) -> Interval:
    """A condition's rank intervals in a node."""
    a, b = rank_intervals(node.columns[condition.slot].keys, condition.lo, condition.hi, condition.visit)
    return Interval(condition.slot, a, b, condition.complement, condition.visit)


def _condition(predicate: RolePredicate, probes: I64) -> Condition:
    lo, hi = bounds(predicate.op, predicate.domain, predicate.width, probes)
    return Condition(predicate.target_slot, lo, hi, predicate.op is Op.NE, np.argsort(probes))


def _intersection(a: Condition, b: Condition) -> Condition:
    return Condition(a.slot, np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi), False, a.visit)
