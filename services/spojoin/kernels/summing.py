"""Sums of weights of what probes match: as many as counts take steps, and a running sum more at each.

Within both conditions' ends `sum_matrix` sums along a descent; an interval of one order is a subtraction of its running
sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U32
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.counting import (
    CONDITIONS_MAX,
    MATRIX,
    MATRIX_AT,
    SIGN,
    CountPlan,
    alone,
    ascending,
    count_alone,
    count_between,
    count_both,
    find_ends,
    find_group,
    room,
    search_node,
)
from spojoin.kernels.memory import levels, octets
from spojoin.kernels.running_sums import RUNNING_ENTRY, RunningSums, running_at
from spojoin.kernels.sum_matrix import MATRIX_ENTRY, SumMatrix, add_weighed, sum_states

#: Words of a row's entry in a node's directory: the running sums of the orders of both conditions, then the matrix's;
#: zeros where the node's tuples all weigh nothing, or where a direction has no such condition.
_ORDERS = CONDITIONS_MAX * RUNNING_ENTRY
ENTRY = _ORDERS + MATRIX_ENTRY


def row_entry(orders: Sequence[RunningSums], matrix: SumMatrix | None) -> list[int]:
    """A row's entry in a node's directory: the running sums of the conditions' orders, and of their matrix."""
    of_orders = [word for order in orders for word in order.entry]
    of_matrix = [0] * MATRIX_ENTRY if matrix is None else matrix.entry
    return [*of_orders, *[0] * (_ORDERS - len(of_orders)), *of_matrix]


def sums(nodes: I64, entries: I64, plan: CountPlan, m: int) -> tuple[I64, I64]:
    """The matches of m probes in n nodes in the one direction of a plan, int64 (m,), and their weights, int64 (k, m).

    nodes: as in `counting.counts`; entries: int64 (n, k, ENTRY), those of k rows of weights
    """
    totals, weights = np.zeros(m, np.int64), np.zeros((entries.shape[1], m), np.int64)
    _add_sums(
        nodes,
        entries,
        (plan.values, plan.places, plan.starts),
        plan.searches,
        plan.directions,
        plan.edges,
        plan.groups,
        totals,
        weights,
    )
    return totals, weights


def listed_sums(begins: I64, lengths: I64, places: I64, weights: I64) -> I64:
    """The weights, int64 (k, m), of listed places: probe q's are `lengths[q]` from `begins[q]` on."""
    found = np.zeros((len(weights), len(begins)), np.int64)
    _add_listed(begins, lengths, places, weights, found)
    return found


@kernel
def _add_sums(
    nodes: I64,
    entries: I64,
    wanted: tuple[I64, I64, I64],
    searches: I64,
    directions: I64,
    edges: I64,
    groups: U32,
    totals: I64,
    weights: I64,
) -> None:
    found, group, ends, both, states = room(searches, len(totals))
    weighed, overlaps = sum_states(states.shape[1], len(weights)), np.empty_like(weights)
    direction = directions[0]
    crosses = direction[SIGN] * direction[SIGN + 1] != 0 and direction[MATRIX_AT] >= 0
    visit = ascending(wanted, searches, edges, 0, 1, len(totals))
    for i in range(len(nodes)):
        n, matrices = nodes[i, 0], search_node(nodes[i], wanted, searches, found)
        find_group(n, direction, found, groups, group)
        has = find_ends(n, 0, edges, found, ends)
        if crosses and entries[i].any():
            count_alone(direction, group, ends, has, totals)
            both[:], overlaps[:] = 0, 0
            _overlap(n, direction[MATRIX_AT], matrices, entries[i], ends, visit, weighed, both, overlaps)
            count_both(n, direction, group, has, both, totals)
        else:
            count_between(n, direction, matrices, group, ends, has, both, states, totals)
        for k in range(len(weights)):
            if entries[i, k, 0] != 0:
                _weigh(n, direction, entries[i, k], group, ends, has, overlaps[k], weights[k])


@inlined
def _overlap(
    n: int,
    at: int,
    matrices: I64,
    entries: I64,
    ends: I64,
    visit: I64,
    states: tuple[I64, I64],
    both: I64,
    overlaps: I64,
) -> None:
    """What lies between the ends of both conditions, on two orders, and what it weighs."""
    matrix = matrices[at * MATRIX : (at + 1) * MATRIX]
    bits, leaves = levels(matrix[0], matrix[1], matrix[2]), octets(matrix[3], matrix[4])
    first, second = (ends[0, 0], ends[0, 1]), (ends[1, 0], ends[1, 1])
    orders, of_matrices = entries[:, :_ORDERS], entries[:, _ORDERS:]
    add_weighed((bits, leaves), of_matrices, orders, n, first, second, visit, states, both, overlaps)


@inlined
def _weigh(
    n: int,
    direction: I64,
    entry: I64,
    group: I64,
    ends: I64,
    has: NDArray[np.bool_],
    overlap: I64,
    total: I64,
) -> None:
    """Add the weights of a direction's matches, as `counting.count_between` adds their number.

    overlap: of both conditions, where they are on two orders; overwritten
    """
    x, y = direction[SIGN], direction[SIGN + 1]
    first = entry[:RUNNING_ENTRY]
    second = entry[RUNNING_ENTRY:_ORDERS] if entry[RUNNING_ENTRY] != 0 else first
    whole, in_first, in_second = alone(direction, group, ends, has)
    for (sign, begins, stops), order in ((whole, first), (in_first, first), (in_second, second)):
        if sign != 0:
            for q in range(len(total)):
                total[q] += sign * (running_at(order, stops[q]) - running_at(order, begins[q]))
    if x * y != 0:
        if direction[MATRIX_AT] < 0:
            for q in range(len(overlap)):
                begin = max(ends[0, 0, q], ends[1, 0, q])
                end = max(begin, min(ends[0, 1, q], ends[1, 1, q]))
                overlap[q] = running_at(first, end) - running_at(first, begin)
        _leave_others(n, first, group, has, overlap)
        for q in range(len(total)):
            total[q] += x * y * overlap[q]


@inlined
def _leave_others(n: int, sums: I64, group: I64, has: NDArray[np.bool_], overlap: I64) -> None:
    """As in `counting`: what lies outside the group where neither condition has an end."""
    if not (has[0, 0] or has[1, 0]):
        for q in range(len(overlap)):
            overlap[q] -= running_at(sums, group[0, q])
    if not (has[0, 1] or has[1, 1]):
        for q in range(len(overlap)):
            overlap[q] -= running_at(sums, n) - running_at(sums, group[1, q])


@kernel
def _add_listed(begins: I64, lengths: I64, places: I64, weights: I64, found: I64) -> None:
    for k in range(len(weights)):
        for q in range(len(begins)):
            total = np.int64(0)
            for i in range(begins[q], begins[q] + lengths[q]):
                total += weights[k, places[i]]
            found[k, q] += total
