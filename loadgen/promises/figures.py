"""What a measurement yields: named figures, some of which have a bar to pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GoodSide(StrEnum):
    """Which side of a bar is good."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: the value stays on the good side of `limit`; `goal`, where there is one, is the value aimed at."""

    direction: GoodSide
    limit: float
    goal: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether `value` keeps the promise."""
        return value >= self.limit if self.direction is GoodSide.AT_LEAST else value <= self.limit

    def margin(self, value: float) -> float:
        """How far on the good side `value` is, as a share of the limit; negative where the bar is missed."""
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
    """One measured number: what it is, its unit, the bar it must pass, if any, and how it was measured."""

    name: str
    value: float
    unit: str
    bar: Bar | None = None
    note: str = ""
