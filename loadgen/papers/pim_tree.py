"""PIM-Tree (Shahvarani, Jacobsen, SIGMOD 2020), section 5: figures 8 to 13.

One band over whole numbers, `|l.a - r.a| <= d`, with d such that a probe finds two tuples, on windows that move tuple
by tuple. The paper ran eight cores with sixteen threads and windows of millions; here it is two cores, and less.
"""

from __future__ import annotations

import numpy as np

from loadgen.papers import data
from loadgen.papers.joins import MORE, MeasuredJoin, cross_join, self_join
from loadgen.papers.meter import Point, StoredPart
from loadgen.papers.model import Claim, Entry, Figure, Panel, Series, claim, falls, rises, tells
from loadgen.papers.run import FigureRun
from loadgen.papers.sweep import Line, SweepTable, sweep

MATCHES = 2.0
#: Simulated threads of a round-robin partition.
THREADS = 8
WINDOW, QUICK_WINDOW = 1 << 18, 1 << 13
WINDOW_LABEL = "tuples of each window"
HOW = (
    "Two streams, one band, two matches a probe, windows that move tuple by tuple, one thread where "
    "nothing else is said. "
    "The product's own takes slides of a 64th of the window, and reports, orders and batches as well."
)
SIZE_WHY = (
    "Keys are 8 bytes with a column of codes beside them, in nodes of numba arrays; the paper's are 4 bytes in C++."
)


def _condition(width: float) -> str:
    return f"ABS(l.a - r.a) <= {width:.0f}"


def _two_way(
    window: int,
    other: int = 0,
    share: float = 0.5,
    draw: data.Draw = data.uniform,
    matches: float = MATCHES,
    slide: int = 1,
) -> MeasuredJoin:
    """A band join of two streams; `share` of all tuples come from the first."""
    sizes = (window, other or window)
    rows = [
        int(max(s / p for s, p in zip(sizes, (share, 1 - share), strict=True)) * p) + MORE for p in (share, 1 - share)
    ]
    columns = tuple((draw(n, 1 + i), np.zeros(n)) for i, n in enumerate(rows))
    width = data.band_width(draw, max(sizes), matches)
    return cross_join(_condition(width), columns, sizes, (slide, slide), share)  # type: ignore[arg-type]


def _self(window: int) -> MeasuredJoin:
    rows = window + MORE
    width = data.band_width(data.uniform, window, MATCHES)
    return self_join(_condition(width), data.uniform(rows, 1), np.zeros(rows), window, 1)


B_TREE = Line("B+-tree", "bplus_bits")
IM, PIM = Line("IM-Tree", "im_tree"), Line("PIM-Tree", "pim_tree", {"depth": "2"})


