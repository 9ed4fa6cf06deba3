"""Live progress of the main job: a table on a terminal, otherwise a line every two seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

LINE_S = 2.0
RATE_S = 2.0


class PlayProgress(NamedTuple):
    """One query's progress.

    rows: sent so far; result_position: frames whose results are out
    filtered: rows that pass no filter, so get no result
    """

    query: str
    phase: str
    rows: int = 0
    refused: int = 0
    tuples: int = 0
    matches: int = 0
    result_position: int = 0
    filtered: int = 0

    @property
    def lag(self) -> int:
        """The number of rows that wait for their result."""
        return max(0, self.rows - self.filtered - self.tuples - self.refused)


class Screen:
    """Shows the progress of each query; `note` prints other events."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, PlayProgress] = {}
        self._history: list[tuple[float, str, int]] = []
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._line_at = 0.0
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        """Print a message beside the progress."""
        self._console.print(f"[dim]{self._clock()}[/] {text}", highlight=False, soft_wrap=True)

    def show(self, state: PlayProgress) -> None:
        """Show a query's progress."""
        before = self._states.get(state.query)
        self._states[state.query] = state
        self._history.append((time.monotonic(), state.query, state.tuples))
        if self._live:
            self._live.update(self._table(), refresh=True)
        elif before is None or before.phase != state.phase or time.monotonic() >= self._line_at:
            self._line_at = time.monotonic() + LINE_S
            self._console.print(f"{self._clock()} {self._line(state)}", highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def _clock(self) -> str:
        return f"{time.monotonic() - self._started:5.1f} s"

    def _rate(self, query: str, tuples: int) -> float:
        """Recent tuples per second."""
        now = time.monotonic()
        self._history = [(at, name, count) for at, name, count in self._history if now - at <= RATE_S]
        first = next((point for point in self._history if point[1] == query), (now, query, tuples))
        return (tuples - first[2]) / (now - first[0]) if now > first[0] else 0.0

    def _line(self, state: PlayProgress) -> str:
        return (
            f"{state.query}: {state.phase}; rows in {state.rows:,}, results to frame {state.result_position:,}, "
            f"tuples out {state.tuples:,} ({self._rate(state.query, state.tuples):,.0f}/s), lag {state.lag:,}, "
            f"matches {state.matches:,}, refused {state.refused:,}"
        )

    def _table(self) -> Table:
        table = Table(title=f"loadgen demo, {self._clock()}", title_justify="left")
        table.add_column("query")
        table.add_column("")
        for name in ("rows in", "frames out", "tuples out", "t/s", "lag", "matches", "refused"):
            table.add_column(name, justify="right")
        for state in self._states.values():
            speed = self._rate(state.query, state.tuples)
            done = state.rows, state.result_position, state.tuples
            figures = (*done, round(speed), state.lag, state.matches, state.refused)
            table.add_row(state.query, state.phase, *(f"{figure:,}" for figure in figures))
        return table
