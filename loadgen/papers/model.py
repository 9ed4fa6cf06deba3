"""A figure as data: panels of series, and the paper's claims about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadgen.papers.claims import Claim


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
        """The series of this name. Raises KeyError where there is none."""
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
        """The x at which this series is highest; None where there is no such series."""
        found = [series for series in self.series if series.name == name]
        return max(zip(found[0].y, found[0].x, strict=True))[1] if found else None


class LeftOut(NamedTuple):
    """A point that a figure doesn't have, and why."""

    point: str
    why: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure.

    how: what was run, and how it differs from the paper's set-up; left_out: points that it doesn't have
    """

    name: str
    title: str
    how: str
    panels: Sequence[Panel]
    claims: Sequence[Claim]
    left_out: Sequence[LeftOut] = field(default_factory=tuple)
