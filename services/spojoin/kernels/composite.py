"""Composite ranks: a column sorted within groups of equal keys, and searches within one group.

Tuples with equal keys stand together in every order that compares the keys first, at the same ranks whatever it
compares next. A condition beside equalities is therefore an interval within the group, and the permutation between two
such orders maps every group onto itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.lanes import LANES, prefetch

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
Unsigned = NDArray[Any]

#: The codes of a group are brought into the cache while this many groups before it are searched.
_AHEAD = 4
#: At most this many cache lines of it: a search in a larger group reads few of its lines.
_LINES_AHEAD = 32


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
    _nested_ranks(codes, begins, ends, wanted.starts, wanted.values, wanted.places, found[0], found[1])
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
def _nested_ranks(
    codes: I64, begins: I64, ends: I64, starts: I64, values: I64, places: I64, below: I64, upto: I64
) -> None:
    groups = len(begins)
    for g in range(groups):
        if g + _AHEAD < groups:
            begin, end = begins[g + _AHEAD], ends[g + _AHEAD]
            for at in range(begin, min(end, begin + _LINES_AHEAD * LANES), LANES):
                prefetch(codes, at)
        begin, end = begins[g], ends[g]
        for i in range(starts[g], starts[g + 1]):
            first = _first_from(codes, begin, end, values[i])
            below[places[i]] = first
            upto[places[i]] = _first_above(codes, first, end, values[i])


@inlined
def _first_from(codes: I64, begin: int, end: int, value: np.int64) -> int:
    """The first place in [begin, end) whose code is not below `value`; without a branch to predict."""
    length = end - begin
    while length > 1:
        half = length >> 1
        begin += half * (codes[begin + half - 1] < value)
        length -= half
    return begin + int(length > 0 and codes[begin] < value)


@inlined
def _first_above(codes: I64, begin: int, end: int, value: np.int64) -> int:
    """Like `_first_from`, for codes above `value`; none from `begin` on is below it, and few equal it as a rule."""
    length = end - begin
    if length == 0 or codes[begin] != value:
        return begin
    while length > 1:
        half = length >> 1
        begin += half * (codes[begin + half - 1] <= value)
        length -= half
    return begin + int(codes[begin] <= value)
