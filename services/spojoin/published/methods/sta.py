"""The stream-aware index: hot keys in two trees of their own, the others in linked sub-indexes.

STA, "stream-aware" inequality join: section 4.1 and Algorithm 1 (ASketch), section 4.2 and Algorithm 2 (partitioner),
section 4.3 (two indexes of hot keys, linked sub-indexes of cold ones), section 4.4 (search, update, removal).

A key is a tuple's code in one column, that of the first test; a sketch decides whether it is hot. Hot tuples go to two
B+-trees in turn. Cold ones go to the active tree of a chain; a new tree begins every 1/`chain` of the window, and each
is dropped whole behind the window. A probe visits all trees and verifies the other tests of each candidate. In a
direction without a test on that column, `!=` aside, all tuples are candidates.

Where this departs from the paper, and why:

- Workers. In one process the workers are counts of work: two take hot tuples, `partitions` - 2 the cold ones. These
  share the chain, as in Figure 9, and at once: the paper shares it at checkpoints, and misses tuples that came since.
- Algorithm 1 calls every key of the filter hot, even the first 32 keys of a stream once they come again. Here a key
  must also have a share of `hot_share` of the counted tuples, and is cold again below half of that. The sketch is read
  every SLICE tuples, and halves its counts when they exceed a window, or keys that cooled down would stay hot for ever.
- Algorithm 2 resets its turn to 0 at each call, and so would always choose the same worker; here the turn is kept. For
  cold keys line 13 draws one worker, while section 4.2 draws m (the supermarket model): here `choices` 1 or 2, and the
  less loaded one takes the tuple.
- Removal. The paper moves keys that cool down from the hot trees to the active tree, but doesn't treat tuples that
  leave the window while their key stays hot. Here they are skipped, and swept out when a tree has grown by half.
- When a key becomes hot, its tuples in the chain stay there, as in section 4.3.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.asketch import ASketch
from spojoin.kernels.tail import Tail
from spojoin.published.methods.bit_arrays import words_of
from spojoin.published.methods.checks import FlatChecks, by_role, flat
from spojoin.published.methods.insert_tree import ENTRIES, NONE, ROOT, planted, widened
from spojoin.published.methods.side import I64, Check, Found, Searches, Side, SideSpec
from spojoin.published.methods.sta_kernels import HOT, PROBE, TURN, USED, ArrivingTuples, Asks, advance, pick, put
from spojoin.published.methods.tally import COMPARISONS, NODES, WORK

FANOUT: Final = 32
NODES_FIRST: Final = 256
#: Tuples between two readings of the sketch.
SLICE: Final = 256
#: Tuples per sub-index over a time window, whose number of tuples isn't known beforehand.
MEMBER_BY_TIME: Final = 4_096
#: A hot tree with fewer entries isn't swept.
SWEEP_MIN: Final = 64


class Sta(Side):
    """Two trees for hot tuples, a chain of trees for the rest."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        options = spec.options
        self._share, self._choices = float(options["hot_share"]), int(options["choices"])
        self._member = MEMBER_BY_TIME if spec.is_time else max(spec.length // int(options["chain"]), 16)
        self._window, self._checks = Tail(columns=spec.columns), FlatChecks(spec)
        self._column = spec.directions[0][0].column
        self._leads = np.array([lead_of(checks, self._column) for checks in spec.directions], np.int64)
        self._leads += np.where(self._leads == NONE, 0, self._checks.starts[:-1])
        self._trees = planted(HOT + 1, FANOUT, NODES_FIRST)
        #: Trees of the chain, the newest last, and one past the newest index of each but the last.
        self._chain, self._ends = [HOT], list[int]()
        self._sketch, self._hot = ASketch(), np.empty(0, np.int64)
        self._swept = [SWEEP_MIN] * HOT
        self._load, self._turn = np.zeros(int(options["partitions"]), np.int64), 0
        self._out, self._work = np.empty(1_024, np.int64), np.zeros(WORK, np.int64)
        self.counters.more |= {"to_hot": 0, "to_cold": 0, "imbalance": 0}

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Slice by slice; within a slice tuple by tuple in one kernel."""
        begin = self._window.end
        self._window.append(stored)
        counts = np.zeros((len(lower), len(directions)), np.int64)
        lo, hi = flat(directions)
        used = first = 0
        for at in [*range(begin, self._window.end, SLICE), self._window.end]:
            end = min(at + SLICE, self._window.end)
            last = int(np.searchsorted(upper, end, "right"))
            asks = self._asks(lo[:, first:last], hi[:, first:last], lower[first:last], upper[first:last])
            used = self._slice(at, end, asks, counts[first:last], used)
            if last > first:
                self._drop_below(int(lower[last - 1]))
            first = last
        self._note()
        return by_role(counts, self._out[:used], self.spec.lists)

    def _asks(self, lo: I64, hi: I64, lower: I64, upper: I64) -> Asks:
        starts, columns, negated = self._checks.arrays
        whole = np.ascontiguousarray
        return Asks(whole(lo), whole(hi), whole(lower), whole(upper), columns, negated, starts, self._leads)

    def _slice(self, begin: int, end: int, asks: Asks, counts: I64, used: int) -> int:
        is_hot = self._predict(self._codes(begin, end))
        done = np.array([0, 0, used, self._turn])
        bits = np.empty(words_of(int((asks.upper - asks.lower).max(initial=0))), np.uint64)
        linked = np.array([*range(HOT), *self._chain])
        window, active = self._window, self._chain[-1]
        coming = ArrivingTuples(
            begin, end, self._column, window.buffer, window.origin, is_hot, active, self._choices, self._load
        )
        while True:
            self._out = advance(
                coming, linked, self._trees, asks, self.spec.lists, done, counts, self._out, bits, self._work
            )
            if done[0] == end - begin and done[PROBE] == len(asks.upper):
                break
            self._trees = widened(self._trees)
        self._turn = int(done[TURN]) % HOT
        if self._trees.heads[self._chain[-1], ENTRIES] >= self._member:
            self._archive(end)
        return int(done[USED])

    def _codes(self, begin: int, end: int) -> I64:
        origin = self._window.origin
        return self._window.buffer[self._column, begin - origin : end - origin].copy()

    def _predict(self, keys: I64) -> NDArray[np.bool_]:
        """Count keys, move those that cooled down, and return which are hot."""
        self._sketch.add(keys)
        if self._sketch.total > max(len(self._window), SLICE):
            self._sketch.halve()
        above, _ = self._sketch.hot(self._share)
        half, _ = self._sketch.hot(self._share / 2)
        kept = np.intersect1d(self._hot, half)
        cooled = np.setdiff1d(self._hot, kept)
        self.counters.more["to_hot"] += len(np.setdiff1d(above, self._hot))
        self._hot = np.union1d(kept, above)
        for tree in range(HOT):
            if len(cooled) or self._trees.heads[tree, ENTRIES] > self._swept[tree]:
                self._sweep(tree, cooled)
        return np.isin(keys, self._hot)

    def _sweep(self, tree: int, cooled: I64) -> None:
        """Remove tuples that left the window, and move those whose keys cooled down."""
        began = time.perf_counter()
        keys, indexes = np.empty((2, int(self._trees.heads[tree, ENTRIES])), np.int64)
        pick(self._trees, tree, keys, indexes)
        alive, moved = indexes >= self._window.first, np.isin(keys, cooled)
        self._put(tree, keys[alive & ~moved], indexes[alive & ~moved])
        self._put(self._chain[-1], keys[alive & moved], indexes[alive & moved])
        self._swept[tree] = int((alive & ~moved).sum()) * 3 // 2 + SWEEP_MIN
        self.counters.more["to_cold"] += int((alive & moved).sum())
        self.counters.merges += 1
        self.counters.merge_seconds += time.perf_counter() - began

    def _put(self, tree: int, keys: I64, indexes: I64) -> None:
        done = put(self._trees, tree, keys, indexes, 0, self._work)
        while done < len(keys):
            self._trees = widened(self._trees)
            done = put(self._trees, tree, keys, indexes, done, self._work)

    def _archive(self, end: int) -> None:
        """Start a new active tree, in a free place if there is one."""
        heads = self._trees.heads
        free = sorted(set(range(HOT, len(heads))) - set(self._chain))
        if not free:
            free = [len(heads)]
            more = np.zeros_like(heads)
            more[:, ROOT] = NONE
            self._trees = self._trees._replace(heads=np.concatenate([heads, more]))
        self._ends.append(end)
        self._chain.append(free[0])

    def _drop_below(self, index: int) -> None:
        self._window.drop_below(index)
        while self._ends and self._ends[0] <= index:
            tree = self._chain.pop(0)
            self._ends.pop(0)
            gone = np.empty((2, int(self._trees.heads[tree, ENTRIES])), np.int64)
            pick(self._trees, tree, gone[0], gone[1])

    def _note(self) -> None:
        self.counters.comparisons += int(self._work[COMPARISONS])
        self.counters.nodes += int(self._work[NODES])
        self._work[:] = 0
        self.counters.more["imbalance"] = float(self._load.max() - self._load.mean())

    @property
    def nbytes(self) -> int:
        """Bytes of trees and codes."""
        return sum(array.nbytes for array in self._trees) + self._window.nbytes

    @property
    def tuples(self) -> int:
        """Entries of all trees."""
        return int(self._trees.heads[:, ENTRIES].sum())


def lead_of(checks: Sequence[Check], column: int) -> int:
    """A direction's first test that a tree of this column answers, or NONE."""
    return next((k for k, check in enumerate(checks) if check.column == column and not check.negated), NONE)
