"""The first partners in an order of values, of whole nodes and of cut ones, against the plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index.assembly import Taking
from spojoin.kernels.ratings import CODED, FIRST, LAST, NEVER, Ratings, all_ratings, no_ratings
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
def test_the_first_are_those_of_the_plain_loop(data, predicates):
    value, latest = data.draw(VALUES), data.draw(st.lists(st.booleans(), min_size=1, max_size=2))
    taking = Taking(False, tuple(latest), data.draw(st.integers(1, 4)))
    both, rated = IndexBesideLoop(predicates, taking=taking), no_ratings(0)
    with small_nodes():
        for batch in drawn_batches(data, value):
            added = data.draw(ratings(len(batch), len(taking.latest)))
            rated = all_ratings([rated, added]) if both.size else added
            both.add(batch, ratings=added)
            ((found, partners),) = both.ask_drawn(data, value)
            check(found, partners, rated, taking)


@pytest.mark.parametrize("ops", LARGE)
@pytest.mark.parametrize("domain", [3, 40, 10_000])
@pytest.mark.parametrize("width", [3, 50])
@pytest.mark.parametrize("like", [None, 0, 1])
def test_the_first_of_a_large_node(ops, domain, width, like):
    """Values independent of the conditions' columns, or like one of them, so that the first few don't match."""
    rng = np.random.default_rng(domain + len(ops))
    taking = Taking(False, (False, True), 3)
    both = IndexBesideLoop(on_slots(ops, domain // width), taking=taking)
    rows, probes = rng.integers(0, domain, (2500, SLOTS)), rng.integers(0, domain, (40, SLOTS))
    codes = rng.integers(0, 100, (2, len(rows))) if like is None else np.stack([rows[:, like], -rows[:, like]])
    added = Ratings(codes, np.where(rng.random((2, len(rows))) < 0.9, CODED, NEVER).astype(np.int8))
    both.add(rows.tolist(), ratings=added)
    ((found, partners),) = both.asked(probes.tolist(), [0])
    check(found, partners, added, taking)
