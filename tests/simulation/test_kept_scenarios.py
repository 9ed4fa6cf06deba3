"""Worlds that once found a fault of the product find none now; the simulator's page lists these faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.simulate.drawn_table import TableScenario
from loadgen.simulate.generations import Replacement
from loadgen.simulate.runner import ALL_KINDS, run_kept
from loadgen.simulate.scenario_files import Drawn, options_of, read_scenario, write_scenario
from spojoin.model import Query

SCENARIOS = sorted((Path(__file__).parent / "scenarios" / "faults").glob("*.json"))


def queries_of(drawn: Drawn) -> list[Query]:
    if isinstance(drawn, Replacement):
        return [each.query for each in drawn.scenarios]
    return [drawn.whole.query if isinstance(drawn, TableScenario) else drawn.query]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_world_that_once_found_a_fault_finds_none(path):
    failure = run_kept(path)
    assert failure is None, failure.account


@pytest.mark.parametrize("options", ALL_KINDS)
def test_a_scenario_that_is_kept_is_the_one_that_was_drawn(options, tmp_path):
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    for seed in range(5):
        drawn = ALL_KINDS[options].draw(seed)
        write_scenario(first, options, drawn)
        read = read_scenario(first)
        write_scenario(again, options_of(first), read)
        assert again.read_text() == first.read_text()
        assert queries_of(read) == queries_of(drawn)
