"""The inner loops of the stream-aware index: insertion, probing, and emptying a tree."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.segments import with_room
from spojoin.published.methods.bit_arrays import U64, count_bits, list_bits, set_bit
from spojoin.published.methods.insert_tree import (
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
from spojoin.published.methods.node_keys import upto
from spojoin.published.methods.side import I64
from spojoin.published.methods.tally import COMPARISONS, NODES

#: Trees of hot keys; the linked ones follow.
HOT: Final = 2

#: Places in the int64 array that holds the progress in a slice.
TUPLE: Final = 0
PROBE: Final = 1
USED: Final = 2
TURN: Final = 3

LEAST: Final = -(1 << 63)
GREATEST: Final = (1 << 63) - 1
_EVERY: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_MULTIPLIER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)


class Asks(NamedTuple):
    """m probes: lo, hi int64 (tests of all directions, m); lower, upper int64 (m,).

    columns: int64 (tests,); negated: bool (tests,); starts: int64 (directions + 1,)
    leads: int64 (directions,), the test that the trees answer, or NONE if all tuples are candidates
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
    """Insert entries from place `begin` on while there is room; returns the place reached."""
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
    """A worker for a cold tuple: drawn at random, or the less loaded of two so drawn."""
    cold = np.uint64(len(load) - HOT)
    draw = np.uint64(index + 1) * _MULTIPLIER
    draw ^= draw >> np.uint64(29)
    one = HOT + np.int64((draw >> np.uint64(32)) % cold)
    two = HOT + np.int64((draw & np.uint64(0xFFFF_FFFF)) % cold)
    return int(two) if choices > 1 and load[two] < load[one] else int(one)


class Rest(NamedTuple):
    """The one test of a probe that its trees leave open: on `column`, within [low, low + span], or outside."""

    column: int
    low: np.int64
    span: np.uint64
    is_outside: np.bool_


@inlined
def _rest(asks: Asks, direction: int, q: int) -> Rest:
    """The open test of a direction that has at most one; if it has none, a test that every code passes."""
    lead = asks.leads[direction]
    for k in range(asks.starts[direction], asks.starts[direction + 1]):
        if k != lead:
            column, low, high, is_outside = asks.columns[k], asks.lo[k, q], asks.hi[k, q], asks.negated[k]
            if low > high:
                return Rest(column, np.int64(0), _EVERY, np.bool_(not is_outside))
            return Rest(column, low, np.uint64(high - low), is_outside)
    return Rest(asks.columns[lead], np.int64(0), _EVERY, np.bool_(False))


@inlined
def _count(indexes: I64, codes: I64, origin: int, lower: int, upper: int, rest: Rest) -> int:
    """How many of these candidates are in the window and pass the rest; without a branch."""
    others, width, found = codes[rest.column], np.uint64(upper - lower), 0
    for j in range(len(indexes)):
        # An expired tuple may have left the buffer: any place will do for it.
        code = others[np.uint64(max(indexes[j] - origin, 0))]
        is_inside = np.uint64(code - rest.low) <= rest.span
        found += int((np.uint64(indexes[j] - lower) < width) & (is_inside ^ rest.is_outside))
    return found


@inlined
def _passes(codes: I64, place: int, asks: Asks, direction: int, q: int) -> bool:
    for k in range(asks.starts[direction], asks.starts[direction + 1]):
        if k != asks.leads[direction]:
            code = codes[asks.columns[k], place]
            if ((code >= asks.lo[k, q]) & (code <= asks.hi[k, q])) == asks.negated[k]:
                return False
    return True


@inlined
def _mark(indexes: I64, codes: I64, origin: int, asks: Asks, direction: int, q: int, bits: U64) -> None:
    """Set the bits of the candidates that are in the window and pass."""
    lower, upper = asks.lower[q], asks.upper[q]
    for index in indexes:
        if lower <= index < upper and _passes(codes, index - origin, asks, direction, q):
            set_bit(bits, index - lower)


