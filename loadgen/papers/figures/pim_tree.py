"""PIM-Tree (Shahvarani, Jacobsen, SIGMOD 2020), section 5: figures 8 to 13.

The band is `|l.a - r.a| <= d` over whole numbers, with d such that a probe finds two tuples, on windows that move tuple
by tuple. The paper used eight cores with sixteen threads and windows of millions of tuples; here it is two cores and
smaller windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from loadgen.papers import data
from loadgen.papers.figure import NOTHING, Claim, Entry, Figure, FigureRun, Panel, Series, checked, claim, falls, rises
from loadgen.papers.joins import MORE, MeasuredJoin, cross_join, self_join
from loadgen.papers.measurable import Point, StoredPart
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

MATCHES = 2.0
WINDOW, QUICK_WINDOW = 1 << 18, 1 << 13
WINDOW_LABEL = "tuples of each window"
HOW = (
    "Two streams, one band, two matches per probe, windows that move tuple by tuple, and one thread unless stated. "
    "The product's own method takes slides of a 64th of the window, and its time includes order, batches and results."
)
SIZE_WHY = (
    "Keys are 8 bytes with a column of codes beside them, in nodes that are numba arrays; the paper's are 4 bytes in "
    "C++."
)
B_TREE = Line("B+-tree", "bplus_bits")
IM, PIM = Line("IM-Tree", "im_tree"), Line("PIM-Tree", "pim_tree", {"depth": "2"})
TWO_THREADS = Line("PIM-Tree, two threads", "pim_tree", {"threads": "2", "depth": "2"})


def two_way(
    window: float,
    other: int = 0,
    share: float = 0.5,
    draw: data.Draw = data.uniform,
    matches: float = MATCHES,
    slide: int = 1,
) -> MeasuredJoin:
    """A band join of two streams; `share` of all tuples belong to the first, `other` is the second's window."""
    sizes = (int(window), other or int(window))
    shares = (share, 1 - share)
    turns = max(size / part for size, part in zip(sizes, shares, strict=True))
    first, second = (int(turns * part) + MORE for part in shares)
    columns = ((draw(first, 1), np.zeros(first)), (draw(second, 2), np.zeros(second)))
    width = data.band_width(draw, max(sizes), matches)
    return cross_join(_condition(width), columns, sizes, (slide, slide), share)


def one_stream(window: float) -> MeasuredJoin:
    """A band join of one stream with itself."""
    size = int(window)
    rows = size + MORE
    width = data.band_width(data.uniform, size, MATCHES)
    return self_join(_condition(width), data.uniform(rows, 1), np.zeros(rows), size, 1)


def _condition(width: float) -> str:
    return f"ABS(l.a - r.a) <= {width:.0f}"


#: Simulated threads of a round-robin partition.
THREADS = 8
_SHARE = StoredPart(0, THREADS)
LOOP, LOOP_SHARED = (
    Line("nested loop", "scan"),
    Line(f"nested loop, {THREADS} threads, simulated", "scan", share=_SHARE),
)
TREE_SHARED = Line(f"B+-tree, {THREADS} threads, simulated", "bplus_bits", share=_SHARE)
CHAINS = ("chain_b", "chain_ib")
DEPTHS, DEPTH_THREADS = (1, 2, 3, 4), (1, 2)
_ROUND_ROBIN_WHY = (
    "This is a worker's CPU time, of all probes against its eighth of the window: eight cores that do nothing else."
)


