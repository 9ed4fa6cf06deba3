"""Whole groups share nodes until windows reach them; then a node is split where groups meet."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.index.node import SEVERAL
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from spojoin.wire.records import NO_GROUP
from tests.support.batches import SLOTS, batch_of
from tests.support.nested_loop import NaiveWindow

SIZE = 20
PREDICATES = tuple(RolePredicate(op, s, s, Domain.INTEGER, 0) for s, op in enumerate((Op.LT, Op.GT)))


def rows(number):
    return np.random.default_rng(number).integers(0, 9, (SIZE, SLOTS)).tolist()


def seqs(number):
    return list(range(number * SIZE, (number + 1) * SIZE))


def filled(numbers, group=lambda number: number, one_in=1):
    index = StreamIndex((Direction(0, 0, True, PREDICATES),), Output.COUNT, None, True)
    index.searched_one_in = one_in
    for number in numbers:
        index.add(batch_of(number, number * SIZE, rows(number), seqs(number), group(number)))
    return index


def sizes(index):
    """Tuples of each node, in batches."""
    return [node.size // SIZE for node in index._nodes]


@pytest.mark.parametrize(
    ("batches", "expected"), [(2, [1, 1]), (3, [2, 1]), (4, [2, 1, 1]), (5, [4, 1]), (12, [8, 2, 1, 1]), (17, [16, 1])]
)
def test_whole_groups_share_nodes_as_in_a_binary_counter(batches, expected):
    index = filled(range(batches))
    assert sizes(index) == expected
    assert [node.group for node in index._nodes if node.size == SIZE] == list(range(batches))[-expected.count(1) :]
    assert all(node.group == SEVERAL for node in index._nodes if node.size > SIZE)


@pytest.mark.parametrize(("batches", "expected"), [(4, [1, 1, 1, 1]), (5, [4, 1]), (13, [4, 4, 4, 1]), (17, [16, 1])])
def test_an_index_that_few_frames_search_merges_its_groups_less_often(batches, expected):
    assert sizes(filled(range(batches), one_in=8)) == expected


def test_an_index_that_one_in_three_frames_searches_merges_its_groups_as_a_binary_counter():
    assert sizes(filled(range(13), one_in=3)) == [8, 4, 1]


def test_a_group_of_several_batches_is_whole_before_it_shares_a_node():
    assert sizes(filled(range(7), group=lambda number: number // 3)) == [6, 1]
    assert sizes(filled(range(6), group=lambda number: number // 3)) == [3, 1, 1, 1]


def test_a_group_that_has_ended_shares_a_node_before_the_next_one_begins():
    index = filled(range(6), group=lambda number: number // 3)
    for _ in range(2):
        index.end_group(1)
        assert sizes(index) == [6]
    index.add(batch_of(6, 6 * SIZE, rows(6), seqs(6), 2))
    assert sizes(index) == [6, 1]


@pytest.mark.parametrize("lower", [0, SIZE, 3 * SIZE, 3 * SIZE + 1, 8 * SIZE - 1])
@pytest.mark.parametrize("late", [None, 2, 5])
@pytest.mark.parametrize("one_in", [1, 8])
def test_windows_that_leave_groups_one_by_one_find_what_a_loop_finds(lower, late, one_in):
    naive = NaiveWindow()
    for number in range(9):
        naive.add(number * SIZE, rows(number), seqs(number))
    order = [number for number in range(9) if number != late] + ([] if late is None else [late])
    index = filled(order, one_in=one_in)
    probes = rows(99)
    for bound in (lower, min(lower + SIZE, 8 * SIZE)):
        bounds = np.sort(np.resize([lower, bound], len(probes)))
        (found,) = index.evaluate(tuple(np.array(probes, np.int64).T), bounds)
        expected = [
            len(naive.partners(PREDICATES, probe, low)) for probe, low in zip(probes, bounds.tolist(), strict=True)
        ]
        assert found.counts.tolist() == expected


def test_a_node_is_split_where_groups_meet(monkeypatch):
    monkeypatch.setattr("spojoin.index.evaluation.MASKED_MAX", SIZE)
    index = filled(range(5))
    assert sizes(index) == [4, 1]
    index.evaluate(tuple(np.array(rows(99), np.int64).T), np.array([SIZE]))
    assert sizes(index) == [1, 1, 2, 1]
    assert [node.first // SIZE for node in index._nodes] == [0, 1, 2, 4]


def test_batches_of_no_group_are_gathered_by_levels_alone():
    index = filled(range(6), group=lambda _: NO_GROUP)
    assert sizes(index) == [4, 1, 1]
