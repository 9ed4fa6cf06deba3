"""Every planted bug is found; a simulator that finds none proves nothing.

One of the first seeds finds most of them. Bugs that few worlds reach have their own world in scenarios/planted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.simulate.pack_mutants import HARMLESS
from loadgen.simulate.runner import ALL_KINDS, REPLACED, REPLACED_STATEMENTS, SERVED, find_mutant, run_kept

SCENARIOS = Path(__file__).parent / "scenarios" / "planted"
SEEDS = range(800)
#: One world in thousands reaches this bug; the router's `test_event_time_order.py` reaches it step by step.
RARE = "reads-forgotten"
#: A bug in a statement must break an answer; a crash would only show that it no longer fits the product.
BREAK_ANSWERS = ("--statements", "--tables")

PLANTED = [
    (kind.options, name)
    for kind in ALL_KINDS.values()
    for name in kind.mutants
    if name != RARE and (kind is not REPLACED_STATEMENTS or name not in REPLACED.mutants)
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("options", "name"), PLANTED)
def test_the_planted_bug_is_found(options, name):
    kind, kept = ALL_KINDS[options], SCENARIOS / f"{name}.json"
    failure = run_kept(kept, name) if kept.exists() else find_mutant(name, SEEDS, kind)
    assert failure is not None, f"{name} ({kind.mutants[name].what}) was not found"
    assert not failure.reason.startswith("TypeError"), "the bug no longer fits the product"
    assert options not in BREAK_ANSWERS or "Error" not in failure.reason, "a wrong output is found, not a crash"
    clean = run_kept(kept) if kept.exists() else kind.run(failure.seed)
    assert clean is None, "the world fails without the bug, too"


def test_expiry_never_is_found_by_the_bound_on_memory():
    failure = find_mutant("expiry-never", SEEDS)
    assert failure is not None
    assert "tuples at rest" in failure.reason


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_depends_on_what_must_be_harmless(name):
    failure = find_mutant(name, range(50), SERVED)
    assert failure is None, f"{name}: {failure.account}"


def test_every_kept_world_is_that_of_a_planted_bug():
    assert {path.stem for path in SCENARIOS.iterdir()} <= {name for _, name in PLANTED}
