"""Search paths and merges at production sizes, against NumPy over the whole window."""

import numpy as np
import pytest

from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.nested_loop import holds

#: Of bands.
WIDTH = 3

DELTA, BATCHES = 6000, 25
OPS = {
    "two": (Op.LT, Op.GE),
    "two, one a complement": (Op.NE, Op.LE),
    "band and equality": (Op.BAND_LE, Op.EQ),
    "two bands": (Op.BAND_LE, Op.BAND_LT),
    "three": (Op.GT, Op.LT, Op.BAND_LT),
    "three, below": (Op.LT, Op.LT, Op.LE),
    "three, above": (Op.GT, Op.GE, Op.GT),
    "three, a complement": (Op.NE, Op.LE, Op.GT),
    "three complements": (Op.NE, Op.NE, Op.NE),
    "three, an equality": (Op.EQ, Op.BAND_LE, Op.LT),
}


@pytest.mark.parametrize("group", [lambda k: -1, lambda k: k // 10], ids=["moving", "grouped"])
@pytest.mark.parametrize(("output", "limit"), [(Output.COUNT, None), (Output.PAIRS, 50), (Output.PAIRS, None)])
@pytest.mark.parametrize("ops", OPS.values(), ids=OPS)
def test_large_nodes_answer_as_a_scan(ops, output, limit, group):
    random = np.random.default_rng(7)
    stored = random.integers(0, [[300], [40], [20000]], (SLOTS, DELTA * BATCHES))
    direction = Direction(0, 0, True, tuple(RolePredicate(op, s, s, Domain.INTEGER, WIDTH) for s, op in enumerate(ops)))
    index = StreamIndex((direction,), output, limit, True)
    for k in range(BATCHES):
        rows = stored[:, k * DELTA : (k + 1) * DELTA].T
        index.add(batch_of(k, k * DELTA, rows, range(k * DELTA, (k + 1) * DELTA), group(k)))
    assert index.nodes < BATCHES
    probes = random.integers(0, [[300], [40], [20000]], (SLOTS, 12))
    for first in (0, 1, 65_000, 100_001):
        lower = first + np.arange(12) * 7
        (matches,) = index.evaluate(tuple(probes), lower)
        for q in range(12):
            mask = np.arange(stored.shape[1]) >= lower[q]
            for slot, op in enumerate(ops):
                mask &= holds(op.name, WIDTH, stored[slot], probes[slot, q])
            assert matches.counts[q] == mask.sum()
            if output is Output.PAIRS:
                found = matches.partners[matches.offsets[q] : matches.offsets[q + 1]]
                assert found.tolist() == np.flatnonzero(mask)[:limit].tolist()


@pytest.mark.parametrize(("output", "bytes_max"), [(Output.COUNT, 60), (Output.PAIRS, 66)])
def test_two_predicates_stay_within_their_bytes_per_tuple(output, bytes_max):
    stored = np.random.default_rng(3).permutation(SLOTS * DELTA * 10).reshape(SLOTS, -1)
    direction = Direction(0, 0, True, tuple(RolePredicate(Op.LT, s, s, Domain.INTEGER, 0) for s in (0, 1)))
    index = StreamIndex((direction,), output, None, False)
    for k in range(11):
        at = (k % 10) * DELTA
        index.add(batch_of(k, k * DELTA, stored[:, at : at + DELTA].T, range(k * DELTA, (k + 1) * DELTA), k // 10))
    index.evaluate(tuple(stored[:, :3]), np.zeros(1, np.int64))
    assert index.nbytes <= bytes_max * index.tuples
