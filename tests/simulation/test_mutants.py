"""Every planted bug is found, each within SEEDS; a simulator that finds none proves nothing."""

from __future__ import annotations

import pytest

from spojoin.simulate.listing_mutants import LISTING_MUTANTS
from spojoin.simulate.mutants import MUTANTS
from spojoin.simulate.run import run_seed
from spojoin.simulate.runner import find_mutant
from tests.support.mutant_seeds import SEEDS, listing_seeds_for, seeds_for


def test_there_are_at_least_twelve():
    assert len(MUTANTS) >= 12


#: A mutant that one world of thousands reaches: `test_event_time.py` of the router leads to it step by step.
RARE = "reads-forgotten"


@pytest.mark.parametrize("name", sorted((MUTANTS | LISTING_MUTANTS).keys() - {RARE}))
def test_the_mutant_is_found(name):
    seeds = listing_seeds_for(name) if name in LISTING_MUTANTS else seeds_for(name)
    failure = find_mutant(name, seeds)
    assert failure is not None, f"{name} ({(MUTANTS | LISTING_MUTANTS)[name].what}) got past {len(SEEDS)} seeds"
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_seed(failure.seed) is None, "the seed fails without the mutant, too"


def test_expiry_never_is_found_by_the_bound_on_memory():
    failure = find_mutant("expiry-never", seeds_for("expiry-never"))
    assert failure is not None
    assert "tuples at rest" in failure.reason
