"""Running sums beside a wavelet matrix: what a dominance count counts also has its weights summed, at one read a level.

A descent that turns right has counted the first zeros of a node. Running sums of a level's zeros, anew in each node,
give the weights of these. They are more than the caches hold, so that what many probes need of a level is fetched while
the level above is summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U8, U64
from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, LINE, bytes_below, line_sum, trace_step, weigh_step
from spojoin.kernels.memory import fetch_ahead, located, octets, signed_halves, signed_shorts, signed_words
from spojoin.kernels.running_sums import (
    BLOCK,
    EXCESSES,
    LEASTS,
    RUNNING_ENTRY,
    SPARE,
    WIDTH,
    RunningSums,
    bits_of,
    excess_type,
    greatest,
    running_at,
    shorten,
)
from spojoin.kernels.wavelet import Wavelet, corner_of, first_bits, rectangle_states, settle

#: The greatest absolute weights that fit 16 bits, and of which LINE fit 32 bits together.
_SHORT_MAX, _HALF_MAX = (1 << 15) - 1, (1 << 31) // LINE - 1

#: Words of a matrix's entry in a node's directory, and the places of those behind the running sums'.
MATRIX_ENTRY = RUNNING_ENTRY + 2
_LEAVES, _LEAF_WIDTH = RUNNING_ENTRY, RUNNING_ENTRY + 1


@dataclass(frozen=True, slots=True)
class SumMatrix:
    """What a wavelet matrix of 2**L values, h = 2**L / 2, needs besides to sum one row of weights.

    The running sum of zero z of a level, itself included, is leasts[level, z >> 5] + excesses[level, z].
    excesses: unsigned of 2, 4 or 8 bytes, (levels, h + SPARE); leasts: int64 (levels, h / BLOCK)
    leaves: int16, int32 or int64 (2**L,), the weights in the order of the leaves
    """

    excesses: NDArray[Any]
    leasts: I64
    leaves: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.excesses.nbytes + self.leasts.nbytes + self.leaves.nbytes

    @property
    def entry(self) -> list[int]:
        """The matrix's entry in a node's directory; the arrays must stay alive."""
        excesses, leasts, leaves = (located(each)[0] for each in (self.excesses, self.leasts, self.leaves))
        return [excesses, leasts, bits_of(self.excesses), leaves, bits_of(self.leaves)]


def build(permutation: NDArray[Any], weights: I64, matrix: Wavelet) -> SumMatrix:
    """The sums beside a permutation's matrix; weights: int64 (n,), by place in the permutation."""
    size, levels = len(matrix.leaves), len(matrix.entries)
    values, padded = np.arange(size, dtype=np.uint32), np.zeros(size, np.int64)
    values[: len(permutation)] = permutation
    padded[: len(weights)] = weights
    most = greatest(padded)
    excesses = np.empty((levels, size // 2 + SPARE), excess_type(most))
    leasts = np.empty((levels, size // 2 // BLOCK), np.int64)
    leaves = np.empty(size, np.int16 if most <= _SHORT_MAX else np.int32 if most <= _HALF_MAX else np.int64)
    spare = np.empty_like(values), np.empty_like(padded), np.empty(size // 2 + 1, np.int64)
    _build(values, padded, spare, excesses, leasts, leaves)
    return SumMatrix(excesses, leasts, leaves)


@kernel
def _build(
    values: NDArray[np.uint32],
    weights: I64,
    spare: tuple[NDArray[np.uint32], I64, I64],
    excesses: NDArray[Any],
    leasts: I64,
    leaves: NDArray[Any],
) -> None:
    count, sums = len(leasts), spare[2]
    other_values, other_weights = spare[0], spare[1]
    for level in range(count):
        shift = np.uint32(count + 5 - level)
        node = 64 << (count - level)
        for begin in range(0, len(values), node):
            _part(values, weights, other_values, other_weights, sums, begin, node, shift)
        shorten(sums[:-1], excesses[level], leasts[level])
        values, other_values = other_values, values
        weights, other_weights = other_weights, weights
    for place in range(len(leaves)):
        leaves[place] = weights[place]


@inlined
def _part(
    values: NDArray[np.uint32],
    weights: I64,
    other_values: NDArray[np.uint32],
    other_weights: I64,
    sums: I64,
    begin: int,
    node: int,
    shift: np.uint32,
) -> None:
    """Part a node's values by a bit, and sum its zeros, without a branch: a one writes the next zero's sum too."""
    low, high, zero, total = np.int64(begin), np.int64(begin + (node >> 1)), np.int64(begin >> 1), np.int64(0)
    for place in range(begin, begin + node):
        value, weight = values[place], weights[place]
        one = np.int64((value >> shift) & np.uint32(1))
        to = high if one else low
        other_values[to], other_weights[to] = value, weight
        total += weight & (one - 1)
        sums[zero] = total
        high += one
        low += 1 - one
        zero += 1 - one


def rectangle_sums(
    matrix: Wavelet, sums: Sequence[SumMatrix], orders: Sequence[Sequence[RunningSums]], n: int, first: I64, second: I64
) -> tuple[I64, I64]:
    """What each probe's rectangle holds, int64 (m,), and the weights of it, int64 (k, m), of k rows of weights.

    orders: by row, the running sums of the order of places, and of that of values; n: the permutation's length
    first, second: int64 (2, m), where the sides begin and end
    """
    entries = np.array([one.entry for one in sums], np.int64).reshape(len(sums), MATRIX_ENTRY)
    of_orders = np.array([[order.entry for order in each] for each in orders], np.int64)
    counts, found = np.zeros(first.shape[1], np.int64), np.zeros((len(sums), first.shape[1]), np.int64)
    visit = np.argsort(second[1] if second[1].min(initial=n) < n else second[0])
    of_orders = of_orders.reshape(len(sums), 2 * RUNNING_ENTRY)
    _rectangle_sums(matrix.entries, matrix.leaves, entries, of_orders, n, first, second, visit, counts, found)
    return counts, found


@kernel
def _rectangle_sums(
    bits: U64,
    leaves: U8,
    entries: I64,
    orders: I64,
    n: int,
    first: I64,
    second: I64,
    visit: I64,
    counts: I64,
    found: I64,
) -> None:
    m = len(counts)
    states = sum_states(rectangle_states(m).shape[1], len(found))
    sides = (first[0], first[1]), (second[0], second[1])
    add_weighed((bits, leaves), entries, orders, n, sides[0], sides[1], visit, states, counts, found)


@inlined
def add_weighed(
    matrix: tuple[U64, U8],
    entries: I64,
    orders: I64,
    n: int,
    first: tuple[I64, I64],
    second: tuple[I64, I64],
    visit: I64,
    states: tuple[I64, I64],
    counts: I64,
    weights: I64,
) -> np.uint64:
    """Add to each probe's count its rectangle, as `wavelet.add_rectangles`, and to its weights those of the same.

    matrix: entries and leaves of the matrix of n values; first, second: the rectangles' sides, [begin, end) int64 (m,)
    visit: int64 (m,), the probes in the order of the second side, so that one needs what its neighbours have read
    entries: int64 (k, MATRIX_ENTRY), of k rows of weights, zeros where one has none; orders: int64 (k, 2 *
    RUNNING_ENTRY), the running sums of both sides' orders; counts: int64 (m,), weights: int64 (k, m)
    states: room as of `sum_states`
    """
    places, caps, probes, signs = states[0][0], states[0][1], states[0][3], states[0][4]
    waiting, touched = 0, np.uint64(0)
    for corner in range(4):
        corner_places, corner_caps, sign = corner_of(corner, first, second)
        if _add_alike(orders, n, corner_places, corner_caps, sign, counts, weights):
            continue
        for q in visit:
            place, cap = corner_places[q], corner_caps[q]
            if place == 0 or cap == 0:
                continue
            if n in (place, cap):
                counts[q] += sign * min(place, cap)
                _add_whole(orders, n, place, cap, sign, q, weights)
                continue
            places[waiting], caps[waiting], probes[waiting], signs[waiting] = place, cap, q, sign
            waiting += 1
            if waiting == len(places) - LANES:
                touched += _descend(matrix, entries, states, n, waiting, counts, weights)
                waiting = 0
    return touched + _descend(matrix, entries, states, n, waiting, counts, weights)


@inlined
def sum_states(room: int, rows: int) -> tuple[I64, I64]:
    """Room for so many corners and rows of weights."""
    return np.empty((6, room), np.int64), np.empty((rows, room), np.int64)


@inlined
def _add_alike(orders: I64, n: int, places: I64, caps: I64, sign: int, counts: I64, weights: I64) -> bool:
    """Corners that are all empty, or of all of which the same side is whole: returns whether they are."""
    if _is_each(places, 0) or _is_each(caps, 0):
        return True
    if _is_each(caps, n):
        _add_order(orders[:, :RUNNING_ENTRY], places, sign, counts, weights)
        return True
    if _is_each(places, n):
        _add_order(orders[:, RUNNING_ENTRY:], caps, sign, counts, weights)
        return True
    return False


@inlined
def _is_each(values: I64, value: int) -> bool:
    others = 0
    for each in values:
        others += each != value
    return others == 0


@inlined
def _add_order(orders: I64, upto: I64, sign: int, counts: I64, weights: I64) -> None:
    """Corners of which one side is whole: the running sums of the other side's order."""
    for q in range(len(upto)):
        counts[q] += sign * upto[q]
    for k in range(len(weights)):
        if orders[k, EXCESSES] != 0:
            for q in range(len(upto)):
                weights[k, q] += sign * running_at(orders[k], upto[q])


@inlined
def _add_whole(orders: I64, n: int, place: int, cap: int, sign: int, q: int, weights: I64) -> None:
    """A corner that one side doesn't cut, among others."""
    side, upto = (0, place) if cap == n else (RUNNING_ENTRY, cap)
    for k in range(len(weights)):
        if orders[k, EXCESSES] != 0:
            weights[k, q] += sign * running_at(orders[k, side:], upto)


@inlined
def _descend(
    matrix: tuple[U64, U8], entries: I64, states: tuple[I64, I64], n: int, m: int, counts: I64, weights: I64
) -> np.uint64:
    """As `wavelet.descend`, with the weights of what is counted; lanes beyond m idle at the root.

    n: the places that are used
    """
    (bits, leaves), (lanes, sums) = matrix, states
    places, caps, totals, seen = lanes[0], lanes[1], lanes[2], lanes[5]
    totals[: m + LANES], places[m : m + LANES], caps[m : m + LANES] = 0, 0, 0
    sums[:, : m + LANES] = 0
    touched, count = np.uint64(0), len(bits)
    for level in range(count):
        row = bits[level]
        if 2 * m > len(row) >> 3:
            for word in range(0, _used(n, len(leaves) >> level) >> 5, 8):
                touched ^= row[word]
        for q in range(0, m, LANES):
            trace_step(row, places, caps, totals, seen, q, count + 5 - level)
        for k in range(len(entries)):
            if entries[k, EXCESSES] != 0:
                touched += _add_level(entries[k], level, count, len(leaves), n, seen, sums[k], m)
    if 2 * m > len(leaves) >> 6:
        for line in range(0, _used(n, LINE), LINE):
            touched ^= np.uint64(leaves[line])
    _add_leaves(leaves, entries, states, m)
    settle(totals, lanes[3], lanes[4], m, counts)
    for k in range(len(weights)):
        settle(sums[k], lanes[3], lanes[4], m, weights[k])
    return touched


@inlined
def _used(n: int, node: int) -> int:
    """The places of a level of nodes of so many: only nodes that hold any of n values are visited."""
    return (n + node - 1) & -node


@inlined
def _add_level(entry: I64, level: int, count: int, size: int, n: int, seen: I64, sums: I64, m: int) -> np.uint64:
    """Add what one of `count` levels has seen of one row of weights, and fetch the next one, or the leaves.

    All of the next one that is used, as in `wavelet.descend`, where m probes need most of its lines.
    """
    half, width, touched = size >> 1, entry[WIDTH], np.uint64(0)
    stride = (half + SPARE) << width
    excesses = entry[EXCESSES] + level * stride
    leasts = signed_words(entry[LEASTS], (level + 1) * (half // BLOCK))[level * (half // BLOCK) :]
    if level == 0:
        touched ^= _read(excesses, half << width, m)
    if level + 1 < count:
        ahead, due = excesses + stride, _used(n, size >> (level + 1)) >> 1 << width
    else:
        ahead, due = entry[_LEAVES], _used(n, LINE) << entry[_LEAF_WIDTH]
    each = (due // m >> 3) + 1 if 2 * m * LINE > due else 0
    for q in range(0, m, LANES):
        weigh_step(excesses, width, leasts, seen, sums, q)
        for _ in range(each):
            fetch_ahead(ahead)
            ahead += LINE
    return touched


@inlined
def _read(address: int, size: int, m: int) -> np.uint64:
    """Bring so many bytes into the cache where m probes need most of their lines."""
    touched = np.uint64(0)
    if m * 2 * LINE > size:
        read = octets(address, size)
        for line in range(0, size, LINE):
            touched ^= np.uint64(read[line])
    return touched


@inlined
def _add_leaves(leaves: U8, entries: I64, states: tuple[I64, I64], m: int) -> None:
    (lanes, sums), size = states, len(leaves)
    places, caps, totals = lanes[0], lanes[1], lanes[2]
    for q in range(m):
        leaf = caps[q] & ~np.int64(LINE - 1)
        within = bytes_below(leaves, leaf, caps[q] & (LINE - 1)) & first_bits(places[q] - leaf)
        totals[q] += np.int64(popcount(within))
        for k in range(len(entries)):
            if entries[k, EXCESSES] != 0:
                sums[k, q] += _line_of(entries[k], leaf, size, within)


@inlined
def _line_of(entry: I64, leaf: int, size: int, within: np.uint64) -> np.int64:
    if entry[_LEAF_WIDTH] == 1:
        return np.int64(line_sum(signed_shorts(entry[_LEAVES], size), leaf, within))
    if entry[_LEAF_WIDTH] == 2:
        return np.int64(line_sum(signed_halves(entry[_LEAVES], size), leaf, within))
    return np.int64(line_sum(signed_words(entry[_LEAVES], size), leaf, within))
