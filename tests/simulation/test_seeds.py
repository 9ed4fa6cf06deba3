"""Seeded worlds of every kind: after each of them the output equals the oracle's as an ordered list."""

from __future__ import annotations

import os

import pytest

from loadgen.simulate.drawn_table import draw_table
from loadgen.simulate.run import draw_statement
from loadgen.simulate.runner import ALL_KINDS, REPLACED, REPLACED_STATEMENTS, SERVED, STATEMENTS, TABLES, run_all
from tests.support.long import long_only

#: For each kind, how many worlds always run, and how many with `--long`.
SEEDS = {
    SERVED.options: (100, 300),
    STATEMENTS.options: (100, 300),
    REPLACED.options: (80, 200),
    REPLACED_STATEMENTS.options: (40, 100),
    TABLES.options: (40, 80),
}
FIRST = [(options, range(first)) for options, (first, _) in SEEDS.items()]
FURTHER = [long_only(options, range(first, end)) for options, (first, end) in SEEDS.items()]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("options", "seeds"), [*FIRST, *FURTHER])
def test_every_seed_gives_the_output_of_the_oracle(options, seeds):
    found = run_all(seeds, os.cpu_count() or 1, kind=ALL_KINDS[options])
    failures = [failure for failure in found if failure is not None]
    assert not failures, "\n\n".join(failure.account for failure in failures[:3])


def test_many_statements_ask_and_some_join_fully():
    asked = [draw_statement(seed).join.asking for seed in range(100)]
    assert 40 < sum(each is not None for each in asked) < 80
    assert 10 < sum(each is not None and each.join == "FULL" for each in asked) < 40
    assert {each.at_close for each in asked if each is not None} == {True, False}


def test_tables_have_versions_that_come_again_and_empty_ones():
    drawn = [draw_table(seed) for seed in range(60)]
    assert sum(len(set(each.turns)) < len(each.turns) for each in drawn) > 10
    assert sum(any(not table for table in each.tables) for each in drawn) > 5
    assert {each.whole.join.asking.join for each in drawn} == {"INNER", "LEFT", "SEMI", "ANTI"}
