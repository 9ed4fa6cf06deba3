"""Queries that are replaced while they are served: every row is answered once, and rightly, by one generation."""

from __future__ import annotations

import os

import pytest

from spojoin.simulate.editions import THIRD_SEEDS
from spojoin.simulate.generation_mutants import GENERATION_MUTANTS
from spojoin.simulate.generations import run_replaced_statement, run_replacement
from spojoin.simulate.runner import REPLACED, find_mutant, run_all
from tests.support.mutant_seeds import SEEDS, seeds_for

FIRST = 100
#: Seeds beyond the range that once found a fault: the log was trimmed within a batch not yet made; frames of a
#: closed log waited for a worker that was gone; runs that a joiner had skipped stayed; rows answered out of their
#: inputs' order were answered again by the generation after the next; runs of expired batches waited for joiners whose
#: log began behind them; a late row of a generation that read nothing again was missed; a row that one generation had
#: refused and the next one took was answered by neither, nor was one that was late behind a row that the next refused;
#: a look back took rows that ran back as far as the earlier query allowed for the first ones.
KEPT = (
    1036, 5035, 5043, 5044, 20054, 20086, 20142,
    3380045869465822250, 3380045869465823114, 3380045869465817658, 886000000041,
    1355404825958610546, 4567171595949056598, 4567171595949072546,
)  # fmt: skip
#: A router that found the log closed by one that died read no batches, for which it waited; a row that one generation
#: had answered and the next one, with a smaller lateness, had passed without reading it, was answered again.
KEPT_STATEMENTS = (8195037694371151143, 9003640878852023487)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "seeds",
    [range(FIRST), SEEDS[:100], range(THIRD_SEEDS, THIRD_SEEDS + 100)],
    ids=["first edition", "second edition", "third edition"],
)
def test_every_seed_answers_each_row_once_over_its_generations(seeds):
    found = run_all(seeds, os.cpu_count() or 1, kind=REPLACED)
    failures = [failure for failure in found if failure is not None]
    assert not failures, "\n\n".join(f.account for f in failures[:3])


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_found_a_fault_finds_none(seed):
    failure = run_replacement(seed)
    assert failure is None, failure.account


@pytest.mark.parametrize("seed", KEPT_STATEMENTS)
def test_a_seed_of_statements_that_once_found_a_fault_finds_none(seed):
    failure = run_replaced_statement(seed)
    assert failure is None, failure.account


@pytest.mark.parametrize("name", GENERATION_MUTANTS)
def test_the_mutant_is_found(name):
    failure = find_mutant(name, seeds_for(name), REPLACED)
    assert failure is not None, f"{name} ({GENERATION_MUTANTS[name].what}) got past {len(SEEDS)} seeds"
    assert not failure.reason.startswith("TypeError"), "the mutant no longer fits the product"
    assert run_replacement(failure.seed) is None, "the seed fails without the mutant, too"
