"""STA, figures 11 to 31: throughput and latency by rate, workers, window, skew and insertion delay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loadgen.papers import data
from loadgen.papers.claims import Claim, claim
from loadgen.papers.joins import INEQUALITIES
from loadgen.papers.layout_cost import Costs, LayoutCost, LayoutFeed, cost_series, costs, rate_series, same
from loadgen.papers.model import Figure, Panel
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sta.layouts import HOW, LAYOUTS, OTHERS, STA, WHY, Draw, FigureStream, current, voltage, zipf

#: Seconds of a window.
SECONDS, QUICK_SECONDS = 50, 10
AXES = ("tuples/s, windows of 50 s", "workers", "seconds of window")
P99 = "ms a frame, 99th percentile"
#: How many times better STA is than each other layout, for each panel.
Factors = Sequence[Mapping[str, float]]


def _of_others(*factors: float) -> dict[str, float]:
    return dict(zip((other.label for other in OTHERS), factors, strict=True))


TAXI_RATES: Factors = (
    {"split join": 1.6, "chained index": 1.13, "PIM-Tree": 2.6},
    {"split join": 1.5, "chained index": 1.2, "PIM-Tree": 2.4},
    {"split join": 2.5, "chained index": 2.0, "PIM-Tree": 1.6},
)
TAXI_LATENCIES: Factors = (
    _of_others(2.8, 2.3, 5.0, 3.0, 7.0),
    _of_others(1.2, 2.0, 1.7, 3.8, 7.0),
    _of_others(2.5, 3.4, 5.0, 2.0, 7.0),
)
VOLTAGE: Factors = (
    _of_others(4.8, 4.0, 4.2, 3.0, 8.0),
    {"PIM-Tree": 2.0, "chained index": 1.5, "split join": 5.0, "BCHJ": 2.8},
    {"split join": 3.8, "BCHJ": 3.0, "chained index": 2.1, "PIM-Tree": 2.8},
)
CURRENT: Factors = (
    _of_others(3.0, 3.2, 3.5, 2.0, 7.8),
    _of_others(3.1, 2.2, 2.8, 2.5, 6.5),
    _of_others(3.1, 2.2, 2.8, 2.5, 6.5),
)
ZIPF: Factors = (
    {"multi-chained index": 1.5, "chained index": 2.0, "PIM-Tree": 2.1},
    {"multi-chained index": 1.3, "chained index": 2.2, "split join": 2.1},
)


def _swept(run: FigureRun, stream: FigureStream) -> tuple[Costs, Costs, Costs]:
    """By input rate, by workers and by window; rate times seconds gives the window's tuples."""
    rates, workers, seconds = run.pick(((250, 500, 1_000), (2, 4, 8), (10, 25, 50)), ((100, 200), (2, 4), (5, 10)))
    rate, usual = run.pick((500, 4), (100, 2))
    length = run.pick(SECONDS, QUICK_SECONDS)
    run.plan(len(LAYOUTS) * (len(rates) + len(workers) + len(seconds)))
    return (
        costs(run, rates, LAYOUTS, lambda x: stream.feed(int(x) * length), same(usual)),
        costs(run, workers, LAYOUTS, lambda _: stream.feed(rate * length), int),
        costs(run, seconds, LAYOUTS, lambda x: stream.feed(rate * int(x)), same(usual)),
    )


def _panels(found: Sequence[Costs], first: int, y: str, value: Callable[[LayoutCost], float]) -> list[Panel]:
    return [Panel(f"{first + i}", AXES[i], y, cost_series(each, value), log_y=True) for i, each in enumerate(found)]


def _throughput_claims(panels: Sequence[Panel], factors: Factors) -> list[Claim]:
    return [
        claim(f"{panel.title}: STA's throughput is {n} times better than {other}", panel.times("STA", other), n, n, WHY)
        for panel, by_other in zip(panels, factors, strict=True)
        for other, n in by_other.items()
    ]


