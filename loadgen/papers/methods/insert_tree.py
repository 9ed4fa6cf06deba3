"""B+-trees in arrays that insert and delete entries one by one: many trees share one pool of nodes.

A node is a row of int64: its size, the next node of its level, its keys and its values. A leaf's values are those
of its entries; an inner node's are its children, and key i bounds child i from below. Child 0 takes everything below
key 1, so key 0 is never read. Equal keys stay in the order in which they came. Full nodes are split on the way down,
so no way back up is needed. Deletion is free-at-empty: a node is freed with its last entry, and nodes are never merged,
since a window takes in as many tuples as it loses and fills them again.

Keys are passed as a slice, since an index that might be negative prevents vector instructions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from loadgen.papers.methods.side import COMPARISONS, NODES
from spojoin.arrays import I64
from spojoin.kernels.compile import inlined


@inlined
def below(keys: I64, code: int) -> int:
    """The number of smaller keys."""
    found = 0
    for j in range(len(keys)):
        found += int(keys[j] < code)
    return found


@inlined
def upto(keys: I64, code: int) -> int:
    """The number of keys that are not greater."""
    found = 0
    for j in range(len(keys)):
        found += int(keys[j] <= code)
    return found


SIZE: Final = 0
NEXT: Final = 1
KEYS: Final = 2

ROOT: Final = 0
HEIGHT: Final = 1
ENTRIES: Final = 2

NONE: Final = -1

#: The most levels of inner nodes in a tree of 2**63 entries, at a fanout of 4 or more.
LEVELS_MAX: Final = 64


class Trees(NamedTuple):
    """T trees: nodes int64 (capacity, KEYS + 2 * fanout); heads int64 (T, 3): root, height, entries.

    free: int64 (capacity + 1,), how many nodes are free, and which
    """

    nodes: I64
    heads: I64
    free: I64


def planted(trees: int, fanout: int, capacity: int) -> Trees:
    """Empty trees with room for this many nodes."""
    heads = np.zeros((trees, 3), np.int64)
    heads[:, ROOT] = NONE
    free = np.arange(capacity, -1, -1)
    free[0] = capacity
    # Free nodes are taken from the end of the list, so the first ones used lie at the front.
    free[1:] = np.arange(capacity - 1, -1, -1)
    return Trees(np.empty((capacity, KEYS + 2 * fanout), np.int64), heads, free)


def nodes_of(entries: int, fanout: int) -> int:
    """The most nodes that a tree with this many entries, never cleared in between, can have."""
    # A split leaves half a node's entries in each part, and a level has at most half the nodes of the one below.
    return 2 * (2 * entries // fanout + 1) + 2


def widened(trees: Trees) -> Trees:
    """The same trees with twice the room."""
    capacity, row = trees.nodes.shape
    nodes = np.empty((2 * capacity, row), np.int64)
    nodes[:capacity] = trees.nodes
    count = int(trees.free[0])
    free = np.empty(2 * capacity + 1, np.int64)
    free[0] = count + capacity
    free[1 : capacity + 1] = np.arange(2 * capacity - 1, capacity - 1, -1)
    free[capacity + 1 : capacity + 1 + count] = trees.free[1 : 1 + count]
    return Trees(nodes, trees.heads, free)


@inlined
def has_room(trees: Trees, entries: int = 1) -> bool:
    """Whether there are certainly enough nodes for this many more entries."""
    return bool(trees.free[0] >= entries * LEVELS_MAX)


@inlined
def grow(trees: Trees) -> int:
    """Take a free node, which there must be; it is empty and has no successor."""
    node = trees.free[trees.free[0]]
    trees.free[0] -= 1
    trees.nodes[node, SIZE] = 0
    trees.nodes[node, NEXT] = NONE
    return int(node)


@inlined
def _release(trees: Trees, node: int) -> None:
    trees.free[0] += 1
    trees.free[trees.free[0]] = node


@inlined
def _keys(nodes: I64, node: int, begin: int) -> I64:
    """A node's keys from place `begin` on."""
    return nodes[node, KEYS + begin : KEYS + nodes[node, SIZE]]


