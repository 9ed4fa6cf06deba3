"""Sums of weights beside counts, of whole nodes and of cut ones, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index.assembly import Taking
from spojoin.wire.sums import Sums
from tests.support.batches import SLOTS
from tests.support.index_beside_loop import (
    LARGE,
    PREDICATES,
    VALUES,
    IndexBesideLoop,
    drawn_batches,
    on_slots,
    small_nodes,
)

KEY_COUNT = 3


@st.composite
def weights(draw, n):
    """Weights of n tuples, of any of the keys."""
    keys = sorted(draw(st.sets(st.integers(0, KEY_COUNT - 1))))
    column = st.lists(st.integers(-(2**32) + 1, 2**32 - 1), min_size=n, max_size=n)
    return Sums(np.array(keys, np.int64), np.array([draw(column) for _ in keys], np.int64).reshape(len(keys), n))


def by_key(sums):
    return np.zeros((KEY_COUNT, 0), np.int64) if sums is None else sums.of_keys(np.arange(KEY_COUNT))


@given(data=st.data(), predicates=PREDICATES)
def test_sums_are_those_of_the_plain_loop(data, predicates):
    value, weighed = data.draw(VALUES), np.zeros((KEY_COUNT, 0), np.int64)
    both = IndexBesideLoop(predicates, taking=Taking(sums=True))
    with small_nodes():
        for batch in drawn_batches(data, value):
            added = data.draw(weights(len(batch)))
            both.add(batch, added)
            weighed = np.concatenate([weighed, by_key(added)], axis=1)
            ((found, partners),) = both.ask_drawn(data, value)
            sums = np.zeros((KEY_COUNT, len(partners))) if found.sums is None else by_key(found.sums)
            assert found.counts.tolist() == [len(some) for some in partners]
            assert sums.tolist() == [[sum(row[p] for p in some) for some in partners] for row in weighed.tolist()]


@pytest.mark.parametrize("ops", LARGE)
@pytest.mark.parametrize("domain", [3, 40, 10_000])
@pytest.mark.parametrize("greatest", [2**32, 2**20, 1_000], ids=["64 bits", "32 bits", "16 bits"])
def test_sums_of_a_large_node(ops, domain, greatest):
    rng = np.random.default_rng(domain + len(ops))
    both = IndexBesideLoop(on_slots(ops, domain // 3), taking=Taking(sums=True))
    rows, probes = rng.integers(0, domain, (2500, SLOTS)), rng.integers(0, domain, (40, SLOTS))
    added = Sums(np.arange(KEY_COUNT), rng.integers(-greatest, greatest, (KEY_COUNT, len(rows))))
    both.add(rows.tolist(), added)
    ((found, partners),) = both.asked(probes.tolist(), [0])
    assert found.counts.tolist() == [len(some) for some in partners]
    assert by_key(found.sums).tolist() == [[int(row[some].sum()) for some in partners] for row in added.rows]
