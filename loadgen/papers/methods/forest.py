"""B+-trees that grow tuple by tuple: several, for disjoint ranges of codes, with one list of leaves.

Nothing is ever deleted: the owner of a forest drops or clears it whole.
"""

from __future__ import annotations

import numpy as np

from loadgen.papers.methods.insert_tree import (
    HEIGHT,
    KEYS,
    NEXT,
    NONE,
    ROOT,
    SIZE,
    Trees,
    below,
    first_leaf,
    grow,
    has_room,
    planted,
    upto,
    widened,
)
from loadgen.papers.methods.insert_tree import insert as insert_entry
from loadgen.papers.methods.side import COMPARISONS, NODES, WORK
from loadgen.papers.methods.tree_side import Ask, Destination, other_test, passes, reach
from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.tail import Tail

#: Entries per node: its keys fill four cache lines and are compared without a branch.
FANOUT = 32
#: The place of a node's first value.
VALUES = KEYS + FANOUT
#: Nodes of a new forest beside its trees' roots.
NODES_FIRST = 128
NO_SPLITS = np.empty(0, np.int64)


class Forest:
    """All tuples inserted so far, by one column; splits: the least code of each tree but the first."""

    def __init__(self, column: int, splits: I64 = NO_SPLITS, end: int = 0) -> None:
        self.column = column
        self.count = 0
        #: One past the last index inserted.
        self.end = end
        self._splits = splits
        self._trees = planted(len(splits) + 1, FANOUT, 2 * len(splits) + NODES_FIRST)
        link(self._trees)

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, free ones included."""
        return self._splits.nbytes + sum(array.nbytes for array in self._trees)

    def insert(self, window: Tail, begin: int, end: int) -> None:
        """Add the tuples of the window with indexes [begin, end)."""
        at = begin
        while at < end:
            codes = window.buffer[self.column, at - window.origin : end - window.origin]
            at += insert(self._trees, self._splits, codes, at)
            if at < end:
                self._trees = widened(self._trees)
        self.count += end - begin
        self.end = end

    def search(self, window: Tail, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Answer the probes [begin, end)."""
        search(self._trees, self._splits, (window.buffer, window.origin), ask, begin, end, answer)

    def indexes(self) -> I64:
        """The indexes of all tuples in the order of their codes."""
        found = np.empty(self.count, np.int64)
        walk(self._trees, found)
        return found


@kernel
def link(trees: Trees) -> None:
    """Give every tree its first leaf, all of them in one list."""
    before = NONE
    for tree in range(len(trees.heads)):
        node = grow(trees)
        trees.heads[tree, ROOT] = node
        if before != NONE:
            trees.nodes[before, NEXT] = node
        before = node


@inlined
def _tree_of(splits: I64, code: int) -> int:
    """Equal codes all go to the last tree that may hold them."""
    begin, end = 0, len(splits)
    while begin < end:
        middle = (begin + end) >> 1
        if splits[middle] <= code:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def insert(trees: Trees, splits: I64, codes: I64, first: int) -> int:
    """Insert codes with indexes from `first` on, until nodes run short; returns how many."""
    work = np.zeros(WORK, np.int64)
    for i in range(len(codes)):
        if not has_room(trees):
            return i
        insert_entry(trees, _tree_of(splits, codes[i]), codes[i], first + i, work)
    return len(codes)


@kernel
def walk(trees: Trees, out: I64) -> None:
    """Write the indexes of all leaves in their order."""
    leaf, k = first_leaf(trees, 0), 0
    while leaf != NONE:
        for j in range(trees.nodes[leaf, SIZE]):
            out[k] = trees.nodes[leaf, VALUES + j]
            k += 1
        leaf = trees.nodes[leaf, NEXT]


@inlined
def _leaf_of(trees: Trees, splits: I64, code: int, tally: I64) -> int:
    """The first leaf that may hold a code, or one before it."""
    nodes, tree = trees.nodes, _tree_of(splits, code)
    node = trees.heads[tree, ROOT]
    for _ in range(trees.heads[tree, HEIGHT]):
        size = nodes[node, SIZE]
        tally[NODES] += 1
        tally[COMPARISONS] += size
        node = nodes[node, VALUES + below(nodes[node, KEYS + 1 : KEYS + size], code)]
    return int(node)


@inlined
def _count(indexes: I64, codes: I64, origin: int, ask: Ask, probe: int) -> int:
    """The number of these candidates in the window that pass the one other test, if any; without a branch."""
    lower, width = ask.lower[probe], np.uint64(ask.upper[probe] - ask.lower[probe])
    column, low, span, flip = other_test(ask, probe)
    others = codes[column]
    found = 0
    for j in range(len(indexes)):
        # An expired tuple may have left the buffer: any place will do for it.
        code = others[np.uint64(max(indexes[j] - origin, 0))]
        found += int((np.uint64(indexes[j] - lower) < width) & ((np.uint64(code - low) <= span) ^ flip))
    return found


@inlined
def _scan(
    trees: Trees, splits: I64, window: tuple[I64, int], ask: Ask, probe: int, low: int, high: int, answer: Destination
) -> None:
    """The tuples with codes [low, high], leaf by leaf."""
    nodes, codes, origin = trees.nodes, window[0], window[1]
    leaf = _leaf_of(trees, splits, low, answer.tally)
    cursor, lower, upper = answer.cursors[probe], ask.lower[probe], ask.upper[probe]
    slot = below(nodes[leaf, KEYS : KEYS + nodes[leaf, SIZE]], low)
    while leaf != NONE:
        size = nodes[leaf, SIZE]
        answer.tally[NODES] += 1
        end = size
        if size and nodes[leaf, KEYS + size - 1] > high:
            end = upto(nodes[leaf, KEYS : KEYS + size], high)
        answer.tally[COMPARISONS] += size + max(end - slot, 0) * (len(ask.columns) - 1)
        if not len(answer.partners) and len(ask.columns) <= 2:
            cursor += _count(nodes[leaf, VALUES + slot : VALUES + end], codes, origin, ask, probe)
            slot = end
        for j in range(slot, end):
            index = nodes[leaf, VALUES + j]
            if (index >= lower) & (index < upper) and passes(ask, codes, index - origin, probe):
                if len(answer.partners):
                    answer.partners[cursor] = index
                cursor += 1
        leaf = nodes[leaf, NEXT] if end == size else NONE
        slot = 0
    answer.cursors[probe] = cursor


@kernel
def search(
    trees: Trees, splits: I64, window: tuple[I64, int], ask: Ask, begin: int, end: int, answer: Destination
) -> None:
    """Answer the probes [begin, end); window: codes and their origin, the tuple of index i at place i - origin."""
    for probe in range(begin, end):
        for part in range(2):
            low, high = reach(ask, probe, part)
            if low <= high:
                _scan(trees, splits, window, ask, probe, low, high, answer)
