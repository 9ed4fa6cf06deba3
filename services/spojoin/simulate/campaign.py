"""A long campaign: fresh seeds of all kinds on all cores, resumable, with a table of what they exercised."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from spojoin.errors import ConfigurationError
from spojoin.simulate.campaign_state import SeedCampaignState
from spojoin.simulate.coverage import Coverage, Event, table
from spojoin.simulate.editions import fresh_start
from spojoin.simulate.forking import forking
from spojoin.simulate.observers import observed
from spojoin.simulate.pace import collect_seldom
from spojoin.simulate.run import Failure
from spojoin.simulate.runner import REPLACED, REPLACED_STATEMENTS, SERVED, STATEMENTS, RunKind, replay

#: The kinds of runs that a campaign's seeds take turns in, by the seed's remainder.
KINDS = (SERVED, STATEMENTS, REPLACED, REPLACED_STATEMENTS)
#: Seeds given to a process at once: a second of work.
CHUNK = 16
#: Chunks that a process has ahead of it.
AHEAD = 4
STATE, FAILURES = "state.json", "failures.txt"
#: What a kill loses at most.
SAVES_S = 5.0
#: Lines of progress on a terminal replace each other; elsewhere they come seldom.
LINES_S_TERMINAL, LINES_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class SeedCampaign:
    """How many seeds to run, and from which on; None draws one. `folder` has the state and the failed seeds."""

    folder: Path
    seeds: int = 1_000_000
    start: int | None = None
    jobs: int | None = None


@dataclass(slots=True)
class ChunkOutcome:
    """What some consecutive seeds did."""

    seeds: range
    coverage: Coverage = field(default_factory=Coverage)
    failed: dict[str, Failure] = field(default_factory=dict)


def kind_of(seed: int) -> RunKind:
    """What a campaign runs with a seed."""
    return KINDS[seed % len(KINDS)]


def run_campaign(campaign: SeedCampaign, console: Console | None = None) -> int:
    """Run the seeds that are left, and report; returns an exit status, 1 where any seed failed.

    Raises ConfigurationError where the folder holds another campaign that isn't over.
    """
    console = console or Console()
    campaign.folder.mkdir(parents=True, exist_ok=True)
    state = _state(campaign)
    console.print(f"{state.seeds:,} seeds from {state.start} on, {state.done:,} of them done", highlight=False)
    try:
        _run(campaign, state, console)
    except KeyboardInterrupt:
        console.print(f"\ninterrupted after {state.done:,} seeds; the same command goes on from there")
        return 130
    except BrokenProcessPool:
        at = state.left
        console.print(f"\na process died; its seed is one of {at.start}..{min(at.start + _ahead(campaign), at.stop)}")
        return 1
    finally:
        state.save(campaign.folder / STATE)
    return _report(state, console, campaign)


def _state(campaign: SeedCampaign) -> SeedCampaignState:
    """The campaign under way in the folder, or a new one."""
    state = SeedCampaignState.load(campaign.folder / STATE)
    if state is None or state.is_over:
        return SeedCampaignState(fresh_start() if campaign.start is None else campaign.start, campaign.seeds)
    if campaign.start not in (None, state.start):
        raise ConfigurationError(
            f"{campaign.folder} holds a campaign from {state.start} on, of which {state.done} of {state.seeds} seeds "
            "are done: go on with it without --from, or name another folder"
        )
    state.seeds = campaign.seeds
    return state


def _run(campaign: SeedCampaign, state: SeedCampaignState, console: Console) -> None:
    begun, before, first = time.monotonic(), state.seconds, state.done
    shown = saved = 0.0
    every_s = LINES_S_TERMINAL if console.is_terminal else LINES_S
    for outcome in outcomes(state.left, campaign.jobs or os.cpu_count() or 1):
        _take(campaign, state, outcome)
        ran_s = time.monotonic() - begun
        state.seconds = before + ran_s
        if ran_s - saved >= SAVES_S:
            saved = ran_s
            state.save(campaign.folder / STATE)
        if ran_s - shown >= every_s:
            shown = ran_s
            _show(console, state, (state.done - first) / ran_s)


def _take(campaign: SeedCampaign, state: SeedCampaignState, outcome: ChunkOutcome) -> None:
    state.done += len(outcome.seeds)
    state.coverage.merge(outcome.coverage)
    for command, failure in outcome.failed.items():
        state.failed[command] = failure.reason
        with (campaign.folder / FAILURES).open("a") as failures:
            failures.write(f"{command}\n\n{failure.account}\n\n")


def _show(console: Console, state: SeedCampaignState, rate: float) -> None:
    left = timedelta(seconds=round((state.seeds - state.done) / rate))
    line = f"{state.done:,} of {state.seeds:,} seeds, {rate:.1f} a second, {left} left, {len(state.failed)} failed"
    console.print(line, end="  \r" if console.is_terminal else "\n", highlight=False)


def _report(state: SeedCampaignState, console: Console, campaign: SeedCampaign) -> int:
    console.print(table(state.coverage), markup=False, highlight=False)
    spent = timedelta(seconds=round(state.seconds))
    console.print(f"\n{state.done:,} seeds from {state.start} on in {spent}, {len(state.failed)} failed")
    for command, reason in state.failed.items():
        console.print(f"  {command}  # {reason}", markup=False, highlight=False, soft_wrap=True)
    if state.failed:
        console.print(f"accounts: {campaign.folder / FAILURES}", soft_wrap=True)
    return 1 if state.failed else 0


# --- in processes -----------------------------------------------------------------------------------------------------


def _ahead(campaign: SeedCampaign) -> int:
    return CHUNK * AHEAD * (campaign.jobs or os.cpu_count() or 1)


def outcomes(seeds: range, jobs: int) -> Iterator[ChunkOutcome]:
    """What the seeds did, chunk by chunk in their order."""
    chunks = (seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK))
    with forking() as context:
        pool = ProcessPoolExecutor(jobs, context, _begin)
        under_way: deque[Future[ChunkOutcome]] = deque()
        try:
            for chunk in chunks:
                under_way.append(pool.submit(run_chunk, chunk))
                if len(under_way) == AHEAD * jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """A process leaves an interruption to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    collect_seldom()


def run_chunk(seeds: range) -> ChunkOutcome:
    """Run seeds one after the other and count what they exercise."""
    outcome = ChunkOutcome(seeds)
    events: Counter[Event] = Counter()
    with observed(events):
        for seed in seeds:
            events.clear()
            failure = _tried(seed)
            outcome.coverage.add(events)
            if failure is not None:
                outcome.failed[replay(kind_of(seed), seed)] = failure
    return outcome


def _tried(seed: int) -> Failure | None:
    """A seed's failure; one that can't even be drawn has failed, too."""
    try:
        return kind_of(seed).run(seed)
    except Exception as error:  # noqa: BLE001 - a finding, reported with its traceback
        return Failure(seed, f"{type(error).__name__}: {error}", traceback.format_exc())
