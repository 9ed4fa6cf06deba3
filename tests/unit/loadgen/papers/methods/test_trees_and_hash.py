"""Array trees against sorted lists, small nodes and batches against a plain loop, and what a hash join refuses."""

import bisect
import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.papers.methods import insert_tree
from loadgen.papers.methods.bplus import add_range
from loadgen.papers.methods.machine import SIDES, MethodMachine
from loadgen.papers.methods.side import WORK
from spojoin.errors import ConfigurationError
from spojoin.kernels.compile import kernel
from spojoin.query.load import parse_query
from tests.support.method_cases import cases, expected, taken

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SMALL = [
    ("bplus_bits", {"fanout": 4}),
    ("bplus_sets", {"fanout": 4}),
    ("css_bits", {"batch": 16, "node": 2}),
    ("css_sets", {"batch": 16, "node": 3}),
    ("hash", {}),
]


@pytest.mark.parametrize(("name", "options"), SMALL)
@given(case=cases())
def test_the_smallest_nodes_and_batches_find_what_a_plain_loop_finds(name, options, case):
    try:
        side = SIDES[name](dataclasses.replace(case.spec, options=options))
    except ConfigurationError:
        return
    assert taken(side, case) == expected(case)
    assert side.counters.as_dict().keys() == {"comparisons", "nodes_visited", "merges", "merge_seconds"}


# --- the B+-tree by itself --------------------------------------------------------------------------------------------


@kernel
def apply(trees, code, index, is_insert, path, work):
    if is_insert:
        insert_tree.insert(trees, 0, code, index, work)
    else:
        insert_tree.delete_first(trees, 0, code, path, work)


@kernel
def in_range(trees, lo, hi, slices, work):
    return add_range(trees, 0, lo, hi, slices, 0, work)


class Tree:
    """One tree, beside a sorted list of the same pairs."""

    def __init__(self, fanout):
        self.trees = insert_tree.planted(1, fanout, 2 * insert_tree.LEVELS_MAX)
        self.pairs = []
        self.path, self.work = np.empty((2, insert_tree.LEVELS_MAX), np.int64), np.zeros(WORK, np.int64)

    def insert(self, code, index):
        if self.trees.free[0] < insert_tree.LEVELS_MAX:
            self.trees = insert_tree.widened(self.trees)
        apply(self.trees, code, index, True, self.path, self.work)
        bisect.insort(self.pairs, (code, index))

    def delete_first(self, code):
        apply(self.trees, code, 0, False, self.path, self.work)
        self.pairs.remove(min(pair for pair in self.pairs if pair[0] == code))

    def found(self, lo, hi):
        slices = np.empty((len(self.trees.nodes) + 1, 2), np.int64)
        end = in_range(self.trees, lo, hi, slices, self.work)
        ids = self.trees.nodes.reshape(-1)
        return [int(index) for a, b in slices[:end] for index in ids[a:b]]

    @property
    def nodes_used(self):
        return len(self.trees.nodes) - int(self.trees.free[0])


@given(
    fanout=st.integers(4, 7),
    codes=st.lists(st.integers(-20, 20) | st.sampled_from([LEAST, GREATEST]), max_size=150),
    leave=st.randoms(use_true_random=False),
    window=st.integers(0, 60),
)
def test_a_tree_holds_what_a_sorted_list_holds(fanout, codes, leave, window):
    tree = Tree(fanout)
    for index, code in enumerate(codes):
        tree.insert(code, index)
        if len(tree.pairs) > window:
            tree.delete_first(leave.choice(tree.pairs)[0])
    for lo, hi in [(LEAST, GREATEST), (-3, 3), (0, 0), (GREATEST, GREATEST), (21, GREATEST - 1)]:
        assert tree.found(lo, hi) == [index for code, index in tree.pairs if lo <= code <= hi]
    while tree.pairs:
        tree.delete_first(leave.choice(tree.pairs)[0])
    assert tree.found(LEAST, GREATEST) == []
    assert tree.nodes_used == min(len(codes), 1)
    assert tree.trees.heads[0, insert_tree.HEIGHT] == 0


# --- a hash join needs an equality ------------------------------------------------------------------------------------


def test_a_query_without_an_equality_is_refused_by_its_conditions():
    query = parse_query("""
name: q
streams: {s: {schema: {a: int, b: int}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b != r.b WINDOW AS (SLIDE INTERVAL '5' ON '20')
method: hash
""")
    with pytest.raises(ConfigurationError, match=r"by an equality.*l\.a < r\.a, l\.b <> r\.b.*choose another method"):
        MethodMachine(query, SIDES["hash"])
