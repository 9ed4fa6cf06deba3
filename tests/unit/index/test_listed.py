"""Partners that are listed from the narrower interval, by rays, bands, keys and complements, against NumPy's scan."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.nested_loop import holds

#: Of bands.
WIDTH = 3

RAYS = (Op.LT, Op.LE, Op.GT, Op.GE)
BANDS = (Op.BAND_LT, Op.BAND_LE)
#: What one condition, or each of two, may be; a second column may be the first one again.
SHAPES = [(RAYS,), (BANDS,), ((Op.EQ,),), ((Op.NE,),), (RAYS, RAYS), (BANDS, RAYS), (BANDS, BANDS), ((Op.EQ,), RAYS)]
SHAPES += [((Op.EQ,), RAYS, BANDS), ((Op.NE,), RAYS), ((Op.NE,), (Op.NE,)), ((Op.EQ,), (Op.NE,)), ((Op.EQ,), (Op.EQ,))]
SHAPES += [((Op.EQ,), (Op.EQ,), RAYS), ((Op.EQ,), RAYS, (Op.NE,))]


@st.composite
def directions(draw):
    shape = draw(st.sampled_from(SHAPES))
    slots = [draw(st.integers(0, SLOTS - 1)) for _ in shape]
    predicates = [
        RolePredicate(draw(st.sampled_from(ops)), s, s, Domain.INTEGER, WIDTH)
        for ops, s in zip(shape, slots, strict=True)
    ]
    return Direction(0, 0, True, tuple(predicates))


@given(
    wanted=st.lists(directions(), min_size=1, max_size=2),
    sizes=st.lists(st.sampled_from([30, 600, 2500]), min_size=1, max_size=4),
    tops=st.tuples(*[st.sampled_from([3, 40, 1000, 10**9])] * SLOTS),
    follows=st.booleans(),
    is_moving=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_partners_are_those_of_a_scan(wanted, sizes, tops, follows, is_moving, seed):
    random = np.random.default_rng(seed)
    n = sum(sizes)
    stored = random.integers(0, np.array(tops)[:, None], (SLOTS, n))
    if follows:  # as ends of intervals follow their begins: few partners of two rays
        stored[1] = stored[0] + random.integers(0, 4, n)
    index = StreamIndex([Direction(0, 0, d.as_left, d.predicates) for d in wanted], Output.PAIRS, None, True)
    first = 0
    for k, size in enumerate(sizes):
        index.add(batch_of(k, first, stored[:, first : first + size].T, range(first, first + size), k // 2))
        first += size
    probes = random.integers(0, np.array(tops)[:, None], (SLOTS, 40))
    lower = np.sort(random.integers(0, n, 40)) if is_moving else np.zeros(1, np.int64)
    for _ in range(2):  # the second time the narrower condition may be another
        found = index.evaluate(tuple(probes), lower)
    for direction, matches in zip(wanted, found, strict=True):
        for q in range(40):
            mask = np.arange(n) >= (lower[q] if is_moving else 0)
            for p in direction.predicates:
                mask &= holds(p.op.name, WIDTH, stored[p.target_slot], probes[p.probe_slot, q])
            partners = matches.partners[matches.offsets[q] : matches.offsets[q + 1]]
            assert partners.tolist() == np.flatnonzero(mask).tolist()
            assert matches.counts[q] == len(partners)
    _check_some_at_a_time(index, tuple(probes), lower, found)


def test_who_asks_nothing_has_no_partners():
    direction = Direction(0, 0, True, (RolePredicate(Op.LT, 0, 0, Domain.INTEGER, 0),))
    index = StreamIndex((direction,), Output.PAIRS, None, True)
    nothing = np.empty(0, np.int64)
    for k in range(2):  # without a node, and with one
        asked = index.ask((nothing, nothing), nothing)
        assert asked is not None
        assert asked.most == 0
        (found,) = asked.matches(0, 0)
        assert found.offsets.tolist() == [0]
        index.add(batch_of(k, 0, np.zeros((600, SLOTS), np.int64), range(600), 0))


def _check_some_at_a_time(index, probes, lower, found):
    """Probes that ask together and are answered some at a time have the same partners, and no more than was said."""
    asked = index.ask(probes, lower)
    assert asked is not None or lower[-1] > 0 or any(node.size < 600 for node in index._nodes)
    if asked is None:
        return
    assert sum(len(matches.partners) for matches in found) <= asked.most
    for first, last in ((0, 40), (0, 1), (7, 30), (39, 40), (5, 5)):
        for matches, some in zip(found, asked.matches(first, last), strict=True):
            begin, end = matches.offsets[[first, last]]
            assert some.partners.tolist() == matches.partners[begin:end].tolist()
            assert some.offsets.tolist() == (matches.offsets[first : last + 1] - begin).tolist()


@pytest.mark.parametrize("ops", [(Op.LT, Op.GT), (Op.GE, Op.LE), (Op.LT, Op.LT), (Op.GT, Op.GE)])
def test_bytes_a_tuple_are_those_of_counts(ops):
    stored = np.random.default_rng(3).permutation(SLOTS * 60_000).reshape(SLOTS, -1)
    direction = Direction(0, 0, True, tuple(RolePredicate(op, s, s, Domain.INTEGER, 0) for s, op in enumerate(ops)))
    held = []
    for output in (Output.COUNT, Output.PAIRS):
        index = StreamIndex((direction,), output, None, True)
        for k in range(10):
            rows = stored[:, k * 6_000 : (k + 1) * 6_000].T
            index.add(batch_of(k, k * 6_000, rows, range(k * 6_000, (k + 1) * 6_000), k // 5))
        index.evaluate(tuple(stored[:, :3]), np.zeros(1, np.int64))
        held.append(index.nbytes)
    assert held[1] <= 1.05 * held[0]
