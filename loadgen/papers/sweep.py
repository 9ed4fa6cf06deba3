"""Several methods over several settings: the table from which most figures are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadgen.papers.figure import FigureRun, LeftOut, Panel, Series
from loadgen.papers.joins import MeasuredJoin
from loadgen.papers.measurable import ALL, MethodWork, Point, StoredPart, measure
from spojoin.arrays import F64

Value = Callable[[Point], float]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a figure: a method, and the measured part of its work.

    options: the method's own, or a function of x that gives them; the rest as in MethodWork
    """

    label: str
    method: str
    options: Mapping[str, str] | Callable[[float], Mapping[str, str]] = field(default_factory=dict)
    chunk: int = 0
    is_storing: bool = True
    is_searching: bool = True
    share: StoredPart = ALL

    def at(self, x: float) -> MethodWork:
        options = self.options(x) if callable(self.options) else self.options
        return MethodWork(self.method, options, self.chunk, self.is_storing, self.is_searching, self.share)


@dataclass(frozen=True, slots=True)
class SweepTable:
    """Points by (label, x), in the order in which they were measured."""

    points: Mapping[tuple[str, float | str], Point]

    def series(self, value: Value, low: Value | None = None, high: Value | None = None) -> list[Series]:
        """One series for each label, with `value` of its points; labels without points are left out."""
        found = []
        for label in dict.fromkeys(label for label, _ in self.points):
            of_label = {x: point for (name, x), point in self.points.items() if name == label and point.tuples}
            ends = [[end(point) for point in of_label.values()] if end else () for end in (low, high)]
            if of_label:
                found.append(Series(label, list(of_label), [value(p) for p in of_label.values()], *ends))
        return found

    def rates(self, title: str, x: str, *, log_x: bool = False, log_y: bool = True) -> Panel:
        """Throughput: all tuples over all time; the bars are the slowest and the fastest tenth of the chunks."""
        low, high = _rate_at(10), _rate_at(90)
        return Panel(title, x, "tuples/s", self.series(lambda point: point.rate, low, high), log_x, log_y)


def merged(*tables: SweepTable) -> SweepTable:
    """One table with the points of all."""
    return SweepTable({key: point for table in tables for key, point in table.points.items()})


def sweep(
    run: FigureRun, xs: Sequence[float], lines: Sequence[Line], join: Callable[[float], MeasuredJoin]
) -> SweepTable:
    """Measure every line at every x, on the join for that x; methods that refuse are reported and left out."""
    points: dict[tuple[str, float | str], Point] = {}
    made: dict[float, MeasuredJoin] = {}
    for x, label in run.each([(x, line.label) for x in xs for line in lines]):
        line = next(line for line in lines if line.label == label)
        if x not in made:
            made = {x: join(x)}
        points[label, x] = point = measure(made[x], line.at(x), run.point_s)
        if point.error:
            run.left_out.append(LeftOut(f"{label} at {x:,}", point.error))
        run.say(f"      {label:28} {x:>12,} {point.error or f'{point.us:14,.2f} us'}")
    return SweepTable(points)


def _rate_at(percent: float) -> Value:
    def value(point: Point) -> float:
        rates = sorted(point.rates)
        at = rates[min(int(len(rates) * percent / 100), len(rates) - 1)]
        # The mean weights chunks by their tuples, so that with few chunks it may lie outside their tenths.
        return float(min(at, point.rate) if percent < 50 else max(at, point.rate))

    return value


PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
#: The arrival rate, as a share of the slowest method's rate.
LOAD = 0.5


def waited(service_s: F64, every_s: float) -> F64:
    """Seconds from the arrival of each frame to its end, float64 (n,); one frame arrives every `every_s`.

    Lindley's recursion in closed form: a frame ends at the maximum, over arrivals so far, of arrival plus work since.
    """
    work = np.cumsum(service_s)
    arrivals = np.arange(len(service_s)) * every_s
    begun = np.maximum.accumulate(arrivals - (work - service_s))
    return begun + work - arrivals


def _latencies(table: SweepTable) -> dict[str, F64]:
    points = {label: point for (label, _), point in table.points.items() if len(point.seconds)}
    every = max((float(np.mean(point.seconds)) for point in points.values()), default=0.0) / LOAD
    return {label: waited(point.seconds, every) for label, point in points.items()}


def cdf_panel(title: str, table: SweepTable, frame: int) -> Panel:
    """The cumulative distribution of the latency of frames, in milliseconds; the table has a single x."""
    series = [
        Series(label, [float(v) for v in np.percentile(waits, PERCENTS) * 1e3], [float(p) for p in PERCENTS])
        for label, waits in _latencies(table).items()
    ]
    return Panel(title, f"ms from arrival to result, frames of {frame}", "% of frames", series, log_x=True)


def percentile_ratios(table: SweepTable, above: str, below: str, percent: float) -> list[float]:
    """The latency percentile of `above` divided by that of `below`: one number, or none."""
    found = _latencies(table)
    if not {above, below} <= found.keys():
        return []
    return [float(np.percentile(found[above], percent) / np.percentile(found[below], percent))]
