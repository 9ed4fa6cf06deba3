"""Seeded worlds whose queries are statements: filters, residual conditions, texts, NULL and columns of results."""

from __future__ import annotations

import os

import pytest

from spojoin.simulate.editions import EDITION_SEEDS
from spojoin.simulate.run import run_statement
from spojoin.simulate.runner import REPLACED_STATEMENTS, STATEMENTS, find_mutant, run_all
from spojoin.simulate.statement_mutants import STATEMENT_MUTANTS
from tests.support.mutant_seeds import SEEDS, seeds_for

FIRST, SECOND, SLICE = 100, 100, 100
STARTS = [*range(0, FIRST, SLICE), *range(EDITION_SEEDS, EDITION_SEEDS + SECOND, SLICE)]
#: Seeds of statements that have found a fault: a sink had passed over what another one had answered, and waited for a
#: record before it went on with the next frame; a permutation service that began behind what was trimmed waited for
#: runs of earlier batches, and trimmed none.
KEPT_STATEMENTS = (4567171595949044817, 9163299339988718564, 9183510157655264635, 9183510157655264798)
#: Seeds of replaced statements that have found a fault: windows began before the beginning of a generation whose log
#: was trimmed; late rows of a generation that read nothing again were missed; rows counted as passed over by a
#: generation that had written nothing; runs of expired batches waited for joiners whose log began behind them; who
#: found the log closed handed over without the late rows that another had found.
KEPT = (
    3380045869465817623, 3380045869465817655, 3380045869465819363, 3380045869465819943,
    3380045869465817351, 880000000154, 880000000214, 4567171595949058887,
)  # fmt: skip
REPLACED_SEEDS = range(EDITION_SEEDS, EDITION_SEEDS + 60)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("start", STARTS)
def test_every_seed_gives_the_output_of_the_oracle(start):
    failures = [f for f in run_all(range(start, start + SLICE), os.cpu_count() or 1, kind=STATEMENTS) if f is not None]
    assert not failures, "\n\n".join(f.account for f in failures[:3])


@pytest.mark.timeout(1_200)
def test_every_seed_answers_each_row_once_over_its_generations():
    found = run_all(REPLACED_SEEDS, os.cpu_count() or 1, kind=REPLACED_STATEMENTS)
    failures = [failure for failure in found if failure is not None]
    assert not failures, "\n\n".join(f.account for f in failures[:3])


@pytest.mark.parametrize(
    ("kind", "seed"), [*((STATEMENTS, s) for s in KEPT_STATEMENTS), *((REPLACED_STATEMENTS, s) for s in KEPT)]
)
def test_a_seed_that_once_found_a_fault_finds_none(kind, seed):
    failure = kind.run(seed)
    assert failure is None, failure.account


def test_there_are_at_least_eight_mutants():
    assert len(STATEMENT_MUTANTS) >= 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STATEMENT_MUTANTS)
def test_the_mutant_is_found(name):
    failure = find_mutant(name, seeds_for(name), STATEMENTS)
    assert failure is not None, f"{name} ({STATEMENT_MUTANTS[name].what}) got past {len(SEEDS)} seeds"
    assert "Error" not in failure.reason, "a wrong output is found, not a crash"
    assert run_statement(failure.seed) is None, "the seed fails without the mutant, too"
