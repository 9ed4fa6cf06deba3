"""Sums of weights beside counts, of whole nodes and of cut ones, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.assembly import Taking
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from spojoin.wire.sums import Sums
from tests.support.batches import SLOTS, batch_of
from tests.support.drawn_predicates import PREDICATES
from tests.support.naive_index import NaiveWindow

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
@settings(max_examples=400, deadline=None)
def test_sums_are_those_of_the_plain_loop(data, predicates):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 4), st.integers(0, 50)]))
    rows = st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=90)
    index = StreamIndex((Direction(0, 0, True, tuple(predicates)),), Output.COUNT, None, True, taking=Taking(sums=True))
    naive, first, weighed = NaiveWindow(), 0, np.zeros((KEY_COUNT, 0), np.int64)
    terms = [(p.op.name, p.width, p.probe_slot, p.target_slot) for p in predicates]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SCAN_MAX", 2)
        patch.setattr(evaluation, "MASKED_MAX", 8)
        for batch_id, batch in enumerate(data.draw(st.lists(rows, min_size=1, max_size=6))):
            added = data.draw(weights(len(batch)))
            index.add(batch_of(batch_id, first, batch, range(first, first + len(batch)), -1), added)
            naive.add(first, batch, range(first, first + len(batch)))
            weighed = np.concatenate([weighed, by_key(added)], axis=1)
            first += len(batch)
            probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=9))
            bound = st.integers(0, first)
            lower = data.draw(st.one_of(st.just([0]), st.lists(bound, min_size=len(probes), max_size=len(probes))))
            codes = tuple(np.array(column, np.int64) for column in zip(*probes, strict=True))
            (found,) = index.evaluate(codes, np.array(lower, np.int64))
            bounds = lower * len(probes) if len(lower) == 1 else lower
            partners = [naive.partners(terms, probe, low) for probe, low in zip(probes, bounds, strict=True)]
            assert found.counts.tolist() == [len(some) for some in partners]
            sums = [[sum(row[p] for p in some) for some in partners] for row in weighed.tolist()]
            assert (
                by_key(found.sums) if found.sums is not None else np.zeros((KEY_COUNT, len(probes)))
            ).tolist() == sums


@pytest.mark.parametrize("ops", ["LT GT", "LE", "GE NE", "BAND_LE BAND_LT", "EQ LT GT", "EQ NE", "EQ", "LT GT LE"])
@pytest.mark.parametrize("domain", [3, 40, 10_000])
@pytest.mark.parametrize("greatest", [2**32, 2**20, 1_000], ids=["64 bits", "32 bits", "16 bits"])
def test_sums_of_a_large_node(ops, domain, greatest):
    rng = np.random.default_rng(domain + len(ops))
    named = [Op[name] for name in ops.split()]
    predicates = tuple(RolePredicate(op, s, s, Domain.INTEGER, domain // 3) for s, op in enumerate(named))
    index = StreamIndex((Direction(0, 0, True, predicates),), Output.COUNT, None, True, taking=Taking(sums=True))
    rows, probes = rng.integers(0, domain, (2500, SLOTS)), rng.integers(0, domain, (40, SLOTS))
    added = Sums(np.arange(KEY_COUNT), rng.integers(-greatest, greatest, (KEY_COUNT, len(rows))))
    naive = NaiveWindow()
    naive.add(0, rows.tolist(), range(len(rows)))
    index.add(batch_of(0, 0, rows.tolist(), range(len(rows)), -1), added)
    (found,) = index.evaluate(tuple(np.ascontiguousarray(column) for column in probes.T), np.zeros(1, np.int64))
    terms = [(p.op.name, p.width, p.probe_slot, p.target_slot) for p in predicates]
    partners = [naive.partners(terms, probe, 0) for probe in probes.tolist()]
    assert found.counts.tolist() == [len(some) for some in partners]
    assert by_key(found.sums).tolist() == [[int(row[some].sum()) for some in partners] for row in added.rows]
