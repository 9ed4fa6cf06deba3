"""A figure as data, a paper's claims about it beside the measurement here, and the time that it may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

#: Two ranges of ratios are of one size while their nearer ends differ by less: hardware, languages and data differ.
SAME_SIZE = 1.5
NOTHING = "nothing to compare"


class ClaimVerdict(StrEnum):
    """The outcome of a paper's claim."""

    AGREES = "agrees"
    OTHER_SIZE = "same direction, other size"
    DISAGREES = "disagrees"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Claim:
    """A paper's claim about a figure, the measurement here, and why the two may differ; `why` holds either way."""

    paper: str
    here: str
    verdict: ClaimVerdict
    why: str = ""


def claim(paper: str, ratios: Sequence[float], low: float, high: float, why: str) -> Claim:
    """A claim that something is `low` to `high` times something else, compared with the measured ratios.

    The direction is the same if all ratios lie on the paper's side of 1. A paper's range that contains 1 claims no
    difference; the measurement agrees within SAME_SIZE.
    """
    if not ratios:
        return Claim(paper, NOTHING, ClaimVerdict.UNKNOWN, why)
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
    """Whether two ranges of ratios nearly meet: within SAME_SIZE, and with at least half of the paper's effect."""
    if high < 1:
        return _is_near(_inverse(most), _inverse(least), _inverse(high), _inverse(low))
    effect = math.sqrt(low) if low > 1 else 0.0
    return most >= max(low / SAME_SIZE, effect) and least <= high * SAME_SIZE


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else math.inf


def rises(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is more than something else, by any factor."""
    return claim(paper, ratios, 1 + 1e-9, math.inf, why)


def falls(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is less than something else, by any factor."""
    return claim(paper, ratios, 0.0, 1 - 1e-9, why)


def checked(paper: str, here: str, why: str = "", *, holds: bool | None) -> Claim:
    """A claim that isn't a ratio; `holds` is None if nothing was measured."""
    verdict = {True: ClaimVerdict.AGREES, False: ClaimVerdict.DISAGREES, None: ClaimVerdict.UNKNOWN}[holds]
    return Claim(paper, here, verdict, why)


@dataclass(frozen=True, slots=True)
class Series:
    """A named curve, or bars where x are words. low, high: the ends of its error bars, if any."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def by_x(self) -> dict[float | str, float]:
        """The y at each x."""
        return dict(zip(self.x, self.y, strict=True))


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a figure; x and y label the axes, units included."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False

    def named(self, name: str) -> Series:
        """The series of this name. Raises KeyError if there is none."""
        found = [series for series in self.series if series.name == name]
        if not found:
            raise KeyError(name)
        return found[0]

    def times(self, above: str, below: str) -> list[float]:
        """The y of `above` divided by the y of `below`, at each x that both have."""
        if not {above, below} <= {series.name for series in self.series}:
            return []
        base = self.named(below).by_x()
        both = zip(self.named(above).x, self.named(above).y, strict=True)
        return [y / base[x] for x, y in both if base.get(x)]

    def times_at(self, x: float | str, above: str, below: str) -> list[float]:
        """The y of `above` divided by the y of `below` at this x: one number, or none."""
        found = {series.name: series.by_x().get(x) for series in self.series}
        one, other = found.get(above), found.get(below)
        return [one / other] if one and other else []

    def growth(self, name: str) -> list[float]:
        """The y at the last x divided by the y at the first x: one number, or none."""
        found = [series for series in self.series if series.name == name and len(series.y) > 1]
        return [series.y[-1] / series.y[0] for series in found if series.y[0]]

    def best_x(self, name: str) -> float | str | None:
        """The x at which this series is highest; None if there is no such series."""
        found = [series for series in self.series if series.name == name]
        return max(zip(found[0].y, found[0].x, strict=True))[1] if found else None


class LeftOut(NamedTuple):
    """A missing point of a figure, and the reason."""

    point: str
    why: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure.

    how: the run, and its differences from the paper's set-up; left_out: missing points
    """

    name: str
    title: str
    how: str
    panels: Sequence[Panel]
    claims: Sequence[Claim]
    left_out: Sequence[LeftOut] = field(default_factory=tuple)


T = TypeVar("T")

#: The share of a point's time that is measured; the rest fills windows.
MEASURED_SHARE = 0.5
#: Measuring a point for longer adds nothing.
POINT_S_MAX = 3.0
POINT_S_MIN = 0.02
#: No point begins after the figure's time multiplied by this: filling a window can't be interrupted.
OVERTIME = 1.25
#: The reason for the points that never began.
NO_TIME = "for lack of time"


class FigureRun:
    """One figure's run. seconds: its time; is_quick: small sizes; say: takes lines for people."""

    def __init__(
        self,
        seconds: float,
        *,
        is_quick: bool,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_quick = is_quick
        self.left_out: list[LeftOut] = []
        self.say = say
        self._clock = clock
        self._seconds = seconds
        self._began = clock()
        self._planned = 1
        self._done = 0

    def pick(self, full: T, quick: T) -> T:
        """The size for a full or for a quick run."""
        return quick if self.is_quick else full

    def plan(self, points: int) -> None:
        """Announce the total number of points, if the figure calls `each` more than once."""
        self._planned, self._done = points, 0

    def each(self, points: Iterable[T]) -> Iterator[T]:
        """The points, while there is time: always the first. The figure records the others as left out."""
        wanted = list(points)
        self._planned = max(self._planned, self._done + len(wanted))
        for i, point in enumerate(wanted):
            if self._done and self._clock() - self._began > OVERTIME * self._seconds:
                self.left_out += [LeftOut(_named(each), NO_TIME) for each in wanted[i:]]
                return
            yield point
            self._done += 1

    @property
    def point_s(self) -> float:
        """Seconds to measure the current point."""
        left = self._seconds - (self._clock() - self._began)
        share = MEASURED_SHARE * left / max(self._planned - self._done, 1)
        return min(max(share, POINT_S_MIN), POINT_S_MAX)


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure that can be measured. seconds: its share of a full run's time."""

    name: str
    seconds: float
    draw: Callable[[FigureRun], Figure]


def _named(point: object) -> str:
    return ", ".join(map(str, point)) if isinstance(point, tuple) else str(point)
