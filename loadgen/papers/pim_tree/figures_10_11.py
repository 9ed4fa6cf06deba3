"""PIM-Tree, figures 10 and 11: window, match rate, task size; memory, asymmetric rates and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadgen.papers.claims import Claim, checked, claim, falls, rises
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
    WINDOW_LABEL,
    two_way,
)
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

TREES = (B_TREE, IM, PIM)
TASKS = (1, 2, 4, 8, 64)
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
#: A merge ratio of 1, with which the paper measures memory.
WHOLE = Line("PIM-Tree, merge ratio 1", "pim_tree", {"merge_ratio": "1", "depth": "2"})


def figure_10(run: FigureRun) -> Figure:
    """Window, match rate, and the size of a task."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18, 1 << 20), (1 << 10, 1 << 13))
    rates = run.pick((1.0, 8.0, 64.0, 512.0), (1.0, 64.0))
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(4 * len(windows) + 4 * len(rates) + len(TASKS))
    by_window = _by_window(run, windows)
    by_rate = sweep(run, rates, (*TREES, TWO_THREADS), lambda rate: two_way(window, matches=rate)).rates(
        "b: by match rate", "matches a probe", log_x=True
    )
    tasks = _by_task(run, window)
    rate = tasks.rates("c: by task size", "tuples of a task", log_x=True)
    waits = tasks.series(lambda point: point.latency_us(95))
    latency = Panel("d: by task size", "tuples of a task", "us a task, 95th percentile", waits, log_x=True, log_y=True)
    claims = (*_window_claims(by_window), _rate_claim(by_rate), *_task_claims(rate, latency))
    title = "PIM-Tree, figure 10: window, match rate, task size"
    return Figure("pim-tree-10", title, HOW, (by_window, by_rate, rate, latency), claims, run.left_out)


def _by_window(run: FigureRun, windows: Sequence[int]) -> Panel:
    trees = sweep(run, windows, TREES, two_way)
    own = sweep(run, windows, (Line("spo", "spo"),), lambda window: two_way(window, slide=int(window) >> 6))
    return merged(trees, own).rates("a: by window", WINDOW_LABEL, log_x=True)


def _by_task(run: FigureRun, window: int) -> SweepTable:
    return merged(*(sweep(run, (size,), (replace(PIM, chunk=size),), lambda _: two_way(window)) for size in TASKS))


def _window_claims(by_window: Panel) -> tuple[Claim, Claim]:
    im, pim = by_window.times("IM-Tree", "B+-tree"), by_window.times("PIM-Tree", "B+-tree")
    return (
        claim("IM-Tree has 1.5 times the throughput of a B+-tree", im, 1.5, 1.5, SIZE_WHY),
        claim("PIM-Tree has 1.63 times the throughput of a B+-tree", pim, 1.63, 1.63, SIZE_WHY),
    )


def _rate_claim(by_rate: Panel) -> Claim:
    return claim(
        "throughput falls markedly beyond some number of matches a probe",
        by_rate.growth("PIM-Tree"),
        0.1,
        0.7,
        "Matches are counted with vector instructions and not copied, so that a scan costs less than the paper's.",
    )


def _task_claims(rate: Panel, latency: Panel) -> tuple[Claim, Claim]:
    return (
        rises(
            "larger tasks have a higher latency",
            latency.growth("PIM-Tree"),
            "A task has a fixed cost here, a call of compiled code from Python, which its first tuples share.",
        ),
        rises(
            "larger tasks have a higher throughput",
            rate.growth("PIM-Tree"),
            "The paper gains by less scheduling; here fewer calls from Python save more.",
        ),
    )


def figure_11(run: FigureRun) -> Figure:
    """Memory, asymmetric rates and windows."""
    windows = run.pick((1 << 14, 1 << 16, 1 << 18), (1 << 10, 1 << 13))
    run.plan(2 * len(windows) + len(SHARES) + len(windows) ** 2)
    memory = _memory(run, windows)
    rates = sweep(run, SHARES, (PIM,), lambda share: two_way(windows[-1], share=share)).rates(
        "b: asymmetric rates", "share of the faster stream", log_y=False
    )
    sizes = merged(*(_beside(run, windows, other) for other in windows)).rates(
        "c: asymmetric windows", "|R|, tuples", log_x=True, log_y=False
    )
    one_window = sizes.growth(_second(windows[0]))
    claims = (
        *_memory_and_rate_claims(memory, rates),
        falls("throughput falls as one window grows", one_window, SIZE_WHY),
        checked(
            "d: stores are 16 to 22 % of the memory bandwidth", "the memory bus has no readable counter", holds=None
        ),
    )
    title = "PIM-Tree, figure 11: memory, asymmetric rates and windows"
    return Figure("pim-tree-11", title, HOW, (memory, rates, sizes), claims, run.left_out)


def _memory(run: FigureRun, windows: Sequence[int]) -> Panel:
    held = sweep(run, windows, [replace(line, is_searching=False) for line in (B_TREE, WHOLE)], two_way)
    megabytes = held.series(lambda point: point.nbytes / 1e6)
    return Panel("a: memory", WINDOW_LABEL, "MB", megabytes, log_x=True, log_y=True)


def _second(window: int) -> str:
    return f"|S| = {window:,}"


def _beside(run: FigureRun, windows: Sequence[int], other: int) -> SweepTable:
    return sweep(run, windows, (replace(PIM, label=_second(other)),), lambda window: two_way(window, other))


def _memory_and_rate_claims(memory: Panel, rates: Panel) -> tuple[Claim, Claim]:
    return (
        claim(
            "PIM-Tree takes about twice a B+-tree's memory",
            memory.times(WHOLE.label, "B+-tree"),
            2,
            2,
            "B+-trees allocate all their nodes at once here and grow by doubling; PIM-Tree's immutable part takes "
            "exactly what it needs.",
        ),
        claim(
            "throughput rises marginally with the skew of rates",
            rates.growth("PIM-Tree"),
            1.0,
            1.2,
            "Insertion and search differ in cost, and the rates change the proportion of the two.",
        ),
    )


ENTRIES = (Entry("pim-tree-10", 55, figure_10), Entry("pim-tree-11", 40, figure_11))