def figure_8(run: FigureRun) -> Figure:
    """Round-robin partitions, chained indexes, insertion depth."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18), (1 << 10, 1 << 13))
    lengths = run.pick((2, 4, 8, 16, 32), (2, 8))
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(4 * len(windows) + 2 * len(lengths) + 2 * len(DEPTHS))
    existing = sweep(run, windows, (LOOP, LOOP_SHARED, B_TREE, TREE_SHARED), two_way).rates(
        "a: round-robin partitions", WINDOW_LABEL, log_x=True
    )
    chains = [Line(name, name, lambda members: {"length": str(int(members))}) for name in CHAINS]
    chained = sweep(run, lengths, chains, lambda _: two_way(window)).rates(
        "b: chained indexes", "members of a chain", log_y=False
    )
    depth = sweep(run, DEPTHS, [_by_depth(threads) for threads in DEPTH_THREADS], lambda _: two_way(window)).rates(
        "c, d: PIM-Tree", "insertion depth", log_y=False
    )
    how = (
        f"{HOW} Round-robin threads are simulated: the time of one that stores an eighth of the tuples and "
        "searches for all. There is no Bw-tree."
    )
    title = "PIM-Tree, figure 8: round robin, chain length, insertion depth"
    claims = (*_partition_claims(existing), *_chain_claims(chained), _depth_claim(depth))
    return Figure("pim-tree-08", title, how, (existing, chained, depth), claims, run.left_out)


def _by_depth(threads: int) -> Line:
    def options(depth: float) -> dict[str, str]:
        return {"depth": str(int(depth)), "threads": str(threads)}

    return Line(f"{threads} thread{'s' if threads > 1 else ''}", "pim_tree", options)


def _partition_claims(existing: Panel) -> tuple[Claim, Claim]:
    loops = existing.times(LOOP_SHARED.label, LOOP.label)
    trees = existing.times(TREE_SHARED.label, B_TREE.label)
    return (
        claim("eight round-robin threads are 8 times as fast with nested loops", loops, 8, 8, _ROUND_ROBIN_WHY),
        claim("eight round-robin threads are 2.5 times as fast with B+-trees", trees, 2.5, 2.5, _ROUND_ROBIN_WHY),
    )


def _chain_claims(chained: Panel) -> tuple[Claim, Claim]:
    faster = claim(
        "immutable chains have 1.5 times the throughput of B+-tree chains",
        chained.times("chain_ib", "chain_b"),
        1.5,
        1.5,
        "Members answer the probes of a chunk in sorted order here, which follows fewer cold pointers than the "
        "paper's one probe at a time.",
    )
    paper = "a chain of two is the best"
    best = chained.best_x("chain_ib")
    if best is None:
        return faster, checked(paper, NOTHING, holds=None)
    why = (
        "What a member costs beyond the search itself depends on how probes are batched; one additional member holds "
        "tuples of which some have expired."
    )
    here = f"the best is {best}" if isinstance(best, str) else f"the best is {best:g}"
    return faster, checked(paper, here, why, holds=best == 2)


def _depth_claim(depth: Panel) -> Claim:
    return falls(
        "with one thread the highest depth costs throughput",
        depth.growth("1 thread"),
        "The best depth differs with window, fan-out and cache; small trees insert faster as long as finding the "
        "right one is cheap.",
    )


@dataclass(frozen=True, slots=True)
class _RatioPanel:
    """A panel by merge ratio. options: the method's, beside the ratio."""

    title: str
    method: str
    options: Mapping[str, str] = field(default_factory=dict)

    def at(self, ratio: float) -> Mapping[str, str]:
        """The options at this merge ratio."""
        return {"merge_ratio": str(ratio), **self.options}

    def measured(self, run: FigureRun, ratios: Sequence[float], windows: Sequence[int]) -> Panel:
        """A curve for each window."""
        tables = [self._by_ratio(run, ratios, window) for window in windows]
        return merged(*tables).rates(self.title, "merge ratio", log_x=True, log_y=False)

    def _by_ratio(self, run: FigureRun, ratios: Sequence[float], window: int) -> SweepTable:
        line = Line(_tuples(window), self.method, self.at)
        return sweep(run, ratios, (line,), lambda _: two_way(window))


RATIO_PANELS = (
    _RatioPanel("a: PIM-Tree, two threads", "pim_tree", {"threads": "2"}),
    _RatioPanel("c: IM-Tree", "im_tree"),
    _RatioPanel("d: PIM-Tree", "pim_tree"),
)


