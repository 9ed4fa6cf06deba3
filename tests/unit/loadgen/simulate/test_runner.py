"""The runner behind the command line: status, replay, and a readable account."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from loadgen.simulate.run import run_seed
from loadgen.simulate.runner import Simulation, simulate
from spojoin.errors import ConfigurationError


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def printed(console):
    return console.file.getvalue()


def test_good_seeds_end_with_status_zero(console):
    assert simulate(Simulation(3, 10, jobs=1), console) == 0
    assert "3 seeds from 10 on" in printed(console)


def test_one_seed_is_replayed(console):
    assert simulate(Simulation(seed=4), console) == 0
    assert "1 seeds from 4 on" in printed(console)


def test_a_mutant_that_is_found_ends_with_status_zero_and_an_account(console):
    assert simulate(Simulation(40, 0, jobs=1, mutant="lost-self-join-role"), console) == 0
    assert "sql: |" in printed(console)
    assert "was found by seed" in printed(console)


def test_a_mutant_that_is_not_found_ends_with_status_one(console):
    assert run_seed(0, "latest-partners") is None  # no pairs there
    assert simulate(Simulation(1, 0, mutant="latest-partners"), console) == 1


@pytest.mark.parametrize("wrong", [{"mutant": "nobody"}, {"seeds": 0}, {"jobs": 0}])
def test_wrong_arguments_are_named(wrong, console):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        simulate(Simulation(**wrong), console)
