"""SPO-Join as published: B+-trees with bit arrays for new tuples, linked PO-Join lists for the rest.

Aslam, Beedkar, Simonini, "SPO-Join: Efficient Stream Inequality Join" (EDBT 2025): section 3.2 and Figure 4 for the
mutable part, section 3.3 and Algorithm 2 for the merge, section 3.4, Algorithm 4 and Figure 5 for the immutable part.

New tuples enter one B+-tree per column. A probe scans the range of each test, sets a bit for each tuple found, and the
bit arrays are AND-ed. Every `delta` tuples the leaves, which are sorted, become a batch: sorted columns, and a
permutation from each other test's column to the first's. A probe finds the ranks of its bounds by binary search, sets
the bits that a permutation gives for one interval, and reads the bits in the first test's interval. A batch is dropped
whole.

Departures from the paper, and the reasons:

- Offsets. Algorithm 3 keeps, for each tuple of a probe's own stream, its position in the other stream, and section 3.4
  looks a new tuple up among its own stream's sorted values and takes the offset of the neighbour found. That misses
  tuples between the neighbour and the new tuple. Here the new tuple's bounds are looked up in the other stream's sorted
  values themselves: the same two binary searches, without an offset array, and exact.
- Ties. The paper takes the "position found minus one", which is undefined if values repeat. Here a search
  finds each end of an interval, so equal values are all in or all out; sorts break ties by arrival.
- `!=` is listed among the operators, but not treated. Here a batch marks its two ranges around the interval, and the
  trees invert the interval's bit array.
- More than two predicates aren't treated either. Equation 2 counts one permutation per predicate; so each test after
  the second fills its own bit array through its permutation, and these are AND-ed.
- A batch that the window has partly left: the paper drops batches whole, so a probe may join with expired tuples. Here
  matches that arrived before the window are masked.
- Insertion. Algorithm 1 probes with a tuple before it inserts it, as does this code: an empty tree finds nothing.
- Threads. Algorithm 4 hands the linked lists to one thread a core; here one thread searches them in turn.
- `delta` is the slide in the paper, or a part of it. With a slide of a few tuples there would be far too many lists:
  by default each has at least a sixteenth of a count window, and 2,048 tuples if that is a quarter of it or less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from loadgen.papers.methods.bit_arrays import count_bits, list_bits, set_bit, words_of
from loadgen.papers.methods.insert_tree import KEYS, NEXT, NONE, SIZE, Trees, insert, nodes_of, planted, seek
from loadgen.papers.methods.po_join import COLUMN, NEGATED, LinkedLists, Lists, probe_batch, seal
from loadgen.papers.methods.side import COMPARISONS, MARKS, NODES, WORK, Check, Found, Searches, Side, SideSpec, by_role
from spojoin.arrays import I64, U64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.segments import with_room

FANOUT: Final = 32
#: A bit array of this many tuples takes 8 KB, and stays in the first-level cache together with part of a permutation.
DELTA_MAX: Final = 1 << 16
DELTA_MIN: Final = 16
#: For time windows, whose number of tuples isn't known beforehand.
DELTA_BY_TIME: Final = 4_096
#: For short slides: a batch of any size costs a probe two searches, and a tuple in the trees costs much more than one
#: in a batch. Fastest in measurements over windows of 10,000 to 100,000.
BATCHES_MAX: Final = 16
DELTA_SMALL: Final = 2_048

#: Places in the int64 array that holds the progress in a chunk.
_TUPLE: Final = 0
_PROBE: Final = 1
_HELD: Final = 2
_USED: Final = 3


class PaperProbes(NamedTuple):
    """m probes: lo, hi int64 (tests of all directions, m); lower, upper int64 (m,)."""

    lo: I64
    hi: I64
    lower: I64
    upper: I64


class SpoPaper(Side):
    """Mutable B+-trees and immutable PO-Join lists."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._delta = delta_of(spec)
        self._plan, self._pairs = planned(spec.directions)
        self._ends = np.cumsum([0] + [len(tests) for tests in spec.directions])
        self._trees = planted(spec.columns, FANOUT, spec.columns * nodes_of(self._delta, FANOUT))
        self._lists = LinkedLists(spec.columns, self._pairs.shape[1], self._delta)
        self._words = np.zeros((3, words_of(self._delta)), np.uint64)
        self._out = np.empty(1_024, np.int64)
        self._end = 0
        self._held = 0
        self.counters.more["bits_set"] = 0

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Tuple by tuple in one kernel, which returns whenever a batch is full."""
        lo, hi = (
            np.concatenate([direction.lo for direction in directions]),
            np.concatenate([direction.hi for direction in directions]),
        )
        probes = PaperProbes(lo, hi, np.ascontiguousarray(lower), np.ascontiguousarray(upper))
        counts = np.zeros((len(lower), len(directions)), np.int64)
        done, work = np.array([0, 0, self._held, 0]), np.zeros(WORK, np.int64)
        codes = np.ascontiguousarray(stored)
        while True:
            self._advance(codes, probes, counts, done, work)
            if done[_HELD] < self._delta:
                break
            self._merge(self._end + int(done[_TUPLE]))
            done[_HELD] = 0
        self._end, self._held = self._end + stored.shape[1], int(done[_HELD])
        if len(lower):
            self._lists.drop_below(int(lower[-1]))
        self._note(work)
        return by_role(counts, self._out[: done[_USED]], self.spec.lists)

    def _advance(self, codes: I64, probes: PaperProbes, counts: I64, done: I64, work: I64) -> None:
        self._out = advance(
            codes,
            self._end,
            probes,
            self._plan,
            self._ends,
            self._trees,
            self._lists.held,
            self._delta,
            self.spec.lists,
            done,
            counts,
            self._out,
            self._words,
            work,
        )

    def _merge(self, end: int) -> None:
        began = time.perf_counter()
        first = end - self._delta
        seal(self._trees, self._pairs, first, self._lists.add(first))
        self.counters.merges += 1
        self.counters.merge_seconds += time.perf_counter() - began

    def _note(self, work: I64) -> None:
        self.counters.comparisons += int(work[COMPARISONS])
        self.counters.nodes += int(work[NODES])
        self.counters.more["bits_set"] += int(work[MARKS])

    @property
    def nbytes(self) -> int:
        """Bytes of trees, lists and bit arrays."""
        return sum(array.nbytes for array in self._trees) + self._lists.nbytes + self._words.nbytes

    @property
    def tuples(self) -> int:
        """Tuples in trees and lists."""
        return self._held + len(self._lists) * self._delta


def delta_of(spec: SideSpec) -> int:
    """Tuples per batch: the option's value, or the slide by default, clamped to bounds."""
    asked = int(spec.options["delta"])
    if asked:
        return asked
    length, slide = spec.window.rows, spec.window.rows_a_slide
    if length is None or slide is None:
        return DELTA_BY_TIME
    small = min(DELTA_SMALL, length // 4)
    return min(max(slide, length // BATCHES_MAX, small, DELTA_MIN), DELTA_MAX)


def planned(directions: Sequence[Sequence[Check]]) -> tuple[I64, I64]:
    """Tests of all directions, int64 (3, tests), and the column pairs that need permutations, int64 (2, pairs)."""
    pairs: dict[tuple[int, int], int] = {}
    rows = [
        (test.column, int(test.negated), pairs.setdefault((tests[0].column, test.column), len(pairs)) if k else 0)
        for tests in directions
        for k, test in enumerate(tests)
    ]
    return np.array(rows, np.int64).T.copy(), np.array(list(pairs), np.int64).reshape(-1, 2).T.copy()


@inlined
def _scan(trees: Trees, tree: int, low: int, high: int, first: int, words: U64, work: I64) -> None:
    """Set the bits of the tuples whose key lies in [low, high]."""
    nodes = trees.nodes
    values = (nodes.shape[1] + KEYS) >> 1
    node, place = seek(trees, tree, low, work)
    while node != NONE:
        size = nodes[node, SIZE]
        begin = place
        while place < size and nodes[node, KEYS + place] <= high:
            set_bit(words, nodes[node, values + place] - first)
            place += 1
        work[COMPARISONS] += min(place + 1, size) - begin
        work[MARKS] += place - begin
        if place < size:
            break
        node, place = nodes[node, NEXT], 0
        work[NODES] += 1


@inlined
def _probe_trees(
    trees: Trees, first: int, plan: I64, begin: int, end: int, probes: PaperProbes, q: int, words: U64, work: I64
) -> None:
    """Row 0: by arrival, whether tests [begin, end) hold; bits beyond the last tuple are undefined."""
    for k in range(begin, end):
        row = min(k - begin, 1)
        words[row] = 0
        low, high = probes.lo[k, q], probes.hi[k, q]
        if low <= high:
            _scan(trees, plan[COLUMN, k], low, high, first, words[row], work)
        if plan[NEGATED, k]:
            for word in range(words.shape[1]):
                words[row, word] = ~words[row, word]
        if row:
            words[0] &= words[1]


@inlined
def _fill(stored: I64, base: int, until: int, trees: Trees, delta: int, done: I64, work: I64) -> None:
    """Insert the chunk's tuples before place `until`, as long as the trees hold fewer than `delta`."""
    while done[_TUPLE] < until and done[_HELD] < delta:
        for column in range(stored.shape[0]):
            insert(trees, column, stored[column, done[_TUPLE]], base + done[_TUPLE], work)
        done[_TUPLE] += 1
        done[_HELD] += 1


@inlined
def _search(
    probes: PaperProbes,
    q: int,
    plan: I64,
    tests: tuple[int, int],
    trees: Trees,
    first: int,
    lists: Lists,
    is_listed: bool,
    done: I64,
    out: I64,
    words: U64,
    work: I64,
) -> tuple[np.int64, I64]:
    """The number of tuples in all batches, and in trees from index `first` on, that pass all tests; and their list."""
    k, last = tests
    lower, total = probes.lower[q], np.int64(0)
    for batch in range(len(lists.firsts)):
        found, out = probe_batch(
            lists, batch, plan, k, last, probes.lo, probes.hi, q, lower, is_listed, words, out, done[_USED], work
        )
        total += np.int64(found)
        done[_USED] += found if is_listed else 0
    _probe_trees(trees, first, plan, k, last, probes, q, words, work)
    begin, end = max(lower - first, 0), done[_HELD]
    found = count_bits(words[0], begin, end)
    if is_listed:
        out = with_room(out, done[_USED], found)
        done[_USED] = list_bits(words[0], begin, end, first, out, done[_USED])
    return total + np.int64(found), out


@kernel
def advance(
    stored: I64,
    base: int,
    probes: PaperProbes,
    plan: I64,
    ends: I64,
    trees: Trees,
    lists: Lists,
    delta: int,
    is_listed: bool,
    done: I64,
    counts: I64,
    out: I64,
    words: U64,
    work: I64,
) -> I64:
    """Insert and probe in the order of arrival, until all is done or the trees hold `delta` tuples.

    base: index of the chunk's first tuple; ends: where each direction's tests begin, and their end
    done: the progress. Returns the list of partners, by probe and direction, reallocated if it had to grow.
    """
    m = len(probes.upper)
    while True:
        q = done[_PROBE]
        _fill(stored, base, probes.upper[q] - base if q < m else stored.shape[1], trees, delta, done, work)
        if done[_HELD] == delta or q == m:
            return out
        first = base + done[_TUPLE] - done[_HELD]
        for direction in range(len(ends) - 1):
            tests = ends[direction], ends[direction + 1]
            found, out = _search(probes, q, plan, tests, trees, first, lists, is_listed, done, out, words, work)
            counts[q, direction] += found
        done[_PROBE] += 1
