"""Several B+-trees of one column, for disjoint ranges of codes, over one pool of nodes.

Nothing is ever deleted: whoever holds a forest drops it whole.
"""

from __future__ import annotations

import numpy as np

from spojoin.kernels.compile import inlined, kernel
from spojoin.methods.asks import Answer, Ask, other_test, passes, reach
from spojoin.methods.insert_tree import (
    KEYS,
    NEXT,
    NONE,
    SIZE,
    Trees,
    first_leaf,
    has_room,
    insert,
    planted,
    seek,
    widened,
)
from spojoin.methods.node_keys import upto
from spojoin.methods.side import I64
from spojoin.methods.tally import COMPARISONS, NODES, WORK
from spojoin.methods.window import Window

#: Entries of a node: its keys are four cache lines.
FANOUT = 32
#: Nodes that a forest has from the first, beside a root for each tree.
NODES_FIRST = 96
NO_SPLITS = np.empty(0, np.int64)


class Forest:
    """The tuples inserted since it was made, sorted by one column.

    splits: int64 (trees - 1,), ascending, the least code of each tree but the first
    """

    def __init__(self, column: int, splits: I64 = NO_SPLITS, end: int = 0) -> None:
        self.column = column
        self.count = 0
        #: One past the last index inserted.
        self.end = end
        self._splits = splits
        self._trees = planted(len(splits) + 1, FANOUT, len(splits) + NODES_FIRST)

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, free ones included."""
        return sum(array.nbytes for array in self._trees)

    def insert(self, window: Window, begin: int, end: int) -> None:
        """Add the tuples of the window with indexes [begin, end)."""
        at = begin
        while at < end:
            at = plant(self._trees, self._splits, window.buffer[self.column], window.origin, at, end)
            if at < end:
                self._trees = widened(self._trees)
        self.count += end - begin
        self.end = end

    def search(self, window: Window, ask: Ask, begin: int, end: int, answer: Answer) -> None:
        """Answer the probes [begin, end)."""
        search(self._trees, self._splits, window.buffer, window.origin, ask, begin, end, answer)

    def indexes(self) -> I64:
        """The indexes of all tuples in the order of their codes."""
        found = np.empty(self.count, np.int64)
        walk(self._trees, found)
        return found


@kernel
def plant(trees: Trees, splits: I64, codes: I64, origin: int, begin: int, end: int) -> int:
    """Insert the tuples with indexes [begin, end) until nodes run short; how far that came."""
    # What an insertion costs is not asked of a forest.
    work = np.zeros(WORK, np.int64)
    while begin < end and has_room(trees):
        code = codes[begin - origin]
        # Equal codes all belong to the last tree that may hold them.
        insert(trees, np.searchsorted(splits, code, "right"), code, begin, work)
        begin += 1
    return begin


@kernel
def walk(trees: Trees, out: I64) -> None:
    """Write the indexes of all leaves in their order."""
    values = (trees.nodes.shape[1] + KEYS) >> 1
    k = 0
    for tree in range(len(trees.heads)):
        node = first_leaf(trees, tree)
        while node != NONE:
            for j in range(trees.nodes[node, SIZE]):
                out[k] = trees.nodes[node, values + j]
                k += 1
            node = trees.nodes[node, NEXT]


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
def _verify(indexes: I64, codes: I64, origin: int, ask: Ask, probe: int, cursor: int, answer: Answer) -> int:
    """Note the candidates that are in the window and pass all other tests; returns the cursor moved on."""
    if not len(answer.partners) and len(ask.columns) <= 2:
        return cursor + _count(indexes, codes, origin, ask, probe)
    for index in indexes:
        if (index >= ask.lower[probe]) & (index < ask.upper[probe]) and passes(ask, codes, index - origin, probe):
            if len(answer.partners):
                answer.partners[cursor] = index
            cursor += 1
    return cursor


@inlined
def _scan(
    trees: Trees, tree: int, codes: I64, origin: int, ask: Ask, probe: int, low: int, high: int, answer: Answer
) -> None:
    """The tuples of one tree with codes [low, high], leaf by leaf."""
    nodes, values = trees.nodes, (trees.nodes.shape[1] + KEYS) >> 1
    node, slot = seek(trees, tree, low, answer.tally)
    cursor, others = answer.cursors[probe], len(ask.columns) - 1
    while node != NONE:
        size = end = nodes[node, SIZE]
        if nodes[node, KEYS + size - 1] > high:
            end = upto(nodes[node, KEYS : KEYS + size], high)
        answer.tally[NODES] += 1
        answer.tally[COMPARISONS] += size + max(end - slot, 0) * others
        if slot < end:
            indexes = nodes[node, values + slot : values + end]
            cursor = _verify(indexes, codes, origin, ask, probe, cursor, answer)
        if end < size:
            break
        node, slot = nodes[node, NEXT], 0
    answer.cursors[probe] = cursor


@kernel
def search(trees: Trees, splits: I64, codes: I64, origin: int, ask: Ask, begin: int, end: int, answer: Answer) -> None:
    """Answer the probes [begin, end); the tuple of index i stands at place i - origin of `codes`."""
    for probe in range(begin, end):
        for part in range(2):
            low, high = reach(ask, probe, part)
            if low > high:
                continue
            first, last = np.searchsorted(splits, low, "right"), np.searchsorted(splits, high, "right")
            for tree in range(first, last + 1):
                _scan(trees, tree, codes, origin, ask, probe, low, high, answer)
