"""The stream-aware index: hot keys in two trees of their own, the others in linked sub-indexes.

STA, "stream-aware" inequality join: section 4.1 and Algorithm 1 (ASketch), section 4.2 and Algorithm 2 (partitioner),
section 4.3 (two indexes of hot keys, linked sub-indexes of cold ones), section 4.4 (search, update, removal).

A key is a tuple's code in one column, that of the first test; a sketch decides whether it is hot. Hot tuples go to two
B+-trees in turn. Cold ones go to the active tree of a chain; a new tree begins every 1/`chain` of the window, and each
is dropped whole behind the window. A probe visits all trees and verifies the other tests of each candidate. In a
direction without a test on that column, `!=` aside, all tuples are candidates.

Departures from the paper, and the reasons:

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
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.bit_arrays import count_bits, list_bits, set_bit, words_of
from loadgen.papers.methods.insert_tree import (
    ENTRIES,
    KEYS,
    NEXT,
    NONE,
    ROOT,
    SIZE,
    Trees,
    clear,
    first_leaf,
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
    Check,
    FlatChecks,
    Found,
    Searches,
    Side,
    SideSpec,
    by_role,
    flat,
)
from spojoin.arrays import I64, U64
from spojoin.kernels.asketch import ASketch
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.segments import with_room
from spojoin.kernels.tail import Tail

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
    """The number of these candidates in the window that pass the rest; without a branch."""
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
    """The number of probe q's partners in a direction, and the list, reallocated if it had to grow."""
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
        rows = spec.window.rows
        self._member = MEMBER_BY_TIME if rows is None else max(rows // int(options["chain"]), 16)
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
        """Count keys, move the keys that cooled down, and return whether keys are hot."""
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
        """Remove tuples that left the window, and move tuples of keys that cooled down."""
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
