"""Runs one seed, with or without a planted bug, and describes what went wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from unittest.mock import patch

from spojoin.simulate.asking_mutants import ASKING_MUTANTS
from spojoin.simulate.drawn_asking import asking
from spojoin.simulate.drawn_statement import elaborate
from spojoin.simulate.editions import edition_of
from spojoin.simulate.full_mutants import FULL_MUTANTS
from spojoin.simulate.listing_mutants import LISTING_MUTANTS
from spojoin.simulate.machines import WIRING
from spojoin.simulate.makers import MachineMakers
from spojoin.simulate.mutants import MUTANTS, Mutant
from spojoin.simulate.pack_mutants import HARMLESS, PACK_MUTANTS
from spojoin.simulate.scenario import Elaborate, Scenario, draw, draw_with_query, with_packings
from spojoin.simulate.statement_mutants import STATEMENT_MUTANTS
from spojoin.simulate.verdict import Wrong, judge
from spojoin.simulate.world import World

#: The number of faults shown: the last ones matter.
FAULTS_SHOWN = 40
#: What may be planted in a seed without an option.
_PLANTED_IN_STATEMENTS = {**STATEMENT_MUTANTS, **ASKING_MUTANTS, **FULL_MUTANTS}
_PLANTED = {**MUTANTS, **PACK_MUTANTS, **LISTING_MUTANTS, **HARMLESS}


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that failed: its reason in one line, and an account with everything that helps to understand it."""

    seed: int
    reason: str
    account: str


def run_seed(seed: int, mutant: str | None = None, wiring: MachineMakers = WIRING) -> Failure | None:
    """Draw, run and judge a seed; None where the output equals the oracle's and nothing else is wrong."""
    return _run_drawn(draw, seed, _PLANTED[mutant] if mutant else None, wiring)


def run_statement(seed: int, mutant: str | None = None) -> Failure | None:
    """The same with a statement: filters, residual conditions, texts, NULL and columns of results."""
    return _run_drawn(draw_statement, seed, _PLANTED_IN_STATEMENTS[mutant] if mutant else None, WIRING)


def draw_statement(seed: int) -> Scenario:
    """The scenario of a seed with a statement."""
    return with_packings(draw_with_query(seed, _elaborated(seed))[0])


def _elaborated(seed: int) -> Elaborate:
    """What is made of a drawn query; that left rows ask, by a generator of its own."""
    if not edition_of(seed).asks:
        return elaborate
    fully = edition_of(seed).asks_fully
    return lambda rng, drawn: asking(Random(f"asking {seed}"), elaborate(rng, drawn), may_be_full=fully)


def _run_drawn(
    draw_one: Callable[[int], Scenario], seed: int, mutant: Mutant | None, wiring: MachineMakers
) -> Failure | None:
    with ExitStack() as planted:
        for bug in mutant.plant() if mutant is not None else ():
            planted.enter_context(bug)
        scenario = draw_one(seed)
        planted.enter_context(shrunk(scenario))
        return _run(scenario, wiring)


@contextmanager
def shrunk(scenario: Scenario) -> Iterator[None]:
    """Shrinks the product's limits to the sizes that the scenario has drawn."""
    with ExitStack() as limits:
        for name, size in scenario.limits.items():
            limits.enter_context(patch(name, size))
        yield


def _run(scenario: Scenario, wiring: MachineMakers) -> Failure | None:
    world = World(scenario, wiring)
    try:
        judge(scenario, world.run())
    except Wrong as wrong:
        return Failure(scenario.seed, str(wrong).splitlines()[0], account(scenario, world, str(wrong)))
    except Exception as error:  # noqa: BLE001 - whatever a machine raises is a finding, reported with its traceback
        reason = f"{type(error).__name__}: {error}"
        return Failure(scenario.seed, reason, account(scenario, world, traceback.format_exc()))
    return None


def account(scenario: Scenario, world: World, what: str) -> str:
    """What helps to understand a failure."""
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
