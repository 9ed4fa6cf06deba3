"""Running sums beside a wavelet matrix: what a dominance count counts also has its weights summed, at one read a level.

A descent that turns right has counted the first zeros of a node. Running sums of a level's zeros, anew in each node,
give the weights of these. They fill the cache rather than the processor, so that each is stored as what it exceeds the
least of its block by, in as few bytes as hold that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel, popcount
from spojoin.kernels.lanes import LANES, LINE, bytes_below, line_sum, trace_step, weigh_step
from spojoin.kernels.memory import located, octets, signed_halves, signed_shorts, signed_words
from spojoin.kernels.wavelet import Wavelet, corner_of, first_bits, rectangle_states, settle

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]

#: Running sums of a block: nodes of all levels hold whole blocks of zeros.
_BLOCK = 32
#: Bits of a sum's width in bytes that are tried, and that hold whatever comes.
_NARROWEST, _WIDEST = 1, 3
#: The greatest absolute weights that fit 16 bits, and of which LINE fit 32 bits together.
_SHORT_MAX, _HALF_MAX = (1 << 15) - 1, (1 << 31) // LINE - 1
#: Sums are read eight bytes at a time, also the last ones.
_SPARE = 8

#: Words of a matrix's entry in a node's directory, and their places.
MATRIX_ENTRY = 5
_EXCESSES, _LEASTS, _WIDTH, _LEAVES, _LEAF_WIDTH = range(MATRIX_ENTRY)


@dataclass(frozen=True, slots=True)
class SumMatrix:
    """What a wavelet matrix of 2**L values, h = 2**L / 2, needs besides to sum one row of weights.

    The running sum of zero z of a level, itself included, is leasts[level, z >> 5] + excesses[level, z].
    excesses: unsigned of 2, 4 or 8 bytes, (levels, h + _SPARE); leasts: int64 (levels, h / 32)
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
        return [excesses, leasts, _bits(self.excesses), leaves, _bits(self.leaves)]


