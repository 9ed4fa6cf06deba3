"""Sums of weights of what probes match: as many as counts take steps, and a running sum more at each.

A descent of a wavelet matrix that turns right has counted the left half of a node up to a place; with running sums of
the left halves of a level, the weights of these are a subtraction. Those of an order's intervals are one as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.counting import (
    CONDITIONS_MAX,
    MATRIX,
    MATRIX_AT,
    SIGN,
    CountPlan,
    alone,
    count_between,
    find_ends,
    find_group,
    room,
    search_node,
)
from spojoin.kernels.lanes import LANES, LINE
from spojoin.kernels.memory import levels, located, octets, signed_words
from spojoin.kernels.wavelet import Wavelet, corner_of, settle

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]

#: Words of a row's entry in a node's directory: the running sums of the orders of both conditions, the sums of left
#: halves and of leaves; zeros where the node's tuples all weigh nothing, or where a direction has no such condition.
ENTRY = 4
#: Stored tuples that are weighed at once: the masks of so many stay in the cache.
_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class SumMatrix:
    """What a wavelet matrix needs besides to sum one row of weights.

    lefts: int64 (levels, 2**L / 2 + 1), by level, the weights of so many of the values in left halves
    leaves: int64 (2**L,), the weights in the order of the leaves
    """

    lefts: I64
    leaves: I64

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.lefts.nbytes + self.leaves.nbytes


def build(permutation: NDArray[Any], weights: I64, matrix: Wavelet) -> SumMatrix:
    """The sums beside a permutation's matrix; weights: int64 (n,), by place in the permutation."""
    size = len(matrix.leaves)
    values = np.arange(size, dtype=np.uint32)
    values[: len(permutation)] = permutation
    padded = np.zeros(size, np.int64)
    padded[: len(weights)] = weights
    lefts = np.empty((len(matrix.entries), size // 2 + 1), np.int64)
    leaves = np.empty(size, np.int64)
    _build(values, padded, np.empty_like(values), np.empty_like(padded), lefts, leaves)
    return SumMatrix(lefts, leaves)


def running(order: NDArray[Any], weights: I64) -> I64:
    """The weights of the first tuples in an order: int64 (n + 1,); weights by offset."""
    sums = np.zeros(len(order) + 1, np.int64)
    np.cumsum(weights[order], out=sums[1:])
    return sums


def row_entry(orders: Sequence[I64], matrix: SumMatrix | None) -> list[int]:
    """A row's entry in a node's directory: the running sums of the conditions' orders, and of their matrix."""
    addresses = [located(order)[0] for order in orders]
    of_matrix = [0, 0] if matrix is None else [located(matrix.lefts)[0], located(matrix.leaves)[0]]
    return [*addresses, *[0] * (CONDITIONS_MAX - len(addresses)), *of_matrix]


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


def masked_sums(
    ranks: Sequence[U16], starts: Sequence[U16], lengths: Sequence[U16], slice_lo: I64, slice_hi: I64, weights: I64
) -> I64:
    """The weights, int64 (k, m), of what `intervals16.and_counts` counts; weights: int64 (k, n)."""
    found = np.zeros((len(weights), len(slice_lo)), np.int64)
    if len(weights):
        stacked = np.stack(ranks), np.stack(starts), np.stack(lengths)
        _add_masked(*stacked, slice_lo, slice_hi, np.ascontiguousarray(weights), found)
    return found


def listed_sums(begins: I64, lengths: I64, places: I64, weights: I64) -> I64:
    """The weights, int64 (k, m), of listed places: probe q's are `lengths[q]` from `begins[q]` on."""
    found = np.zeros((len(weights), len(begins)), np.int64)
    _add_listed(begins, lengths, places, weights, found)
    return found


@kernel
def _build(values: U32, weights: I64, spare: U32, other: I64, lefts: I64, leaves: I64) -> None:
    size, count = len(values), len(lefts)
    for level in range(count):
        shift = np.uint32(count + 5 - level)
        node = np.int64(2) << np.int64(shift)
        row, zeros, total = lefts[level], 0, np.int64(0)
        low, high = np.int64(0), np.int64(node >> 1)
        for place in range(size):
            if place & (node - 1) == 0:
                low, high = np.int64(place), np.int64(place + (node >> 1))
            if (values[place] >> shift) & np.uint32(1):
                spare[high], other[high] = values[place], weights[place]
                high += 1
            else:
                spare[low], other[low] = values[place], weights[place]
                low += 1
                row[zeros] = total
                total += weights[place]
                zeros += 1
        row[zeros] = total
        values, spare = spare, values
        weights, other = other, weights
    leaves[:] = weights


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
    for i in range(len(nodes)):
        matrices = search_node(nodes[i], wanted, searches, found)
        find_group(nodes[i, 0], directions[0], found, groups, group)
        has = find_ends(nodes[i, 0], 0, edges, found, ends)
        count_between(nodes[i, 0], directions[0], matrices, group, ends, has, both, states, totals)
        for k in range(len(weights)):
            if entries[i, k, 0] != 0:
                _weigh(nodes[i, 0], directions[0], matrices, entries[i, k], group, ends, has, both, states, weights[k])


@inlined
def _weigh(
    n: int,
    direction: I64,
    matrices: I64,
    entry: I64,
    group: I64,
    ends: I64,
    has: NDArray[np.bool_],
    both: I64,
    states: I64,
    total: I64,
) -> None:
    """Add the weights of a direction's matches, as `counting.count_between` adds their number."""
    x, y = direction[SIGN], direction[SIGN + 1]
    first = signed_words(entry[0], n + 1)
    second = signed_words(entry[1] if entry[1] != 0 else entry[0], n + 1)
    whole, in_first, in_second = alone(direction, group, ends, has)
    for (sign, begins, stops), order in ((whole, first), (in_first, first), (in_second, second)):
        if sign != 0:
            for q in range(len(total)):
                total[q] += sign * (order[stops[q]] - order[begins[q]])
    if x * y != 0:
        both[:] = 0
        if direction[MATRIX_AT] < 0:
            for q in range(len(both)):
                begin = max(ends[0, 0, q], ends[1, 0, q])
                both[q] = first[max(begin, min(ends[0, 1, q], ends[1, 1, q]))] - first[begin]
        else:
            at = direction[MATRIX_AT] * MATRIX
            matrix = matrices[at : at + MATRIX]
            bits, leaves = levels(matrix[0], matrix[1], matrix[2]), octets(matrix[3], matrix[4])
            lefts = signed_words(entry[2], matrix[1] * (matrix[4] // 2 + 1)).reshape((matrix[1], matrix[4] // 2 + 1))
            of_leaves = signed_words(entry[3], matrix[4])
            _add_rectangles(bits, leaves, lefts, of_leaves, n, (first, second), ends, states, both)
        _leave_others(n, first, group, has, both)
        for q in range(len(total)):
            total[q] += x * y * both[q]


@inlined
def _leave_others(n: int, sums: I64, group: I64, has: NDArray[np.bool_], both: I64) -> None:
    """As in `counting`: what lies outside the group where neither condition has an end."""
    if not (has[0, 0] or has[1, 0]):
        for q in range(len(both)):
            both[q] -= sums[group[0, q]]
    if not (has[0, 1] or has[1, 1]):
        for q in range(len(both)):
            both[q] -= sums[n] - sums[group[1, q]]


@inlined
def _add_rectangles(
    bits: U64,
    leaves: U8,
    lefts: I64,
    of_leaves: I64,
    n: int,
    orders: tuple[I64, I64],
    ends: I64,
    states: I64,
    weights: I64,
) -> None:
    """Add to each probe's weights those of its rectangle, corner by corner, with alternating signs."""
    places, caps, totals, probes, signs = states[0], states[1], states[2], states[3], states[4]
    waiting = 0
    for corner in range(4):
        corner_places, corner_caps, sign = corner_of(corner, (ends[0, 0], ends[0, 1]), (ends[1, 0], ends[1, 1]))
        for q in range(len(weights)):
            place, cap = corner_places[q], corner_caps[q]
            if place == 0 or cap == 0:
                continue
            if cap == n:
                weights[q] += sign * orders[0][place]
                continue
            if place == n:
                weights[q] += sign * orders[1][cap]
                continue
            places[waiting], caps[waiting], probes[waiting], signs[waiting] = place, cap, q, sign
            waiting += 1
            if waiting == len(places) - LANES:
                _descend(bits, leaves, lefts, of_leaves, places, caps, totals, waiting)
                settle(totals, probes, signs, waiting, weights)
                waiting = 0
    _descend(bits, leaves, lefts, of_leaves, places, caps, totals, waiting)
    settle(totals, probes, signs, waiting, weights)


@inlined
def _descend(bits: U64, leaves: U8, lefts: I64, of_leaves: I64, places: I64, caps: I64, totals: I64, m: int) -> None:
    """totals[q]: the weights of #{i < places[q]: permutation[i] < caps[q]}, q < m; overwrites the places.

    Both halves are read whichever way a probe turns: a branch would be foreseen wrongly half the time.
    """
    count = len(bits)
    totals[:m] = 0
    for level in range(count):
        row, sums, shift = bits[level], lefts[level], count + 5 - level
        half = np.int64(1) << shift
        for q in range(m):
            place, cap = places[q], caps[q]
            start = cap & ~(2 * half - 1)
            entry = row[place >> 5]
            below = entry & ((np.uint64(1) << np.uint64(place & 31)) - np.uint64(1))
            zeros = np.int64(entry >> np.uint64(32)) + np.int64(popcount(below))
            turn = -((cap >> shift) & 1)
            totals[q] += (sums[zeros] - sums[start >> 1]) & turn
            left = start + zeros - (start >> 1)
            right = half + place - zeros + (start >> 1)
            places[q] = (right & turn) | (left & ~turn)
    for q in range(m):
        leaf = caps[q] & ~np.int64(LINE - 1)
        cap, total = np.uint8(caps[q] & (LINE - 1)), np.int64(0)
        of_leaf, weights = leaves[leaf : places[q]], of_leaves[leaf : places[q]]
        for i in range(len(of_leaf)):
            total += weights[i] if of_leaf[i] < cap else np.int64(0)
        totals[q] += total


@kernel
def _add_masked(ranks: U16, starts: U16, lengths: U16, slice_lo: I64, slice_hi: I64, weights: I64, found: I64) -> None:
    holds = np.empty(_BLOCK, np.int64)
    for q in range(len(slice_lo)):
        for begin in range(slice_lo[q], slice_hi[q], _BLOCK):
            end = min(begin + _BLOCK, slice_hi[q])
            masks = holds[: end - begin]
            masks[:] = -1
            for p in range(len(ranks)):
                stored, start, length = ranks[p, begin:end], starts[p, q], lengths[p, q]
                for j in range(len(stored)):
                    masks[j] &= -np.int64(np.uint16(stored[j] - start) < length)
            for k in range(len(weights)):
                of_block, total = weights[k, begin:end], np.int64(0)
                for j in range(len(of_block)):
                    total += of_block[j] & masks[j]
                found[k, q] += total


@kernel
def _add_listed(begins: I64, lengths: I64, places: I64, weights: I64, found: I64) -> None:
    for k in range(len(weights)):
        for q in range(len(begins)):
            total = np.int64(0)
            for i in range(begins[q], begins[q] + lengths[q]):
                total += weights[k, places[i]]
            found[k, q] += total
