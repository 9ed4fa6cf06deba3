"""Progress of commands: a redrawn bar or line on a terminal, a line every few seconds in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from loadgen.load.load import Load
from loadgen.load.open_loop import OpenLoop

LINE_S = 5.0
LOG_COLUMNS = 140


def log_console() -> Console:
    """The console for tables, which is wide enough for them in a log."""
    console = Console()
    return console if console.is_terminal else Console(width=LOG_COLUMNS)


@contextmanager
def sending(console: Console, load: Load) -> Iterator[Callable[[OpenLoop], None]]:
    """Yields a function that shows the progress of a load."""
    if not console.is_terminal:
        every = Every(LINE_S)
        yield lambda loop: _line(console, load, loop) if every() else None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        total = None if load.rows is None else load.rows * len(load.workload.streams)
        task = bar.add_task(load.workload.name, total=total, rate="")
        yield lambda loop: bar.update(task, completed=loop.rows, rate=_rate_text(load, loop))


@contextmanager
def stepping(console: Console) -> Iterator[Callable[[float, float, float], None]]:
    """Yields a function that shows a step of the ramp: the rate, its seconds so far, and the lag in rows."""
    if not console.is_terminal:
        yield lambda _rate, _seconds, _lag: None
        return
    with console.status("ramp") as status:
        yield lambda rate, seconds, lag: status.update(f"{rate:,.0f} rows/s: {seconds:.0f} s, lag {lag:,.0f} rows")


class Every:
    """Returns True once per this number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next_s = time.monotonic() + seconds

    def __call__(self) -> bool:
        """Whether the time has passed."""
        if time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + self._seconds
        return True


def _line(console: Console, load: Load, loop: OpenLoop) -> None:
    console.print(f"{loop.seconds:6.0f} s  {_rate_text(load, loop)}", highlight=False)


def _rate_text(load: Load, loop: OpenLoop) -> str:
    rate = loop.rows / max(loop.seconds, 1e-9)
    return f"{loop.rows:,} rows  {rate:,.0f} of {load.arrivals.rate:,.0f} rows/s"
