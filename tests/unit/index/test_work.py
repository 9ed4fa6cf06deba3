"""An index counts its own maintenance work."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from spojoin.index.stream_index import StreamIndex
from spojoin.index.work import Work
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of

DELTA = 2_000
ROLE = Direction(0, 0, True, tuple(RolePredicate(Op.LT, s, s, Domain.INTEGER, 0) for s in range(2)))


def batch(number, group=0):
    rows = np.random.default_rng(number).integers(0, 1000, (DELTA, SLOTS))
    return batch_of(number, number * DELTA, rows, range(number * DELTA, (number + 1) * DELTA), group)


def test_merges_and_builds_are_counted_with_their_time():
    work = Work(perf_counter)
    index = StreamIndex((ROLE,), Output.COUNT, None, True, work)
    index.add(batch(0))
    assert work == Work()
    for number in range(1, 4):
        index.add(batch(number))
    assert (index.nodes, work.merges, work.builds) == (1, 3, 0)  # four nodes become one by three merges of two
    probes = tuple(np.arange(SLOTS * 3).reshape(SLOTS, 3))
    for _ in range(2):
        index.evaluate(probes, np.zeros(1, np.int64))
    assert work.builds == len(ROLE.predicates) + 1  # columns prepared for searching, and one wavelet matrix
    assert work.merge_seconds > 0
    assert work.build_seconds > 0


def test_splits_count_too():
    index = StreamIndex((ROLE,), Output.COUNT, None, True)
    for number in range(8):
        index.add(batch(number))
    index.add(batch(8, group=1))  # the first group is complete: one node, too large to be left bit by bit
    merges, nodes = index.work.merges, index.nodes
    index.evaluate(tuple(np.arange(SLOTS * 3).reshape(SLOTS, 3)), np.array([10, 20, 30]))
    assert index.nodes > nodes
    assert index.work.merges - merges == index.nodes - nodes


def test_columns_are_prepared_when_they_are_searched_and_take_no_more_then():
    index = StreamIndex((ROLE,), Output.COUNT, None, True)
    for number in range(4):
        index.add(batch(number))
    (node,) = index._nodes
    assert not any(column.is_prepared for column in node.columns.values())
    pairs = [[part.tolist() for part in column.pair] for column in node.columns.values()]
    before = index.nbytes
    keys = [node.keys(slot) for slot in node.columns]
    assert [node.keys(slot) is held for slot, held in zip(node.columns, keys, strict=True)] == [True, True]
    assert [[part.tolist() for part in column.pair] for column in node.columns.values()] == pairs
    assert index.nbytes < before, "codes that occur often are held once"
