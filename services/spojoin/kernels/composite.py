"""Composite ranks: a column sorted within groups of equal keys, and searches within one group.

Tuples with equal keys stand together in every order that compares the keys first, at the same ranks whatever it
compares next. A condition beside equalities is therefore an interval within the group, and the permutation between two
such orders maps every group onto itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64, U32, Unsigned
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.lanes import LANES, bisect_step, bisect_step_above, prefetch

#: Searches that are bisected together, step by step: their states fit the first-level cache.
_TOGETHER = 1 << 8
#: At most so many codes are brought into the cache before they are searched: more than a search would touch are waste.
_CODES_AHEAD = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """n members in g groups of equal keys, the groups in the order of their keys.

    group: uint32 (n,), by member; starts: int64 (g + 1,), the members of all groups before each, and n
    """

    group: U32
    starts: I64


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """m codes to search for, each within one group of a composite column.

    starts: int64 (g + 1,), where each group's codes begin, and m; values: int64 (m,), ascending within a group
    places: int64 (m,), where what is found for each goes
    """

    starts: I64
    values: I64
    places: I64


def grouped(codes: I64, members: Unsigned) -> Grouping:
    """Groups of equal codes; codes int64 (n,) ascending, members (n,) a permutation: whose code each is."""
    return refined(np.array([0, len(codes)]), codes, members)


def refined(starts: I64, codes: I64, members: Unsigned) -> Grouping:
    """Groups of equal codes within larger groups, which begin at `starts`; codes ascend within each of these."""
    group, finer = np.empty(len(codes), np.uint32), np.empty(len(codes) + 1, np.int64)
    count = _number(starts, codes, members, group, finer)
    return Grouping(group, finer[: count + 1].copy())


def nest(grouping: Grouping, codes: I64, members: Unsigned) -> tuple[I64, Unsigned]:
    """Order by group, then as given: codes int64 (n,) ascending and their members, which are a permutation."""
    nested, order = np.empty_like(codes), np.empty_like(members)
    _nest(grouping.group, grouping.starts.copy(), codes, members, nested, order)
    return nested, order


def nested_ranks(codes: I64, begins: I64, ends: I64, wanted: Nested) -> tuple[I64, I64]:
    """Where each value would begin and end among the codes [begins[g], ends[g]) of its group: int64 (m,) by place.

    codes: int64 (n,), ascending within each group; begins, ends: int64 (g,), within [0, n]
    """
    found = np.empty((2, len(wanted.values)), np.int64)
    search_nested(codes, begins, ends, wanted.starts, wanted.values, wanted.places, found[0], found[1])
    return found[0], found[1]


@kernel
def _number(outer: I64, codes: I64, members: Unsigned, group: U32, starts: I64) -> int:
    count = 0
    for k in range(len(outer) - 1):
        for i in range(outer[k], outer[k + 1]):
            if i == outer[k] or codes[i] != codes[i - 1]:
                starts[count] = i
                count += 1
            group[members[i]] = count - 1
    starts[count] = len(codes)
    return count


@kernel
def _nest(group: U32, places: I64, codes: I64, members: Unsigned, nested: I64, order: Unsigned) -> None:
    for i in range(len(members)):
        g = group[members[i]]
        nested[places[g]] = codes[i]
        order[places[g]] = members[i]
        places[g] += 1


@kernel
def search_nested(
    codes: I64, begins: I64, ends: I64, starts: I64, values: I64, places: I64, below: I64, upto: I64
) -> None:
    """`nested_ranks` by the arrays of what is wanted, into `below` and `upto`."""
    states, g = np.zeros((4, _TOGETHER), np.int64), 0
    found, stops, lengths, wanted = states[0], states[1], states[2], states[3]
    for first in range(0, len(values), _TOGETHER):
        count = min(_TOGETHER, len(values) - first)
        for i in range(count):
            while starts[g + 1] <= first + i:
                g += 1
            found[i], stops[i], wanted[i] = begins[g], ends[g], values[first + i]
        for at in range(found[0], min(stops[count - 1], found[0] + _CODES_AHEAD), LANES):
            prefetch(codes, at)
        lengths[:count] = stops[:count] - found[:count]
        lengths[count:] = 0
        for _ in range(_steps(lengths)):
            for q in range(0, count, LANES):
                bisect_step(codes, found, lengths, wanted, q)
        for i in range(count):
            below[places[first + i]] = found[i]
            is_there = found[i] < stops[i] and codes[found[i]] == wanted[i]
            lengths[i] = stops[i] - found[i] if is_there else 0
        for _ in range(_steps(lengths)):
            for q in range(0, count, LANES):
                bisect_step_above(codes, found, lengths, wanted, q)
        for i in range(count):
            upto[places[first + i]] = found[i]


@inlined
def _steps(lengths: I64) -> int:
    """How often the longest can be halved until it is 0."""
    longest, steps = np.int64(0), 0
    for i in range(len(lengths)):
        longest = max(longest, lengths[i])
    while longest > 0:
        longest >>= 1
        steps += 1
    return steps
