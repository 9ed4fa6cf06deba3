"""Equalities beside other conditions, which composite ranks answer, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index import composite
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.index_beside_loop import IndexBesideLoop, drawn_batches, predicates, small_nodes
from tests.support.nested_loop import holds

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREMES = [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST]
RANGES = [op for op in Op if op not in (Op.EQ, Op.NE)]


@st.composite
def keyed(draw):
    """Directions of one to three equalities, at most two ranges and at most one `!=`, in any order, of any slots."""
    parts = [
        *draw(st.lists(predicates([Op.EQ]), min_size=1, max_size=3)),
        *draw(st.lists(predicates(RANGES), max_size=2)),
        *draw(st.lists(predicates([Op.NE]), max_size=1)),
    ]
    return tuple(draw(st.permutations(parts)))


@given(data=st.data(), keyed_by=st.tuples(keyed(), keyed()))
def test_counts_by_key_are_those_of_the_plain_loop(data, keyed_by):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 4), st.sampled_from(EXTREMES)]))
    both = IndexBesideLoop(*keyed_by)
    with small_nodes():
        for batch in drawn_batches(data, value, 40):
            both.add(batch)
            for found, partners in both.ask_drawn(data, value):
                assert found.counts.tolist() == [len(some) for some in partners]


CASES = {
    "equality": (Op.EQ, None, None),
    "equality and range": (Op.EQ, Op.LT, None),
    "equality and two ranges": (Op.EQ, Op.GT, Op.LT),
    "equality and two rays up": (Op.EQ, Op.GT, Op.GE),
    "equality and two rays down": (Op.EQ, Op.LT, Op.LE),
    "equality, range and band": (Op.EQ, Op.GE, Op.BAND_LE),
    "equality and two bands": (Op.EQ, Op.BAND_LT, Op.BAND_LE),
    "equality, range and unequal": (Op.EQ, Op.LE, Op.NE),
    "equality and two unequal": (Op.EQ, Op.NE, Op.NE),
    "two equalities": (Op.EQ, Op.EQ, None),
    "two equalities and range": (Op.EQ, Op.EQ, Op.LT),
    "three equalities": (Op.EQ, Op.EQ, Op.EQ),
}
WIDTH = 3


@pytest.mark.parametrize("output", [Output.COUNT, Output.PAIRS])
@pytest.mark.parametrize("keys", [1, 40, 3000])
@pytest.mark.parametrize("ops", CASES.values(), ids=CASES)
def test_large_nodes_answer_by_key_as_a_scan(ops, keys, output):
    random = np.random.default_rng(keys)
    domain = [[keys], [60], [2000]]
    stored = random.integers(0, domain, (SLOTS, 30_000))
    stored[0, :9000] = keys // 2  # one key is hot
    used = [(slot, op) for slot, op in enumerate(ops) if op is not None]
    direction = Direction(0, 0, True, tuple(RolePredicate(op, s, s, Domain.INTEGER, WIDTH) for s, op in used))
    assert composite.searches_by_key(direction)
    index = StreamIndex((direction,), output, None, True)
    for k in range(10):
        index.add(batch_of(k, 3000 * k, stored[:, 3000 * k : 3000 * (k + 1)].T, range(3000 * k, 3000 * (k + 1)), 0))
    probes = random.integers(-1, np.add(domain, 1), (SLOTS, 300))
    for lower in (0, 4321):
        (found,) = index.evaluate(tuple(probes), np.array([lower]))
        for q in range(300):
            mask = np.arange(30_000) >= lower
            for slot, op in used:
                mask &= holds(op.name, WIDTH, stored[slot], probes[slot, q])
            assert found.counts[q] == mask.sum()
            if output is Output.PAIRS:
                assert found.partners[found.offsets[q] : found.offsets[q + 1]].tolist() == np.flatnonzero(mask).tolist()


def test_conditions_that_composite_ranks_do_not_answer_are_left_to_others():
    def direction(*ops):
        return Direction(0, 0, True, tuple(RolePredicate(op, s, s, Domain.INTEGER, 0) for s, op in enumerate(ops)))

    assert not composite.searches_by_key(direction(Op.LT, Op.GT))
    assert composite.searches_by_key(direction(Op.LT, Op.EQ, Op.EQ, Op.EQ, Op.NE))
    assert not composite.searches_by_key(direction(Op.LT, Op.EQ, Op.GT, Op.NE))
