"""B+-trees in arrays: one a column, of (code, index) pairs, which are unique, so that ties need no care.

An entry of a leaf is a tuple; an entry of an inner node is a child and the smallest pair that it may hold, which for
the first child of a node means nothing. Leaves are linked. A node that is full is split in halves. Deletion is
free-at-empty: a node goes when its last entry goes, and no two are merged, since a window takes as many tuples as it
loses and fills them again.

A wide range is read leaf by leaf, and where a leaf is is known only from the one before: nodes of 256 entries answered
such ranges over 100,000 tuples several times faster than nodes of 32, at no greater cost of an insertion.
"""

from __future__ import annotations

import numpy as np

from spojoin.kernels.compile import inlined
from spojoin.published.methods.side import I64
from spojoin.published.methods.tally import COMPARISONS, NODES

#: keys, ids, kids int64 (columns, nodes, fanout); head int64 (columns, nodes, 3); meta int64 (columns, 4)
Tree = tuple[I64, I64, I64, I64, I64]

#: Of a node's head.
COUNT, NEXT, PREVIOUS = 0, 1, 2
#: Of a tree's meta: its root, how many levels are above its leaves, the first free node and how many are free.
ROOT, HEIGHT, FREE, FREE_COUNT = 0, 1, 2, 3
#: Levels that no tree reaches: an insertion splits at most so many nodes.
LEVELS_MAX = 48

_NODES_FIRST = 64
_GREATEST = np.iinfo(np.int64).max


def empty(columns: int, fanout: int) -> Tree:
    """Trees without entries."""
    trees = _nodes(columns, _NODES_FIRST, fanout, 0)
    head, meta = trees[3:]
    meta[:] = (0, 0, 1, _NODES_FIRST - 1)
    head[:, 0] = (0, -1, -1)
    return trees


def _nodes(columns: int, nodes: int, fanout: int, first: int) -> Tree:
    """Free nodes, numbered from `first` on, each pointing to the next."""
    keys, ids, kids = (np.zeros((columns, nodes, fanout), np.int64) for _ in range(3))
    head = np.zeros((columns, nodes, 3), np.int64)
    head[:, :, NEXT] = first + 1 + np.arange(nodes)
    head[:, -1, NEXT] = -1
    return keys, ids, kids, head, np.zeros((columns, 4), np.int64)


def grown(tree: Tree) -> Tree:
    """The same trees with twice as many nodes."""
    keys, ids, kids, head, meta = tree
    columns, nodes, fanout = keys.shape
    more = _nodes(columns, nodes, fanout, nodes)
    # The new free nodes come first; the last of them points to the old ones.
    more[3][:, -1, NEXT] = meta[:, FREE]
    meta[:, FREE] = nodes
    meta[:, FREE_COUNT] += nodes
    keys, ids, kids, head = (np.concatenate(pair, axis=1) for pair in zip((keys, ids, kids, head), more, strict=False))
    return keys, ids, kids, head, meta


@inlined
def place(tree: Tree, c: int, node: int, begin: int, code: int, index: int, stats: I64) -> int:
    """The first place from `begin` on in a node whose pair is not less than (code, index)."""
    keys, ids, end = tree[0][c, node], tree[1][c, node], tree[3][c, node, COUNT]
    while begin < end:
        middle = (begin + end) >> 1
        stats[COMPARISONS] += 1
        if keys[middle] < code or (keys[middle] == code and ids[middle] < index):
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def descend(tree: Tree, c: int, code: int, index: int, path: I64, stats: I64) -> int:
    """The leaf that (code, index) belongs to; path int64 (2, levels) gets the inner nodes and the places taken."""
    kids, meta = tree[2], tree[4]
    node = meta[c, ROOT]
    for level in range(meta[c, HEIGHT]):
        # The first child's pair means nothing; a pair equal to a child's is in that child.
        at = place(tree, c, node, 1, code, index + 1, stats) - 1
        path[0, level], path[1, level] = node, at
        node = kids[c, node, at]
    stats[NODES] += meta[c, HEIGHT] + 1
    return int(node)


@inlined
def _take_node(tree: Tree, c: int) -> int:
    head, meta = tree[3], tree[4]
    node = meta[c, FREE]
    meta[c, FREE] = head[c, node, NEXT]
    meta[c, FREE_COUNT] -= 1
    head[c, node] = -1
    head[c, node, COUNT] = 0
    return int(node)


@inlined
def _free_node(tree: Tree, c: int, node: int) -> None:
    head, meta = tree[3], tree[4]
    head[c, node, NEXT] = meta[c, FREE]
    meta[c, FREE] = node
    meta[c, FREE_COUNT] += 1