@inlined
def _put(nodes: I64, node: int, place: int, key: int, value: int) -> None:
    """Insert into a node that has room."""
    values = (nodes.shape[1] + KEYS) >> 1
    for j in range(nodes[node, SIZE], place, -1):
        nodes[node, KEYS + j] = nodes[node, KEYS + j - 1]
        nodes[node, values + j] = nodes[node, values + j - 1]
    nodes[node, KEYS + place] = key
    nodes[node, values + place] = value
    nodes[node, SIZE] += 1


@inlined
def _split(trees: Trees, parent: int, place: int) -> None:
    """Move the upper half of a full child to a new one, right of it in a parent that has room."""
    nodes = trees.nodes
    values = (nodes.shape[1] + KEYS) >> 1
    left, right = nodes[parent, values + place], grow(trees)
    size = nodes[left, SIZE]
    half = size >> 1
    for j in range(half, size):
        nodes[right, KEYS + j - half] = nodes[left, KEYS + j]
        nodes[right, values + j - half] = nodes[left, values + j]
    nodes[left, SIZE], nodes[right, SIZE] = half, size - half
    nodes[right, NEXT], nodes[left, NEXT] = nodes[left, NEXT], right
    _put(nodes, parent, place + 1, nodes[right, KEYS], right)


@inlined
def _visit(trees: Trees, node: int, work: I64) -> None:
    work[COMPARISONS] += trees.nodes[node, SIZE]
    work[NODES] += 1


@inlined
def insert(trees: Trees, tree: int, key: int, value: int, work: I64) -> None:
    """Add an entry after all entries of the same key."""
    nodes, heads = trees.nodes, trees.heads
    values = (nodes.shape[1] + KEYS) >> 1
    fanout = values - KEYS
    if heads[tree, ROOT] == NONE:
        heads[tree, ROOT], heads[tree, HEIGHT] = grow(trees), 0
    node = heads[tree, ROOT]
    if nodes[node, SIZE] == fanout:
        root = grow(trees)
        _put(nodes, root, 0, nodes[node, KEYS], node)
        _split(trees, root, 0)
        heads[tree, ROOT] = node = root
        heads[tree, HEIGHT] += 1
    for _ in range(heads[tree, HEIGHT]):
        place = upto(_keys(nodes, node, 1), key)
        if nodes[nodes[node, values + place], SIZE] == fanout:
            _split(trees, node, place)
            place += nodes[node, KEYS + place + 1] <= key
        _visit(trees, node, work)
        node = nodes[node, values + place]
    _visit(trees, node, work)
    _put(nodes, node, upto(_keys(nodes, node, 0), key), key, value)
    heads[tree, ENTRIES] += 1


@inlined
def seek(trees: Trees, tree: int, key: int, work: I64) -> tuple[int, int]:
    """Leaf and place of the first entry whose key is not less; the place may be one past the leaf's last."""
    nodes = trees.nodes
    values = (nodes.shape[1] + KEYS) >> 1
    node = trees.heads[tree, ROOT]
    if node == NONE:
        return NONE, 0
    for _ in range(trees.heads[tree, HEIGHT]):
        _visit(trees, node, work)
        # Equal keys may begin in the child before the one that they bound.
        place = below(_keys(nodes, node, 1), key)
        node = nodes[node, values + place]
    _visit(trees, node, work)
    return int(node), below(_keys(nodes, node, 0), key)


