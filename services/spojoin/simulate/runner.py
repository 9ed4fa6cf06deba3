"""Runs seeds on all cores, and a planted bug until it is found."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spojoin.errors import ConfigurationError
from spojoin.simulate.generation_mutants import GENERATION_MUTANTS
from spojoin.simulate.generations import run_replacement
from spojoin.simulate.mutants import MUTANTS, Mutant
from spojoin.simulate.run import Failure, run_seed, warm_up


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run: what a seed does, and the bugs that can be planted in it."""

    run: Callable[..., Failure | None]
    mutants: Mapping[str, Mutant]


SERVED = RunKind(run_seed, MUTANTS)
REPLACED = RunKind(run_replacement, GENERATION_MUTANTS)

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
    generations: bool = False,
    console: Console | None = None,
) -> int:
    """Run seeds start..start+seeds-1, or one `seed`; returns an exit status.

    generations: the query is replaced while it is served, and mutants are of that. Without a mutant 0 means that every
    output equals the oracle's; with one, that it was found.
    Raises ConfigurationError for an unknown mutant or a count below 1.
    """
    kind = REPLACED if generations else SERVED
    _check(seeds, jobs, mutant, kind)
    console = console or Console()
    wanted = range(start, start + seeds) if seed is None else range(seed, seed + 1)
    failures = _first_failures(wanted, jobs or os.cpu_count() or 1, mutant, console, kind)
    if mutant is not None:
        return _tell_mutant(console, mutant, kind.mutants[mutant], failures, len(wanted))
    for failure in failures:
        console.print(f"\n{failure.account}\n", markup=False, highlight=False)
        option = " --generations" if generations else ""
        console.print(f"replay: spojoin simulate{option} --seed {failure.seed}", markup=False)
    if not failures:
        console.print(f"{len(wanted)} seeds from {wanted.start} on: every output equals the oracle's")
    return 1 if failures else 0


def find_mutant(mutant: str, seeds: Iterable[int], kind: RunKind = SERVED) -> Failure | None:
    """The first of these seeds that exposes a planted bug."""
    return next((failure for seed in seeds if (failure := kind.run(seed, mutant)) is not None), None)


def _check(seeds: int, jobs: int | None, mutant: str | None, kind: RunKind) -> None:
    if seeds < 1:
        raise ConfigurationError(f"--seeds is {seeds}; it must be at least 1")
    if jobs is not None and jobs < 1:
        raise ConfigurationError(f"--jobs is {jobs}; it must be at least 1")
    if mutant is not None and mutant not in kind.mutants:
        raise ConfigurationError(f"there is no mutant {mutant!r}; choose one of {', '.join(kind.mutants)}")


def _first_failures(seeds: range, jobs: int, mutant: str | None, console: Console, kind: RunKind) -> list[Failure]:
    enough = FAILURES_MAX if mutant is None else 1
    failures: list[Failure] = []
    with _progress(console) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for outcome in run_all(seeds, jobs, mutant, kind):
            progress.advance(task)
            if outcome is not None:
                failures.append(outcome)
            if len(failures) == enough:
                break
    return sorted(failures, key=lambda failure: failure.seed)


def run_all(seeds: range, jobs: int, mutant: str | None = None, kind: RunKind = SERVED) -> Iterator[Failure | None]:
    """What becomes of each seed, in any order."""
    if jobs == 1 or len(seeds) == 1:
        yield from (kind.run(seed, mutant) for seed in seeds)
        return
    warm_up()  # here, so that forked processes find the kernels loaded
    with multiprocessing.get_context("fork").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap_unordered(partial(kind.run, mutant=mutant), seeds, _CHUNK)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _tell_mutant(console: Console, name: str, mutant: Mutant, failures: list[Failure], tried: int) -> int:
    if not failures:
        console.print(f"{name} ({mutant.what}) was not found in {tried} seeds")
        return 1
    console.print(f"{failures[0].account}\n", markup=False, highlight=False)
    console.print(f"{name} ({mutant.what}) was found by seed {failures[0].seed}", markup=False)
    return 0
