"""Seeded worlds whose left rows ask: final answers, outer, semi and anti joins, aggregates, the best partners."""

from __future__ import annotations

import os

import pytest

from spojoin.simulate.asking_mutants import ASKING_MUTANTS
from spojoin.simulate.editions import FIFTH_SEEDS, SEVENTH_SEEDS, SIXTH_SEEDS
from spojoin.simulate.full_mutants import FULL_MUTANTS
from spojoin.simulate.generation_mutants import REPLACED_ASKING_MUTANTS
from spojoin.simulate.generations import run_replaced_statement
from spojoin.simulate.run import draw_statement, run_statement
from spojoin.simulate.runner import REPLACED_STATEMENTS, STATEMENTS, find_mutant, run_all
from tests.support.mutant_seeds import asking_seeds_for

SEEDS = range(FIFTH_SEEDS, FIFTH_SEEDS + 300)
FULL_SEEDS = range(SEVENTH_SEEDS, SEVENTH_SEEDS + 400)
REPLACED_SEEDS = range(SIXTH_SEEDS, SIXTH_SEEDS + 60)
REPLACED_FULL_SEEDS = range(SEVENTH_SEEDS, SEVENTH_SEEDS + 60)
#: Single rows of results were numbered by the rows that answer, which don't ascend where both sides ask.
KEPT_FULL = tuple(SEVENTH_SEEDS + number for number in (576, 903))


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seeds", [SEEDS[:100], FULL_SEEDS[:120], KEPT_FULL], ids=["left", "full", "kept"])
def test_every_seed_gives_the_answers_of_the_oracle(seeds):
    failures = [failure for failure in run_all(seeds, os.cpu_count() or 1, kind=STATEMENTS) if failure is not None]
    assert not failures, "\n\n".join(failure.account for failure in failures[:3])


def test_most_statements_ask():
    asked = [draw_statement(seed).join.asking for seed in SEEDS[:100]]
    assert 40 < sum(one is not None for one in asked) < 80
    assert {one.at_close for one in asked if one is not None} == {True, False}


def test_some_statements_join_fully():
    asked = [draw_statement(seed).join.asking for seed in FULL_SEEDS[:100]]
    assert 10 < sum(one is not None and one.join == "FULL" for one in asked) < 40


def test_there_are_at_least_ten_mutants():
    assert len(ASKING_MUTANTS) >= 10


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*ASKING_MUTANTS, *FULL_MUTANTS])
def test_the_mutant_is_found(name):
    mutants, seeds = (ASKING_MUTANTS, SEEDS) if name in ASKING_MUTANTS else (FULL_MUTANTS, FULL_SEEDS)
    failure = find_mutant(name, asking_seeds_for(name, seeds), STATEMENTS)
    assert failure is not None, f"{name} ({mutants[name].what}) got past {len(seeds)} seeds"
    assert "Error" not in failure.reason, "a wrong output is found, not a crash"
    assert run_statement(failure.seed) is None, "the seed fails without the mutant, too"


# --- replaced while they are served, at arrival -----------------------------------------------------------------------


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seeds", [REPLACED_SEEDS[:30], REPLACED_FULL_SEEDS[:30]], ids=["left", "full"])
def test_every_row_is_answered_once_over_the_generations(seeds):
    found = run_all(seeds, os.cpu_count() or 1, kind=REPLACED_STATEMENTS)
    failures = [failure for failure in found if failure is not None]
    assert not failures, "\n\n".join(failure.account for failure in failures[:3])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", REPLACED_ASKING_MUTANTS)
def test_the_mutant_of_replacements_is_found(name):
    failure = find_mutant(name, REPLACED_SEEDS, REPLACED_STATEMENTS)
    assert failure is not None, f"{name} ({REPLACED_ASKING_MUTANTS[name].what}) got past {len(REPLACED_SEEDS)} seeds"
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_replaced_statement(failure.seed) is None, "the seed fails without the mutant, too"
