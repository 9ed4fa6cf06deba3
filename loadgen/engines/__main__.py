"""`python -m loadgen.engines`: engines side by side on the same data, every total checked."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from loadgen.engines import expected, report
from loadgen.engines.adapters import jars
from loadgen.engines.runner import ENGINES, EngineOutcome, RunLimits, Runner
from loadgen.engines.variants import VARIANTS
from loadgen.engines.workloads import MARKS, QUESTIONS, WINDOWS, EngineWorkload, workload
from loadgen.errors import one_sentence
from loadgen.promises import machine
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

WINDOW, BUDGET_S = 10_000, 4.0
QUICK_WINDOW, QUICK_BUDGET_S, QUICK_VARIANTS = 1_000, 1.0, ("taxi",)
FILL_S = 90.0


@app.command()
def run(
    engines: Annotated[str, typer.Option(help=f"Some of {', '.join(ENGINES)}; commas between. Default: all.")] = "",
    workloads: Annotated[str, typer.Option(help=f"Some of {', '.join(QUESTIONS)}. Default: all.")] = "",
    variants: Annotated[str, typer.Option(help=f"Some of {', '.join(VARIANTS)}. Default: all.")] = "",
    window: Annotated[list[int] | None, typer.Option(help="Tuples of a window; repeatable.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds for the probes of one engine and workload.")] = None,
    fill_limit: Annotated[float, typer.Option(help="Seconds for starting and filling the window.")] = FILL_S,
    cpus: Annotated[int, typer.Option(help="Processors that an engine may use.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="One variant, a small window, short: see that it runs.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The folder for the page and the CSV.")] = Path("report/benchmark"),
) -> None:
    """Measure engines side by side, check their totals, print ratios, and write report/benchmark.

    An engine fills its window, then answers probes until its budget is over; the time of the last doubling of probes
    counts. Totals are checked at every mark on the way. For example, two engines on skewed data with a larger window:

        python -m loadgen.engines run --engines spo,duckdb --variants zipf --window 100000 --budget 10

    The exit status is 0 unless an engine's total is wrong.
    """
    console = Console()
    with one_sentence(is_debug=False), ending_on_signals(), tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        asked = _asked(workloads, variants, quick=quick, windows=window)
        limits = RunLimits(budget or (QUICK_BUDGET_S if quick else BUDGET_S), fill_limit, _processors(cpus))
        runner = Runner(limits, Path(scratch), lambda said: console.print(said, highlight=False))
        names = _some("engines", engines, ENGINES)
        about = {**machine.describe(), "processors used": cpus, "budget s": limits.budget_s}
        outcomes: list[EngineOutcome] = []
        began = time.monotonic()
        for each in asked:
            for name in names:
                outcomes.append(runner.run(name, each))
                at = progress_line(len(outcomes), len(asked) * len(names), time.monotonic() - began)
                _show(console, outcomes[-1], at)
            path = report.write(outcomes, about, output)
        for part in report.tables(outcomes):
            console.print(part, highlight=False, soft_wrap=isinstance(part, str))
        console.print(f"{path} written", highlight=False)
    if any(outcome.message.startswith("WRONG") for outcome in outcomes):
        raise SystemExit(1)


@app.command()
def expect(
    window: Annotated[list[int] | None, typer.Option(help="Tuples of a window; repeatable. Default: all.")] = None,
    workloads: Annotated[str, typer.Option(help=f"Some of {', '.join(QUESTIONS)}. Default: all.")] = "",
    probes: Annotated[int, typer.Option(help="Count up to so many.", min=MARKS[1], max=MARKS[-1])] = MARKS[-1],
) -> None:
    """Count anew what must come out, by a plain scan, and write expected.json. All windows take an hour."""
    with one_sentence(is_debug=False):
        questions = _some("workloads", workloads, tuple(QUESTIONS))
        expected.write(window or WINDOWS, print, questions=questions, probes=probes)


@app.command()
def lock() -> None:
    """Fetch the Java engines' jars, and write down their SHA-256 as those to expect."""
    jars.LOCK.write_text("\n".join(jars.lock_lines()) + "\n", encoding="utf-8")


def _asked(workloads: str, variants: str, *, quick: bool, windows: Sequence[int] | None) -> list[EngineWorkload]:
    questions = _some("workloads", workloads, tuple(QUESTIONS))
    chosen = _some("variants", variants, QUICK_VARIANTS if quick and not variants else tuple(VARIANTS))
    sizes = windows or [QUICK_WINDOW if quick else WINDOW]
    if bad := [size for size in sizes if not 16 <= size <= WINDOWS[-1]]:
        raise ConfigurationError(f"--window is {bad[0]}; expected 16 to {WINDOWS[-1]:,} tuples")
    return [workload(q, v, size) for size in sizes for q in questions for v in chosen]


def _some(option: str, text: str, known: Sequence[str]) -> list[str]:
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
    """How many engines' runs are done, and how long the rest takes if it goes on like that."""
    return f"{done:3}/{of}, {math.ceil(elapsed_s / done * (of - done) / 60):3} min left"


def _show(console: Console, outcome: EngineOutcome, at: str) -> None:
    told = outcome.message
    if outcome.cpu_us is not None and outcome.tuples_per_second is not None:
        told = (
            f"{report.number(outcome.cpu_us):>9} processor us a tuple, {outcome.tuples_per_second:10,.0f} tuples/s, "
            f"{outcome.marks[-1].probes:,} probes checked"
        )
    name = f"{outcome.workload} W={outcome.window:,}"
    console.print(f"{at} {name:24} {outcome.engine:11} {told}", highlight=False, soft_wrap=True, markup=False)


if __name__ == "__main__":
    app()
