"""Several methods over several settings: the table from which most figures are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loadgen.papers.joins import MeasuredJoin
from loadgen.papers.measurable import ALL, MethodWork, StoredPart
from loadgen.papers.meter import Point, measure
from loadgen.papers.model import LeftOut, Panel, Series
from loadgen.papers.run import FigureRun

Value = Callable[[Point], float]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a figure: a method, and which part of its work is measured.

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
        """The work at this x."""
        options = self.options(x) if callable(self.options) else self.options
        return MethodWork(self.method, options, self.chunk, self.is_storing, self.is_searching, self.share)


@dataclass(frozen=True, slots=True)
class SweepTable:
    """Points by (label, x), in the order in which they were measured."""

    points: Mapping[tuple[str, float | str], Point]

    def series(self, value: Value, low: Value | None = None, high: Value | None = None) -> list[Series]:
        """One series for each label, with what `value` takes from its points; labels without points are left out."""
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