def figure_8(run: FigureRun) -> Figure:
    """Round-robin partitions, chained indexes, insertion depth."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18), (1 << 10, 1 << 13))
    lengths, depths = run.pick((2, 4, 8, 16, 32), (2, 8)), (1, 2, 3, 4)
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(4 * len(windows) + 2 * len(lengths) + 2 * len(depths))
    share = StoredPart(0, THREADS)
    split = (
        Line("nested loop", "scan"),
        Line(f"nested loop, {THREADS} threads, simulated", "scan", share=share),
        B_TREE,
        Line(f"B+-tree, {THREADS} threads, simulated", "bplus_bits", share=share),
    )
    existing = sweep(run, windows, split, lambda w: _two_way(int(w))).rates(
        "a: round-robin partitions", WINDOW_LABEL, log_x=True
    )
    chains = [Line(name, name, lambda n: {"length": str(int(n))}) for name in ("chain_b", "chain_ib")]
    chained = sweep(run, lengths, chains, lambda _: _two_way(window)).rates(
        "b: chained indexes", "members of a chain", log_y=False
    )
    deep = [
        Line(
            f"{threads} thread{'s' if threads > 1 else ''}",
            "pim_tree",
            lambda d, t=threads: {"depth": str(int(d)), "threads": str(t)},
        )
        for threads in (1, 2)
    ]
    depth = sweep(run, depths, deep, lambda _: _two_way(window)).rates("c, d: PIM-Tree", "insertion depth", log_y=False)
    round_robin = (
        "A worker's CPU time, of all probes against its eighth of the window: eight cores that do nothing else."
    )
    claims = (
        claim(
            "eight threads by round robin are 8 times as fast with nested loops",
            existing.times(split[1].label, split[0].label),
            8,
            8,
            round_robin,
        ),
        claim(
            "eight threads by round robin are 2.5 times as fast with B+-trees",
            existing.times(split[3].label, split[2].label),
            2.5,
            2.5,
            round_robin,
        ),
        claim(
            "immutable chains have 1.5 times the throughput of B+-tree chains",
            chained.times("chain_ib", "chain_b"),
            1.5,
            1.5,
            "Members here answer probes of a chunk in sorted order, which is kinder to pointers than the "
            "paper's one by one.",
        ),
        _best("chain_ib", chained, 2, "a chain of two is the best"),
        falls(
            "with one thread the highest depth costs throughput",
            depth.growth("1 thread"),
            "The deepest level differs by window, fan-out and cache; small trees insert faster as long as "
            "finding them is cheap.",
        ),
    )
    how = (
        f"{HOW} Threads by round robin are simulated: the time of one that stores an eighth of the tuples and "
        "searches for all; no Bw-tree."
    )
    return Figure(
        "pim-tree-08",
        "PIM-Tree, figure 8: round robin, chain length, insertion depth",
        how,
        (existing, chained, depth),
        claims,
        run.left_out,
    )


def _best(label: str, panel: Panel, expected: float, paper: str) -> Claim:
    found = [series for series in panel.series if series.name == label]
    if not found:
        return tells(paper, "nothing to compare", holds=None)
    best = max(zip(found[0].y, found[0].x, strict=True))[1]
    return tells(
        paper,
        f"the best is {best:g}" if isinstance(best, float | int) else best,
        "What a member costs beside the probe's own search depends on how probes are batched; one member more holds "
        "what is half expired.",
        holds=best == expected,
    )


def figure_9(run: FigureRun) -> Figure:
    """Merge ratio, and what each step costs."""
    ratios = run.pick((1 / 64, 1 / 16, 1 / 4, 1.0), (1 / 16, 1.0))
    windows = run.pick((1 << 14, 1 << 18), (1 << 11, 1 << 13))
    run.plan(3 * 2 * len(ratios) + 9 * len(windows) // 2)
    panels: list[Panel] = []
    for title, method, more in (
        ("a: PIM-Tree, two threads", "pim_tree", {"threads": "2"}),
        ("c: IM-Tree", "im_tree", {}),
        ("d: PIM-Tree", "pim_tree", {}),
    ):
        line = Line("", method, lambda ratio, more=more: {"merge_ratio": str(ratio), **more})
        tables = [
            sweep(run, ratios, [Line(f"{w:,} tuples", line.method, line.options)], lambda _, w=w: _two_way(w))
            for w in windows
        ]
        merged = SweepTable({key: point for table in tables for key, point in table.points.items()})
        panels.append(merged.rates(title, "merge ratio", log_x=True, log_y=False))
    steps = _steps(run, windows[-1])
    claims = (
        _ratio_best(panels[0], f"{windows[-1]:,} tuples"),
        claim(
            "PIM-Tree and IM-Tree insert 2.6 times as fast as a B+-tree on large windows",
            _bar(steps, "insert", "B+-tree", "PIM-Tree"),
            2.6,
            2.6,
            SIZE_WHY,
        ),
        claim(
            "on large windows, searching costs the same in PIM-Tree and B+-tree",
            _bar(steps, "search", "PIM-Tree", "B+-tree"),
            0.9,
            1.1,
            "The paper scans from the lowest match; here a search returns counts, and verifies ranges inside nodes "
            "by vector instructions.",
        ),
    )
    how = (
        f"{HOW} Panel b: a window of {windows[-1]:,}; insertion alone, search alone in a full window, "
        "merges while inserting."
    )
    return Figure(
        "pim-tree-09", "PIM-Tree, figure 9: merge ratio, cost of each step", how, (*panels, steps), claims, run.left_out
    )


def _ratio_best(panel: Panel, label: str) -> Claim:
    found = [series for series in panel.series if series.name == label]
    paper = "with several threads the highest merge ratio is the best"
    if not found:
        return tells(paper, "nothing to compare", holds=None)
    best = max(zip(found[0].y, found[0].x, strict=True))[1]
    why = (
        "Two threads share out the probes of a chunk, and none waits for locks: what the paper saves by rare "
        "merges is less here."
    )
    return tells(paper, f"{best} is, with {label}", why, holds=best == max(found[0].x))


def _steps(run: FigureRun, window: int) -> Panel:
    lines = [Line(line.label, line.method, line.options) for line in (B_TREE, IM, PIM)]
    inserting = sweep(
        run,
        (window,),
        [Line(x.label, x.method, x.options, is_searching=False) for x in lines],
        lambda w: _two_way(int(w)),
    )
    searching = sweep(
        run,
        (window,),
        [Line(x.label, x.method, x.options, is_storing=False) for x in lines],
        lambda w: _two_way(int(w)),
    )

    def steps(label: str) -> Series:
        stored, searched = inserting.points.get((label, window)), searching.points.get((label, window))
        if stored is None or searched is None:
            return Series(label, (), ())
        merges = 1e6 * stored.counters.get("merge_seconds", 0.0) / max(stored.tuples, 1)
        return Series(label, ("insert", "search", "merge"), (max(stored.us - merges, 0.0), searched.us, merges))

    return Panel("b: steps", "", "us a tuple", [steps(line.label) for line in lines])


def _bar(panel: Panel, step: str, above: str, below: str) -> list[float]:
    values = [dict(zip(panel.named(name).x, panel.named(name).y, strict=True)).get(step) for name in (above, below)]
    return [values[0] / values[1]] if values[0] and values[1] else []


def figure_10(run: FigureRun) -> Figure:
    """Window, match rate, and the size of a task."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18, 1 << 20), (1 << 10, 1 << 13))
    rates = run.pick((1.0, 8.0, 64.0, 512.0), (1.0, 64.0))
    tasks = (1, 2, 4, 8, 64)
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(4 * len(windows) + 4 * len(rates) + len(tasks))
    lines = (B_TREE, IM, PIM)
    by_window = sweep(run, windows, (*lines,), lambda w: _two_way(int(w)))
    by_window = by_window.merged(
        sweep(run, windows, [Line("spo", "spo")], lambda w: _two_way(int(w), slide=int(w) >> 6))
    )
    left = by_window.rates("a: by window", WINDOW_LABEL, log_x=True)
    two = Line("PIM-Tree, two threads", "pim_tree", {"threads": "2", "depth": "2"})
    by_rate = sweep(run, rates, (*lines, two), lambda m: _two_way(window, matches=m)).rates(
        "b: by match rate", "matches a probe", log_x=True
    )
    small = [Line("PIM-Tree", "pim_tree", {"depth": "2"})]
    points: dict[tuple[str, float | str], Point] = {}
    for size in tasks:
        found = sweep(
            run,
            (size,),
            [Line(line.label, line.method, line.options, size) for line in small],
            lambda _: _two_way(window),
        )
        points |= found.points
    task = SweepTable(points)
    c = task.rates("c: by task size", "tuples of a task", log_x=True)
    d = Panel(
        "d: by task size",
        "tuples of a task",
        "us a task, 95th percentile",
        task.series(lambda p: p.latency_us(95)),
        log_x=True,
        log_y=True,
    )
    claims = (
        claim(
            "IM-Tree has 1.5 times the throughput of a B+-tree", left.times("IM-Tree", "B+-tree"), 1.5, 1.5, SIZE_WHY
        ),
        claim(
            "PIM-Tree has 1.63 times the throughput of a B+-tree",
            left.times("PIM-Tree", "B+-tree"),
            1.63,
            1.63,
            SIZE_WHY,
        ),
        claim(
            "throughput falls markedly beyond some matches a probe",
            by_rate.growth("PIM-Tree"),
            0.1,
            0.7,
            "Matches are counted and not copied, by vector instructions, so that scanning costs less than the paper's.",
        ),
        rises(
            "larger tasks have a higher latency",
            d.growth("PIM-Tree"),
            "A task here has a fixed cost, that of calling a compiled loop from Python, which the first tuples share.",
        ),
        rises(
            "larger tasks have a higher throughput",
            c.growth("PIM-Tree"),
            "The paper's gain is less scheduling; here it is fewer calls from Python, which cost more.",
        ),
    )
    return Figure(
        "pim-tree-10",
        "PIM-Tree, figure 10: window, match rate, task size",
        HOW,
        (left, by_rate, c, d),
        claims,
        run.left_out,
    )