def _latency_claims(panels: Sequence[Panel], factors: Factors) -> list[Claim]:
    return [
        claim(f"{panel.title}: STA's latency is {n} times better than {other}", panel.times(other, "STA"), n, n, WHY)
        for panel, by_other in zip(panels, factors, strict=True)
        for other, n in by_other.items()
    ]


def figures_11_to_16(run: FigureRun) -> Figure:
    """Taxi: throughput and latency by rate, workers and window."""
    found = _swept(run, FigureStream(INEQUALITIES, data.taxi))
    rates = _panels(found, 11, "tuples/s", lambda each: each.rate)
    waits = _panels(found, 14, P99, lambda each: each.p99_ms)
    claims = [*_throughput_claims(rates, TAXI_RATES), *_latency_claims(waits, TAXI_LATENCIES)]
    how = f"{HOW} Taxi-like distance and fare, two inequalities."
    return Figure("sta-11-16", "STA, figures 11 to 16: taxi data", how, (*rates, *waits), claims, run.left_out)


@dataclass(frozen=True, slots=True)
class _LatencyFigure:
    """Three figures of the latency on one kind of reading; the first has this number."""

    first: int
    what: str
    draw: Draw
    factors: Factors

    def measured(self, run: FigureRun) -> Figure:
        """By rate, workers and window."""
        last = self.first + 2
        waits = _panels(_swept(run, FigureStream("l.a > r.b", self.draw)), self.first, P99, lambda each: each.p99_ms)
        how = f"{HOW} One inequality between two readings of a {self.what}, with few values and many ties."
        title = f"STA, figures {self.first} to {last}: latency, {self.what}"
        claims = _latency_claims(waits, self.factors)
        return Figure(f"sta-{self.first}-{last}", title, how, waits, claims, run.left_out)


def figures_17_to_19(run: FigureRun) -> Figure:
    """Voltage: latency."""
    return _LatencyFigure(17, "voltage", voltage, VOLTAGE).measured(run)


def figures_20_to_22(run: FigureRun) -> Figure:
    """Current: latency."""
    return _LatencyFigure(20, "current", current, CURRENT).measured(run)


def figures_23_to_31(run: FigureRun) -> Figure:
    """Zipf skew and insertion delay."""
    delays, exponents, workers = run.pick((1, 2, 3), (1, 3)), (1.0, 1.5, 2.0), run.pick(4, 2)
    length = run.pick(25, 4)
    run.plan(len(LAYOUTS) * len(delays) * len(exponents))
    panels = [
        Panel(
            f"Z = {exponent}",
            "ms between insertions",
            "tuples/s",
            rate_series(costs(run, delays, LAYOUTS, _by_delay(exponent, length), same(workers))),
            log_y=True,
        )
        for exponent in exponents
    ]
    highest = panels[2]
    claims = _throughput_claims(panels[:2], ZIPF)
    claims += [
        claim(f"{highest.title}: STA is better than {each.label}", highest.times(STA.label, each.label), 1.1, 10.0, WHY)
        for each in OTHERS
    ]
    how = (
        f"{HOW} Figures 23, 26 and 29 are the first panel by delay, and so on. Windows of {length} s: a longer delay "
        "means fewer tuples."
    )
    title = "STA, figures 23 to 31: Zipf skew and insertion delay"
    return Figure("sta-23-31", title, how, panels, claims, run.left_out)


def _by_delay(exponent: float, seconds: int) -> Callable[[float], LayoutFeed]:
    stream = FigureStream(INEQUALITIES, zipf(exponent))
    return lambda delay_ms: stream.feed(1_000 // int(delay_ms) * seconds)


ENTRIES = (
    Entry("sta-11-16", 150, figures_11_to_16),
    Entry("sta-17-19", 100, figures_17_to_19),
    Entry("sta-20-22", 100, figures_20_to_22),
    Entry("sta-23-31", 110, figures_23_to_31),
)
