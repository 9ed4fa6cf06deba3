"""The inner loops of the stream-aware index: insertion, probing, and emptying a tree."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel
from spojoin.methods.bit_arrays import U64, count_bits, list_bits, room_for, set_bit
from spojoin.methods.insert_tree import (
    ENTRIES,
    KEYS,
    NEXT,
    NONE,
    SIZE,
    Trees,
    clear,
    first_leaf,
    has_room,
    insert,
    seek,
)
from spojoin.methods.side import I64
from spojoin.methods.tally import COMPARISONS, NODES

#: Trees of hot keys; those behind are the linked ones.
HOT: Final = 2

#: Places in the int64 array that tells how far a slice is done.
TUPLE: Final = 0
PROBE: Final = 1
USED: Final = 2
TURN: Final = 3

LEAST: Final = -(1 << 63)
GREATEST: Final = (1 << 63) - 1
_MULTIPLIER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)


class Asks(NamedTuple):
    """m probes: lo, hi int64 (tests of all roles, m); lower, upper int64 (m,).

    columns: int64 (tests,); negated: bool (tests,); starts: int64 (roles + 1,)
    leads: int64 (roles,), the test that the trees answer, or NONE where all tuples are candidates
    """

    lo: I64
    hi: I64
    lower: I64
    upper: I64
    columns: I64
    negated: NDArray[np.bool_]
    starts: I64
    leads: I64


@kernel
def put(trees: Trees, tree: int, keys: I64, indexes: I64, begin: int, work: I64) -> int:
    """Insert entries from place `begin` on, while there is room; how far that came."""
    while begin < len(keys) and has_room(trees):
        insert(trees, tree, keys[begin], indexes[begin], work)
        begin += 1
    return begin


@kernel
def pick(trees: Trees, tree: int, keys: I64, indexes: I64) -> None:
    """Write a tree's entries into arrays of that length, keys ascending, and clear it."""
    values = (trees.nodes.shape[1] + KEYS) >> 1
    node, at = first_leaf(trees, tree), 0
    while node != NONE:
        for j in range(trees.nodes[node, SIZE]):
            keys[at], indexes[at] = trees.nodes[node, KEYS + j], trees.nodes[node, values + j]
            at += 1
        node = trees.nodes[node, NEXT]
    clear(trees, tree)


@inlined
def _worker(index: int, choices: int, load: I64) -> int:
    """One of the workers for what is cold: at random, or the less loaded of two at random."""
    cold = np.uint64(len(load) - HOT)
    draw = np.uint64(index + 1) * _MULTIPLIER
    draw ^= draw >> np.uint64(29)
    one = HOT + np.int64((draw >> np.uint64(32)) % cold)
    two = HOT + np.int64((draw & np.uint64(0xFFFF_FFFF)) % cold)
    return int(two) if choices > 1 and load[two] < load[one] else int(one)


@inlined
def _passes(codes: I64, place: int, asks: Asks, role: int, q: int, work: I64) -> bool:
    for k in range(asks.starts[role], asks.starts[role + 1]):
        work[COMPARISONS] += 1
        code = codes[asks.columns[k], place]
        if ((code >= asks.lo[k, q]) & (code <= asks.hi[k, q])) == asks.negated[k]:
            return False
    return True


@inlined
def _search(
    trees: Trees, tree: int, codes: I64, origin: int, asks: Asks, role: int, q: int, end: int, bits: U64, work: I64
) -> None:
    """Set the bits of the tree's tuples that pass."""
    lead = asks.leads[role]
    low, high = LEAST, GREATEST
    if lead != NONE:
        low, high = asks.lo[lead, q], asks.hi[lead, q]
    values = (trees.nodes.shape[1] + KEYS) >> 1
    node, place = seek(trees, tree, low, work)
    while node != NONE:
        size = trees.nodes[node, SIZE]
        while place < size and trees.nodes[node, KEYS + place] <= high:
            index = trees.nodes[node, values + place]
            if asks.lower[q] <= index < end and _passes(codes, index - origin, asks, role, q, work):
                set_bit(bits, index - asks.lower[q])
            place += 1
        if place < size:
            break
        node, place = trees.nodes[node, NEXT], 0
        work[NODES] += 1


@kernel
def advance(
    codes: I64,
    origin: int,
    begin: int,
    end: int,
    column: int,
    is_hot: NDArray[np.bool_],
    active: int,
    linked: I64,
    choices: int,
    load: I64,
    trees: Trees,
    asks: Asks,
    is_listed: bool,
    done: I64,
    counts: I64,
    out: I64,
    bits: U64,
    work: I64,
) -> I64:
    """Insert tuples [begin, end) and probe in the order of arrival, until all is done or nodes run out.

    codes, origin: the window's buffer, as `Window` has them; is_hot: of each of the tuples; linked: the trees in use
    Returns the list of partners, by probe and role, moved where it had to grow.
    """
    m = len(asks.upper)
    while True:
        q = done[PROBE]
        until = asks.upper[q] if q < m else end
        while begin + done[TUPLE] < until:
            if not has_room(trees):
                return out
            index = begin + done[TUPLE]
            tree, worker = active, 0
            if is_hot[done[TUPLE]]:
                tree = worker = done[TURN] % HOT
                done[TURN] += 1
            else:
                worker = _worker(index, choices, load)
            load[worker] += 1
            insert(trees, tree, codes[column, index - origin], index, work)
            done[TUPLE] += 1
        if q == m:
            return out
        span = asks.upper[q] - asks.lower[q]
        for role in range(len(asks.leads)):
            bits[: (span + 63) >> 6] = 0
            for tree in linked:
                if trees.heads[tree, ENTRIES]:
                    _search(trees, tree, codes, origin, asks, role, q, asks.upper[q], bits, work)
            found = count_bits(bits, 0, span)
            counts[q, role] = found
            if is_listed:
                out = room_for(out, done[USED], found)
                done[USED] = list_bits(bits, 0, span, asks.lower[q], out, done[USED])
        done[PROBE] += 1