def figure_11(run: FigureRun) -> Figure:
    """Memory, asymmetric rates and windows."""
    windows = run.pick((1 << 14, 1 << 16, 1 << 18), (1 << 10, 1 << 13))
    shares = (0.5, 0.6, 0.7, 0.8, 0.9)
    run.plan(2 * len(windows) + len(shares) + len(windows) ** 2)
    whole = (B_TREE, Line("PIM-Tree, merge ratio 1", "pim_tree", {"merge_ratio": "1", "depth": "2"}))
    held = sweep(
        run,
        windows,
        [Line(line.label, line.method, line.options, is_searching=False) for line in whole],
        lambda w: _two_way(int(w)),
    )
    a = Panel("a: memory", WINDOW_LABEL, "MB", held.series(lambda p: p.nbytes / 1e6), log_x=True, log_y=True)
    window = windows[-1]
    b = sweep(run, shares, [PIM], lambda s: _two_way(window, share=s)).rates(
        "b: asymmetric rates", "share of the faster stream", log_y=False
    )
    tables = [
        sweep(
            run,
            windows,
            [Line(f"|S| = {other:,}", "pim_tree", {"depth": "2"})],
            lambda w, other=other: _two_way(int(w), other),
        )
        for other in windows
    ]
    c = SweepTable({k: p for table in tables for k, p in table.points.items()}).rates(
        "c: asymmetric windows", "|R|, tuples", log_x=True, log_y=False
    )
    both = c.growth(f"|S| = {windows[0]:,}")
    claims = (
        claim(
            "PIM-Tree takes about twice a B+-tree's memory",
            a.times(whole[1].label, "B+-tree"),
            2,
            2,
            "B+-trees here own room for all nodes at once and grow by doubling; what PIM-Tree's immutable "
            "part takes is exact.",
        ),
        claim(
            "throughput rises marginally with the skew of rates",
            b.growth("PIM-Tree"),
            1.0,
            1.2,
            "Insertion and search differ in cost, and the mix of both moves with the rates.",
        ),
        falls("throughput falls as one window grows", both, SIZE_WHY),
        tells(
            "d: stores are 16 to 22 % of the memory bandwidth",
            "no counter of the memory bus is readable here",
            holds=None,
        ),
    )
    return Figure(
        "pim-tree-11", "PIM-Tree, figure 11: memory, asymmetric rates and windows", HOW, (a, b, c), claims, run.left_out
    )


