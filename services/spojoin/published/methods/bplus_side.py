"""A B+-tree per column over the whole window: SPO-Join's tree-based comparators.

SPO-Join (EDBT 2025), sections 2.4, 3.2 and 5.4: every tuple is inserted into a B+-tree of each column, every check of a
probe is a range scan of the leaves, and the checks' results meet as bit arrays or as hash sets. PIM-Tree, section
2.2.1, describes the tree's part: insert the new tuple, delete the expired one.

What the papers leave open. Ties: entries are (code, arrival) pairs, so equal codes stand in arrival order and the
expired one is found in O(log W). Expiry: SPO-Join's authors drop a mutable tree as a whole; here it holds the window,
and tuples leave it one by one before the first probe that doesn't reach them, so no result needs filtering. An empty
tree is an empty leaf. A `!=` is the two ranges around its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel
from spojoin.published.methods import bplus
from spojoin.published.methods.bplus import Tree, add_range, delete, insert
from spojoin.published.methods.checks import FlatChecks, Hits, flat
from spojoin.published.methods.meeting import Ids, meet, work
from spojoin.published.methods.side import I64, Found, Searches, Side, SideSpec
from spojoin.published.methods.tally import COMPARISONS, NODES, WORK
from spojoin.published.methods.window import Window

Checks = tuple[I64, I64, NDArray[np.bool_]]

#: Of a side's state: the next index to insert, the oldest not deleted, the next probe.
STORED, OLDEST, PROBE = 0, 1, 2

_LEAST = np.iinfo(np.int64).min
_GREATEST = np.iinfo(np.int64).max


class _BPlus(Side):
    """Trees of the window, tuple by tuple."""

    _as_sets: bool

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._checks = FlatChecks(spec)
        self._window = Window(spec.columns)
        self._tree = bplus.empty(spec.columns, int(spec.options["fanout"]))
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
        leaving = np.ascontiguousarray(window.codes[:, : int(lower[-1]) - window.first if m else 0])
        tuples = int((upper - lower).max()) if m else 0
        meeting = work(self._checks.most, tuples, self._as_sets)
        self._state[PROBE] = 0
        while True:
            keys, ids = self._tree[:2]
            slices = np.empty((self._checks.most * (keys.shape[1] + 1), 2), np.int64)
            done = run(
                self._tree,
                ids.reshape(len(ids), -1),
                (stored, window.end - stored.shape[1]),
                (leaving, window.first),
                self._state,
                self._checks.arrays,
                searches,
                (lower, upper),
                (slices, *meeting),
                self._as_sets,
                (hits.counts, hits.partners, hits.used),
                self._stats,
            )
            if done:
                return
            if self._is_short_of_nodes:
                self._tree = bplus.grown(self._tree)
            else:
                hits.grow(tuples)

    @property
    def _is_short_of_nodes(self) -> bool:
        return int(self._tree[4][:, bplus.FREE_COUNT].min()) < bplus.LEVELS_MAX

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the trees, free nodes included."""
        return self._window.nbytes + sum(part.nbytes for part in self._tree)

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
def _store(tree: Tree, stored: tuple[I64, int], until: int, state: I64, path: I64, stats: I64) -> bool:
    """Insert the tuples below index `until`; False where nodes run short before."""
    codes, first = stored
    while state[STORED] < until:
        for c in range(len(codes)):
            if tree[4][c, bplus.FREE_COUNT] < bplus.LEVELS_MAX:
                return False
        for c in range(len(codes)):
            insert(tree, c, codes[c, state[STORED] - first], state[STORED], path, stats)
        state[STORED] += 1
    return True


@inlined
def _expire(tree: Tree, leaving: tuple[I64, int], until: int, state: I64, path: I64, stats: I64) -> None:
    codes, first = leaving
    while state[OLDEST] < until:
        for c in range(len(codes)):
            delete(tree, c, codes[c, state[OLDEST] - first], state[OLDEST], path, stats)
        state[OLDEST] += 1


@inlined
def _add_check(tree: Tree, c: int, lo: int, hi: int, negated: bool, path: I64, slices: I64, s: int, stats: I64) -> int:
    """Slices of the tuples that pass a check; returns their end."""
    if not negated:
        return add_range(tree, c, lo, hi, path, slices, s, stats) if lo <= hi else s
    if lo > hi:
        return add_range(tree, c, _LEAST, _GREATEST, path, slices, s, stats)
    if lo > _LEAST:
        s = add_range(tree, c, _LEAST, lo - 1, path, slices, s, stats)
    return add_range(tree, c, hi + 1, _GREATEST, path, slices, s, stats) if hi < _GREATEST else s


@kernel
def run(
    tree: Tree,
    ids: Ids,
    stored: tuple[I64, int],
    leaving: tuple[I64, int],
    state: I64,
    checks: Checks,
    searches: tuple[I64, I64],
    bounds: tuple[I64, I64],
    room: tuple[I64, NDArray[np.uint64], I64, I64],
    as_sets: bool,
    hits: tuple[I64, I64, I64],
    stats: I64,
) -> bool:
    """Insert, delete and search tuple by tuple from where `state` says; False where room must be made first.

    ids int64 (columns, nodes * fanout): the trees' own, as one array a column
    stored, leaving: codes int64 (columns, n) to insert and to delete, each with its first index
    """
    starts, columns, negated = checks
    lo, hi = searches
    lower, upper = bounds
    slices, meeting = room[0], room[1:]
    counts, partners, used = hits
    path, ends = np.empty((2, bplus.LEVELS_MAX), np.int64), np.empty(len(columns), np.int64)
    for i in range(state[PROBE], len(lower)):
        state[PROBE] = i
        if not _store(tree, stored, upper[i], state, path, stats):
            return False
        _expire(tree, leaving, lower[i], state, path, stats)
        tuples = upper[i] - lower[i]
        if tuples == 0:
            continue
        if partners.shape[1] and used.max() + tuples > partners.shape[1]:
            return False
        for direction in range(len(starts) - 1):
            begin, end, s = starts[direction], starts[direction + 1], 0
            for t in range(begin, end):
                s = _add_check(tree, columns[t], lo[t, i], hi[t, i], negated[t], path, slices, s, stats)
                ends[t - begin] = s
            low, high, out = lower[i], upper[i], partners[direction]
            count = meet(
                ids, columns[begin:end], slices, ends, low, high, low, meeting, as_sets, out, used[direction], 0
            )
            counts[direction, i] = count
            used[direction] += count
    state[PROBE] = len(lower)
    return _store(tree, stored, stored[1] + stored[0].shape[1], state, path, stats)