@inlined
def _search(
    trees: Trees,
    tree: int,
    codes: I64,
    origin: int,
    asks: Asks,
    direction: int,
    q: int,
    is_marked: bool,
    bits: U64,
    work: I64,
) -> int:
    """Set the bits of the tree's tuples that pass; or, if no bits are wanted, count them."""
    lead, found, tests = asks.leads[direction], 0, asks.starts[direction + 1] - asks.starts[direction]
    low, high = LEAST, GREATEST
    if lead != NONE:
        low, high = asks.lo[lead, q], asks.hi[lead, q]
    if low > high:
        return 0
    nodes, rest = trees.nodes, _rest(asks, direction, q)
    values = (nodes.shape[1] + KEYS) >> 1
    node, place = seek(trees, tree, low, work)
    while node != NONE:
        size = nodes[node, SIZE]
        end = size
        if size and nodes[node, KEYS + size - 1] > high:
            end = upto(nodes[node, KEYS : KEYS + size], high)
        indexes = nodes[node, values + place : values + max(end, place)]
        if is_marked:
            _mark(indexes, codes, origin, asks, direction, q, bits)
        else:
            found += _count(indexes, codes, origin, asks.lower[q], asks.upper[q], rest)
        work[COMPARISONS] += size + len(indexes) * (tests - (lead != NONE))
        work[NODES] += 1
        if end < size:
            break
        node, place = nodes[node, NEXT], 0
    return found


class ArrivingTuples(NamedTuple):
    """Incoming tuples of indexes [begin, end), by their code in `column`.

    codes, origin: the window's buffer and its origin, as a `Tail` has them; is_hot: for each of the tuples
    active: the tree of cold tuples; choices: workers drawn for each; load: int64 (workers,), tuples of each
    """

    begin: int
    end: int
    column: int
    codes: I64
    origin: int
    is_hot: NDArray[np.bool_]
    active: int
    choices: int
    load: I64


@inlined
def _store(coming: ArrivingTuples, until: int, trees: Trees, done: I64, work: I64) -> bool:
    """Insert the tuples below index `until`; False if nodes run out before that."""
    while coming.begin + done[TUPLE] < until:
        if not has_room(trees):
            return False
        index = coming.begin + done[TUPLE]
        tree, worker = coming.active, 0
        if coming.is_hot[done[TUPLE]]:
            tree = worker = done[TURN] % HOT
            done[TURN] += 1
        else:
            worker = _worker(index, coming.choices, coming.load)
        coming.load[worker] += 1
        insert(trees, tree, coming.codes[coming.column, index - coming.origin], index, work)
        done[TUPLE] += 1
    return True


@inlined
def _answer(
    coming: ArrivingTuples,
    trees: Trees,
    linked: I64,
    asks: Asks,
    direction: int,
    q: int,
    is_listed: bool,
    done: I64,
    out: I64,
    bits: U64,
    work: I64,
) -> tuple[int, I64]:
    """How many partners probe q has in a direction, and the list, reallocated if it had to grow."""
    lower, span = asks.lower[q], asks.upper[q] - asks.lower[q]
    open_tests = asks.starts[direction + 1] - asks.starts[direction] - (asks.leads[direction] != NONE)
    is_marked, found = is_listed or open_tests > 1, 0
    if is_marked:
        bits[: (span + 63) >> 6] = 0
    for tree in linked:
        if trees.heads[tree, ENTRIES]:
            found += _search(trees, tree, coming.codes, coming.origin, asks, direction, q, is_marked, bits, work)
    if is_marked:
        found = int(np.int64(count_bits(bits, 0, span)))
    if is_listed:
        out = with_room(out, done[USED], found)
        done[USED] = list_bits(bits, 0, span, lower, out, done[USED])
    return found, out


@kernel
def advance(
    coming: ArrivingTuples,
    linked: I64,
    trees: Trees,
    asks: Asks,
    is_listed: bool,
    done: I64,
    counts: I64,
    out: I64,
    bits: U64,
    work: I64,
) -> I64:
    """Insert and probe in the order of arrival, until all is done or nodes run out; linked: the trees in use.

    Returns the list of partners, by probe and direction, reallocated if it had to grow.
    """
    m = len(asks.upper)
    while True:
        q = done[PROBE]
        if not _store(coming, asks.upper[q] if q < m else coming.end, trees, done, work) or q == m:
            return out
        for direction in range(len(asks.leads)):
            found, out = _answer(coming, trees, linked, asks, direction, q, is_listed, done, out, bits, work)
            counts[q, direction] = found
        done[PROBE] += 1
