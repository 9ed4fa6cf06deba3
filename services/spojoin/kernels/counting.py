"""Counts of many probes in many nodes, in one call: a frame enters compiled code once, not once a node and step.

First every search of a node is made: where probes fall in a sorted column, or, in a composite one, within the group of
their key. Then each direction counts what lies between the ends found, by subtraction or by a rectangle of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U32
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.composite import search_nested
from spojoin.kernels.memory import half_words, levels, located, octets, signed_words
from spojoin.kernels.ranks import SortedKeys, search_sorted
from spojoin.kernels.wavelet import Wavelet, add_bands, add_rectangles, rectangle_states

#: So many conditions beside equalities are answered in logarithmic time.
CONDITIONS_MAX = 2

#: Words of a node's directory: its size, then the entries of its columns, a search each, then those of its matrices.
HEAD, COLUMN, MATRIX = 1, 7, 5
#: Words of a search: its values [begin, end), the search that found the groups, or -1, and where their starts begin.
_BEGIN, _END, _OUTER, _STARTS = range(4)
#: Words of a direction: the search of the probes' groups and the row of `groups`, or -1; its matrix, or -1 where both
#: conditions are on one order; and for each condition 1, -1 for a complement, or 0 if it hasn't got one.
_GROUP, _GROUPING, MATRIX_AT, SIGN = range(4)
#: Words of an edge: the direction, its condition, whether it ends it, the search, and the side of the equal codes.
_OF, _CONDITION, _IS_END, _SEARCH, _SIDE = range(5)


@dataclass(frozen=True, slots=True)
class CountPlan:
    """What m probes ask of every node.

    values, places, starts: int64, those of all searches one behind the other, as in `Sought` and `Nested`
    searches: int64 (s, 4); directions: int64 (d, 3 + CONDITIONS_MAX); edges: int64 (e, 5)
    groups: uint32 (g, m), each probe's group
    """

    values: I64
    places: I64
    starts: I64
    searches: I64
    directions: I64
    edges: I64
    groups: U32


def sorted_entry(keys: SortedKeys) -> list[int]:
    """A sorted column's entry in a node's directory."""
    return [*located(keys.keys), *located(keys.heads), *located(keys.starts), keys.size]


def nested_entry(codes: I64) -> list[int]:
    """A composite column's entry in a node's directory."""
    return [*located(codes), 0, 0, 0, 0, len(codes)]


def matrix_entry(matrix: Wavelet) -> list[int]:
    """A wavelet matrix's entry in a node's directory."""
    return [located(matrix.entries)[0], *matrix.entries.shape, *located(matrix.leaves)]


def counts(nodes: I64, plan: CountPlan, m: int) -> I64:
    """The matches of m probes among all tuples of n nodes, by direction: int64 (d, m).

    nodes: int64 (n, w), the nodes' directories; the arrays whose addresses they hold must stay alive
    """
    totals = np.zeros((len(plan.directions), m), np.int64)
    _add_counts(
        nodes,
        (plan.values, plan.places, plan.starts),
        plan.searches,
        plan.directions,
        plan.edges,
        plan.groups,
        totals,
    )
    return totals


@kernel
def _add_counts(
    nodes: I64, wanted: tuple[I64, I64, I64], searches: I64, directions: I64, edges: I64, groups: U32, totals: I64
) -> None:
    found, group, ends, both, states = room(searches, totals.shape[1])
    for i in range(len(nodes)):
        matrices = search_node(nodes[i], wanted, searches, found)
        for d in range(len(directions)):
            find_group(nodes[i, 0], directions[d], found, groups, group)
            has = find_ends(nodes[i, 0], d, edges, found, ends)
            count_between(nodes[i, 0], directions[d], matrices, group, ends, has, both, states, totals[d])


@inlined
def room(searches: I64, m: int) -> tuple[I64, I64, I64, I64, I64]:
    """What m probes in one node need: what searches found, groups, ends of conditions, their overlap, descents."""
    longest = 0
    for s in range(len(searches)):
        longest = max(longest, searches[s, _END] - searches[s, _BEGIN])
    found = np.empty((len(searches), 2, longest), np.int64)
    group, ends = np.empty((2, m), np.int64), np.empty((CONDITIONS_MAX, 2, m), np.int64)
    return found, group, ends, np.empty(m, np.int64), rectangle_states(m)


@inlined
def search_node(node: I64, wanted: tuple[I64, I64, I64], searches: I64, found: I64) -> I64:
    """Make all searches of a node; returns what its directory says of its matrices."""
    columns = node[HEAD:]
    for s in range(len(searches)):
        _search_column(columns[s * COLUMN : (s + 1) * COLUMN], wanted, searches, s, found)
    return columns[len(searches) * COLUMN :]


@inlined
def _search_column(column: I64, wanted: tuple[I64, I64, I64], searches: I64, s: int, found: I64) -> None:
    """Make search s of a node; column: its entry in the node's directory."""
    begin, end, outer = searches[s, _BEGIN], searches[s, _END], searches[s, _OUTER]
    codes, values, places = signed_words(column[0], column[1]), wanted[0][begin:end], wanted[1][begin:end]
    if outer < 0:
        heads, starts = signed_words(column[2], column[3]), half_words(column[4], column[5])
        search_sorted(codes, heads, starts, column[6], values, places, found[s, 0], found[s, 1])
    else:
        groups = wanted[2][searches[s, _STARTS] :]
        search_nested(codes, found[outer, 0], found[outer, 1], groups, values, places, found[s, 0], found[s, 1])