@inlined
def _put(tree: Tree, c: int, node: int, at: int, code: int, index: int, kid: int) -> None:
    """Make place for an entry in a node that has room."""
    keys, ids, kids, count = tree[0][c, node], tree[1][c, node], tree[2][c, node], tree[3][c, node, COUNT]
    for j in range(count, at, -1):
        keys[j], ids[j], kids[j] = keys[j - 1], ids[j - 1], kids[j - 1]
    keys[at], ids[at], kids[at] = code, index, kid
    tree[3][c, node, COUNT] = count + 1


@inlined
def _split(tree: Tree, c: int, node: int) -> int:
    """Move the upper half of a full node into a new one, to its right."""
    keys, ids, kids, head, _ = tree
    right, count = _take_node(tree, c), head[c, node, COUNT]
    kept = count >> 1
    for j in range(kept, count):
        keys[c, right, j - kept] = keys[c, node, j]
        ids[c, right, j - kept] = ids[c, node, j]
        kids[c, right, j - kept] = kids[c, node, j]
    head[c, node, COUNT], head[c, right, COUNT] = kept, count - kept
    following = head[c, node, NEXT]
    head[c, right, NEXT], head[c, right, PREVIOUS], head[c, node, NEXT] = following, node, right
    if following >= 0:
        head[c, following, PREVIOUS] = right
    return right


@inlined
def insert(tree: Tree, c: int, code: int, index: int, path: I64, stats: I64) -> None:
    """Add a tuple; LEVELS_MAX nodes must be free."""
    keys, ids, _, head, meta = tree
    fanout, kid, level = keys.shape[2], -1, meta[c, HEIGHT]
    node = descend(tree, c, code, index, path, stats)
    at = place(tree, c, node, 0, code, index, stats)
    while head[c, node, COUNT] == fanout:
        right, kept = _split(tree, c, node), head[c, node, COUNT]
        if at <= kept:
            _put(tree, c, node, at, code, index, kid)
        else:
            _put(tree, c, right, at - kept, code, index, kid)
        code, index, kid = keys[c, right, 0], ids[c, right, 0], right
        level -= 1
        if level < 0:
            top = _take_node(tree, c)
            _put(tree, c, top, 0, code, index, node)
            meta[c, ROOT], at = top, 1
            meta[c, HEIGHT] += 1
            node = top
        else:
            node, at = path[0, level], path[1, level] + 1
    _put(tree, c, node, at, code, index, kid)


@inlined
def _drop_entry(tree: Tree, c: int, node: int, at: int) -> int:
    """Remove an entry; returns how many are left."""
    keys, ids, kids, count = tree[0][c, node], tree[1][c, node], tree[2][c, node], tree[3][c, node, COUNT] - 1
    for j in range(at, count):
        keys[j], ids[j], kids[j] = keys[j + 1], ids[j + 1], kids[j + 1]
    tree[3][c, node, COUNT] = count
    return int(count)


@inlined
def _unlink(tree: Tree, c: int, node: int) -> None:
    head = tree[3]
    before, after = head[c, node, PREVIOUS], head[c, node, NEXT]
    if before >= 0:
        head[c, before, NEXT] = after
    if after >= 0:
        head[c, after, PREVIOUS] = before


@inlined
def delete(tree: Tree, c: int, code: int, index: int, path: I64, stats: I64) -> None:
    """Remove a tuple that is there."""
    _, _, kids, head, meta = tree
    level = meta[c, HEIGHT]
    node = descend(tree, c, code, index, path, stats)
    left = _drop_entry(tree, c, node, place(tree, c, node, 0, code, index, stats))
    while left == 0 and level > 0:
        _unlink(tree, c, node)
        _free_node(tree, c, node)
        level -= 1
        node = path[0, level]
        left = _drop_entry(tree, c, node, path[1, level])
    while meta[c, HEIGHT] > 0 and head[c, meta[c, ROOT], COUNT] == 1:
        root = meta[c, ROOT]
        meta[c, ROOT] = kids[c, root, 0]
        meta[c, HEIGHT] -= 1
        _free_node(tree, c, root)


@inlined
def add_range(tree: Tree, c: int, lo: int, hi: int, path: I64, slices: I64, s: int, stats: I64) -> int:
    """Write the places of the tuples with codes in [lo, hi] to `slices` from s on; returns the end.

    slices int64 (n, 2): places [begin, end) in the tree's ids as one array, leaf by leaf
    """
    keys, _, _, head, _ = tree
    fanout = keys.shape[2]
    node = descend(tree, c, lo, -1, path, stats)
    at, is_inside = place(tree, c, node, 0, lo, -1, stats), True
    while is_inside and node >= 0:
        count = head[c, node, COUNT]
        end = count
        if count and keys[c, node, count - 1] > hi:
            end, is_inside = place(tree, c, node, at, hi, _GREATEST, stats), False
        if at < end:
            slices[s, 0], slices[s, 1] = node * fanout + at, node * fanout + end
            s += 1
        node, at = head[c, node, NEXT], 0
        stats[NODES] += 1
        stats[COMPARISONS] += 1
    return s
