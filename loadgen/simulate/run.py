"""Runs one seed, with or without a planted bug, and describes its failure."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from unittest.mock import patch

from loadgen.simulate.asking_mutants import ASKING_MUTANTS, FULL_MUTANTS
from loadgen.simulate.block_mutants import BLOCK_MUTANTS
from loadgen.simulate.drawn_statement import asking, elaborate
from loadgen.simulate.key_mutants import KEY_MUTANTS
from loadgen.simulate.mutants import LISTING_MUTANTS, MUTANTS, Mutant
from loadgen.simulate.pack_mutants import HARMLESS, PACK_MUTANTS
from loadgen.simulate.process import WIRING, MachineMakers
from loadgen.simulate.scenario import Scenario, draw, draw_with_query, with_packings
from loadgen.simulate.sink_mutants import KEYED_RESULTS_MUTANTS, SINK_MUTANTS
from loadgen.simulate.statement_mutants import STATEMENT_MUTANTS
from loadgen.simulate.verdict import Wrong, judge
from loadgen.simulate.world import World

#: The number of last faults to show.
FAULTS_SHOWN = 40
#: The bugs that may be planted in a seed without options.
_PLANTED_IN_STATEMENTS = {
    **STATEMENT_MUTANTS,
    **ASKING_MUTANTS,
    **FULL_MUTANTS,
    **KEY_MUTANTS,
    **KEYED_RESULTS_MUTANTS,
}
_PLANTED = {**MUTANTS, **PACK_MUTANTS, **LISTING_MUTANTS, **SINK_MUTANTS, **BLOCK_MUTANTS, **HARMLESS}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed seed: the reason in one line, and a full account for diagnosis."""

    seed: int
    reason: str
    account: str


def run_seed(seed: int, mutant: str | None = None, wiring: MachineMakers = WIRING) -> Failure | None:
    """Draw, run and judge a seed; returns None if the output equals the oracle's and all checks pass."""
    with planted_in_run(_PLANTED[mutant] if mutant else None):
        return run_scenario(draw(seed), wiring)


def run_statement(seed: int, mutant: str | None = None) -> Failure | None:
    """The same with a statement: filters, residual conditions, texts, NULL and columns of results."""
    with planted_in_run(_PLANTED_IN_STATEMENTS[mutant] if mutant else None):
        return run_scenario(draw_statement(seed))


def draw_statement(seed: int) -> Scenario:
    """The scenario of a seed with a statement; a separate generator draws whether rows ask."""
    return with_packings(
        draw_with_query(seed, lambda rng, drawn: asking(Random(f"asking {seed}"), elaborate(rng, drawn)))[0]
    )


@contextmanager
def planted_in_run(mutant: Mutant | None) -> Iterator[None]:
    """Plants a bug, if any, before anything is drawn, since the product reads the query."""
    with ExitStack() as bugs:
        for bug in mutant.plant() if mutant is not None else ():
            bugs.enter_context(bug)
        yield


@contextmanager
def shrunk(scenario: Scenario) -> Iterator[None]:
    """Shrinks the product's limits to the drawn sizes."""
    with ExitStack() as limits:
        for name, size in scenario.limits.items():
            limits.enter_context(patch(name, size))
        yield


def run_scenario(scenario: Scenario, wiring: MachineMakers = WIRING) -> Failure | None:
    """Run and judge a scenario; returns None if nothing is wrong."""
    with shrunk(scenario):
        world = World(scenario, wiring)
        try:
            judge(scenario, world.run())
        except Wrong as wrong:
            return Failure(scenario.seed, str(wrong).splitlines()[0], account(scenario, world, str(wrong)))
        except Exception as error:  # noqa: BLE001 - any error of a machine is a finding, reported with its traceback
            reason = f"{type(error).__name__}: {error}"
            return Failure(scenario.seed, reason, account(scenario, world, traceback.format_exc()))
    return None


def account(scenario: Scenario, world: World, what: str) -> str:
    """A full account of a failure."""
    rows = sum(1 for _ in scenario.rows())
    faults = world.faults[-FAULTS_SHOWN:]
    return "\n".join(
        [
            f"seed {scenario.seed}: {what.rstrip()}",
            "",
            scenario.query.text,
            f"{rows} rows in {len(scenario.inputs)} inputs; {scenario.config}",
            f"{scenario.faults}",
            "",
            f"{len(world.faults)} faults" + (f", the last {len(faults)}:" if len(faults) < len(world.faults) else ":"),
            *(f"  {fault}" for fault in faults),
        ]
    )


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Compile or load every kernel before anything is timed, by running a few seeds."""
    for seed in range(5):
        run_seed(seed)
