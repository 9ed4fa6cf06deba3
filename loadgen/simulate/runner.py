"""Runs seeds on all cores, and looks for planted bugs."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from loadgen.simulate.asking_mutants import ASKING_MUTANTS, FULL_MUTANTS
from loadgen.simulate.block_mutants import BLOCK_MUTANTS
from loadgen.simulate.drawn_table import draw_table
from loadgen.simulate.generation_mutants import GENERATION_MUTANTS, REPLACED_ASKING_MUTANTS
from loadgen.simulate.generations import (
    draw_replaced_statement,
    draw_replacement,
    run_generations,
    run_replaced_statement,
    run_replacement,
)
from loadgen.simulate.key_mutants import KEY_MUTANTS
from loadgen.simulate.mutants import LISTING_MUTANTS, MUTANTS, Mutant
from loadgen.simulate.pack_mutants import PACK_MUTANTS
from loadgen.simulate.run import Failure, draw_statement, planted_in_run, run_scenario, run_seed, run_statement, warm_up
from loadgen.simulate.scenario import draw
from loadgen.simulate.scenario_files import options_of, read_scenario, write_scenario
from loadgen.simulate.sink_mutants import CHANGED_SINKS_MUTANTS, KEYED_RESULTS_MUTANTS, SINK_MUTANTS
from loadgen.simulate.statement_mutants import STATEMENT_MUTANTS
from loadgen.simulate.tables import TABLE_MUTANTS, run_table, run_table_scenario
from spojoin.columns.extract import forget_extractors
from spojoin.errors import ConfigurationError
from spojoin.runtime.process import loaded_objects_spared


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run.

    options: the options of `loadgen simulate` that select it
    draw: draws a seed's scenario; run_drawn: runs and judges it; run: does both, with a planted bug if one is named
    mutants: the bugs that can be planted in it
    """

    options: str
    draw: Callable[[int], Any]
    run_drawn: Callable[[Any], Failure | None]
    run: Callable[..., Failure | None]
    mutants: Mapping[str, Mutant]


SERVED = RunKind(
    "", draw, run_scenario, run_seed, {**MUTANTS, **PACK_MUTANTS, **LISTING_MUTANTS, **SINK_MUTANTS, **BLOCK_MUTANTS}
)
REPLACED = RunKind(
    "--generations",
    draw_replacement,
    run_generations,
    run_replacement,
    {**GENERATION_MUTANTS, **CHANGED_SINKS_MUTANTS},
)
STATEMENTS = RunKind(
    "--statements",
    draw_statement,
    run_scenario,
    run_statement,
    {**STATEMENT_MUTANTS, **ASKING_MUTANTS, **FULL_MUTANTS, **KEY_MUTANTS, **KEYED_RESULTS_MUTANTS},
)
REPLACED_STATEMENTS = RunKind(
    "--generations --statements",
    draw_replaced_statement,
    run_generations,
    run_replaced_statement,
    {**GENERATION_MUTANTS, **REPLACED_ASKING_MUTANTS},
)
TABLES = RunKind("--tables", draw_table, run_table_scenario, run_table, TABLE_MUTANTS)
ALL_KINDS = {kind.options: kind for kind in (SERVED, REPLACED, STATEMENTS, REPLACED_STATEMENTS, TABLES)}

#: The run stops after this many failures.
FAILURES_MAX = 5
#: New objects between two garbage collections, about a dozen seeds' worth. Each seed leaves cyclic references.
OBJECTS_MADE = 200_000
#: The number of seeds that a process gets at once: a fifth of a second of work.
_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Simulation:
    """The seeds to run: start..start+seeds-1, or one `seed`, or the scenario in a file.

    jobs: processes; None takes one per core.
    mutant: the planted bug to find.
    keep: the file to which the scenario of `seed` is written.
    replay: the file of a kept scenario, which names its kind.
    generations: the query is replaced while it is served, and mutants concern that.
    statements: queries are statements with filters, residual conditions, texts, NULL and columns of results.
    tables: the right side of statements is a table with changing versions.
    """

    seeds: int = 2_000
    start: int = 0
    jobs: int | None = None
    mutant: str | None = None
    seed: int | None = None
    keep: Path | None = None
    replay: Path | None = None
    generations: bool = False
    statements: bool = False
    tables: bool = False

    @property
    def kind(self) -> RunKind:
        """The kind of run of each seed."""
        if self.replay is not None:
            return ALL_KINDS[options_of(self.replay)]
        if self.tables:
            return TABLES
        if self.statements:
            return REPLACED_STATEMENTS if self.generations else STATEMENTS
        return REPLACED if self.generations else SERVED

    @property
    def wanted(self) -> range:
        return range(self.start, self.start + self.seeds) if self.seed is None else range(self.seed, self.seed + 1)

    def check(self) -> None:
        """Raises ConfigurationError for an unknown mutant or a count below 1."""
        if self.seeds < 1:
            raise ConfigurationError(f"--seeds is {self.seeds}; it must be at least 1")
        if self.keep is not None and self.seed is None:
            raise ConfigurationError("--keep writes the scenario of one seed: name it with --seed")
        if self.replay is not None and (self.seed is not None or self.tables or self.generations or self.statements):
            raise ConfigurationError(
                "--replay runs the scenario of a file, which names its kind: leave out --seed and kinds"
            )
        if self.tables and (self.generations or self.statements):
            raise ConfigurationError("--tables is a kind of its own: expected neither --generations nor --statements")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigurationError(f"--jobs is {self.jobs}; it must be at least 1")
        if self.mutant is not None and self.mutant not in self.kind.mutants:
            choices = ", ".join(self.kind.mutants)
            raise ConfigurationError(f"there is no mutant {self.mutant!r}; choose one of {choices}")


