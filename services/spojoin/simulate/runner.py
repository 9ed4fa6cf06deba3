"""Runs seeds on all cores, and a planted bug until it is found."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spojoin.errors import ConfigurationError
from spojoin.simulate.mutants import MUTANTS
from spojoin.simulate.run import Failure, run_seed, warm_up

#: Failures that are told before the rest is given up.
FAILURES_MAX = 5
#: Seeds given to a process at once: a fifth of a second of work.
_CHUNK = 8


def simulate(
    seeds: int = 2_000,
    start: int = 0,
    *,
    jobs: int | None = None,
    mutant: str | None = None,
    seed: int | None = None,
    console: Console | None = None,
) -> int:
    """Run seeds start..start+seeds-1, or one `seed`; returns an exit status.

    Without a mutant 0 means that every output equals the oracle's; with one, that it was found.
    Raises ConfigurationError for an unknown mutant or a count below 1.
    """
    _check(seeds, jobs, mutant)
    console = console or Console()
    wanted = range(start, start + seeds) if seed is None else range(seed, seed + 1)
    failures = _first_failures(wanted, jobs or os.cpu_count() or 1, mutant, console)
    if mutant is not None:
        return _tell_mutant(console, mutant, failures, len(wanted))
    for failure in failures:
        console.print(f"\n{failure.account}\n", markup=False, highlight=False)
        console.print(f"replay: spojoin simulate --seed {failure.seed}", markup=False)
    if not failures:
        console.print(f"{len(wanted)} seeds from {wanted.start} on: every output equals the oracle's")
    return 1 if failures else 0


def find_mutant(mutant: str, seeds: Iterable[int]) -> Failure | None:
    """The first of these seeds that exposes a planted bug."""
    return next((failure for seed in seeds if (failure := run_seed(seed, mutant)) is not None), None)


def _check(seeds: int, jobs: int | None, mutant: str | None) -> None:
    if seeds < 1:
        raise ConfigurationError(f"--seeds is {seeds}; it must be at least 1")
    if jobs is not None and jobs < 1:
        raise ConfigurationError(f"--jobs is {jobs}; it must be at least 1")
    if mutant is not None and mutant not in MUTANTS:
        raise ConfigurationError(f"there is no mutant {mutant!r}; choose one of {', '.join(MUTANTS)}")


def _first_failures(seeds: range, jobs: int, mutant: str | None, console: Console) -> list[Failure]:
    enough = FAILURES_MAX if mutant is None else 1
    failures: list[Failure] = []
    with _progress(console) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for outcome in run_all(seeds, jobs, mutant):
            progress.advance(task)
            if outcome is not None:
                failures.append(outcome)
            if len(failures) == enough:
                break
    return sorted(failures, key=lambda failure: failure.seed)


def run_all(seeds: range, jobs: int, mutant: str | None = None) -> Iterator[Failure | None]:
    """What becomes of each seed, in any order."""
    if jobs == 1 or len(seeds) == 1:
        yield from (run_seed(seed, mutant) for seed in seeds)
        return
    warm_up()  # here, so that forked processes find the kernels loaded
    with multiprocessing.get_context("fork").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap_unordered(partial(run_seed, mutant=mutant), seeds, _CHUNK)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _tell_mutant(console: Console, mutant: str, failures: list[Failure], tried: int) -> int:
    if not failures:
        console.print(f"{mutant} ({MUTANTS[mutant].what}) was not found in {tried} seeds")
        return 1
    console.print(f"{failures[0].account}\n", markup=False, highlight=False)
    console.print(f"{mutant} ({MUTANTS[mutant].what}) was found by seed {failures[0].seed}", markup=False)
    return 0