def build(permutation: NDArray[Any], weights: I64, matrix: Wavelet) -> SumMatrix:
    """The sums beside a permutation's matrix; weights: int64 (n,), by place in the permutation."""
    size, levels = len(matrix.leaves), len(matrix.entries)
    values, padded = np.arange(size, dtype=np.uint32), np.zeros(size, np.int64)
    values[: len(permutation)] = permutation
    padded[: len(weights)] = weights
    greatest = _greatest(padded)
    width = _width(greatest)
    excesses = np.empty((levels, size // 2 + _SPARE), np.dtype(f"u{1 << width}"))
    leasts = np.empty((levels, size // 2 // _BLOCK), np.int64)
    short, half = greatest <= _SHORT_MAX, greatest <= _HALF_MAX
    leaves = np.empty(size, np.int16 if short else np.int32 if half else np.int64)
    sums = np.empty(size // 2, np.int64)
    _build(values, padded, (np.empty_like(values), np.empty_like(padded), sums), excesses, leasts, leaves)
    return SumMatrix(excesses, leasts, leaves)


def running(order: NDArray[Any], weights: I64) -> I64:
    """The weights of the first tuples in an order: int64 (n + 1,); weights by offset."""
    sums = np.zeros(len(order) + 1, np.int64)
    np.cumsum(weights[order], out=sums[1:])
    return sums


def _bits(numbers: NDArray[Any]) -> int:
    """The bits of a number's bytes: numbers take 1 << bits bytes each."""
    return numbers.itemsize.bit_length() - 1


def _width(greatest: int) -> int:
    """The bits of the width that holds what a block's sums differ by."""
    bits = (greatest * (_BLOCK - 1)).bit_length()
    return max(_NARROWEST, min(_WIDEST, (max(bits, 1) - 1).bit_length() - 3))


@kernel
def _greatest(weights: I64) -> int:
    greatest = np.int64(0)
    for weight in weights:
        greatest = max(greatest, abs(weight))
    return int(greatest)


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
        node = np.int64(2) << np.int64(shift)
        low, high, zero, total = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for place in range(len(values)):
            if place & (node - 1) == 0:
                low, high, zero, total = (
                    np.int64(place),
                    np.int64(place + (node >> 1)),
                    np.int64(place >> 1),
                    np.int64(0),
                )
            if (values[place] >> shift) & np.uint32(1):
                other_values[high], other_weights[high] = values[place], weights[place]
                high += 1
            else:
                other_values[low], other_weights[low] = values[place], weights[place]
                low += 1
                total += weights[place]
                sums[zero] = total
                zero += 1
        _shorten(sums, excesses[level], leasts[level])
        values, other_values = other_values, values
        weights, other_weights = other_weights, weights
    for place in range(len(leaves)):
        leaves[place] = weights[place]


@inlined
def _shorten(sums: I64, excesses: NDArray[Any], leasts: I64) -> None:
    for block in range(len(leasts)):
        begin = block * _BLOCK
        least = sums[begin]
        for zero in range(begin + 1, begin + _BLOCK):
            least = min(least, sums[zero])
        leasts[block] = least
        for zero in range(begin, begin + _BLOCK):
            excesses[zero] = sums[zero] - least
    excesses[len(sums) :] = 0


def rectangle_sums(
    matrix: Wavelet, sums: Sequence[SumMatrix], orders: Sequence[Sequence[I64]], n: int, first: I64, second: I64
) -> I64:
    """The weights of each probe's rectangle, int64 (k, m), of k rows of weights.

    orders: by row, the running sums of the order of places, and of that of values; n: the permutation's length
    first, second: int64 (2, m), where the sides begin and end
    """
    entries = np.array([one.entry for one in sums], np.int64).reshape(len(sums), MATRIX_ENTRY)
    addresses = np.array([[located(order)[0] for order in each] for each in orders], np.int64).reshape(len(sums), 2)
    found = np.zeros((len(sums), first.shape[1]), np.int64)
    _rectangle_sums(matrix.entries, matrix.leaves, entries, addresses, n, first, second, found)
    return found


@kernel
def _rectangle_sums(
    bits: U64, leaves: U8, entries: I64, orders: I64, n: int, first: I64, second: I64, found: I64
) -> None:
    m = found.shape[1]
    states = sum_states(rectangle_states(m).shape[1], len(found))
    sides = (first[0], first[1]), (second[0], second[1])
    visit, counts = np.argsort(second[1]), np.zeros(m, np.int64)
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

    matrix: entries and leaves of the wavelet matrix of n values; first, second: the rectangles' sides, [begin, end)
    int64 (m,) each
    visit: int64 (m,), the probes in the order of the second side, so that one needs what its neighbours have read
    entries: int64 (k, MATRIX_ENTRY), of k rows of weights, zeros where one has none; orders: int64 (k, 2), the
    addresses of the running sums of both sides' orders; counts: int64 (m,), weights: int64 (k, m)
    states: room as of `sum_states`
    """
    places, caps, probes, signs = states[0][0], states[0][1], states[0][3], states[0][4]
    waiting, touched = 0, np.uint64(0)
    for corner in range(4):
        corner_places, corner_caps, sign = corner_of(corner, first, second)
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
                touched += _descend(matrix, entries, states, waiting, counts, weights)
                waiting = 0
    return touched + _descend(matrix, entries, states, waiting, counts, weights)


@inlined
def sum_states(room: int, rows: int) -> tuple[I64, I64]:
    """Room for so many corners and rows of weights."""
    return np.empty((6, room), np.int64), np.empty((rows, room), np.int64)


@inlined
def _add_whole(orders: I64, n: int, place: int, cap: int, sign: int, q: int, weights: I64) -> None:
    """A corner that one side doesn't cut: the running sums of the other side's order."""
    side, upto = (0, place) if cap == n else (1, cap)
    for k in range(len(weights)):
        if orders[k, 0] != 0:
            weights[k, q] += sign * signed_words(orders[k, side], n + 1)[upto]


@inlined
def _descend(
    matrix: tuple[U64, U8], entries: I64, states: tuple[I64, I64], m: int, counts: I64, weights: I64
) -> np.uint64:
    """As `wavelet.descend`, with the weights of what is counted; lanes beyond m idle at the root."""
    (bits, leaves), (lanes, sums) = matrix, states
    places, caps, totals, seen = lanes[0], lanes[1], lanes[2], lanes[5]
    totals[: m + LANES], places[m : m + LANES], caps[m : m + LANES] = 0, 0, 0
    sums[:, : m + LANES] = 0
    touched, count = np.uint64(0), len(bits)
    for level in range(count):
        row = bits[level]
        if 2 * m > len(row) >> 3:
            for word in range(0, len(row), 8):
                touched ^= row[word]
        for q in range(0, m, LANES):
            trace_step(row, places, caps, totals, seen, q, count + 5 - level)
        for k in range(len(entries)):
            if entries[k, _EXCESSES] != 0:
                touched += _add_level(entries[k], level, len(leaves) >> 1, seen, sums[k], m)
    if 2 * m > len(leaves) >> 6:
        for line in range(0, len(leaves), LINE):
            touched ^= np.uint64(leaves[line])
    for k in range(len(entries)):
        if entries[k, _EXCESSES] != 0:
            touched ^= _read(entries[k, _LEAVES], len(leaves) << entries[k, _LEAF_WIDTH], m)
    _add_leaves(leaves, entries, states, m)
    settle(totals, lanes[3], lanes[4], m, counts)
    for k in range(len(weights)):
        settle(sums[k], lanes[3], lanes[4], m, weights[k])
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
            if entries[k, _EXCESSES] != 0:
                sums[k, q] += _line_of(entries[k], leaf, size, within)


@inlined
def _add_level(entry: I64, level: int, half: int, seen: I64, sums: I64, m: int) -> np.uint64:
    """Add what a level has seen of one row of weights; read whole, as in `wavelet.descend`, where most of it is due."""
    touched, width = np.uint64(0), entry[_WIDTH]
    excesses = entry[_EXCESSES] + level * ((half + _SPARE) << width)
    leasts = signed_words(entry[_LEASTS], (level + 1) * (half // _BLOCK))[level * (half // _BLOCK) :]
    touched ^= _read(excesses, half << width, m)
    for q in range(0, m, LANES):
        weigh_step(excesses, width, leasts, seen, sums, q)
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
def _line_of(entry: I64, leaf: int, size: int, within: np.uint64) -> np.int64:
    if entry[_LEAF_WIDTH] == 1:
        return np.int64(line_sum(signed_shorts(entry[_LEAVES], size), leaf, within))
    if entry[_LEAF_WIDTH] == 2:
        return np.int64(line_sum(signed_halves(entry[_LEAVES], size), leaf, within))
    return np.int64(line_sum(signed_words(entry[_LEAVES], size), leaf, within))
