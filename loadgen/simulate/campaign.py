"""A long, resumable campaign: new seeds of all kinds on all cores, with a table of the events that they exercised."""

from __future__ import annotations

import json
import os
import secrets
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

from loadgen.simulate.coverage import Coverage, Event, table
from loadgen.simulate.observers import observed
from loadgen.simulate.run import Failure
from loadgen.simulate.runner import (
    REPLACED,
    REPLACED_STATEMENTS,
    SERVED,
    STATEMENTS,
    RunKind,
    collect_seldom,
    forking,
    replay_command,
)
from spojoin.errors import ConfigurationError


@dataclass(slots=True)
class SeedCampaignState:
    """Seeds start..start+seeds-1; the first `done` of them have run, in `seconds`.

    failed: the command that replays each seed that failed, with the reason in one line
    """

    start: int
    seeds: int
    done: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether all seeds have run."""
        return self.done >= self.seeds

    @property
    def left(self) -> range:
        """The seeds that have not run."""
        return range(self.start + self.done, self.start + self.seeds)

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        saved = {
            "start": self.start,
            "seeds": self.seeds,
            "done": self.done,
            "seconds": self.seconds,
            "coverage": self.coverage.as_json(),
            "failed": self.failed,
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(saved))
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> SeedCampaignState | None:
        """The saved state, or None if there is none. Raises ConfigurationError if the file can't be read."""
        if not path.exists():
            return None
        try:
            saved = json.loads(path.read_text())
            return cls(**saved | {"coverage": Coverage.from_json(saved["coverage"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} holds no campaign ({error}): remove it to begin another") from error


#: The kinds of runs, between which seeds alternate by their remainder.
KINDS = (SERVED, STATEMENTS, REPLACED, REPLACED_STATEMENTS)
#: Seeds given to a process at once: a second of work.
CHUNK = 16
#: The number of chunks queued for each process.
AHEAD = 4
STATE, FAILURES = "state.json", "failures.txt"
#: The time between saves: a kill may lose so much work.
SAVES_S = 5.0
#: The interval of progress lines: on a terminal, where they replace each other, and elsewhere.
LINES_S_TERMINAL, LINES_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class SeedCampaign:
    """The number of seeds to run, and the first (drawn if None). `folder` has the state and the failed seeds."""

    folder: Path
    seeds: int = 1_000_000
    start: int | None = None
    jobs: int | None = None


@dataclass(slots=True)
class ChunkOutcome:
    """The outcome of some consecutive seeds."""

    seeds: range
    coverage: Coverage = field(default_factory=Coverage)
    failed: dict[str, Failure] = field(default_factory=dict)


def fresh_start() -> int:
    """A first seed, drawn by the operating system, such that all following seeds fit in 64 bits."""
    return secrets.randbelow((1 << 63) - (1 << 32))


def kind_of(seed: int) -> RunKind:
    """The kind of run for a seed."""
    return KINDS[seed % len(KINDS)]


def run_campaign(campaign: SeedCampaign, console: Console | None = None) -> int:
    """Run the remaining seeds and report; returns an exit status, which is 1 if any seed failed.

    Raises ConfigurationError if the folder holds another campaign that isn't over.
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
        left, ahead = state.left, CHUNK * AHEAD * (campaign.jobs or os.cpu_count() or 1)
        console.print(f"\na process died; its seed is one of {left.start}..{min(left.start + ahead, left.stop)}")
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


def outcomes(seeds: range, jobs: int) -> Iterator[ChunkOutcome]:
    """The outcomes of the seeds, chunk by chunk in order."""
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
    """Ignore interruptions, which the parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    collect_seldom()


def run_chunk(seeds: range) -> ChunkOutcome:
    """Run seeds one after the other and count their events."""
    outcome = ChunkOutcome(seeds)
    events: Counter[Event] = Counter()
    with observed(events):
        for seed in seeds:
            events.clear()
            failure = _tried(seed)
            outcome.coverage.add(events)
            if failure is not None:
                outcome.failed[replay_command(kind_of(seed), seed)] = failure
    return outcome


def _tried(seed: int) -> Failure | None:
    """A seed's failure, if any; a seed that can't be drawn has also failed."""
    try:
        return kind_of(seed).run(seed)
    except Exception as error:  # noqa: BLE001 - a finding, reported with its traceback
        return Failure(seed, f"{type(error).__name__}: {error}", traceback.format_exc())
