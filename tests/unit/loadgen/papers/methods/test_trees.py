"""The shape of a tree that takes keys and gives the oldest back."""

import numpy as np
import pytest

from loadgen.papers.methods import insert_tree
from loadgen.papers.methods.side import WORK
from spojoin.kernels.compile import kernel


@kernel
def take_and_give_back(trees, keys, held, path, work):
    """Insert all keys; once the tree holds `held` of them, each replaces the oldest."""
    for i in range(len(keys)):
        insert_tree.insert(trees, 0, keys[i], i, work)
        if i >= held:
            insert_tree.delete_first(trees, 0, keys[i - held], path, work)


def entries_of(trees, fanout):
    """Keys and values of the leaves, in their order."""
    leaf, found = insert_tree.first_leaf(trees, 0), []
    while leaf != insert_tree.NONE:
        row, size = trees.nodes[leaf], int(trees.nodes[leaf, insert_tree.SIZE])
        keys, values = row[insert_tree.KEYS :], row[insert_tree.KEYS + fanout :]
        found += zip(keys[:size].tolist(), values[:size].tolist(), strict=True)
        leaf = int(row[insert_tree.NEXT])
    return found


@pytest.mark.parametrize("held", [1, 7, 300])
@pytest.mark.parametrize("fanout", [4, 5, 32])
@pytest.mark.parametrize("kind", ["few", "many", "rising", "falling"])
def test_a_tree_removes_the_oldest_of_each_key(kind, fanout, held):
    rng, n = np.random.default_rng(held), 2_000
    rising = np.arange(n) // 3
    keys = {"few": rng.integers(0, 5, n), "many": rng.integers(0, 2**40, n), "rising": rising, "falling": -rising}[kind]
    trees, path = insert_tree.planted(1, fanout, 1_000), np.empty((2, insert_tree.LEVELS_MAX), np.int64)
    take_and_give_back(trees, keys, held, path, np.zeros(WORK, np.int64))
    assert entries_of(trees, fanout) == sorted((int(keys[i]), i) for i in range(n - held, n))
    assert trees.heads[0, insert_tree.ENTRIES] == held
    leaves_and_more = 1_000 - int(trees.free[0])
    assert leaves_and_more <= 2 * held + 1, "nodes without entries are free"
    insert_tree.clear(trees, 0)
    assert sorted(trees.free[1 : 1 + trees.free[0]].tolist()) == list(range(1_000)), "each node is free, once"