def simulate(simulation: Simulation, console: Console | None = None) -> int:
    """Run the seeds; returns an exit status.

    Status 0 means that every output equals the oracle's or, with a mutant, that the mutant was found.
    Raises ConfigurationError for an unknown mutant or a count below 1.
    """
    simulation.check()
    console = console or Console()
    if simulation.keep is not None and simulation.seed is not None:
        write_scenario(simulation.keep, simulation.kind.options, simulation.kind.draw(simulation.seed))
        console.print(f"the scenario of seed {simulation.seed} is in {simulation.keep}", markup=False)
    failures = _first_failures(simulation, console)
    if simulation.mutant is not None:
        return _report_mutant(console, simulation, simulation.mutant, failures)
    return _report_failures(console, simulation, failures)


def find_mutant(mutant: str, seeds: Iterable[int], kind: RunKind = SERVED) -> Failure | None:
    """The first of these seeds that exposes a planted bug."""
    return next((failure for seed in seeds if (failure := kind.run(seed, mutant)) is not None), None)


def run_kept(path: Path, mutant: str | None = None) -> Failure | None:
    """Run and judge a kept scenario. Raises ConfigurationError if the file holds none."""
    kind = ALL_KINDS[options_of(path)]
    with planted_in_run(kind.mutants[mutant] if mutant else None):
        return kind.run_drawn(read_scenario(path))


def replay_command(kind: RunKind, seed: int) -> str:
    """The command that runs one seed again."""
    return f"loadgen simulate {kind.options} --seed {seed}".replace("  ", " ")


def _first_failures(simulation: Simulation, console: Console) -> list[Failure]:
    enough = FAILURES_MAX if simulation.mutant is None else 1
    seeds, jobs = simulation.wanted, simulation.jobs or os.cpu_count() or 1
    if simulation.replay is not None:
        failure = run_kept(simulation.replay, simulation.mutant)
        return [] if failure is None else [failure]
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


# --- in processes -----------------------------------------------------------------------------------------------------


@contextmanager
def forking() -> Iterator[multiprocessing.context.ForkContext]:
    """The context for forking within the block.

    A forked process that closes an inherited DuckDB connection hangs, because it waits for threads that it doesn't
    have. So caches are emptied of connections, and the forked process's garbage collector ignores all inherited
    objects.
    """
    warm_up()
    forget_extractors()
    with loaded_objects_spared():
        yield multiprocessing.get_context("fork")


def collect_seldom() -> None:
    """Make garbage collection rare in this process, which only runs seeds."""
    gc.set_threshold(OBJECTS_MADE, 10, 100)


# --- for people -------------------------------------------------------------------------------------------------------


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
        if simulation.replay is None:
            console.print(f"replay: {replay_command(simulation.kind, failure.seed)}", markup=False)
    if not failures and simulation.replay is not None:
        console.print(f"{simulation.replay}: every output equals the oracle's", markup=False)
    elif not failures:
        seeds = simulation.wanted
        console.print(f"{len(seeds)} seeds from {seeds.start} on: every output equals the oracle's")
    return 1 if failures else 0


def _report_mutant(console: Console, simulation: Simulation, name: str, failures: list[Failure]) -> int:
    what = simulation.kind.mutants[name].what
    if not failures:
        where = f"{len(simulation.wanted)} seeds" if simulation.replay is None else str(simulation.replay)
        console.print(f"{name} ({what}) was not found in {where}", markup=False)
        return 1
    console.print(f"{failures[0].account}\n", markup=False, highlight=False)
    console.print(f"{name} ({what}) was found by seed {failures[0].seed}", markup=False)
    return 0