def figure_12(run: FigureRun) -> Figure:
    """Threads, and the self join."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18), (1 << 10, 1 << 13))
    window = run.pick(WINDOW, QUICK_WINDOW)
    threads = (1, 2)
    run.plan(2 * len(threads) + 4 * len(windows))
    by_thread = [Line("two-way", "pim_tree", lambda t: {"threads": str(int(t)), "depth": "2"})]
    a = sweep(run, threads, by_thread, lambda _: _two_way(window))
    one = [Line("self join", "pim_tree", lambda t: {"threads": str(int(t)), "depth": "2"})]
    left = a.merged(sweep(run, threads, one, lambda _: _self(window))).rates("a: threads", "threads", log_y=False)
    two = Line("PIM-Tree, two threads", "pim_tree", {"threads": "2", "depth": "2"})
    right = sweep(run, windows, (B_TREE, IM, PIM, two), lambda w: _self(int(w))).rates(
        "c: self join", "tuples of the window", log_x=True
    )
    few = (
        "Two threads on two cores that do other work as well; insertion is not shared out, and only the "
        "probes of a chunk are."
    )
    claims = (
        rises("two threads gain, on the way to 4.6 times with eight (two-way)", left.growth("two-way"), few),
        rises("two threads gain, on the way to 4 times with eight (self join)", left.growth("self join"), few),
        claim(
            "PIM-Tree has 1.6 times the throughput of a B+-tree", right.times("PIM-Tree", "B+-tree"), 1.6, 1.8, SIZE_WHY
        ),
    )
    return Figure("pim-tree-12", "PIM-Tree, figure 12: threads, self join", HOW, (left, right), claims, run.left_out)


SKEWED: dict[str, data.Draw] = {
    "uniform": data.uniform,
    "gaussian": data.gaussian,
    "gamma 3, 3": data.gamma(3.0, 3.0),
    "gamma 1, 5": data.gamma(1.0, 5.0),
}


def figure_13(run: FigureRun) -> Figure:
    """Skewed and drifting keys; and every implementation by window."""
    window = run.pick(WINDOW, QUICK_WINDOW)
    speeds = (0.0, 1.0, 4.0, 16.0)
    run.plan(2 * len(SKEWED) + 2 * len(speeds))
    points: dict[tuple[str, float | str], Point] = {}
    for name, draw in SKEWED.items():
        found = sweep(run, (0,), (B_TREE, PIM), lambda _, draw=draw: _two_way(window, draw=draw))
        points |= {(label, name): point for (label, _), point in found.points.items()}
    a = SweepTable(points).rates("a: skewed keys", "", log_y=False)
    b = sweep(run, speeds, (B_TREE, PIM), lambda s: _two_way(window, draw=data.drifting(s))).rates(
        "b: drifting keys", "deviations that the mean moves in a million tuples", log_y=False
    )
    uniform = dict(zip(a.named("PIM-Tree").x, a.named("PIM-Tree").y, strict=True)) if a.series else {}
    ratios = (
        [y / uniform["uniform"] for name, y in uniform.items() if name != "uniform"] if "uniform" in uniform else []
    )
    claims = (
        claim(
            "skewed keys leave PIM-Tree's throughput as it is",
            ratios,
            0.8,
            1.2,
            "Equal keys all go to the last of the nodes that hold them.",
        ),
        falls(
            "drifting keys cost PIM-Tree throughput, as one B+-tree takes most inserts",
            b.growth("PIM-Tree"),
            "One thread waits for no lock, so that inserts into one tree cost its depth alone.",
        ),
    )
    return Figure("pim-tree-13", "PIM-Tree, figure 13: skewed and drifting keys", HOW, (a, b), claims, run.left_out)


ENTRIES = (
    Entry("pim-tree-08", 50, figure_8),
    Entry("pim-tree-09", 50, figure_9),
    Entry("pim-tree-10", 55, figure_10),
    Entry("pim-tree-11", 40, figure_11),
    Entry("pim-tree-12", 35, figure_12),
    Entry("pim-tree-13", 35, figure_13),
)
