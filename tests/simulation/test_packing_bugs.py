"""Planted bugs in packings and standbys (rules P14, P15): each is found, and what must be harmless is."""

from __future__ import annotations

import pytest

from spojoin.simulate.editions import EDITION_SEEDS
from spojoin.simulate.pack_mutants import HARMLESS, PACK_MUTANTS
from spojoin.simulate.run import run_seed
from spojoin.simulate.runner import find_mutant
from tests.support.mutant_seeds import SEEDS, seeds_for

SEEDS_UNHARMED = range(EDITION_SEEDS, EDITION_SEEDS + 50)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PACK_MUTANTS)
def test_the_mutant_is_found(name):
    failure = find_mutant(name, seeds_for(name))
    assert failure is not None, f"{name} ({PACK_MUTANTS[name].what}) got past {len(SEEDS)} seeds"
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_seed(failure.seed) is None, "the seed fails without the mutant, too"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_depends_on_what_must_be_harmless(name):
    failure = find_mutant(name, SEEDS_UNHARMED)
    assert failure is None, f"{name}: {failure.account}"
