"""Counts of three conditions in one node, also where several concern one column, against a loop over its tuples."""

import itertools

import numpy as np
import pytest

from spojoin.index import evaluation
from spojoin.index.conditions import RankInterval
from spojoin.index.node import from_batch
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels.ranks import rank_intervals
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of

M = 8
TRIPLES = [
    (slots, complements)
    for slots in itertools.product(range(SLOTS), repeat=3)
    for complements in itertools.product([False, True], repeat=3)
    # plain conditions on one column have become one before
    if len({s for s, c in zip(slots, complements, strict=True) if not c}) == complements.count(False)
]


def node_of(rows):
    batch = batch_of(0, 0, rows, range(len(rows)), -1)
    return from_batch(batch, range(SLOTS), with_seqs=False, with_permutations=True)


def count_of(rows, slots, complements, lo, hi):
    return sum(
        all((lo[k] <= row[slot] <= hi[k]) != complements[k] for k, slot in enumerate(slots)) for row in rows.tolist()
    )


def intervals_of(node, slots, complements, lo, hi):
    for k, slot in enumerate(slots):
        a, b = rank_intervals(node.columns[slot].keys, lo[k], hi[k])
        yield RankInterval(slot, a, b, complements[k], np.arange(M))


@pytest.mark.parametrize("n", [evaluation.SCAN_MAX, evaluation.SCAN_MAX + 1, 1024])
def test_every_choice_of_columns_and_complements(n):
    random = np.random.default_rng(n)
    rows = random.integers(0, [3, 40, 900], (n, SLOTS))
    node = node_of(rows)
    for slots, complements in TRIPLES:
        lo = np.stack([random.integers(0, rows[:, s].max() + 1, M) for s in slots])
        hi = lo + random.integers(-1, 30, lo.shape)
        found = evaluation.count(node, list(intervals_of(node, slots, complements, lo, hi)))
        assert found.tolist() == [count_of(rows, slots, complements, lo[:, q], hi[:, q]) for q in range(M)]


def test_one_structure_serves_every_order_of_columns():
    random = np.random.default_rng(2)
    rows = random.integers(0, 50, (900, SLOTS))
    node = node_of(rows)
    for slots in itertools.permutations(range(SLOTS)):
        lo = random.integers(0, 50, (SLOTS, M))
        widths = np.array([[1], [10], [40]])
        plain = (False, False, False)
        found = evaluation.count(node, list(intervals_of(node, slots, plain, lo, lo + widths)))
        assert found.tolist() == [count_of(rows, slots, plain, lo[:, q], lo[:, q] + widths[:, 0]) for q in range(M)]
    assert len(node._boxes) == 1


def test_three_conditions_stay_within_their_bytes_a_tuple():
    random = np.random.default_rng(3)
    n = 30_000
    direction = Direction(0, 0, True, tuple(RolePredicate(Op.LT, s, s, Domain.INTEGER, 0) for s in range(SLOTS)))
    index = StreamIndex((direction,), Output.COUNT, None, True)
    for k in range(11):
        rows = random.permutation(SLOTS * n).reshape(n, SLOTS)
        index.add(batch_of(k, k * n, rows, range(k * n, (k + 1) * n), k // 10))
    index.evaluate(tuple(random.integers(0, SLOTS * n, (SLOTS, 3))), np.zeros(1, np.int64))
    assert index.nbytes <= 120 * index.tuples


@pytest.mark.parametrize("output", [Output.COUNT, Output.PAIRS])
def test_directions_that_ask_the_same_are_searched_once(output):
    random = np.random.default_rng(4)
    rows = random.integers(0, 60, (2000, SLOTS))
    predicates = tuple(RolePredicate(Op.BAND_LE, s, s, Domain.INTEGER, 4) for s in range(2))
    other = (RolePredicate(Op.LT, 0, 0, Domain.INTEGER, 0), predicates[1])
    index = StreamIndex(
        [Direction(0, 0, left, p) for left, p in ((True, predicates), (False, other), (False, predicates))],
        output, None, True,
    )  # fmt: skip
    index.add(batch_of(0, 0, rows, range(2000), -1))
    probes = random.integers(0, 60, (SLOTS, M))
    first, second, third = index.evaluate(tuple(probes), np.zeros(1, np.int64))
    close = np.abs(rows[:, :2, None] - probes[None, :2]) <= 4
    assert first.counts.tolist() == third.counts.tolist() == close.all(axis=1).sum(axis=0).tolist()
    below = (rows[:, :1] < probes[:1]) & close[:, 1]
    assert second.counts.tolist() == below.sum(axis=0).tolist()
    if output is Output.PAIRS:
        assert first.partners.tolist() == third.partners.tolist()
