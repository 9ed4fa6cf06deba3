"""The first partners in an order of values, of whole nodes and of cut ones, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.assembly import Taking
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels.ratings import CODED, FIRST, LAST, NEVER, Ratings, all_ratings, no_ratings
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.drawn_predicates import PREDICATES
from tests.support.naive_index import NaiveWindow

EXTREMES = (-(2**63), 2**63 - 1)


@st.composite
def ratings(draw, n, choices):
    """Ratings of n tuples, with ties, codes at both ends of their range, and all kinds."""
    codes = st.one_of(st.integers(0, 4), st.sampled_from(EXTREMES))
    kinds = draw(st.sampled_from([st.just(CODED), st.sampled_from([FIRST, CODED, LAST, NEVER])]))
    rows = [[draw(st.lists(each, min_size=n, max_size=n)) for _ in range(choices)] for each in (codes, kinds)]
    return Ratings(np.array(rows[0], np.int64).reshape(choices, n), np.array(rows[1], np.int8).reshape(choices, n))


def first_of(partners, rated, taking):
    """The seqs that are listed for a probe: of each choice the first, all together ascending."""
    found = set()
    for choice, is_latest in enumerate(taking.latest):
        codes, kinds = (column.tolist() for column in rated.of(choice))
        there = [seq for seq in partners if kinds[seq] != NEVER]
        there.sort(key=lambda s: (kinds[s], codes[s] if kinds[s] == CODED else 0, -s if is_latest else s))
        found.update(there[: taking.count])
    return sorted(found)


def check(found, partners, rated, taking):
    assert found.counts.tolist() == [len(some) for some in partners]
    listed = [found.partners[a:b].tolist() for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]
    assert listed == [first_of(some, rated, taking) for some in partners]


@given(data=st.data(), predicates=PREDICATES)
@settings(max_examples=400, deadline=None)
def test_the_first_are_those_of_the_plain_loop(data, predicates):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 4), st.integers(0, 50)]))
    rows = st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=90)
    taking = Taking(
        False, tuple(data.draw(st.lists(st.booleans(), min_size=1, max_size=2))), data.draw(st.integers(1, 4))
    )
    direction = Direction(0, 0, True, tuple(predicates))
    index = StreamIndex((direction,), Output.COUNT, None, True, taking=taking)
    naive, first, rated = NaiveWindow(), 0, no_ratings(0)
    terms = [(p.op.name, p.width, p.probe_slot, p.target_slot) for p in predicates]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SCAN_MAX", 2)
        patch.setattr(evaluation, "MASKED_MAX", 8)
        for batch_id, batch in enumerate(data.draw(st.lists(rows, min_size=1, max_size=6))):
            added = data.draw(ratings(len(batch), len(taking.latest)))
            index.add(batch_of(batch_id, first, batch, range(first, first + len(batch)), -1), ratings=added)
            naive.add(first, batch, range(first, first + len(batch)))
            rated = all_ratings([rated, added]) if first else added
            first += len(batch)
            probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=9))
            bound = st.integers(0, first)
            lower = data.draw(st.one_of(st.just([0]), st.lists(bound, min_size=len(probes), max_size=len(probes))))
            codes = tuple(np.array(column, np.int64) for column in zip(*probes, strict=True))
            (found,) = index.evaluate(codes, np.array(lower, np.int64))
            bounds = lower * len(probes) if len(lower) == 1 else lower
            partners = [naive.partners(terms, probe, low) for probe, low in zip(probes, bounds, strict=True)]
            check(found, partners, rated, taking)


@pytest.mark.parametrize("ops", ["LT GT", "LE", "GE NE", "BAND_LE BAND_LT", "EQ LT GT", "EQ NE", "EQ", "LT GT LE"])
@pytest.mark.parametrize("domain", [3, 40, 10_000])
@pytest.mark.parametrize("width", [3, 50])
@pytest.mark.parametrize("like", [None, 0, 1])
def test_the_first_of_a_large_node(ops, domain, width, like):
    """Values independent of the conditions' columns, or like one of them, so that the first few don't match."""
    rng = np.random.default_rng(domain + len(ops))
    named = [Op[name] for name in ops.split()]
    predicates = tuple(RolePredicate(op, s, s, Domain.INTEGER, domain // width) for s, op in enumerate(named))
    taking = Taking(False, (False, True), 3)
    index = StreamIndex((Direction(0, 0, True, predicates),), Output.COUNT, None, True, taking=taking)
    rows, probes = rng.integers(0, domain, (2500, SLOTS)), rng.integers(0, domain, (40, SLOTS))
    codes = rng.integers(0, 100, (2, len(rows))) if like is None else np.stack([rows[:, like], -rows[:, like]])
    added = Ratings(codes, np.where(rng.random((2, len(rows))) < 0.9, CODED, NEVER).astype(np.int8))
    naive = NaiveWindow()
    naive.add(0, rows.tolist(), range(len(rows)))
    index.add(batch_of(0, 0, rows.tolist(), range(len(rows)), -1), ratings=added)
    (found,) = index.evaluate(tuple(np.ascontiguousarray(column) for column in probes.T), np.zeros(1, np.int64))
    terms = [(p.op.name, p.width, p.probe_slot, p.target_slot) for p in predicates]
    check(found, [naive.partners(terms, probe, 0) for probe in probes.tolist()], added, taking)