def figure_9(run: FigureRun) -> Figure:
    """Merge ratio, and the cost of each step."""
    ratios = run.pick((1 / 64, 1 / 16, 1 / 4, 1.0), (1 / 16, 1.0))
    windows = run.pick((1 << 14, 1 << 18), (1 << 11, 1 << 13))
    run.plan(3 * 2 * len(ratios) + 9 * len(windows) // 2)
    panels = [each.measured(run, ratios, windows) for each in RATIO_PANELS]
    steps = _steps(run, windows[-1])
    how = (
        f"{HOW} Panel b: a window of {windows[-1]:,}; insertion alone, search alone in a full window, "
        "merges while inserting."
    )
    claims = (_ratio_claim(panels[0], _tuples(windows[-1])), *_step_claims(steps))
    title = "PIM-Tree, figure 9: merge ratio, cost of each step"
    return Figure("pim-tree-09", title, how, (*panels, steps), claims, run.left_out)


def _tuples(window: int) -> str:
    return f"{window:,} tuples"


def _ratio_claim(panel: Panel, label: str) -> Claim:
    paper = "with several threads the highest merge ratio is the best"
    best = panel.best_x(label)
    if best is None:
        return checked(paper, NOTHING, holds=None)
    why = (
        "Two threads share the probes of a chunk, and neither waits for locks, so that rare merges save less here than "
        "in the paper."
    )
    highest = max(x for x in panel.named(label).x if not isinstance(x, str))
    return checked(paper, f"{best} is, with {label}", why, holds=best == highest)


def _steps(run: FigureRun, window: int) -> Panel:
    trees = (B_TREE, IM, PIM)
    inserting = sweep(run, (window,), [replace(tree, is_searching=False) for tree in trees], two_way)
    searching = sweep(run, (window,), [replace(tree, is_storing=False) for tree in trees], two_way)
    series = [
        _step_series(tree.label, inserting.points.get((tree.label, window)), searching.points.get((tree.label, window)))
        for tree in trees
    ]
    return Panel("b: steps", "", "us a tuple", series)


def _step_series(label: str, stored: Point | None, searched: Point | None) -> Series:
    if stored is None or searched is None:
        return Series(label, (), ())
    merges = 1e6 * stored.counters.get("merge_seconds", 0.0) / max(stored.tuples, 1)
    return Series(label, ("insert", "search", "merge"), (max(stored.us - merges, 0.0), searched.us, merges))


def _step_claims(steps: Panel) -> tuple[Claim, Claim]:
    return (
        claim(
            "PIM-Tree and IM-Tree insert 2.6 times as fast as a B+-tree on large windows",
            steps.times_at("insert", "B+-tree", "PIM-Tree"),
            2.6,
            2.6,
            SIZE_WHY,
        ),
        claim(
            "on large windows, searching costs the same in PIM-Tree and B+-tree",
            steps.times_at("search", "PIM-Tree", "B+-tree"),
            0.9,
            1.1,
            "The paper scans from the lowest match; here a search returns counts, and verifies ranges inside nodes "
            "with vector instructions.",
        ),
    )


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
    tasks = merged(*(sweep(run, (size,), (replace(PIM, chunk=size),), lambda _: two_way(window)) for size in TASKS))
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


THREAD_COUNTS = (1, 2)
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
    run.plan(2 * len(THREAD_COUNTS) + 4 * len(windows))
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
    return sweep(
        run, THREAD_COUNTS, (Line(label, "pim_tree", lambda count: {"threads": str(int(count)), "depth": "2"}),), join
    )


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


def _of_distribution(run: FigureRun, window: int, draw: data.Draw) -> SweepTable:
    return sweep(run, (0,), (B_TREE, PIM), lambda _: two_way(window, draw=draw))


def _by_distribution(run: FigureRun, window: int) -> SweepTable:
    points: dict[tuple[str, float | str], Point] = {}
    for name, draw in SKEWED.items():
        found = _of_distribution(run, window, draw)
        points |= {(label, name): point for (label, _), point in found.points.items()}
    return SweepTable(points)


def _to_uniform(skewed: Panel) -> list[float]:
    """PIM-Tree's throughput on every skewed distribution, divided by that on the uniform one."""
    rates = {series.name: series.by_x() for series in skewed.series}.get("PIM-Tree", {})
    if "uniform" not in rates:
        return []
    return [rate / rates["uniform"] for name, rate in rates.items() if name != "uniform"]


ENTRIES = (
    Entry("pim-tree-08", 50, figure_8),
    Entry("pim-tree-09", 50, figure_9),
    Entry("pim-tree-10", 55, figure_10),
    Entry("pim-tree-11", 40, figure_11),
    Entry("pim-tree-12", 35, figure_12),
    Entry("pim-tree-13", 35, figure_13),
)
