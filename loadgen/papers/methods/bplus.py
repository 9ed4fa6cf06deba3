"""A B+-tree per column over the whole window: the tree-based methods that SPO-Join is compared with.

SPO-Join (EDBT 2025), sections 2.4, 3.2 and 5.4: every tuple is inserted into a B+-tree of each column, every check of a
probe is a range scan of the leaves, and the checks' results meet as bit arrays or as hash sets. PIM-Tree, section
2.2.1, describes the tree's part: insert the new tuple, delete the expired one.

The papers leave some points open. Ties: equal codes stay in arrival order, so the expired one is the first of its code
and found in O(log W). Expiry: SPO-Join's authors drop a mutable tree as a whole; here it holds the window, and tuples
leave it one by one before the first probe that doesn't reach them, so results need no filter. An empty tree is an empty
leaf. A `!=` is the two ranges around its interval.

A wide range is read leaf by leaf, and each leaf is found only through the one before it: nodes of 256 entries answered
such ranges over 100,000 tuples several times faster than nodes of 32, and insertions cost no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.bit_arrays import meet, work
from loadgen.papers.methods.insert_tree import (
    KEYS,
    LEVELS_MAX,
    NEXT,
    NONE,
    SIZE,
    Trees,
    delete_first,
    has_room,
    insert,
    planted,
    seek,
    upto,
    widened,
)
from loadgen.papers.methods.side import (
    COMPARISONS,
    NODES,
    WORK,
    FlatChecks,
    Found,
    Hits,
    Searches,
    Side,
    SideSpec,
    flat,
)
from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.tail import Tail


class Chunk(NamedTuple):
    """The input of a call.

    stored, leaving: codes int64 (columns, n) to insert and to delete, from their first indexes on
    lo, hi: int64 (tests of all directions, m); lower, upper: int64 (m,)
    """

    stored: I64
    first_stored: int
    leaving: I64
    first_leaving: int
    lo: I64
    hi: I64
    lower: I64
    upper: I64


class Checks(NamedTuple):
    """The begin of each direction's tests, and the end of all; each test's column, and whether it is negated."""

    starts: I64
    columns: I64
    negated: NDArray[np.bool_]


class Room(NamedTuple):
    """Scratch.

    slices: int64 (n, 2), places [begin, end) in the nodes as one array; ends: int64 (tests,), each test's end
    path: of a tree; meeting: of `meet`
    """

    slices: I64
    ends: I64
    path: I64
    meeting: tuple[NDArray[np.uint64], I64, I64]


class Out(NamedTuple):
    """counts: int64 (directions, m); partners: int64 (directions, room); used: int64 (directions,), places taken."""

    counts: I64
    partners: I64
    used: I64


#: Places in a side's state: the next index to insert, the oldest not deleted, the next probe.
STORED, OLDEST, PROBE = 0, 1, 2

#: Initial nodes per column: one tuple may split a node on each level of each tree.
NODES_FIRST = 2 * LEVELS_MAX

_LEAST = np.iinfo(np.int64).min
_GREATEST = np.iinfo(np.int64).max


class _BPlus(Side):
    """Trees of the window, tuple by tuple."""

    _as_sets: bool

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._checks = FlatChecks(spec)
        self._window = Tail(columns=spec.columns)
        self._trees = planted(spec.columns, int(spec.options["fanout"]), NODES_FIRST * spec.columns)
        self._state = np.zeros(3, np.int64)
        self._stats = np.zeros(WORK, np.int64)

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Insert, delete and search in the order of arrival, in one kernel."""
        self._window.append(stored)
        hits = Hits(self._checks.directions, len(upper), self.spec.lists)
        self._run(np.ascontiguousarray(stored), flat(directions), np.ascontiguousarray(lower), upper.copy(), hits)
        self._window.drop_below(int(self._state[OLDEST]))
        self.counters.comparisons, self.counters.nodes = int(self._stats[COMPARISONS]), int(self._stats[NODES])
        return hits.found(ascending=not self._as_sets)

    def _run(self, stored: I64, searches: tuple[I64, I64], lower: I64, upper: I64, hits: Hits) -> None:
        window, m = self._window, len(upper)
        leaving = np.ascontiguousarray(window.held[:, : int(lower[-1]) - window.first if m else 0])
        tuples = int((upper - lower).max()) if m else 0
        meeting, checks = work(self._checks.most, tuples, self._as_sets), Checks(*self._checks.arrays)
        first = window.end - stored.shape[1]
        chunk = Chunk(stored, first, leaving, window.first, *searches, lower, upper)
        self._state[PROBE] = 0
        while True:
            slices = np.empty((self._checks.most * (len(self._trees.nodes) + 1), 2), np.int64)
            room = Room(slices, np.empty(self._checks.most, np.int64), np.empty((2, LEVELS_MAX), np.int64), meeting)
            out = Out(hits.counts, hits.partners, hits.used)
            if run(self._trees, chunk, self._state, checks, room, self._as_sets, out, self._stats):
                return
            if has_room(self._trees, self.spec.columns):
                hits.grow(tuples)
            else:
                self._trees = widened(self._trees)

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the trees, free nodes included."""
        return self._window.nbytes + sum(part.nbytes for part in self._trees)

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return len(self._window)


class BPlusBits(_BPlus):
    """Range scans that meet as bit arrays."""

    _as_sets = False


class BPlusSets(_BPlus):
    """Range scans that meet as hash sets."""

    _as_sets = True


@inlined
def _store(trees: Trees, chunk: Chunk, until: int, state: I64, stats: I64) -> bool:
    """Insert the tuples below index `until`; False if nodes run short before that."""
    codes = chunk.stored
    while state[STORED] < until:
        if not has_room(trees, len(codes)):
            return False
        for c in range(len(codes)):
            insert(trees, c, codes[c, state[STORED] - chunk.first_stored], state[STORED], stats)
        state[STORED] += 1
    return True


@inlined
def _expire(trees: Trees, chunk: Chunk, until: int, state: I64, path: I64, stats: I64) -> None:
    codes = chunk.leaving
    while state[OLDEST] < until:
        for c in range(len(codes)):
            delete_first(trees, c, codes[c, state[OLDEST] - chunk.first_leaving], path, stats)
        state[OLDEST] += 1


@inlined
def add_range(trees: Trees, c: int, lo: int, hi: int, slices: I64, s: int, stats: I64) -> int:
    """Write where the tuples with codes in [lo, hi] are to `slices` from s on; returns the end."""
    nodes = trees.nodes
    row, values = nodes.shape[1], (nodes.shape[1] + KEYS) >> 1
    node, at = seek(trees, c, lo, stats)
    while node != NONE:
        end = nodes[node, SIZE]
        is_last = end > 0 and nodes[node, KEYS + end - 1] > hi
        if is_last:
            end = upto(nodes[node, KEYS : KEYS + end], hi)
        if at < end:
            slices[s, 0], slices[s, 1] = node * row + values + at, node * row + values + end
            s += 1
        node, at = NONE if is_last else nodes[node, NEXT], 0
        stats[NODES] += 1
        stats[COMPARISONS] += 1
    return s


@inlined
def _add_check(trees: Trees, c: int, lo: int, hi: int, negated: bool, slices: I64, s: int, stats: I64) -> int:
    """Slices of the tuples that pass a check; returns their end."""
    if not negated:
        return add_range(trees, c, lo, hi, slices, s, stats) if lo <= hi else s
    if lo > hi:
        return add_range(trees, c, _LEAST, _GREATEST, slices, s, stats)
    if lo > _LEAST:
        s = add_range(trees, c, _LEAST, lo - 1, slices, s, stats)
    return add_range(trees, c, hi + 1, _GREATEST, slices, s, stats) if hi < _GREATEST else s


@inlined
def _search(
    trees: Trees, chunk: Chunk, i: int, checks: Checks, direction: int, room: Room, as_sets: bool, out: Out, stats: I64
) -> None:
    """Answer probe i in one direction."""
    begin, end, s = checks.starts[direction], checks.starts[direction + 1], 0
    for t in range(begin, end):
        lo, hi = chunk.lo[t, i], chunk.hi[t, i]
        s = _add_check(trees, checks.columns[t], lo, hi, checks.negated[t], room.slices, s, stats)
        room.ends[t - begin] = s
    # All trees share one array of nodes, so every check's places refer to it.
    flat_nodes, zeros = trees.nodes.reshape(1, -1), np.zeros(end - begin, np.int64)
    low, high, partners, used = chunk.lower[i], chunk.upper[i], out.partners[direction], out.used[direction]
    count = meet(flat_nodes, zeros, room.slices, room.ends, low, high, low, room.meeting, as_sets, partners, used, 0)
    out.counts[direction, i] = count
    out.used[direction] += count


@kernel
def run(
    trees: Trees, chunk: Chunk, state: I64, checks: Checks, room: Room, as_sets: bool, out: Out, stats: I64
) -> bool:
    """Insert, delete and search tuple by tuple from where `state` says; False if more room is needed first."""
    for i in range(state[PROBE], len(chunk.lower)):
        state[PROBE] = i
        if not _store(trees, chunk, chunk.upper[i], state, stats):
            return False
        _expire(trees, chunk, chunk.lower[i], state, room.path, stats)
        tuples = chunk.upper[i] - chunk.lower[i]
        if tuples == 0:
            continue
        if out.partners.shape[1] and out.used.max() + tuples > out.partners.shape[1]:
            return False
        for direction in range(len(checks.starts) - 1):
            _search(trees, chunk, i, checks, direction, room, as_sets, out, stats)
    state[PROBE] = len(chunk.lower)
    return _store(trees, chunk, chunk.first_stored + chunk.stored.shape[1], state, stats)
