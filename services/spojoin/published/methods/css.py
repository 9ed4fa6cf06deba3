"""CSS-trees: a sorted array and, above it, levels of keys in nodes, without pointers.

Rao and Ross's cache-sensitive search tree, as SPO-Join (section 1) and PIM-Tree (appendix A.3, Algorithm 3) use it: a
node is a block of `node` keys, and the place of a key gives its child. A key of an upper level is the largest of its
block, so ties need no special care: a search goes to the first block whose largest key is not less.
"""

from __future__ import annotations

import numpy as np

from spojoin.kernels.compile import inlined
from spojoin.published.methods.node_keys import below
from spojoin.published.methods.side import I64
from spojoin.published.methods.tally import COMPARISONS, NODES


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
    """The first place in [begin, end) with a key that is not less than the code, else end."""
    stats[NODES] += 1
    stats[COMPARISONS] += end - begin
    return begin + below(keys[begin:end], code)


@inlined
def rank(column: I64, keys: I64, starts: I64, node: int, code: int, stats: I64) -> int:
    """How many of a sorted column's codes are less than `code`; keys and starts are its directory's."""
    block, n = 0, len(column)
    for level in range(len(starts) - 2, -1, -1):
        begin, end = starts[level] + block * node, starts[level + 1]
        at = _first_in(keys, begin, min(begin + node, end), code, stats)
        if at == end:
            return n
        block = at - starts[level]
    return _first_in(column, block * node, min(block * node + node, n), code, stats)
