"""PPOIJ, figures 16 to 18: latency, and HP beside other systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadgen.papers.claims import Claim, checked, claim, rises
from loadgen.papers.layout_cost import LayoutCost, cost, costs
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.ppoij.joins import (
    BATCH,
    HOW,
    HP,
    PATTERNS,
    SKEW,
    UNIFORM,
    WHY,
    WORKERS,
    IntervalFeed,
    intervals,
    rates,
)
from loadgen.papers.run import Entry, FigureRun

PERCENTS = (50, 99, 100)
#: The paper's batch of 1 is a frame of this many tuples here.
SMALL = 4


def _cdf(title: str, found: Sequence[tuple[str, LayoutCost]]) -> Panel:
    series = [Series(name, [each.p50_ms, each.p99_ms, each.max_ms], PERCENTS) for name, each in found if each.tuples]
    return Panel(title, "ms a frame, of the slowest worker", "% of frames", series, log_x=True)


def _medians(panel: Panel, above: str, below: str) -> list[float]:
    found = {series.name: series.x[0] for series in panel.series}
    one, other = found.get(above), found.get(below)
    return [float(one) / float(other)] if one and other else []


def figure_16(run: FigureRun) -> Figure:
    """Latency."""
    run.plan(2 * len(PATTERNS))
    seconds = intervals(run)[0]
    uniform, skewed = (
        _latency(run, title, IntervalFeed(50, skew, seconds))
        for title, skew in (("uniform keys", UNIFORM), ("skewed keys", SKEW))
    )
    why = (
        "The paper's latencies include queues, of tuples before replicas and of results that wait for their order; "
        "here they are a frame's processing alone."
    )
    claims = (
        claim("uniform keys: DP's latency is 13.6 times HP's", _medians(uniform, "DP", "HP"), 13.6, 13.6, why),
        claim("uniform keys: HP's latency is that of KP", _medians(uniform, "HP", "KP"), 0.9, 1.1, why),
        claim("skewed keys: KP's latency is 2.9 times DP's", _medians(skewed, "KP", "DP"), 2.9, 2.9, why),
        claim("skewed keys: HP's latency is 3.3 times DP's", _medians(skewed, "HP", "DP"), 3.3, 3.3, why),
    )
    how = f"{HOW}{WORKERS} workers, 50 keys, I = {seconds} s, frames of {BATCH} tuples in an idle system."
    return Figure("ppoij-16", "PPOIJ, figure 16: latency", how, (uniform, skewed), claims, run.left_out)


def _latency(run: FigureRun, title: str, interval: IntervalFeed) -> Panel:
    found = [(each.label, cost(each, interval.feed(), WORKERS, run.point_s)) for each in run.each(PATTERNS)]
    return _cdf(title, found)


def _label(batch: int) -> str:
    return f"HP, frames of {batch}"


def figures_17_and_18(run: FigureRun) -> Figure:
    """HP with small and with larger frames; the paper's other systems aren't measured."""
    workers, seconds = run.pick((1, 2, 4, 8), (1, 2)), run.pick(10, 4)
    run.plan(4 * len(workers) + 2)
    panels = [_by_workers(run, workers, IntervalFeed(keys, UNIFORM, seconds)) for keys in (100, 1_000)]
    waits = [
        (_label(batch), cost(HP, IntervalFeed(100, UNIFORM, seconds, batch).feed(), WORKERS, run.point_s))
        for batch in run.each((SMALL, BATCH))
    ]
    latency = _cdf("18: latency, 100 keys", waits)
    slowest_ms = max((each.max_ms for _, each in waits), default=0.0)
    how = (
        f"{HOW}Uniform keys, I = {seconds} s. A frame of {SMALL} stands for the paper's batch of 1: a frame is the "
        "smallest unit that moves."
    )
    title = "PPOIJ, figures 17 and 18: beside other systems"
    claims = _batching_claims(panels[0], latency, slowest_ms)
    return Figure("ppoij-17-18", title, how, (*panels, latency), claims, run.left_out)


def _by_workers(run: FigureRun, workers: Sequence[int], interval: IntervalFeed) -> Panel:
    found: dict[tuple[str, float], LayoutCost] = {}
    for batch in (SMALL, BATCH):
        layouts = (replace(HP, label=_label(batch)),)
        found |= costs(run, workers, layouts, interval._replace(batch=batch).always(), int)
    return rates(found, f"17: {interval.keys:,} keys", "workers")


def _batching_claims(throughput: Panel, latency: Panel, slowest_ms: float) -> tuple[Claim, ...]:
    one, other = _label(BATCH), _label(SMALL)
    return (
        checked("HP outperforms Scale-OIJ from 4 replicas on, and Flink", "neither is measured here", holds=None),
        rises("batching makes HP faster", throughput.times(one, other), WHY),
        rises(
            "batching makes latencies slightly higher",
            _medians(latency, one, other),
            "The paper's batch waits until it is full.",
        ),
        checked("latency is below 27 ms", f"{slowest_ms:.3g} ms", WHY, holds=slowest_ms < 27),
    )


ENTRIES = (Entry("ppoij-16", 20, figure_16), Entry("ppoij-17-18", 40, figures_17_and_18))