@inlined
def find_group(n: int, direction: I64, found: I64, groups: U32, group: I64) -> None:
    """Where each probe's group begins and ends: without a key, all n tuples are one."""
    if direction[_GROUP] < 0:
        group[0], group[1] = 0, n
        return
    begins, ends = found[direction[_GROUP], 0], found[direction[_GROUP], 1]
    which = groups[direction[_GROUPING]]
    for q in range(len(which)):
        group[0, q], group[1, q] = begins[which[q]], ends[which[q]]


@inlined
def find_ends(n: int, d: int, edges: I64, found: I64, ends: I64) -> NDArray[np.bool_]:
    """Where each condition of a direction begins and ends; returns which of these ends a condition sets.

    One that none sets may lie at the node's end as well as at the group's, where a dominance count needs no descent.
    """
    has = np.zeros((CONDITIONS_MAX, 2), np.bool_)
    ends[:, 0], ends[:, 1] = 0, n
    for k in range(len(edges)):
        if edges[k, _OF] != d:
            continue
        condition, is_end = edges[k, _CONDITION], edges[k, _IS_END]
        edge, end = found[edges[k, _SEARCH], edges[k, _SIDE]], ends[condition, is_end]
        if is_end:
            for q in range(len(end)):
                end[q] = min(end[q], edge[q])
        else:
            for q in range(len(end)):
                end[q] = max(end[q], edge[q])
        has[condition, is_end] = True
    for condition in range(CONDITIONS_MAX):
        if has[condition].all():
            for q in range(ends.shape[2]):
                ends[condition, 1, q] = max(ends[condition, 0, q], ends[condition, 1, q])
    return has


@inlined
def ascending(wanted: tuple[I64, I64, I64], searches: I64, edges: I64, d: int, condition: int, m: int) -> I64:
    """The m probes in the order in which one of a direction's conditions ends or begins, in every node the same."""
    for k in range(len(edges)):
        if edges[k, _OF] == d and edges[k, _CONDITION] == condition:
            begin, end = searches[edges[k, _SEARCH], _BEGIN], searches[edges[k, _SEARCH], _END]
            if end - begin == m:
                return wanted[1][begin:end]
    return np.arange(m)


@inlined
def count_between(
    n: int,
    direction: I64,
    matrices: I64,
    group: I64,
    ends: I64,
    has: NDArray[np.bool_],
    both: I64,
    states: I64,
    total: I64,
) -> None:
    """Add a direction's matches: the product of its conditions, where a complement is the group less the others.

    A condition that it hasn't got is a complement of nothing.
    """
    count_alone(direction, group, ends, has, total)
    if direction[SIGN] * direction[SIGN + 1] != 0:
        _overlap(n, direction[MATRIX_AT], matrices, ends, has, both, states)
        count_both(n, direction, group, has, both, total)


@inlined
def count_alone(direction: I64, group: I64, ends: I64, has: NDArray[np.bool_], total: I64) -> None:
    """Add what a direction's group and each of its conditions hold, but for the conditions' overlap."""
    for sign, begins, stops in alone(direction, group, ends, has):
        if sign != 0:
            for q in range(len(total)):
                total[q] += sign * (stops[q] - begins[q])


@inlined
def count_both(n: int, direction: I64, group: I64, has: NDArray[np.bool_], both: I64, total: I64) -> None:
    """Add the overlap of a direction's conditions, which `both` holds as if all n tuples were one group."""
    _leave_others(n, group, has, both)
    for q in range(len(total)):
        total[q] += direction[SIGN] * direction[SIGN + 1] * both[q]


@inlined
def alone(direction: I64, group: I64, ends: I64, has: NDArray[np.bool_]) -> tuple[tuple[int, I64, I64], ...]:
    """What the group and each condition add but for their overlap: a sign, or 0 for nothing, begins and ends."""
    x, y = direction[SIGN], direction[SIGN + 1]
    not_x, not_y = x != 1, y != 1
    return (
        (1 if not_x and not_y else 0, group[0], group[1]),
        (x if not_y else 0, ends[0, 0] if has[0, 0] else group[0], ends[0, 1] if has[0, 1] else group[1]),
        (y if not_x else 0, ends[1, 0] if has[1, 0] else group[0], ends[1, 1] if has[1, 1] else group[1]),
    )


@inlined
def _overlap(n: int, at: int, matrices: I64, ends: I64, has: NDArray[np.bool_], both: I64, states: I64) -> None:
    """What lies between the ends of both conditions."""
    x, y = (ends[0, 0], ends[0, 1]), (ends[1, 0], ends[1, 1])
    both[:] = 0
    if at < 0:
        for q in range(len(both)):
            both[q] = max(min(x[1][q], y[1][q]) - max(x[0][q], y[0][q]), 0)
        return
    matrix = matrices[at * MATRIX : (at + 1) * MATRIX]
    entries, leaves = levels(matrix[0], matrix[1], matrix[2]), octets(matrix[3], matrix[4])
    if has.all():
        add_bands(entries, leaves, n, x, y, both)
    else:
        add_rectangles(entries, leaves, n, x, y, states, both)


@inlined
def _leave_others(n: int, group: I64, has: NDArray[np.bool_], both: I64) -> None:
    """Take off what lies outside the group where neither condition has an end.

    All before the group in one order are so in the other, and all behind it.
    """
    if not (has[0, 0] or has[1, 0]):
        for q in range(len(both)):
            both[q] -= group[0, q]
    if not (has[0, 1] or has[1, 1]):
        for q in range(len(both)):
            both[q] -= n - group[1, q]
