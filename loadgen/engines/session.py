"""`loadgen engines run` from its options to its report."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from loadgen import machine
from loadgen.engines import report
from loadgen.engines.adapters.apart import APART
from loadgen.engines.options import EnginesOptions
from loadgen.engines.runner import ENGINES, EngineOutcome, RunLimits, Runner
from loadgen.engines.variants import VARIANTS
from loadgen.engines.workloads import QUESTIONS, WINDOWS, EngineWorkload, workload
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals
from spojoin.model import DEFAULT_METHOD
from spojoin.published.methods.catalog import METHODS

WINDOW, BUDGET_S = 10_000, 4.0
QUICK_WINDOW, QUICK_BUDGET_S, QUICK_VARIANTS = 1_000, 1.0, ("taxi",)
#: Questions whose rows ask run on these variants unless others are named.
ASKED_VARIANTS = ("uniform", "taxi", "ties")
#: Engines that run there only where they are named: Hazelcast takes 36 s to fill 10,000 rows, on an idle machine.
SLOW_TO_FILL = ("hazelcast",)
STATUS_WRONG = 1


def measure(asked: EnginesOptions) -> int:
    """Measure, and write the report after every workload; the exit status is 0 unless an engine's total is wrong."""
    console = Console()
    budget_s = asked.budget or (QUICK_BUDGET_S if asked.quick else BUDGET_S)
    runs = planned(asked)
    limits = RunLimits(budget_s, asked.fill_limit, _processors(asked.cpus))
    about = {**machine.describe(), "processors used": asked.cpus, "budget s": budget_s}
    outcomes: list[EngineOutcome] = []
    with ending_on_signals(), tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        runner = Runner(limits, Path(scratch), lambda said: console.print(said, highlight=False))
        for found in _outcomes(runner, runs, console):
            outcomes += found
            path = report.write(outcomes, about, asked.output)
    for part in report.tables(outcomes):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
    console.print(f"{path} written", highlight=False)
    return STATUS_WRONG if any(outcome.message.startswith("WRONG") for outcome in outcomes) else 0


def _outcomes(
    runner: Runner, runs: Mapping[EngineWorkload, Sequence[str]], console: Console
) -> Iterator[list[EngineOutcome]]:
    """The outcomes of all engines, one workload after the other."""
    began, done, of = time.monotonic(), 0, sum(map(len, runs.values()))
    for each, names in runs.items():
        found = []
        for name in names:
            found.append(runner.run(name, each))
            done += 1
            _show(console, found[-1], progress_line(done, of, time.monotonic() - began))
        yield found


def planned(asked: EnginesOptions) -> dict[EngineWorkload, list[str]]:
    """The engines of each workload: those named, else all that may take its question. Raises ConfigurationError."""
    named = some("engines", asked.engines, ENGINES)
    return {each: named if asked.engines else _usual_engines(each) for each in _workloads(asked)}


def _usual_engines(each: EngineWorkload) -> list[str]:
    """All where pairs count; where rows ask, those that may answer, and whose fill doesn't take most of the time."""
    left_out = {*METHODS, *SLOW_TO_FILL} - {DEFAULT_METHOD} if each.question.asks else set()
    left_out |= set() if each.question.overlap else {*APART}
    return [name for name in ENGINES if name not in left_out]


def _workloads(asked: EnginesOptions) -> list[EngineWorkload]:
    questions = some("workloads", asked.workloads, tuple(QUESTIONS))
    variants = some("variants", asked.variants, tuple(VARIANTS))
    sizes = asked.window or [QUICK_WINDOW if asked.quick else WINDOW]
    if bad := [size for size in sizes if not 16 <= size <= WINDOWS[-1]]:
        raise ConfigurationError(f"--window is {bad[0]}; expected 16 to {WINDOWS[-1]:,} tuples")
    return [
        workload(q, v, size)
        for size in sizes
        for q in questions
        for v in (variants if asked.variants else _usual_variants(q, is_quick=asked.quick))
    ]


def _usual_variants(question: str, *, is_quick: bool) -> Sequence[str]:
    if is_quick:
        return QUICK_VARIANTS
    return ASKED_VARIANTS if QUESTIONS[question].asks else tuple(VARIANTS)


def some(option: str, text: str, known: Sequence[str]) -> list[str]:
    """The names in `text`, with commas between them; all where there are none. Raises ConfigurationError."""
    asked = [name.strip() for name in text.split(",") if name.strip()] or list(known)
    for name in asked:
        if name not in known:
            raise ConfigurationError(f"--{option} has {name!r}; expected some of {', '.join(known)}")
    return asked


def _processors(count: int) -> frozenset[int]:
    usable = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(usable):
        raise ConfigurationError(f"--cpus is {count}; expected 1 to {len(usable)}, which this process may use")
    # The first processor has most of the interrupts.
    return frozenset(usable[-count:])


def progress_line(done: int, of: int, elapsed_s: float) -> str:
    """How many engines' runs are done, and how long the rest takes at this pace."""
    return f"{done:3}/{of}, {math.ceil(elapsed_s / done * (of - done) / 60):3} min left"


def _show(console: Console, outcome: EngineOutcome, at: str) -> None:
    shown = outcome.message
    if outcome.cpu_us is not None and outcome.tuples_per_second is not None:
        shown = (
            f"{report.number(outcome.cpu_us):>9} processor us a tuple, {outcome.tuples_per_second:10,.0f} tuples/s, "
            f"{outcome.marks[-1].probes:,} probes checked"
        )
    name = f"{outcome.workload} W={outcome.window:,}"
    console.print(f"{at} {name:24} {outcome.engine:11} {shown}", highlight=False, soft_wrap=True, markup=False)
