"""Every planted bug is found, each within SEEDS; a simulator that finds none proves nothing."""

from __future__ import annotations

import pytest

from spojoin.simulate.editions import EDITION_SEEDS
from spojoin.simulate.mutants import MUTANTS
from spojoin.simulate.run import run_seed
from spojoin.simulate.runner import find_mutant
from tests.support.mutant_seeds import SEEDS, seeds_for


def test_there_are_at_least_twelve():
    assert len(MUTANTS) >= 12


#: A mutant that one world of thousands reaches, and a seed of one, where every role has a process of its own.
RARE, REACHING = "reads-forgotten", EDITION_SEEDS + 1957


def test_a_rare_mutant_is_found_in_a_world_that_reaches_it(monkeypatch):
    monkeypatch.setattr("spojoin.simulate.scenario.with_packings", lambda scenario: scenario)
    failure = run_seed(REACHING, RARE)
    assert failure is not None
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_seed(REACHING) is None, "the seed fails without the mutant, too"


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - {RARE}))
def test_the_mutant_is_found(name):
    failure = find_mutant(name, seeds_for(name))
    assert failure is not None, f"{name} ({MUTANTS[name].what}) got past {len(SEEDS)} seeds"
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_seed(failure.seed) is None, "the seed fails without the mutant, too"


def test_expiry_never_is_found_by_the_bound_on_memory():
    failure = find_mutant("expiry-never", seeds_for("expiry-never"))
    assert failure is not None
    assert "tuples at rest" in failure.reason
