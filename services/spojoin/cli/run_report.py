"""The output of a run over files: a line of progress, refused rows, and a summary."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from spojoin.cli.errors import STATUS_ROWS
from spojoin.embedded.refusal_report import RejectLimit, Wording, refused_line, too_many_refused
from spojoin.embedded.run import on_compiling
from spojoin.model import Query

if TYPE_CHECKING:
    from rich.table import Table

    from spojoin.embedded.run import RunProgress

COMPILING = "compiling, once for each kind of statement; 'spojoin warm-up' compiles everything ahead"
#: If compiling takes less time, no line is printed about it.
UNSAID_S = 1.0


@contextmanager
def run_progress(name: str, *, is_quiet: bool, has_bar: bool = True) -> Iterator[Callable[[RunProgress], None]]:
    """Yields a function that shows a run's progress: fraction of the input, tuples, tuples/s, matches, rejects.

    has_bar: whether a terminal shows it; elsewhere one line says that kernels are compiled, if that takes long
    """
    if is_quiet or not (has_bar and sys.stderr.isatty()):
        with nullcontext() if is_quiet else on_compiling(_say_compiling_once()):
            yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  (what isn't shown isn't imported)
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=1.0, figures="starting")
        started = time.perf_counter()

        def show(run: RunProgress) -> None:
            rate = run.tuples / max(1e-9, time.perf_counter() - started)
            figures = f"{run.tuples:,} tuples  {rate:,.0f} t/s  {run.matches:,} matches"
            figures += f"  {run.rejected:,} rejected" if run.rejected else ""
            bar.update(task, completed=run.fraction, figures=figures)

        with on_compiling(lambda: bar.update(task, figures=COMPILING)):
            yield show


def _say_compiling_once() -> Callable[[], None]:
    """Says on stderr that kernels are compiled, the first time that it is called some time after another call."""
    began, is_said = math.inf, False

    def say() -> None:
        nonlocal began, is_said
        now = time.perf_counter()
        began = min(began, now)
        if not is_said and began + UNSAID_S < now:
            print(f"spojoin: {COMPILING}", file=sys.stderr)
            is_said = True

    return say


def end_with_refused(
    report: Mapping[str, Any],
    query: Query | None,
    wording: Wording,
    limit: RejectLimit,
    files: tuple[Path, Path | None],
) -> None:
    """Report refused rows; end with status 1 if they are too many. files: those of results and of refused rows."""
    if line := refused_line(report, query, wording):
        typer.echo(f"spojoin: {line}", err=True)
    if sentence := too_many_refused(report, limit, wording):
        typer.echo(f"spojoin: {sentence}: {_what_is_kept(report, *files)}", err=True)
        raise typer.Exit(STATUS_ROWS)


def _what_is_kept(report: Mapping[str, Any], output: Path, rejects: Path | None) -> str:
    others = report["rows"] - report["rejected"]
    name = "the output" if str(output) == "-" else output
    kept = f"{name} holds the results of the other {others:,}" if others else f"{name} is empty"
    return (
        f"{kept}; {rejects} holds the refused rows"
        if rejects
        else f"{kept}; add --rejects FILE to see each with its reason"
    )


def show_run(report: Mapping[str, object], output: Path) -> None:
    """A small table of a run's report, on stderr."""
    from rich.console import Console  # noqa: PLC0415  (quiet runs go without)
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=str(report["query"]), show_header=False, title_justify="left")
    for name in ("tuples", "matches", "rows_written", "rejected"):
        table.add_row(name.replace("_", " "), f"{report[name]:,}")
    reasons = report["rejected_by_reason"]
    if isinstance(reasons, Mapping):
        for reason, count in reasons.items():
            table.add_row(f"  {reason}", f"{count:,}")
    _add_layout(table, report)
    table.add_row("seconds", f"{report['seconds']:,.2f}")
    table.add_row("tuples/s", _figure(report["tuples_per_second"]))
    table.add_row("tuples/s, window full", _figure(report["tuples_per_second_window_full"]))
    table.add_row("peak memory", _figure(report["peak_rss_bytes"], 1 / (1 << 20), " MiB"))
    table.add_row("output", str(output))
    Console(stderr=True).print(table)


def _add_layout(table: Table, report: Mapping[str, object]) -> None:
    """Add what several workers cost, in brief; the report has the rest."""
    layout, tuples = report["layout"], report["tuples"]
    if not isinstance(layout, Mapping) or not isinstance(tuples, int) or layout["workers"] == 1 or tuples == 0:
        return
    table.add_row("layout", f"{layout['name']}, {layout['workers']} workers")
    if "messages" not in layout:
        return  # nothing was measured, since another distribution does that
    table.add_row("  comparisons, most to mean", f"{layout['comparisons_imbalance']:.3f}")
    table.add_row("  messages a tuple", f"{layout['messages'] / tuples:.1f}")
    table.add_row("  workers' memory", _figure(layout["memory_bytes"], 1 / (1 << 10), " KiB"))


def _figure(value: object, factor: float = 1.0, unit: str = "") -> str:
    return f"{value * factor:,.0f}{unit}" if isinstance(value, int | float) else "-"
