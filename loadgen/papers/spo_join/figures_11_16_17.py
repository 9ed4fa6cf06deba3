"""SPO-Join, figures 11b, 11d, 16 and 17: its cluster, by the time of single workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadgen.papers import data
from loadgen.papers.claims import claim, falls
from loadgen.papers.joins import INEQUALITIES, MORE, MeasuredJoin, query_text, self_join
from loadgen.papers.layout_cost import SIMULATED, LayoutFeed, MeasuredLayout, costs, rate_series, same
from loadgen.papers.measurable import StoredPart
from loadgen.papers.meter import Point
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, sweep

PUBLISHED, SPLIT, BCHJ = (
    MeasuredLayout("SPO-Join as published", "split_join", "spo_paper"),
    MeasuredLayout("split join", "split_join"),
    MeasuredLayout("BCHJ", "bchj"),
)
LAYOUTS = (PUBLISHED, SPLIT, BCHJ)
#: Tuples of a frame, and tuples after the windows are full.
FRAME, BEYOND = 512, 20_480


def figure_11(run: FigureRun) -> Figure:
    """Split join and broadcast hash join."""
    windows, workers = run.pick((50_000, 100_000, 200_000), (5_000, 10_000)), 4
    run.plan(2 * len(windows) * len(LAYOUTS))
    q3 = _rates(run, windows, _feed_q3, workers, "b: Q3, self join")
    q1 = _rates(run, windows, _feed_q1, workers, "d: Q1, cross join")
    why = (
        "The paper's nested loops run in Java, one tuple at a time; here a scan compares with vector instructions, "
        "while bit arrays are set bit by bit."
    )
    published = PUBLISHED.label
    to_split, to_bchj = q3.times(published, SPLIT.label), q3.times(published, BCHJ.label)
    claims = (
        claim("Q3: SPO-Join has 71 to 90 times split join's throughput", to_split, 71, 90, why),
        claim("Q3: SPO-Join has 32 to 90 times BCHJ's throughput", to_bchj, 32, 90, why),
        claim("Q1: SPO-Join has 43 times the alternatives' throughput", q1.times(published, SPLIT.label), 43, 43, why),
    )
    how = f"{SIMULATED}{workers} workers, frames of {FRAME} tuples. SPO-Join deals its tuples to the workers in turn."
    title = "SPO-Join, figure 11b, d: split join and BCHJ"
    return Figure("spo-join-11b-d", title, how, (q3, q1), claims, run.left_out)


def _rates(
    run: FigureRun, windows: Sequence[int], feed: Callable[[float], LayoutFeed], workers: int, title: str
) -> Panel:
    found = costs(run, windows, LAYOUTS, feed, same(workers))
    return Panel(title, "tuples of window", "tuples/s", rate_series(found), log_y=True)


def _feed_q3(window: float) -> LayoutFeed:
    size = int(window)
    a, b = data.taxi(size + BEYOND)
    text = query_text(INEQUALITIES, ("rows", "rows"), size, size // 10)
    return LayoutFeed(text, ({"a": a, "b": b},), (FRAME,), size)


def _feed_q1(window: float) -> LayoutFeed:
    size = int(window)
    columns = [dict(zip("ab", data.taxi(size + BEYOND, seed), strict=True)) for seed in (1, 2)]
    text = query_text(INEQUALITIES, ("left", "right"), size, size // 10)
    return LayoutFeed(text, columns, (FRAME // 2, FRAME // 2), 2 * size)


ONE_CORE = (
    "Workers are simulated: the CPU time of each is measured separately on one core, all tuples are sent to all "
    "workers, and batches are stored in turn; n workers take as long as the slowest of those measured. No network, no "
    "queues."
)
#: Tuples of a frame in which latency is measured.
SMALL_FRAME = 16


def _joined(window: int, batches: int) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.taxi(window + MORE), window, window // batches)


def _worker(run: FigureRun, join: MeasuredJoin, x: int, part: StoredPart, chunk: int = 0) -> Point | None:
    """What one of several workers measures; None where the figure's time is over or the method refuses."""
    line = Line(f"worker {part.worker}", "spo_paper", {"delta": str(part.block)}, chunk, is_storing=False, share=part)
    points = sweep(run, (x,), (line,), lambda _: join).points.values()
    return next((point for point in points if point.tuples), None)


