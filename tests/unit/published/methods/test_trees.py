"""Chains and merge trees with many members and merges: their options and the shape of the trees."""

import dataclasses

import numpy as np
import pytest

from spojoin.errors import ConfigurationError
from spojoin.kernels.compile import kernel
from spojoin.kernels.tail import Tail
from spojoin.published.methods import insert_tree
from spojoin.published.methods.catalog import method
from spojoin.published.methods.forest import Forest
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import Check, Searches, SideSpec
from spojoin.published.methods.sorted_run import SortedRun
from spojoin.published.methods.tally import WORK

VARIANTS = [
    ("chain_b", {"length": "1"}),
    ("chain_b", {"length": "7", "predicate": "2"}),
    ("chain_ib", {"length": "5"}),
    ("im_tree", {"merge_ratio": "1", "merge": "non_blocking"}),
    ("im_tree", {"merge_ratio": "0.03", "predicate": "2"}),
    ("pim_tree", {"depth": "0", "threads": "2"}),
    ("pim_tree", {"depth": "16", "merge": "non_blocking", "threads": "3"}),
]
#: A range on one column, and another column outside of a range.
TESTS = (Check(0, False, False), Check(1, True, False))
LENGTH, SLIDE, CHUNK, CHUNKS = 1_500, 60, 173, 30


def spec_of(name, given, is_time=False):
    options = dict(method(name, given).options)
    return SideSpec(2, (TESTS, TESTS[::-1]), is_time, LENGTH, SLIDE, True, options)


def codes_of(domain, rng):
    n = CHUNK * CHUNKS
    return np.stack([rng.integers(-domain, domain, n), np.sort(rng.integers(0, domain + 1, n))])


def searches_of(codes, tests, width):
    columns = codes[[test.column for test in tests]]
    return Searches(columns - width, columns + width)


def expected(codes, searches, tests, lower, upper):
    inside = codes[:, lower:upper]
    holds = np.ones(upper - lower, bool)
    for test, lo, hi in zip(tests, searches.lo, searches.hi, strict=True):
        holds &= ((inside[test.column] >= lo) & (inside[test.column] <= hi)) != test.negated
    return (lower + np.flatnonzero(holds)).tolist()


@pytest.mark.parametrize("is_time", [False, True])
@pytest.mark.parametrize("domain", [1, 40, 1_000_000])
@pytest.mark.parametrize(("name", "given"), VARIANTS)
def test_every_option_agrees_with_a_plain_comparison(name, given, domain, is_time):
    spec = spec_of(name, given, is_time)
    side = SIDES[name](spec)
    codes = codes_of(domain, np.random.default_rng(domain))
    for first in range(0, CHUNK * CHUNKS, CHUNK):
        chunk = codes[:, first : first + CHUNK]
        upper = np.arange(first, first + CHUNK)
        lower = np.maximum(-(-upper // SLIDE) * SLIDE - LENGTH, 0)
        directions = [searches_of(chunk, tests, domain // 3) for tests in spec.directions]
        for tests, searches, found in zip(
            spec.directions, directions, side.take(chunk, directions, lower, upper), strict=True
        ):
            for i in range(0, CHUNK, 24):
                one = Searches(searches.lo[:, i], searches.hi[:, i])
                partners = found.partners[found.offsets[i] : found.offsets[i + 1]].tolist()
                assert partners == expected(codes, one, tests, lower[i], upper[i])
    if name != "chain_b":
        assert side.counters.merges > 2


def test_a_predicate_that_the_query_lacks_is_named():
    with pytest.raises(ConfigurationError, match="predicate is 3; expected 1 to 2"):
        SIDES["im_tree"](spec_of("im_tree", {"predicate": "3"}))


def test_two_directions_over_one_column_share_its_tree():
    spec = spec_of("chain_b", {})
    alone = SIDES["chain_b"](dataclasses.replace(spec, directions=(TESTS,)))
    both = SIDES["chain_b"](dataclasses.replace(spec, directions=(TESTS, TESTS)))
    codes = codes_of(100, np.random.default_rng(0))
    for side in alone, both:
        nothing = Searches(np.empty((2, 0), np.int64), np.empty((2, 0), np.int64))
        side.take(codes, [nothing] * len(side.spec.directions), np.empty(0, np.int64), np.empty(0, np.int64))
    assert both.nbytes == alone.nbytes


@pytest.mark.parametrize("splits", [[], [0], [-5, 0, 0, 0, 7, 90]])
def test_a_forests_leaves_form_one_sorted_list(splits):
    rng = np.random.default_rng(3)
    window = Tail(columns=2)
    window.append(rng.integers(-100, 100, (2, 20_000)))
    forest = Forest(1, np.array(splits, np.int64))
    forest.insert(window, 0, 12_345)
    forest.insert(window, 12_345, 20_000)
    order = forest.indexes()
    assert sorted(order.tolist()) == list(range(20_000))
    assert (np.diff(window.held[1][order]) >= 0).all()


def test_a_runs_nodes_at_a_depth_begin_with_its_splits():
    codes = np.sort(np.random.default_rng(4).integers(0, 10**9, (1, 40_000)))
    run = SortedRun(0, codes, np.arange(40_000))
    assert len(run.splits(0)) == 0
    assert run.splits(1).tolist() == codes[0, 32**3 :: 32**3].tolist()
    assert run.splits(2).tolist() == codes[0, 32**2 :: 32**2].tolist()
    assert run.splits(3).tolist() == run.splits(9).tolist() == codes[0, 32::32].tolist()


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
