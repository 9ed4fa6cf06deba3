"""`loadgen engines`: other engines side by side with this one on the same data, every total checked."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from typing import Annotated

import typer

from loadgen.engines.options import EnginesOptions, ExpectedVariants, Windows, Workloads
from loadgen.engines.workloads import MARKS, QUESTIONS
from loadgen.errors import one_sentence
from spojoin.cli.options import with_options

engines_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure other engines side by side with this one on the same data, every total checked.",
)


@engines_app.command("run")
@with_options
def run(asked: EnginesOptions) -> None:
    """Measure engines side by side, check their totals, print ratios, and write report/benchmark.

    An engine fills its window, then answers probes until its budget is over. The time of the last doubling of probes
    counts. Every mark on the way checks the totals. The exit status is 0 unless an engine's total is wrong.

    Example, two engines on skewed data with a larger window:

        loadgen engines run --engines spo,duckdb --variants zipf --window 100000 --budget 10
    """
    with one_sentence(is_debug=False):
        from loadgen.engines.session import measure

        raise typer.Exit(measure(asked))


@engines_app.command("expect")
def expect(
    window: Windows = None,
    workloads: Workloads = "",
    variants: ExpectedVariants = "",
    probes: Annotated[int, typer.Option(help="The probes to count.", min=MARKS[1], max=MARKS[-1])] = MARKS[-1],
) -> None:
    """Recount the expected totals by a plain scan, and write expected.json. All windows take an hour.

    Example:

        loadgen engines expect --window 10000
    """
    with one_sentence(is_debug=False):
        from loadgen.engines import expected
        from loadgen.engines.session import some
        from loadgen.engines.variants import VARIANTS
        from loadgen.engines.workloads import WINDOWS

        questions = some("workloads", workloads, tuple(QUESTIONS))
        chosen = some("variants", variants, tuple(VARIANTS))
        expected.write(window or WINDOWS, print, questions=questions, variants=chosen, probes=probes)


@engines_app.command("lock")
def lock() -> None:
    """Fetch the Java engines' jars, and record their SHA-256 in the lock.

    Example:

        loadgen engines lock
    """
    with one_sentence(is_debug=False):
        from loadgen.engines.adapters import java as jars

        jars.LOCK.write_text("\n".join(jars.lock_lines()) + "\n", encoding="utf-8")
