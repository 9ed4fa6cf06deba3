"""Seeded worlds with a table: versions come while rows flow and routers die; every planted bug is found."""

from __future__ import annotations

import os

import pytest

from spojoin.simulate.drawn_table import draw_table
from spojoin.simulate.runner import TABLES, find_mutant, run_all
from spojoin.simulate.tables import TABLE_MUTANTS, run_table
from tests.support.mutant_seeds import table_seeds_for

SEEDS = range(150)


@pytest.mark.timeout(1_200)
def test_every_answer_is_about_the_version_that_the_log_names():
    failures = [failure for failure in run_all(SEEDS[:80], os.cpu_count() or 1, kind=TABLES) if failure is not None]
    assert not failures, "\n\n".join(failure.account for failure in failures[:3])


def test_what_is_drawn_has_versions_that_come_again_and_empty_ones():
    drawn = [draw_table(seed) for seed in SEEDS[:60]]
    assert sum(len(set(each.turns)) < len(each.turns) for each in drawn) > 10
    assert sum(any(not table for table in each.tables) for each in drawn) > 5
    assert {each.whole.join.asking.join for each in drawn} == {"INNER", "LEFT", "SEMI", "ANTI"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TABLE_MUTANTS)
def test_the_mutant_is_found(name):
    failure = find_mutant(name, table_seeds_for(name, SEEDS), TABLES)
    assert failure is not None, f"{name} ({TABLE_MUTANTS[name].what}) got past {len(SEEDS)} seeds"
    assert "Error" not in failure.reason, "a wrong output is found, not a crash"
    assert run_table(failure.seed) is None, "the seed fails without the mutant, too"
