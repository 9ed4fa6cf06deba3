"""Equalities beside other conditions, which composite ranks answer, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.index import composite, evaluation
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.naive_index import NaiveWindow

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREMES = [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST]
RANGES = [op for op in Op if op not in (Op.EQ, Op.NE)]
slots = st.integers(0, SLOTS - 1)


def predicate(ops):
    return st.builds(RolePredicate, st.sampled_from(ops), slots, slots, st.just(Domain.INTEGER), st.integers(0, 2))


@st.composite
def keyed(draw):
    """Directions of one to three equalities, at most two ranges and at most one `!=`, in any order, of any slots."""
    parts = [
        *draw(st.lists(predicate([Op.EQ]), min_size=1, max_size=3)),
        *draw(st.lists(predicate(RANGES), max_size=2)),
        *draw(st.lists(predicate([Op.NE]), max_size=1)),
    ]
    return tuple(draw(st.permutations(parts)))


def answers(index, codes, lower):
    return [matches.counts.tolist() for matches in index.evaluate(codes, np.array(lower, np.int64))]


def expected(index, naive, probes, lower):
    bounds = lower * len(probes) if len(lower) == 1 else lower
    return [
        [
            len(naive.partners([(p.op.name, p.width, p.probe_slot, p.target_slot) for p in d.predicates], probe, low))
            for probe, low in zip(probes, bounds, strict=True)
        ]
        for d in index.directions
    ]


@given(data=st.data(), predicates=st.tuples(keyed(), keyed()))
@settings(max_examples=400, deadline=None)
def test_counts_by_key_are_those_of_the_plain_loop(data, predicates):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 4), st.sampled_from(EXTREMES)]))
    rows = st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=40)
    directions = tuple(Direction(0, 0, side == 0, part) for side, part in enumerate(predicates))
    index = StreamIndex(directions, Output.COUNT, None, True)
    naive, first = NaiveWindow(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SCAN_MAX", 2)
        patch.setattr(evaluation, "MASKED_MAX", 8)
        for batch_id, batch in enumerate(data.draw(st.lists(rows, min_size=1, max_size=6))):
            seqs = range(first, first + len(batch))
            index.add(batch_of(batch_id, first, batch, seqs, -1))
            naive.add(first, batch, seqs)
            first += len(batch)
            probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=9))
            bound = st.integers(0, first)
            lower = data.draw(st.one_of(st.just([0]), st.lists(bound, min_size=len(probes), max_size=len(probes))))
            codes = tuple(np.array(column, np.int64) for column in zip(*probes, strict=True))
            assert answers(index, codes, lower) == expected(index, naive, probes, lower)


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
HOLDS = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.BAND_LT: lambda a, b: np.abs(a - b) < WIDTH,
    Op.BAND_LE: lambda a, b: np.abs(a - b) <= WIDTH,
}


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
            holds = np.arange(30_000) >= lower
            for slot, op in used:
                holds &= HOLDS[op](stored[slot], probes[slot, q])
            assert found.counts[q] == holds.sum()
            if output is Output.PAIRS:
                assert (
                    found.partners[found.offsets[q] : found.offsets[q + 1]].tolist() == np.flatnonzero(holds).tolist()
                )


def test_conditions_that_composite_ranks_do_not_answer_are_left_to_others():
    def direction(*ops):
        return Direction(0, 0, True, tuple(RolePredicate(op, s, s, Domain.INTEGER, 0) for s, op in enumerate(ops)))

    assert not composite.searches_by_key(direction(Op.LT, Op.GT))
    assert composite.searches_by_key(direction(Op.LT, Op.EQ, Op.EQ, Op.EQ, Op.NE))
    assert not composite.searches_by_key(direction(Op.LT, Op.EQ, Op.GT, Op.NE))
