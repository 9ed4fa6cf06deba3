"""A line of progress for runs over files."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from spojoin.embedded.compiling import compiling_shown

if TYPE_CHECKING:
    from spojoin.embedded.run import RunProgress


COMPILING = "compiling, once for each kind of statement; 'spojoin warm-up' compiles everything ahead"
#: What is compiled sooner isn't worth a line of its own.
UNSAID_S = 1.0


@contextmanager
def run_progress(name: str, *, is_quiet: bool, has_bar: bool = True) -> Iterator[Callable[[RunProgress], None]]:
    """Yields a function that shows a run's progress: fraction of the input, tuples, tuples/s, matches, rejects.

    has_bar: whether a terminal shows it; elsewhere one line says that kernels are compiled, if that takes long
    """
    if is_quiet or not (has_bar and sys.stderr.isatty()):
        with nullcontext() if is_quiet else compiling_shown(_said_once()):
            yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  (as the commands: what isn't shown isn't imported)
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

        with compiling_shown(lambda: bar.update(task, figures=COMPILING)):
            yield show


def _said_once() -> Callable[[], None]:
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
