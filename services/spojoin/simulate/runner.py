"""Runs seeds on all cores, and looks for planted bugs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spojoin.errors import ConfigurationError
from spojoin.simulate.asking_mutants import ASKING_MUTANTS
from spojoin.simulate.forking import forking
from spojoin.simulate.full_mutants import FULL_MUTANTS
from spojoin.simulate.generation_mutants import GENERATION_MUTANTS, REPLACED_ASKING_MUTANTS
from spojoin.simulate.generations import run_replaced_statement, run_replacement
from spojoin.simulate.listing_mutants import LISTING_MUTANTS
from spojoin.simulate.mutants import MUTANTS, Mutant
from spojoin.simulate.pace import collect_seldom
from spojoin.simulate.pack_mutants import PACK_MUTANTS
from spojoin.simulate.run import Failure, run_seed, run_statement
from spojoin.simulate.statement_mutants import STATEMENT_MUTANTS
from spojoin.simulate.tables import TABLE_MUTANTS, run_table


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run: what a seed does, the bugs that can be planted in it, and the options that ask for it."""

    run: Callable[..., Failure | None]
    mutants: Mapping[str, Mutant]
    options: str = ""


SERVED = RunKind(run_seed, {**MUTANTS, **PACK_MUTANTS, **LISTING_MUTANTS})
REPLACED = RunKind(run_replacement, GENERATION_MUTANTS, " --generations")
STATEMENTS = RunKind(run_statement, {**STATEMENT_MUTANTS, **ASKING_MUTANTS, **FULL_MUTANTS}, " --statements")
REPLACED_STATEMENTS = RunKind(
    run_replaced_statement, {**GENERATION_MUTANTS, **REPLACED_ASKING_MUTANTS}, " --generations --statements"
)

TABLES = RunKind(run_table, TABLE_MUTANTS, " --tables")

#: Failures reported before the remaining seeds are given up.
FAILURES_MAX = 5
#: Seeds given to a process at once: a fifth of a second of work.
_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Simulation:
    """Which seeds to run: start..start+seeds-1, or one `seed`.

    jobs: processes; None takes one per core.
    mutant: the planted bug to find.
    generations: the query is replaced while it is served, and mutants are of that.
    statements: queries are statements with filters, residual conditions, texts, NULL and columns of results.
    tables: the right side of statements is a table, of which versions come.
    """

    seeds: int = 2_000
    start: int = 0
    jobs: int | None = None
    mutant: str | None = None
    seed: int | None = None
    generations: bool = False
    statements: bool = False
    tables: bool = False

    @property
    def kind(self) -> RunKind:
        """What each seed does."""
        if self.tables:
            return TABLES
        if self.statements:
            return REPLACED_STATEMENTS if self.generations else STATEMENTS
        return REPLACED if self.generations else SERVED

    @property
    def wanted(self) -> range:
        """The seeds."""
        return range(self.start, self.start + self.seeds) if self.seed is None else range(self.seed, self.seed + 1)

    def check(self) -> None:
        """Raises ConfigurationError for an unknown mutant or a count below 1."""
        if self.seeds < 1:
            raise ConfigurationError(f"--seeds is {self.seeds}; it must be at least 1")
        if self.tables and (self.generations or self.statements):
            raise ConfigurationError("--tables is a kind of its own: expected neither --generations nor --statements")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigurationError(f"--jobs is {self.jobs}; it must be at least 1")
        if self.mutant is not None and self.mutant not in self.kind.mutants:
            choices = ", ".join(self.kind.mutants)
            raise ConfigurationError(f"there is no mutant {self.mutant!r}; choose one of {choices}")


def simulate(simulation: Simulation, console: Console | None = None) -> int:
    """Run the seeds; returns an exit status.

    Without a mutant 0 means that every output equals the oracle's; with one, that it was found.
    Raises ConfigurationError for an unknown mutant or a count below 1.
    """
    simulation.check()
    console = console or Console()
    failures = _first_failures(simulation, console)
    if simulation.mutant is not None:
        return _report_mutant(console, simulation, simulation.mutant, failures)
    return _report_failures(console, simulation, failures)


def find_mutant(mutant: str, seeds: Iterable[int], kind: RunKind = SERVED) -> Failure | None:
    """The first of these seeds that exposes a planted bug."""
    return next((failure for seed in seeds if (failure := kind.run(seed, mutant)) is not None), None)


def replay(kind: RunKind, seed: int) -> str:
    """The command that runs one seed again."""
    return f"spojoin simulate{kind.options} --seed {seed}"


def _first_failures(simulation: Simulation, console: Console) -> list[Failure]:
    enough = FAILURES_MAX if simulation.mutant is None else 1
    seeds, jobs = simulation.wanted, simulation.jobs or os.cpu_count() or 1
    failures: list[Failure] = []
    with _progress(console) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for outcome in run_all(seeds, jobs, simulation.mutant, simulation.kind):
            progress.advance(task)
            if outcome is not None:
                failures.append(outcome)
            if len(failures) == enough:
                break
    return sorted(failures, key=lambda failure: failure.seed)


def run_all(seeds: range, jobs: int, mutant: str | None = None, kind: RunKind = SERVED) -> Iterator[Failure | None]:
    """Each seed's failure, or None, in any order."""
    if jobs == 1 or len(seeds) == 1:
        yield from (kind.run(seed, mutant) for seed in seeds)
        return
    with forking() as context, context.Pool(min(jobs, len(seeds)), collect_seldom) as pool:
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


def _report_failures(console: Console, simulation: Simulation, failures: list[Failure]) -> int:
    for failure in failures:
        console.print(f"\n{failure.account}\n", markup=False, highlight=False)
        console.print(f"replay: {replay(simulation.kind, failure.seed)}", markup=False)
    if not failures:
        seeds = simulation.wanted
        console.print(f"{len(seeds)} seeds from {seeds.start} on: every output equals the oracle's")
    return 1 if failures else 0


def _report_mutant(console: Console, simulation: Simulation, name: str, failures: list[Failure]) -> int:
    what = simulation.kind.mutants[name].what
    if not failures:
        console.print(f"{name} ({what}) was not found in {len(simulation.wanted)} seeds")
        return 1
    console.print(f"{failures[0].account}\n", markup=False, highlight=False)
    console.print(f"{name} ({what}) was found by seed {failures[0].seed}", markup=False)
    return 0
