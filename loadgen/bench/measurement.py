"""Named figures, some with a bar to pass, and comparable times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class GoodSide(StrEnum):
    """The good side of a bar."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: the value stays on the good side of `limit`, and ideally reaches `goal`, if any."""

    direction: GoodSide
    limit: float
    goal: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether `value` keeps the promise."""
        return value >= self.limit if self.direction is GoodSide.AT_LEAST else value <= self.limit

    def margin(self, value: float) -> float:
        """The distance from the limit to the good side, as a share of the limit; negative if the bar is missed."""
        distance = value - self.limit if self.direction is GoodSide.AT_LEAST else self.limit - value
        return distance / self.limit


def at_least(limit: float, goal: float | None = None) -> Bar:
    """A bar that larger values pass."""
    return Bar(GoodSide.AT_LEAST, limit, goal)


def at_most(limit: float, goal: float | None = None) -> Bar:
    """A bar that smaller values pass."""
    return Bar(GoodSide.AT_MOST, limit, goal)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number: its meaning, its unit, its bar, if any, and how it was measured."""

    name: str
    value: float
    unit: str
    bar: Bar | None = None
    note: str = ""


def best_seconds(alternatives: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest of `repeats` runs of each alternative, in seconds; a first run, which may compile, isn't timed.

    Alternatives run in turn, so that a slow moment of the machine affects all of them.
    """
    for run in alternatives.values():
        run()
    best = dict.fromkeys(alternatives, float("inf"))
    for _ in range(repeats):
        for name, run in alternatives.items():
            best[name] = min(best[name], seconds(run))
    return best


def seconds(run: Callable[[], object]) -> float:
    """The duration of one run, in seconds."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
