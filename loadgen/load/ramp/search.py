"""Which rate to try next: up by leaps until one doesn't hold, then between the best and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Protocol


class Tried(Protocol):
    """A rate that was tried."""

    @property
    def rate(self) -> float:
        """Rows a second."""
        ...

    @property
    def holds(self) -> bool:
        """Whether it holds."""
        ...


@dataclass(frozen=True, slots=True)
class Search:
    """From `start` by `factor` up to `most`, or down to `least`; ends where the limit is known to `precision`."""

    start: float
    factor: float = 1.5
    least: float = 100.0
    most: float = 5_000_000.0
    precision: float = 0.1

    def next_rate(self, tried: Sequence[Tried]) -> float | None:
        """The next rate, rounded to three digits; None when there is no more to learn."""
        found = self._next(tried)
        return None if found is None else float(f"{found:.3g}")

    def _next(self, tried: Sequence[Tried]) -> float | None:
        if not tried:
            return self.start
        failed = min((step.rate for step in tried if not step.holds), default=None)
        held = highest_that_holds(tried)
        if failed is None:
            top = max(step.rate for step in tried)
            return min(top * self.factor, self.most) if top < self.most else None
        if held is None:
            return max(failed / self.factor, self.least) if failed > self.least else None
        return sqrt(held * failed) if failed / held > 1 + self.precision else None


def highest_that_holds(tried: Sequence[Tried]) -> float | None:
    """The highest rate that holds below the lowest that doesn't."""
    failed = min((step.rate for step in tried if not step.holds), default=float("inf"))
    return max((step.rate for step in tried if step.holds and step.rate < failed), default=None)
