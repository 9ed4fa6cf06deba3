"""Two methods that SPO-Join is compared with: CSS-trees over sealed batches, and a scan of the tail.

Rao and Ross's cache-sensitive search tree, as SPO-Join (section 1) and PIM-Tree (appendix A.3, Algorithm 3) use it: a
node is a block of `node` keys, and the place of a key gives its child. A key of an upper level is the largest of its
block, so ties need no special care: a search goes to the first block whose largest key is not less.

SPO-Join (EDBT 2025), section 5.4: a window is divided into immutable batches, which leave it whole, and a small mutable
part. Every batch has a CSS-tree per column; the checks of a probe are ranges of its sorted columns, which meet
within the batch as bit arrays or as hash sets, before the next batch is searched.

The paper leaves some points open. The mutable part is scanned in order of arrival, since it is small. Ties: columns are
sorted by code and arrival. Expiry: a batch is dropped when no window reaches it. If a window begins inside a batch, the
bits below are cleared, or the ids below skipped. A batch is never empty. A `!=` is the two ranges around its interval.
A window of fewer than four batches is cut into four, so that small windows have batches too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.bit_arrays import Ids, meet, work
from loadgen.papers.methods.insert_tree import below
from loadgen.papers.methods.scan import Scan
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
    joined,
)
from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.tail import Tail


def directory(columns: I64, node: int) -> tuple[I64, I64]:
    """The levels above sorted columns: int64 (columns, n).

    Returns keys int64 (columns, d), the levels in a row, the lowest first, and where each begins, then the end:
    int64 (levels + 1,). One block needs no level.
    """
    levels, level = [], columns
    while level.shape[1] > node:
        lasts = np.minimum(np.arange(node - 1, level.shape[1] + node - 1, node), level.shape[1] - 1)
        level = level[:, lasts]
        levels.append(level)
    keys = np.concatenate([np.empty((len(columns), 0), np.int64), *levels], axis=1)
    starts = np.cumsum([0, *(level.shape[1] for level in levels)], dtype=np.int64)
    return np.ascontiguousarray(keys), starts


@inlined
def _first_in(keys: I64, begin: int, end: int, code: int, stats: I64) -> int:
    """The first place in [begin, end) with a key that is not less than the code, or end."""
    stats[NODES] += 1
    stats[COMPARISONS] += end - begin
    return begin + below(keys[begin:end], code)


@inlined
def rank(column: I64, keys: I64, starts: I64, node: int, code: int, stats: I64) -> int:
    """The number of a sorted column's codes below `code`; keys and starts are its directory's."""
    block, n = 0, len(column)
    for level in range(len(starts) - 2, -1, -1):
        begin, end = starts[level] + block * node, starts[level + 1]
        at = _first_in(keys, begin, min(begin + node, end), code, stats)
        if at == end:
            return n
        block = at - starts[level]
    return _first_in(column, block * node, min(block * node + node, n), code, stats)


Checks = tuple[I64, I64, NDArray[np.bool_]]

#: A batch smaller than this costs more to search than to scan.
BATCH_LEAST = 16
#: The number of batches into which a small window is cut.
BATCHES_LEAST = 4

_GREATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class CssBatch:
    """The tuples [first, first + n), immutable.

    columns int64 (columns, n), each sorted; order int32 (columns, n): places by arrival; keys, starts: their directory
    """

    first: int
    columns: I64
    order: NDArray[np.int32]
    keys: I64
    starts: I64

    @classmethod
    def of(cls, first: int, codes: I64, node: int) -> CssBatch:
        """Sort and index codes, int64 (columns, n), by arrival."""
        order = np.argsort(codes, axis=1, kind="stable")
        columns = np.take_along_axis(codes, order, axis=1)
        return cls(first, columns, order.astype(np.int32), *directory(columns, node))

    @property
    def end(self) -> int:
        """One past the last index."""
        return self.first + int(self.columns.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.order.nbytes + self.keys.nbytes + self.starts.nbytes


class _Css(Side):
    """Sealed batches, oldest first, and the tail behind them."""

    _as_sets: bool

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._checks = FlatChecks(spec)
        self._batches: list[CssBatch] = []
        self._tail = Scan(spec)
        self._unsealed = Tail(columns=spec.columns)
        self._node = int(spec.options["node"])
        self._stats = np.zeros(WORK, np.int64)

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Seal the tuples of previous chunks, then search the batches, and scan the newer tuples."""
        self._seal()
        self._unsealed.append(stored)
        if len(lower):
            self._drop_below(int(lower[0]))
        # A batch was whole before these probes came, so nothing in it is too young for them.
        tail_lower = np.minimum(np.maximum(lower, self._unsealed.first), upper)
        tail = self._tail.take(stored, directions, tail_lower, upper)
        searches, lower = flat(directions), np.ascontiguousarray(lower)
        found = joined([*(self._search(batch, searches, lower) for batch in self._batches), tail])
        self.counters.comparisons = int(self._stats[COMPARISONS]) + self._tail.counters.comparisons
        self.counters.nodes = int(self._stats[NODES])
        return found

    def _seal(self) -> None:
        size = min(int(self.spec.options["batch"]), max(BATCH_LEAST, self.tuples // BATCHES_LEAST))
        began = perf_counter()
        while len(self._unsealed) >= size:
            first = self._unsealed.first
            self._batches.append(CssBatch.of(first, self._unsealed.held[:, :size], self._node))
            self._unsealed.drop_below(first + size)
            self.counters.merges += 1
        self.counters.merge_seconds += perf_counter() - began

    def _drop_below(self, index: int) -> None:
        self._batches = [batch for batch in self._batches if batch.end > index]
        self._unsealed.drop_below(index)

    def _search(self, batch: CssBatch, searches: tuple[I64, I64], lower: I64) -> list[Found]:
        hits = Hits(self._checks.directions, len(lower), self.spec.lists)
        tuples = batch.end - batch.first
        room = (np.empty((2 * self._checks.most, 2), np.int64), *work(self._checks.most, tuples, self._as_sets))
        begin = 0
        while begin < len(lower):
            begin = search(
                (batch.columns, batch.keys, batch.starts, self._node),
                batch.order,
                batch.first,
                self._checks.arrays,
                searches,
                lower,
                begin,
                room,
                self._as_sets,
                (hits.counts, hits.partners, hits.used),
                self._stats,
            )
            if begin < len(lower):
                hits.grow(tuples)
        return hits.found(ascending=not self._as_sets)

    @property
    def nbytes(self) -> int:
        """Bytes of the batches and of the tail, which is scanned until it is sealed."""
        return sum(batch.nbytes for batch in self._batches) + self._unsealed.nbytes + self._tail.nbytes

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return sum(batch.end - batch.first for batch in self._batches) + len(self._unsealed)


class CssBits(_Css):
    """Ranges of sorted columns that meet as bit arrays."""

    _as_sets = False


class CssSets(_Css):
    """Ranges of sorted columns that meet as hash sets."""

    _as_sets = True


@inlined
def _add_slice(begin: int, end: int, slices: I64, s: int) -> int:
    if begin >= end:
        return s
    slices[s, 0], slices[s, 1] = begin, end
    return s + 1


@inlined
def _add_check(
    tree: tuple[I64, I64, I64, int], c: int, lo: int, hi: int, negated: bool, slices: I64, s: int, stats: I64
) -> int:
    """Slices of the tuples that pass a check; returns their end."""
    columns, keys, starts, node = tree
    n, a, b = columns.shape[1], 0, 0
    if lo <= hi:
        a = rank(columns[c], keys[c], starts, node, lo, stats)
        b = rank(columns[c], keys[c], starts, node, hi + 1, stats) if hi < _GREATEST else n
    if not negated:
        return _add_slice(a, b, slices, s)
    return _add_slice(b, n, slices, _add_slice(0, a, slices, s))


@kernel
def search(
    tree: tuple[I64, I64, I64, int],
    order: Ids,
    first: int,
    checks: Checks,
    searches: tuple[I64, I64],
    lower: I64,
    probe: int,
    room: tuple[I64, NDArray[np.uint64], I64, I64],
    as_sets: bool,
    hits: tuple[I64, I64, I64],
    stats: I64,
) -> int:
    """Search a batch for the probes from `probe` on; returns the first one that needs more room, or their number.

    tree: columns, keys and starts of the batch, and the keys per node; order (columns, n): places by arrival
    """
    starts, columns, negated = checks
    lo, hi = searches
    slices, meeting = room[0], room[1:]
    counts, partners, used = hits
    n, ends = order.shape[1], np.empty(len(columns), np.int64)
    for i in range(probe, len(lower)):
        low = max(lower[i] - first, 0)
        if low >= n:
            continue
        if partners.shape[1] and used.max() + n > partners.shape[1]:
            return i
        for direction in range(len(starts) - 1):
            begin, end, s = starts[direction], starts[direction + 1], 0
            for t in range(begin, end):
                s = _add_check(tree, columns[t], lo[t, i], hi[t, i], negated[t], slices, s, stats)
                ends[t - begin] = s
            out, at = partners[direction], used[direction]
            count = meet(order, columns[begin:end], slices, ends, low, n, 0, meeting, as_sets, out, at, first)
            counts[direction, i] = count
            used[direction] += count
    return len(lower)
