"""B+-trees that grow by single tuples: several of them, for disjoint ranges of codes, with one list of leaves.

Nothing is ever deleted: whoever holds a forest drops or clears it whole. A full node is split on the way down, so that
an insertion never climbs back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spojoin.kernels.compile import inlined, kernel
from spojoin.published.methods.asks import Ask, Destination, other_test, passes, reach
from spojoin.published.methods.node_keys import below, upto
from spojoin.published.methods.side import I64
from spojoin.published.methods.tally import COMPARISONS, NODES
from spojoin.published.methods.window import Window

#: Entries of a node: its keys are four cache lines, compared without a branch.
FANOUT = 32
#: More nodes than one insertion can split: one a level, and a tree of 16 levels has no room in memory.
SPARE = 16
NO_SPLITS = np.empty(0, np.int64)


class Nodes(NamedTuple):
    """Nodes of all trees; leaf t is the first of tree t.

    keys, links: int64 (nodes, FANOUT); of a leaf codes and indexes, of others the least code of a child and the child
    sizes: entries; nexts: a leaf's successor, or -1; used: int64 (1,), nodes in use
    roots, heights: int64 (trees,); splits: int64 (trees - 1,), the least code of each tree but the first
    """

    keys: I64
    links: I64
    sizes: I64
    nexts: I64
    used: I64
    roots: I64
    heights: I64
    splits: I64


class Forest:
    """The tuples inserted since it was made, sorted by one column."""

    def __init__(self, column: int, splits: I64 = NO_SPLITS, end: int = 0) -> None:
        self.column = column
        self.count = 0
        #: One past the last index inserted.
        self.end = end
        self._nodes = _planted(splits, 2 * len(splits) + 2 * SPARE)

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, free ones included."""
        return sum(array.nbytes for array in self._nodes)

    def insert(self, window: Window, begin: int, end: int) -> None:
        """Add the tuples of the window with indexes [begin, end)."""
        at = begin
        while at < end:
            at += insert(self._nodes, window.buffer[self.column], at - window.origin, at, end - at)
            if at < end:
                self._nodes = _doubled(self._nodes)
        self.count += end - begin
        self.end = end

    def search(self, window: Window, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Answer the probes [begin, end)."""
        search(self._nodes, window.buffer, window.origin, ask, begin, end, answer)

    def indexes(self) -> I64:
        """The indexes of all tuples in the order of their codes."""
        found = np.empty(self.count, np.int64)
        walk(self._nodes, found)
        return found


def _planted(splits: I64, room: int) -> Nodes:
    trees = len(splits) + 1
    roots, heights = np.arange(trees), np.zeros(trees, np.int64)
    nexts = np.full(room, -1, np.int64)
    nexts[: trees - 1] = roots[1:]
    empty = np.empty((room, FANOUT), np.int64)
    return Nodes(empty, empty.copy(), np.zeros(room, np.int64), nexts, np.array([trees]), roots, heights, splits)


def _doubled(nodes: Nodes) -> Nodes:
    def twice(array: I64) -> I64:
        return np.concatenate([array, np.zeros_like(array)])

    bigger = twice(nodes.keys), twice(nodes.links), twice(nodes.sizes), twice(nodes.nexts)
    return Nodes(*bigger, nodes.used, nodes.roots, nodes.heights, nodes.splits)


@inlined
def _tree_of(splits: I64, code: int) -> int:
    """Equal codes all belong to the last tree that may hold them."""
    begin, end = 0, len(splits)
    while begin < end:
        middle = (begin + end) >> 1
        if splits[middle] <= code:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def _split(nodes: Nodes, parent: int, slot: int) -> None:
    """Move the upper half of a full child to a new node behind it."""
    child, fresh, half = int(nodes.links[parent, slot]), int(nodes.used[0]), FANOUT // 2
    nodes.used[0] += 1
    for j in range(half):
        nodes.keys[fresh, j] = nodes.keys[child, half + j]
        nodes.links[fresh, j] = nodes.links[child, half + j]
    nodes.sizes[child] = nodes.sizes[fresh] = half
    nodes.nexts[fresh] = nodes.nexts[child]
    nodes.nexts[child] = fresh
    _put(nodes, parent, slot + 1, nodes.keys[fresh, 0], fresh)


@inlined
def _put(nodes: Nodes, node: int, slot: int, key: int, link: int) -> None:
    for j in range(nodes.sizes[node], slot, -1):
        nodes.keys[node, j] = nodes.keys[node, j - 1]
        nodes.links[node, j] = nodes.links[node, j - 1]
    nodes.keys[node, slot], nodes.links[node, slot] = key, link
    nodes.sizes[node] += 1


@inlined
def _root_with_room(nodes: Nodes, tree: int) -> int:
    root = int(nodes.roots[tree])
    if nodes.sizes[root] < FANOUT:
        return root
    above = int(nodes.used[0])
    nodes.used[0] += 1
    nodes.sizes[above] = 0
    _put(nodes, above, 0, nodes.keys[root, 0], root)
    _split(nodes, above, 0)
    nodes.roots[tree] = above
    nodes.heights[tree] += 1
    return above


@inlined
def _insert(nodes: Nodes, code: int, index: int) -> None:
    tree = _tree_of(nodes.splits, code)
    node = _root_with_room(nodes, tree)
    for _ in range(nodes.heights[tree]):
        slot = upto(nodes.keys[node, 1 : nodes.sizes[node]], code)
        if nodes.sizes[nodes.links[node, slot]] == FANOUT:
            _split(nodes, node, slot)
            slot += nodes.keys[node, slot + 1] <= code
        node = nodes.links[node, slot]
    _put(nodes, node, upto(nodes.keys[node, : nodes.sizes[node]], code), code, index)


@kernel
def insert(nodes: Nodes, codes: I64, at: int, index: int, count: int) -> int:
    """Insert codes[at:at + count] with indexes from `index` on, until nodes run short; returns how many."""
    for i in range(count):
        if nodes.used[0] + SPARE > len(nodes.sizes):
            return i
        _insert(nodes, codes[at + i], index + i)
    return count


@kernel
def walk(nodes: Nodes, out: I64) -> None:
    """Write the indexes of all leaves in their order."""
    leaf, k = 0, 0
    while leaf >= 0:
        for j in range(nodes.sizes[leaf]):
            out[k] = nodes.links[leaf, j]
            k += 1
        leaf = nodes.nexts[leaf]


@inlined
def _leaf_of(nodes: Nodes, code: int, tally: I64) -> int:
    """The first leaf that may hold a code, or one before it."""
    tree = _tree_of(nodes.splits, code)
    node = int(nodes.roots[tree])
    for _ in range(nodes.heights[tree]):
        tally[NODES] += 1
        tally[COMPARISONS] += nodes.sizes[node]
        node = int(nodes.links[node, below(nodes.keys[node, 1 : nodes.sizes[node]], code)])
    return node


@inlined
def _count(indexes: I64, codes: I64, origin: int, ask: Ask, probe: int) -> int:
    """How many of these candidates are in the window and pass the one other test, if any; without a branch."""
    lower, width = ask.lower[probe], np.uint64(ask.upper[probe] - ask.lower[probe])
    column, low, span, flip = other_test(ask, probe)
    others = codes[column]
    found = 0
    for j in range(len(indexes)):
        # What expired may have left the buffer: any place will do for it.
        code = others[np.uint64(max(indexes[j] - origin, 0))]
        found += int((np.uint64(indexes[j] - lower) < width) & ((np.uint64(code - low) <= span) ^ flip))
    return found


@inlined
def _scan(
    nodes: Nodes, codes: I64, origin: int, ask: Ask, probe: int, low: int, high: int, answer: Destination
) -> None:
    """The tuples with codes [low, high], leaf by leaf."""
    leaf = _leaf_of(nodes, low, answer.tally)
    cursor, lower, upper = answer.cursors[probe], ask.lower[probe], ask.upper[probe]
    slot = below(nodes.keys[leaf, : nodes.sizes[leaf]], low)
    while leaf >= 0:
        size = nodes.sizes[leaf]
        answer.tally[NODES] += 1
        end = size
        if size and nodes.keys[leaf, size - 1] > high:
            end = upto(nodes.keys[leaf, :size], high)
        answer.tally[COMPARISONS] += size + max(end - slot, 0) * (len(ask.columns) - 1)
        if not len(answer.partners) and len(ask.columns) <= 2:
            cursor += _count(nodes.links[leaf, slot:end], codes, origin, ask, probe)
            slot = end
        for j in range(slot, end):
            index = nodes.links[leaf, j]
            if (index >= lower) & (index < upper) and passes(ask, codes, index - origin, probe):
                if len(answer.partners):
                    answer.partners[cursor] = index
                cursor += 1
        leaf = nodes.nexts[leaf] if end == size else -1
        slot = 0
    answer.cursors[probe] = cursor


@kernel
def search(nodes: Nodes, codes: I64, origin: int, ask: Ask, begin: int, end: int, answer: Destination) -> None:
    """Answer the probes [begin, end); the tuple of index i stands at place i - origin of `codes`."""
    for probe in range(begin, end):
        for part in range(2):
            low, high = reach(ask, probe, part)
            if low <= high:
                _scan(nodes, codes, origin, ask, probe, low, high, answer)
