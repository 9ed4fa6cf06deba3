"""PIM-Tree, figures 12 and 13: threads, the self join, skewed and drifting keys."""

from __future__ import annotations

from collections.abc import Callable

from loadgen.papers import data
from loadgen.papers.claims import Claim, claim, falls, rises
from loadgen.papers.joins import MeasuredJoin
from loadgen.papers.meter import Point
from loadgen.papers.model import Figure, Panel
from loadgen.papers.pim_tree.joins import (
    B_TREE,
    HOW,
    IM,
    PIM,
    QUICK_WINDOW,
    SIZE_WHY,
    TWO_THREADS,
    WINDOW,
    one_stream,
    two_way,
)
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

THREADS = (1, 2)
SPEEDS = (0.0, 1.0, 4.0, 16.0)
SKEWED: dict[str, data.Draw] = {
    "uniform": data.uniform,
    "gaussian": data.gaussian,
    "gamma 3, 3": data.gamma(3.0, 3.0),
    "gamma 1, 5": data.gamma(1.0, 5.0),
}


def figure_12(run: FigureRun) -> Figure:
    """Threads, and the self join."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18), (1 << 10, 1 << 13))
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(2 * len(THREADS) + 4 * len(windows))
    threads = merged(
        _by_threads(run, "two-way", lambda _: two_way(window)),
        _by_threads(run, "self join", lambda _: one_stream(window)),
    ).rates("a: threads", "threads", log_y=False)
    by_window = sweep(run, windows, (B_TREE, IM, PIM, TWO_THREADS), one_stream).rates(
        "c: self join", "tuples of the window", log_x=True
    )
    title = "PIM-Tree, figure 12: threads, self join"
    claims = _thread_claims(threads, by_window)
    return Figure("pim-tree-12", title, HOW, (threads, by_window), claims, run.left_out)


def _by_threads(run: FigureRun, label: str, join: Callable[[float], MeasuredJoin]) -> SweepTable:
    return sweep(run, THREADS, (Line(label, "pim_tree", _threads),), join)


def _threads(count: float) -> dict[str, str]:
    return {"threads": str(int(count)), "depth": "2"}


def _thread_claims(threads: Panel, by_window: Panel) -> tuple[Claim, ...]:
    why = "The two cores do other work as well, and the threads share the probes of a chunk, but not the insertions."
    trees = by_window.times("PIM-Tree", "B+-tree")
    return (
        rises("two threads gain, towards 4.6 times with eight (two-way)", threads.growth("two-way"), why),
        rises("two threads gain, towards 4 times with eight (self join)", threads.growth("self join"), why),
        claim("PIM-Tree has 1.6 times the throughput of a B+-tree", trees, 1.6, 1.8, SIZE_WHY),
    )


def figure_13(run: FigureRun) -> Figure:
    """Skewed and drifting keys."""
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(2 * len(SKEWED) + 2 * len(SPEEDS))
    skewed = _by_distribution(run, window).rates("a: skewed keys", "", log_y=False)
    drifting = sweep(run, SPEEDS, (B_TREE, PIM), lambda speed: two_way(window, draw=data.drifting(speed))).rates(
        "b: drifting keys", "standard deviations that the mean moves in a million tuples", log_y=False
    )
    claims = (
        claim(
            "skewed keys leave PIM-Tree's throughput unchanged",
            _to_uniform(skewed),
            0.8,
            1.2,
            "Equal keys all go to the last of the nodes that hold them.",
        ),
        falls(
            "drifting keys cost PIM-Tree throughput, as one B+-tree takes most inserts",
            drifting.growth("PIM-Tree"),
            "A single thread waits for no lock, so that inserts into one tree cost only its depth.",
        ),
    )
    title = "PIM-Tree, figure 13: skewed and drifting keys"
    return Figure("pim-tree-13", title, HOW, (skewed, drifting), claims, run.left_out)


def _by_distribution(run: FigureRun, window: int) -> SweepTable:
    points: dict[tuple[str, float | str], Point] = {}
    for name, draw in SKEWED.items():
        found = _of_distribution(run, window, draw)
        points |= {(label, name): point for (label, _), point in found.points.items()}
    return SweepTable(points)


def _of_distribution(run: FigureRun, window: int, draw: data.Draw) -> SweepTable:
    return sweep(run, (0,), (B_TREE, PIM), lambda _: two_way(window, draw=draw))


def _to_uniform(skewed: Panel) -> list[float]:
    """PIM-Tree's throughput on every skewed distribution, divided by that on the uniform one."""
    rates = {series.name: series.by_x() for series in skewed.series}.get("PIM-Tree", {})
    if "uniform" not in rates:
        return []
    return [rate / rates["uniform"] for name, rate in rates.items() if name != "uniform"]


ENTRIES = (Entry("pim-tree-12", 35, figure_12), Entry("pim-tree-13", 35, figure_13))