NODES, WORKERS_OF_NODE = (1, 3, 5, 9), (1, 3, 5)


def figure_16(run: FigureRun) -> Figure:
    """Nodes and workers on them."""
    window, batches = run.pick((450_000, 45), (18_000, 45))
    run.plan(len(NODES) * len(WORKERS_OF_NODE))
    join = _joined(window, batches)
    series = [_by_nodes(run, join, each, window // batches) for each in WORKERS_OF_NODE]
    panel = Panel("immutable part, Q3", "nodes", "ms a tuple, 99th percentile of frames of 16", series, log_y=True)
    why = (
        "A worker's number of lists is inversely proportional to the number of workers, and each list costs the same; "
        "the paper's workers have queues and a network before them."
    )
    ratios = [ratio for each in series for ratio in panel.growth(each.name)]
    claims = (falls("maximum latency falls with nodes and with workers", ratios, why),)
    how = f"{ONE_CORE} {window:,} tuples in {batches} lists."
    return Figure("spo-join-16", "SPO-Join, figure 16: nodes", how, (panel,), claims, run.left_out)


def _by_nodes(run: FigureRun, join: MeasuredJoin, workers: int, delta: int) -> Series:
    points = {nodes: _worker(run, join, nodes, StoredPart(0, nodes * workers, delta), SMALL_FRAME) for nodes in NODES}
    waits = {nodes: point.latency_us(99) / 1e3 / SMALL_FRAME for nodes, point in points.items() if point}
    label = f"{workers} worker{'s' if workers > 1 else ''} a node"
    return Series(label, list(waits), list(waits.values()))


WORKERS = (1, 2, 5, 10, 20)


def figure_17(run: FigureRun) -> Figure:
    """Throughput by workers."""
    window, batches = run.pick((500_000, 20), (20_000, 20))
    run.plan(2 * len(WORKERS))
    join, delta = _joined(window, batches), window // batches
    slowest = {n: _slowest(run, join, n, delta) for n in WORKERS}
    series = _rate_series({n: point for n, point in slowest.items() if point})
    panel = Panel("immutable part, Q3", "workers", "tuples/s", (series,))
    why = (
        "Every worker searches for every tuple, which costs two binary searches for each list and predicate; only the "
        "lists are divided."
    )
    paper = "mean throughput grows from 419 to 6,167 tuples/s with 20 workers, 14.7 times"
    claims = (claim(paper, panel.growth(series.name), 14.7, 14.7, why),)
    how = (
        f"{ONE_CORE} {window:,} tuples in {batches} lists; where there are several workers, the first and the last are "
        "measured."
    )
    return Figure("spo-join-17", "SPO-Join, figure 17: workers", how, (panel,), claims, run.left_out)


def _slowest(run: FigureRun, join: MeasuredJoin, workers: int, delta: int) -> Point | None:
    """The slower of the first and the last worker."""
    parts = [StoredPart(worker, workers, delta) for worker in sorted({0, workers - 1})]
    points = [point for part in parts if (point := _worker(run, join, workers, part))]
    return min(points, key=lambda point: point.rate, default=None)


def _rate_series(points: dict[int, Point]) -> Series:
    lows = [min(point.rate, float(point.rates.min())) for point in points.values()]
    highs = [max(point.rate, float(point.rates.max())) for point in points.values()]
    return Series("PO-Join lists", list(points), [point.rate for point in points.values()], lows, highs)


ENTRIES = (
    Entry("spo-join-11b-d", 150, figure_11),
    Entry("spo-join-16", 30, figure_16),
    Entry("spo-join-17", 25, figure_17),
)
