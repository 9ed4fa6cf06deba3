"""A figure as data: panels of series, what the paper shows of them, and how the measurement compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from loadgen.papers.run import FigureRun

#: Ranges of ratios whose nearer ends are this far apart are still of one size: other hardware, languages and data.
SAME_SIZE = 1.5


@dataclass(frozen=True, slots=True)
class Series:
    """A named curve, or bars where x are words. low, high: the ends of its error bars, if any."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a figure; x and y say what the axes show, units included."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False

    def named(self, name: str) -> Series:
        """The series of this name. Raises KeyError where there is none."""
        found = [series for series in self.series if series.name == name]
        if not found:
            raise KeyError(name)
        return found[0]

    def times(self, above: str, below: str) -> list[float]:
        """At each x that both series have: how many times the y of `below` the y of `above` is."""
        if not {above, below} <= {series.name for series in self.series}:
            return []
        base = dict(zip(self.named(below).x, self.named(below).y, strict=True))
        both = zip(self.named(above).x, self.named(above).y, strict=True)
        return [y / base[x] for x, y in both if base.get(x)]

    def growth(self, name: str) -> list[float]:
        """How many times the y at the first x the y at the last x is: one number, or none."""
        found = [series for series in self.series if series.name == name and len(series.y) > 1]
        return [series.y[-1] / series.y[0] for series in found if series.y[0]]


class ClaimVerdict(StrEnum):
    """How a claim of a paper fares."""

    AGREES = "agrees"
    OTHER_SIZE = "same direction, other size"
    DISAGREES = "disagrees"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says of a figure, what was measured here, and why the two may differ; `why` holds either way."""

    paper: str
    here: str
    verdict: ClaimVerdict
    why: str = ""


class LeftOut(NamedTuple):
    """A point that a figure doesn't have, and why."""

    point: str
    why: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure.

    how: what was run, and in what it differs from the paper's set-up; left_out: points that it doesn't have
    """

    name: str
    title: str
    how: str
    panels: Sequence[Panel]
    claims: Sequence[Claim]
    left_out: Sequence[LeftOut] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure that can be measured. seconds: its share of a whole run's time."""

    name: str
    seconds: float
    draw: Callable[[FigureRun], Figure]


def claim(paper: str, ratios: Sequence[float], low: float, high: float, why: str) -> Claim:
    """A claim that something is `low` to `high` times something else, put to the ratios measured.

    The direction is the same where all ratios lie on the paper's side of 1; a paper's range that has 1 in it claims
    that there is no difference, and is met within SAME_SIZE.
    """
    if not ratios:
        return Claim(paper, "nothing to compare", ClaimVerdict.UNKNOWN, why)
    least, most = min(ratios), max(ratios)
    ends = [f"{end:,.0f}" if end >= 100 else f"{end:.2g}" for end in (least, most)]
    here = f"{' to '.join(dict.fromkeys(ends))} times"
    near = _is_near(least, most, low, high)
    if low <= 1 <= high:
        return Claim(paper, here, ClaimVerdict.AGREES if near else ClaimVerdict.DISAGREES, why)
    if not (least > 1 if low > 1 else most < 1):
        return Claim(paper, here, ClaimVerdict.DISAGREES, why)
    return Claim(paper, here, ClaimVerdict.AGREES if near else ClaimVerdict.OTHER_SIZE, why)


def _is_near(least: float, most: float, low: float, high: float) -> bool:
    """Whether two ranges of ratios nearly meet: within SAME_SIZE, and with half of the paper's effect at least."""
    if high < 1:
        return _is_near(_inverse(most), _inverse(least), _inverse(high), _inverse(low))
    effect = math.sqrt(low) if low > 1 else 0.0
    return most >= max(low / SAME_SIZE, effect) and least <= high * SAME_SIZE


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else math.inf


def rises(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is more than something else, however much."""
    return claim(paper, ratios, 1 + 1e-9, math.inf, why)


def falls(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is less than something else, however much."""
    return claim(paper, ratios, 0.0, 1 - 1e-9, why)


def tells(paper: str, here: str, why: str = "", *, holds: bool | None) -> Claim:
    """A claim of another kind than a ratio; holds is None where nothing was measured."""
    verdict = {True: ClaimVerdict.AGREES, False: ClaimVerdict.DISAGREES, None: ClaimVerdict.UNKNOWN}[holds]
    return Claim(paper, here, verdict, why)