@inlined
def _descend_first(trees: Trees, tree: int, key: int, path: I64, work: I64) -> tuple[int, int]:
    """Leaf and place of the first entry of a key that is present; path int64 (2, levels): inner nodes, places taken."""
    nodes, height = trees.nodes, trees.heads[tree, HEIGHT]
    values = (nodes.shape[1] + KEYS) >> 1
    node = trees.heads[tree, ROOT]
    for level in range(height):
        _visit(trees, node, work)
        path[0, level], path[1, level] = node, below(_keys(nodes, node, 1), key)
        node = nodes[node, values + path[1, level]]
    _visit(trees, node, work)
    place = below(_keys(nodes, node, 0), key)
    if place < nodes[node, SIZE]:
        return int(node), place
    # The entry is the lower bound of the next leaf, and the first in it.
    level = height - 1
    while path[1, level] + 1 == nodes[path[0, level], SIZE]:
        level -= 1
    path[1, level] += 1
    for below_it in range(level + 1, height):
        path[0, below_it], path[1, below_it] = nodes[path[0, below_it - 1], values + path[1, below_it - 1]], 0
    return int(nodes[path[0, height - 1], values + path[1, height - 1]]), 0


@inlined
def _before(trees: Trees, path: I64, level: int) -> int:
    """The node before the one that the path takes below `level`, on the same level, or NONE."""
    nodes, values = trees.nodes, (trees.nodes.shape[1] + KEYS) >> 1
    turn = level
    while turn >= 0 and path[1, turn] == 0:
        turn -= 1
    if turn < 0:
        return NONE
    node = nodes[path[0, turn], values + path[1, turn] - 1]
    for _ in range(turn, level):
        node = nodes[node, values + nodes[node, SIZE] - 1]
    return int(node)


@inlined
def _take_out(nodes: I64, node: int, place: int) -> None:
    values, size = (nodes.shape[1] + KEYS) >> 1, nodes[node, SIZE] - 1
    for j in range(place, size):
        nodes[node, KEYS + j] = nodes[node, KEYS + j + 1]
        nodes[node, values + j] = nodes[node, values + j + 1]
    nodes[node, SIZE] = size


@inlined
def delete_first(trees: Trees, tree: int, key: int, path: I64, work: I64) -> None:
    """Remove the oldest entry of a key, which must be present; path: int64 (2, LEVELS_MAX), scratch."""
    nodes, heads = trees.nodes, trees.heads
    values, level = (nodes.shape[1] + KEYS) >> 1, heads[tree, HEIGHT] - 1
    node, place = _descend_first(trees, tree, key, path, work)
    _take_out(nodes, node, place)
    while nodes[node, SIZE] == 0 and level >= 0:
        before = _before(trees, path, level)
        if before != NONE:
            nodes[before, NEXT] = nodes[node, NEXT]
        _release(trees, node)
        node = path[0, level]
        _take_out(nodes, node, path[1, level])
        level -= 1
    while heads[tree, HEIGHT] > 0 and nodes[heads[tree, ROOT], SIZE] == 1:
        root = heads[tree, ROOT]
        heads[tree, ROOT] = nodes[root, values]
        heads[tree, HEIGHT] -= 1
        _release(trees, root)
    heads[tree, ENTRIES] -= 1


@inlined
def first_leaf(trees: Trees, tree: int) -> int:
    """The leaf with the least keys, or NONE if the tree is empty."""
    values = (trees.nodes.shape[1] + KEYS) >> 1
    node = trees.heads[tree, ROOT]
    for _ in range(trees.heads[tree, HEIGHT]):
        node = trees.nodes[node, values]
    return int(node)


@inlined
def clear(trees: Trees, tree: int) -> None:
    """Free all nodes of a tree."""
    nodes, heads = trees.nodes, trees.heads
    values = (nodes.shape[1] + KEYS) >> 1
    first = heads[tree, ROOT]
    # Level by level: the nodes of a level are chained like leaves.
    for _ in range(heads[tree, HEIGHT] + 1 if first != NONE else 0):
        node, first = first, nodes[first, values]
        while node != NONE:
            following = nodes[node, NEXT]
            _release(trees, node)
            node = following
    heads[tree] = 0
    heads[tree, ROOT] = NONE
