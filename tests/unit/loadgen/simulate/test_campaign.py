"""A campaign of seeds: resumed where it was, its failures written down, its coverage merged."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from loadgen.simulate import campaign as module
from loadgen.simulate.campaign import STATE, SeedCampaign, SeedCampaignState, run_campaign, run_chunk
from loadgen.simulate.coverage import EVENTS, Coverage, table
from loadgen.simulate.run import Failure
from spojoin.errors import ConfigurationError

START = 1_000


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def printed(console):
    return console.file.getvalue()


def test_a_campaign_ends_with_a_table_and_begins_another_afterwards(tmp_path, console):
    assert run_campaign(SeedCampaign(tmp_path, 8, START, jobs=1), console) == 0
    assert f"8 seeds from {START} on" in printed(console)
    assert "never hit" in printed(console)
    assert SeedCampaignState.load(tmp_path / STATE).is_over
    assert run_campaign(SeedCampaign(tmp_path, 1, jobs=1), console) == 0
    assert SeedCampaignState.load(tmp_path / STATE).start != START


def test_an_interrupted_campaign_goes_on_where_it_was_with_what_it_had_seen(tmp_path, console, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 2)
    outcomes = module.outcomes

    def interrupted(seeds, jobs):
        yield next(outcomes(seeds, jobs))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "outcomes", interrupted)
    assert run_campaign(SeedCampaign(tmp_path, 6, START, jobs=1), console) == 130
    assert SeedCampaignState.load(tmp_path / STATE).done == 2
    monkeypatch.setattr(module, "outcomes", outcomes)
    assert run_campaign(SeedCampaign(tmp_path, 6, jobs=1), console) == 0
    whole = SeedCampaignState.load(tmp_path / STATE)
    assert (whole.start, whole.done) == (START, 6)
    assert whole.coverage == run_chunk(range(START, START + 6)).coverage


def test_a_campaign_under_way_is_not_mixed_with_another(tmp_path, console):
    SeedCampaignState(START, 10, done=4).save(tmp_path / STATE)
    with pytest.raises(ConfigurationError, match="without --from"):
        run_campaign(SeedCampaign(tmp_path, 10, START + 1), console)


def test_failed_seeds_are_listed_with_the_command_that_replays_each(tmp_path, console, monkeypatch):
    def tried(seed):
        return Failure(seed, "wrong", "all about it") if seed == START + 1 else None

    monkeypatch.setattr(module, "_tried", tried)
    assert run_campaign(SeedCampaign(tmp_path, 4, START, jobs=1), console) == 1
    command = f"loadgen simulate --statements --seed {START + 1}"
    assert f"{command}  # wrong" in printed(console)
    assert (tmp_path / module.FAILURES).read_text() == f"{command}\n\nall about it\n\n"


def test_a_seed_that_cannot_be_drawn_has_failed(monkeypatch):
    monkeypatch.setattr(module, "kind_of", lambda seed: 1 / 0)
    assert module._tried(3).reason.startswith("ZeroDivisionError")


# --- coverage ---------------------------------------------------------------------------------------------------------

CLAIMED, TAKEN = (("P2 epochs", name) for name in EVENTS["P2 epochs"][:2])


def test_coverage_counts_seeds_and_times():
    found = Coverage()
    found.add(Counter({CLAIMED: 3, TAKEN: 0}))
    found.add(Counter({CLAIMED: 2}))
    assert (found.seeds[CLAIMED], found.times[CLAIMED]) == (2, 5)
    assert TAKEN in found.never()
    assert CLAIMED not in found.never()
    assert Coverage.from_json(found.as_json()) == found
    assert "P2 epochs: barrier of a taken epoch refused" in table(found)


#: Rows that are late because an input was idle, frames built on other inputs and chunks out of order are so rare that
#: few seeds don't show them.
RARE = {"frame of other inputs refused", "row remembered as late refused again", "chunk ahead of its turn refused"}


@pytest.mark.long
def test_some_seeds_exercise_nearly_every_rule_and_watching_changes_nothing():
    outcome = run_chunk(range(120))
    never = {name for group, name in outcome.coverage.never() if group.startswith("P")} - RARE
    assert not outcome.failed
    assert len(never) <= 8, never
