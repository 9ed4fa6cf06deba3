"""`loadgen engines run` from its options to its report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rich.console import Console

from loadgen.bench import sections
from loadgen.bench.pages import number
from loadgen.bench.sections import BenchResults, Section, SectionContext
from loadgen.engines import report
from loadgen.engines.adapters.apart import APART
from loadgen.engines.options import EnginesOptions
from loadgen.engines.runner import ENGINES, EngineOutcome, RunLimits, Runner
from loadgen.engines.variants import VARIANTS
from loadgen.engines.workloads import QUESTIONS, WINDOWS, EngineWorkload, workload
from loadgen.papers.methods.catalog import METHODS
from spojoin.errors import ConfigurationError
from spojoin.model import DEFAULT_METHOD

WINDOW, BUDGET_S = 10_000, 4.0
QUICK_WINDOW, QUICK_BUDGET_S, QUICK_VARIANTS = 1_000, 1.0, ("taxi",)
#: By default, questions whose rows ask run on these variants.
ASKED_VARIANTS = ("uniform", "taxi", "ties")
#: Engines that run these only if named: Hazelcast takes 36 s to fill 10,000 rows on an idle machine.
SLOW_TO_FILL = ("hazelcast",)
STATUS_WRONG = 1


def measure(asked: EnginesOptions) -> int:
    """Measure, and write the report after every workload. The exit status is 0 unless an engine's total is wrong."""
    console = Console()
    budget_s = asked.budget or (QUICK_BUDGET_S if asked.quick else BUDGET_S)
    limits = RunLimits(budget_s, asked.fill_limit, _processors(asked.cpus))

    def show(outcome: EngineOutcome) -> None:
        shown = outcome.message
        if outcome.cpu_us is not None and outcome.tuples_per_second is not None:
            shown = (
                f"{number(outcome.cpu_us):>9} processor us a tuple, {outcome.tuples_per_second:10,.0f} tuples/s, "
                f"{outcome.marks[-1].probes:,} probes checked"
            )
        console.print(f"{outcome.engine:11} {shown}", highlight=False, soft_wrap=True, markup=False)

    def keep(results: BenchResults[RunLimits, EngineOutcome]) -> None:
        about = {**results.machine, "processors used": asked.cpus, "budget s": budget_s}
        report.write(results.found, about, asked.output)

    made = [_section(each, names) for each, names in planned(asked).items()]
    results = sections.measure(made, limits, console, show, keep)
    for part in report.tables(results.found):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
    console.print(f"{asked.output / report.PAGE} written", highlight=False)
    results.raise_failures()
    return STATUS_WRONG if any(outcome.message.startswith("WRONG") for outcome in results.found) else 0


def _section(each: EngineWorkload, names: Sequence[str]) -> Section[RunLimits, EngineOutcome]:
    """All engines on one workload."""

    def outcomes(context: SectionContext[RunLimits]) -> Iterator[EngineOutcome]:
        runner = Runner(context.sizes, context.shared, context.say)
        return (runner.run(name, each) for name in names)

    return Section(f"{each.name}, W = {each.window:,}", outcomes)


def planned(asked: EnginesOptions) -> dict[EngineWorkload, list[str]]:
    """The named engines of each workload, or all that can take its question. Raises ConfigurationError."""
    named = some("engines", asked.engines, ENGINES)
    return {each: named if asked.engines else _usual_engines(each) for each in _workloads(asked)}


def _usual_engines(each: EngineWorkload) -> list[str]:
    """All engines if pairs count. If rows ask, the engines that can answer without spending most time on the fill."""
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
    """The comma-separated names in `text`, or all if it is empty. Raises ConfigurationError."""
    asked = [name.strip() for name in text.split(",") if name.strip()] or list(known)
    for name in asked:
        if name not in known:
            raise ConfigurationError(f"--{option} has {name!r}; expected some of {', '.join(known)}")
    return asked


def _processors(count: int) -> frozenset[int]:
    usable = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(usable):
        raise ConfigurationError(f"--cpus is {count}; expected 1 to {len(usable)}, which this process may use")
    # The first processor handles most interrupts.
    return frozenset(usable[-count:])
