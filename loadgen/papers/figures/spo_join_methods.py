"""SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 5.4, figures 7 to 15 and 20 to 23: methods compared.

The paper ran Storm bolts on ten machines. Here each method is one thread without a network, which shows the ratios
between data structures, but not the cluster's cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.papers import data
from loadgen.papers.figure import NOTHING, Claim, Entry, Figure, FigureRun, Panel, Series, checked, claim, rises
from loadgen.papers.joins import (
    INEQUALITIES,
    MORE,
    SLIDES,
    MeasuredJoin,
    a_slide_is_mutable,
    cross_join,
    self_join,
    timed_join,
)
from loadgen.papers.measurable import Point
from loadgen.papers.sweep import Line, SweepTable, cdf_panel, merged, percentile_ratios, sweep
from spojoin.arrays import F64

WINDOWS, QUICK_WINDOWS = (200_000, 600_000, 1_000_000), (20_000, 40_000)
#: Q2: two bands over coordinates that are uniform below 1e6; their half width gives 0.1 % of matching pairs.
BAND = "ABS(l.a - r.a) < 16000 AND ABS(l.b - r.b) < 16000"
ONE_THREAD = (
    "One thread for each method, no network. Bars: the slowest and fastest tenth of the measured chunks. A tuple of "
    "the mutable part is stored and searched for in both directions in a window of one slide; of the immutable part it "
    "is "
    "only searched for, in a window that was filled before. 'spo, whole' does both over the whole window, and its time "
    "includes order and results."
)


def _batch_is_a_slide(window: float) -> dict[str, str]:
    return {"batch": str(int(window) // SLIDES)}


PO_JOIN, CSS_BITS, CSS_SETS = "PO-Join lists, as published", "CSS, bit arrays", "CSS, hash sets"
B_BITS, B_SETS = "B+, bit arrays", "B+, hash sets"
IMMUTABLE = (
    Line(PO_JOIN, "spo_paper", a_slide_is_mutable, is_storing=False),
    Line(CSS_BITS, "css_bits", _batch_is_a_slide, is_storing=False),
    Line(CSS_SETS, "css_sets", _batch_is_a_slide, is_storing=False),
)
MUTABLE_TREES = (Line(B_BITS, "bplus_bits"), Line(B_SETS, "bplus_sets"))
WHOLE = (Line("spo, whole", "spo"),)
BIT_WHY = (
    "The paper's bit arrays and hash sets are Java objects between Storm bolts; here both are compiled loops over flat "
    "arrays, so that only the cost of the intersection differs."
)
CSS_WHY = (
    "The paper attributes the difference to linked leaves and an extra level of provenance; here the leaves of a "
    "CSS-tree are one sorted array, as in PO-Join, and the difference is how two predicates meet."
)


def _q3_of_taxis(window: float, slide: float = 0) -> MeasuredJoin:
    rows = int(window) + MORE
    return self_join(INEQUALITIES, *data.taxi(rows), int(window), int(slide or max(window // SLIDES, 1)))


def _q1(window: float) -> MeasuredJoin:
    rows = int(window) + MORE
    size, slide = int(window), int(window) // SLIDES
    return cross_join(INEQUALITIES, (data.taxi(rows, 1), data.taxi(rows, 2)), (size, size), (slide, slide))


def _compared(run: FigureRun, windows: Sequence[int], join: Callable[[float], MeasuredJoin]) -> SweepTable:
    """The immutable and mutable parts of every method, and the whole engine."""
    run.plan(len(windows) * (len(IMMUTABLE) + len(MUTABLE_TREES) + 1))
    immutable = sweep(run, windows, IMMUTABLE, join)
    mutable = sweep(run, windows, MUTABLE_TREES, lambda window: join(window // SLIDES))
    return merged(immutable, mutable, sweep(run, windows, WHOLE, join))


def figure_7(run: FigureRun) -> Figure:
    """Throughput of Q3, the self join."""
    table = _compared(run, run.pick(WINDOWS, QUICK_WINDOWS), _q3_of_taxis)
    panel = table.rates("Q3, self join, taxi-like", "tuples of window; a slide is a tenth")
    bits, sets, mutable = panel.times(PO_JOIN, CSS_BITS), panel.times(PO_JOIN, CSS_SETS), panel.times(B_BITS, B_SETS)
    claims = (
        claim("immutable: PO-Join 12 to 31 times CSS with bit arrays", bits, 12, 31, CSS_WHY),
        claim("immutable: PO-Join 25 to 57 times CSS with hash sets", sets, 25, 57, CSS_WHY),
        claim("mutable: bit arrays 9 to 44 times hash sets", mutable, 9, 44, BIT_WHY),
    )
    title = "SPO-Join, figure 7: throughput of Q3, self join"
    return Figure("spo-join-07", title, ONE_THREAD, (panel,), claims, run.left_out)


RATE, TIME_SLIDES = 1_000, 5
#: With windows of time, batches have a fixed number of tuples.
TIMED_IMMUTABLE = tuple(
    replace(line, options={"delta" if line.method == "spo_paper" else "batch": "4096"}) for line in IMMUTABLE
)


def _q2(seconds: float) -> MeasuredJoin:
    rows = int(seconds) * RATE
    a, b = np.random.default_rng(3).random((2, rows + rows // TIME_SLIDES + MORE)) * 1e6
    return timed_join(BAND, a, b, int(seconds), TIME_SLIDES, RATE)


def figure_8(run: FigureRun) -> Figure:
    """Throughput of Q2, the band join over time windows."""
    seconds = run.pick((60, 120, 300), (10, 20))
    run.plan(len(seconds) * (len(IMMUTABLE) + len(MUTABLE_TREES) + 1))
    immutable = sweep(run, seconds, TIMED_IMMUTABLE, _q2)
    mutable = sweep(run, seconds, MUTABLE_TREES, lambda length: _q2(max(length // TIME_SLIDES, 1)))
    table = merged(immutable, mutable, sweep(run, seconds, WHOLE, _q2))
    panel = table.rates("Q2, two bands, 0.1 % of pairs match", "seconds of window")
    why = f"There are two bands here, both narrow: a range scan of each finds 3 % of the window. {CSS_WHY}"
    claims = (
        rises("immutable: PO-Join well above CSS with bit arrays", panel.times(PO_JOIN, CSS_BITS), why),
        rises("immutable: PO-Join well above CSS with hash sets", panel.times(PO_JOIN, CSS_SETS), why),
        rises("mutable: bit arrays above hash sets", panel.times(B_BITS, B_SETS), BIT_WHY),
    )
    how = f"{ONE_THREAD} {RATE:,} tuples/s of event time; slides of a fifth of the window, batches of 4,096 tuples."
    title = "SPO-Join, figure 8: throughput of Q2, band join, time windows"
    return Figure("spo-join-08", title, how, (panel,), claims, run.left_out)


def figure_9(run: FigureRun) -> Figure:
    """Throughput of Q1, the cross join."""
    table = _compared(run, run.pick((100_000, 300_000, 500_000), (10_000, 20_000)), _q1)
    panel = table.rates("Q1, cross join", "tuples of each window; a slide is a tenth")
    claims = (
        claim("immutable: PO-Join 2 to 19 times CSS", panel.times(PO_JOIN, CSS_BITS), 2, 19, CSS_WHY),
        claim("mutable: bit arrays 2 to 5.2 times hash sets", panel.times(B_BITS, B_SETS), 2, 5.2, BIT_WHY),
    )
    title = "SPO-Join, figure 9: throughput of Q1, cross join"
    return Figure("spo-join-09", title, ONE_THREAD, (panel,), claims, run.left_out)


QUEUE = (
    "Event-time latency: tuples arrive evenly, in frames of 64, at half the rate that the slowest method of the panel "
    "sustains, and wait for one thread; waiting is computed from the measured time of each frame, merges included. The "
    "paper's percentiles are tens of seconds, because its rate exceeds what its operators sustain and the queue grows "
    "throughout the run."
)
FRAME = 64
LISTS, SLIDE, TENTH = "PO-Join lists and B+", "delta is the slide", "delta is a tenth of the slide"


def figure_10(run: FigureRun) -> Figure:
    """Latency of Q1, by method and by both merging thresholds."""
    window = run.pick(200_000, 20_000)
    slide = window // SLIDES
    whole, tenth = {"delta": str(slide)}, {"delta": str(max(slide // 10, 16))}
    run.plan(6)
    methods = (
        Line(LISTS, "spo_paper", whole, FRAME),
        Line(CSS_BITS, "css_bits", {"batch": str(slide)}, FRAME),
        Line(B_BITS, "bplus_bits", {}, FRAME),
        Line("spo", "spo", {}, FRAME),
    )
    compared = sweep(run, (window,), methods, _q1)
    thresholds = (Line(SLIDE, "spo_paper", whole, FRAME), Line(TENTH, "spo_paper", tenth, FRAME))
    divided = sweep(run, (window,), thresholds, _q1)
    panels = cdf_panel("methods", compared, FRAME), cdf_panel("PO-Join, both thresholds", divided, FRAME)
    how = f"{QUEUE} Windows of {window:,} tuples in each stream."
    title = "SPO-Join, figure 10: latency of Q1, thresholds delta"
    return Figure("spo-join-10", title, how, panels, _latency_claims(compared, divided), run.left_out)


def _latency_claims(compared: SweepTable, divided: SweepTable) -> tuple[Claim, Claim]:
    return (
        claim(
            "PO-Join's median is 0.76 of CSS's", percentile_ratios(compared, LISTS, CSS_BITS, 50), 0.5, 0.99, CSS_WHY
        ),
        claim(
            "the divided slide's median is a 70th (immutable) and two thirds (mutable) of the full slide's",
            percentile_ratios(divided, TENTH, SLIDE, 50),
            1 / 70,
            0.67,
            "A smaller delta makes trees cheaper and merges shorter, but gives every probe ten times as many lists to "
            "search; the paper searches those on ten PEs at once, here one thread does.",
        ),
    )


PUBLISHED, CHAIN = "SPO-Join as published", "chained index, B+"
CHAINED = (
    Line(PUBLISHED, "spo_paper", {}, FRAME),
    Line(CHAIN, "chain_b", {"length": str(SLIDES)}, FRAME),
    Line("chained index, immutable", "chain_ib", {"length": str(SLIDES)}, FRAME),
    Line("spo", "spo", {}, FRAME),
)


def figure_11(run: FigureRun) -> Figure:
    """Latency against chained indexes."""
    windows = run.pick((100_000, 300_000, 500_000), (10_000, 20_000))
    run.plan(2 * 4 * len(windows))
    q3, q1 = _waits("Q3", sweep(run, windows, CHAINED, _q3_of_taxis)), _waits("Q1", sweep(run, windows, CHAINED, _q1))
    claims = (_chain_claim("Q3", q3, 3.7, 11.7), _chain_claim("Q1", q1, 11.9, 51.0))
    how = (
        "A frame of 64 tuples, from its arrival at an idle thread to its last result. Chains of ten members, a slide "
        "each."
    )
    return Figure("spo-join-11", "SPO-Join, figure 11a, c: chained indexes", how, (q3, q1), claims, run.left_out)


def _waits(name: str, table: SweepTable) -> Panel:
    series = table.series(lambda point: point.latency_us(95) / 1e3)
    return Panel(f"{name}, 95th percentile", "tuples of window", f"ms a frame of {FRAME}", series, log_y=True)


def _chain_claim(name: str, panel: Panel, low: float, high: float) -> Claim:
    return claim(
        f"{name}: 95th percentile of chained indexes {low} to {high} times SPO-Join's",
        panel.times(CHAIN, PUBLISHED),
        low,
        high,
        "The paper's latency includes queues, which grow with any difference in cost; here it is the processing of a "
        "frame. The chain verifies the second predicate on the candidates of the first.",
    )


#: Match rates of a synthetic Q3: shares that the paper's 15 to 249 million pairs are of a window of 25,000 to 100,000.
SHARES = (0.012, 0.05, 0.11, 0.25)
SHARES_TEXT = "share of pairs that match"
MUTABLE = "SPO-Join, mutable B+"
INSERTING = (
    Line(MUTABLE, "spo_paper", a_slide_is_mutable, is_searching=False),
    Line("PIM-Tree", "pim_tree", {"merge_ratio": "0.1"}, is_searching=False),
    Line("B+-tree", "bplus_bits", is_searching=False),
    Line("scan (a copy)", "scan", is_searching=False),
)


def _q3_by_rate(window: float, slide: float, rate: float = 0.07) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.matching(rate, int(window) + MORE), int(window), int(slide))


def figure_12(run: FigureRun) -> Figure:
    """Insertion without searches."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    table = sweep(run, windows, INSERTING, lambda window: _q3_by_rate(int(window), int(window) // SLIDES))
    title = "insertion, both columns where both are indexed"
    panel = Panel(title, "tuples of window", "us a tuple", table.series(lambda point: point.us), log_x=True)
    how = (
        "Tuples are stored and not searched for, except for one probe in each chunk, which lets the window move. A "
        "tenth of the window is mutable."
    )
    title = "SPO-Join, figure 12: insertion cost"
    return Figure("spo-join-12", title, how, (panel,), _insertion_claims(panel), run.left_out)


def _insertion_claims(panel: Panel) -> tuple[Claim, Claim]:
    why = (
        "Windows are a fiftieth of the paper's. SPO-Join and B+-trees index both columns, PIM-Tree indexes one and "
        "verifies the other; the cost includes the merges of SPO-Join and PIM-Tree."
    )
    pim, plain = panel.times("PIM-Tree", MUTABLE), panel.times("B+-tree", MUTABLE)
    return (
        claim("PIM-Tree inserts at 0.77 (10M) to 1.5 times (50M) SPO-Join's cost", pim, 0.77, 1.5, why),
        claim("a plain B+-tree inserts at 1.15 (10M) to 1.7 times (50M) SPO-Join's cost", plain, 1.15, 1.7, why),
    )


HELD = (
    Line("SPO-Join as published", "spo_paper", a_slide_is_mutable, is_searching=False),
    Line("PIM-Tree, one column", "pim_tree", {"merge_ratio": "1"}, is_searching=False),
    Line("CSS-tree", "css_bits", is_searching=False),
    Line("B+-tree", "bplus_bits", is_searching=False),
    Line("spo, indexes", "spo"),
)


def figure_13(run: FigureRun) -> Figure:
    """Bytes held."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    held = sweep(run, windows, HELD, _cross).series(lambda point: point.nbytes / 1e6)
    panel = Panel("memory of a cross join", "tuples of each window", "MB", held, log_x=True, log_y=True)
    claims = (
        claim(
            "PIM-Tree takes 1.5 to 2.5 times SPO-Join's memory",
            panel.times("PIM-Tree, one column", "SPO-Join as published"),
            1.5,
            2.5,
            "PO-Join keeps two sorted columns, two orders and two permutations, as the roles of a self join need both "
            "directions; PIM-Tree has a tree of one column here, with every other column beside it, and codes are 8 "
            "bytes, not 4.",
        ),
    )
    how = "Bytes of all arrays after the windows were filled and have moved on; the process itself isn't measured."
    return Figure("spo-join-13", "SPO-Join, figure 13: memory", how, (panel,), claims, run.left_out)


def _cross(window: float) -> MeasuredJoin:
    size = int(window)
    columns = (data.matching(0.07, size + MORE, 1), data.matching(0.07, size + MORE, 2))
    return cross_join(INEQUALITIES, columns, (size, size), (size // SLIDES, size // SLIDES))


def figure_14(run: FigureRun) -> Figure:
    """The mutable part by match rate."""
    slide = run.pick(50_000, 5_000)
    lines = (
        Line("B+, bit arrays", "bplus_bits"),
        Line("spo_paper, mutable alone", "spo_paper", {"delta": str(2 * slide)}),
    )
    panel = sweep(run, SHARES, lines, lambda share: _q3_by_rate(slide, slide, share)).rates(
        "mutable part, Q3", SHARES_TEXT
    )
    why = (
        "The cost of a range scan depends on each predicate's own selectivity, which is a half here at every match "
        "rate; the bit arrays have the same length at all of them."
    )
    falling = panel.growth("B+, bit arrays")
    claims = (claim("mean throughput falls from 167 to 114 tuples/s, to 0.68", falling, 0.5, 0.95, why),)
    how = (
        f"A window of one slide, {slide:,} tuples; the columns' correlation sets the match rate. The paper's slide "
        "changes with it, here it stays the same."
    )
    return Figure("spo-join-14", "SPO-Join, figure 14: match rate, mutable part", how, (panel,), claims, run.left_out)


#: Tuples of a frame in which latency is measured.
SMALL_FRAME = 16


def figure_15(run: FigureRun) -> Figure:
    """The immutable part by match rate."""
    window = run.pick(500_000, 20_000)
    published = "PO-Join lists, as published"
    lines = (
        Line(published, "spo_paper", {"delta": str(window // SLIDES)}, SMALL_FRAME, is_storing=False),
        Line("spo, whole", "spo", {}, SMALL_FRAME),
    )
    table = sweep(run, SHARES, lines, lambda share: _q3_by_rate(window, window // SLIDES, share))
    series = table.series(lambda point: point.latency_us(99) / 1e3 / SMALL_FRAME)
    y = f"ms a tuple, 99th percentile of frames of {SMALL_FRAME}"
    panel = Panel("immutable part, Q3", SHARES_TEXT, y, series, log_y=True)
    why = (
        "The paper's window grows with its match rate, here it stays the same; probes return the number of their "
        "partners and no list."
    )
    growth = panel.growth(published)
    claims = (claim("maximum latency grows from 51 to 190 ms, 3.7 times", growth, 2, 3.7, why),)
    how = f"{window:,} tuples in ten lists, searched by one thread."
    title = "SPO-Join, figure 15: match rate, immutable part"
    return Figure("spo-join-15", title, how, (panel,), claims, run.left_out)


MERGED_AS_PUBLISHED, OWN_MERGES = "as published", "spo, all merges of delta tuples"
#: Tuples that arrive during a merge: the highest rate of the paper's figure 18.
ARRIVALS_A_SECOND = 5_000


def _one_slide(window: float) -> MeasuredJoin:
    return _q3_by_rate(window, window)


def _delta(tuples: float) -> dict[str, str]:
    return {"delta": str(int(tuples))}


def figure_20(run: FigureRun) -> Figure:
    """The cost of a merge."""
    deltas = run.pick((60_000, 70_000, 80_000, 90_000, 100_000), (4_000, 8_000))
    run.plan(3 * len(deltas))
    # Without probes several merges fit into the time.
    merging = sweep(run, deltas, (Line(MERGED_AS_PUBLISHED, "spo_paper", _delta, is_searching=False),), _one_slide)
    merges = [*merging.series(_merge_ms), _engine_merges(run, deltas)]
    left = Panel("a merge", "delta, tuples", "ms", merges, log_y=True)
    waits = _buffered(run, deltas, merging)
    right = Panel("tuples that came during a merge", "delta, tuples", "ms to evaluate them in the new list", [waits])
    how = (
        "Leaves to lists, with permutations, for a self join's two columns. 'spo' merges too, in small steps: its bars "
        "are all merges of a delta's tuples."
    )
    claims = _merge_claims(max(left.named(MERGED_AS_PUBLISHED).y), max(waits.y, default=None))
    return Figure("spo-join-20", "SPO-Join, figure 20: merge cost", how, (left, right), claims, run.left_out)


def _merge_ms(point: Point) -> float:
    return 1e3 * point.counters["merge_seconds"] / max(point.counters["merges"], 1)


def _engine_merges(run: FigureRun, deltas: Sequence[int]) -> Series:
    table = sweep(run, deltas, (Line(OWN_MERGES, "spo"),), lambda delta: _q3_by_rate(10 * delta, delta))
    points = {x: point for (_, x), point in table.points.items()}
    ms = [1e3 * point.counters["merge_seconds"] / max(point.tuples, 1) * float(x) for x, point in points.items()]
    return Series(OWN_MERGES, list(points), ms)


def _buffered(run: FigureRun, deltas: Sequence[int], merging: SweepTable) -> Series:
    """Milliseconds to evaluate the tuples that arrive during a merge."""
    line = Line("a tuple, PO-Join", "spo_paper", _delta, is_storing=False)
    probing = {x: point for (_, x), point in sweep(run, deltas, (line,), _one_slide).points.items()}
    waiting = {x: _merge_ms(merging.points[MERGED_AS_PUBLISHED, x]) / 1e3 * ARRIVALS_A_SECOND for x in probing}
    return Series(MERGED_AS_PUBLISHED, list(probing), [waiting[x] * point.us / 1e3 for x, point in probing.items()])


def _merge_claims(slowest_ms: float, buffered_ms: float | None) -> tuple[Claim, Claim]:
    return (
        checked(
            "10 to 15 s a merge of 60,000 to 100,000 tuples, network included",
            f"{slowest_ms:.3g} ms at most",
            "The paper's merge crosses the network and Storm's queues; here it is two linear passes of one thread.",
            holds=slowest_ms > 1e3,
        ),
        checked(
            "buffered tuples take 1 to 2 s",
            NOTHING if buffered_ms is None else f"{buffered_ms:.3g} ms at most",
            f"The tuples that arrive during a merge wait, here {ARRIVALS_A_SECOND:,} a second; a shorter merge leaves "
            "fewer.",
            holds=None if buffered_ms is None else buffered_ms > 1e3,
        ),
    )


MUTABLE_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)


def figure_21(run: FigureRun) -> Figure:
    """The mutable share of the window."""
    window = run.pick(500_000, 20_000)
    slide = window // 10
    run.plan(2 * len(MUTABLE_SHARES))
    mutable = sweep(
        run, MUTABLE_SHARES, (Line("mutable part", "bplus_bits"),), lambda share: _one_slide(int(window * share))
    )
    still = Line("immutable part", "spo_paper", {"delta": str(slide)}, is_storing=False)
    immutable = sweep(run, MUTABLE_SHARES, (still,), lambda share: _q3_by_rate(int(window * (1 - share)), slide))
    panel = merged(mutable, immutable).rates(f"Q3, {window:,} tuples in all", "share of the window that is mutable")
    claims = (
        claim(
            "mutable throughput at 50 % is 0.39 of that at 10 %",
            panel.growth("mutable part"),
            0.2,
            0.6,
            "Range scans and bit arrays are linear in the mutable part, so that five times its size costs more than "
            "the paper's factor unless insertion or fixed costs dominate.",
        ),
    )
    how = "The mutable part is a B+-tree for each column with bit arrays, the rest ten equal PO-Join lists at most."
    return Figure("spo-join-21", "SPO-Join, figure 21: mutable to immutable", how, (panel,), claims, run.left_out)


EQUALITY = "l.a = r.a AND l.b = r.b"
HASH, SPO_JOIN = "hash join", "SPO-Join as published"
EQUALITY_WINDOWS = "tuples of each window; a slide is a tenth"
#: Tuples of a frame in which latency is measured.


@dataclass(frozen=True, slots=True)
class _EqualityFigure:
    """One of the two figures of equality predicates. low, high: the paper's range for its claim."""

    number: int
    shows: str
    paper: str
    low: float
    high: float

    def of(self, run: FigureRun, panel: Panel, ratios: Sequence[float]) -> Figure:
        why = (
            "The paper's hash join is Storm's own, with its cost for each tuple; SPO-Join's lists cost the length of a "
            "bit array each, however few tuples match, so that the hash table's advantage is larger where nothing else "
            "costs."
        )
        how = (
            "Two equalities on uniform keys, 1,000 values each, one thread; the hash join has a table for one and "
            "verifies the other."
        )
        title = f"SPO-Join, figure {self.number}: equality predicates, {self.shows}"
        claims = (claim(self.paper, ratios, self.low, self.high, why),)
        return Figure(f"spo-join-{self.number}", title, how, (panel,), claims, run.left_out)


THROUGHPUT = _EqualityFigure(22, "throughput", "hash join has 1.14 to 6.8 times SPO-Join's throughput", 1.14, 6.8)
LATENCY = _EqualityFigure(23, "latency", "SPO-Join's maximum latency is 2 to 2.7 times the hash join's", 2.0, 2.7)


def _equal(window: float) -> MeasuredJoin:
    size = int(window)
    rng = np.random.default_rng(11)

    def keys() -> F64:
        return np.floor(rng.random(size + MORE) * 1_000)

    columns = ((keys(), keys()), (keys(), keys()))
    return cross_join(EQUALITY, columns, (size, size), (size // SLIDES, size // SLIDES))


def _equalities(run: FigureRun, chunk: int) -> SweepTable:
    windows = run.pick((100_000, 300_000, 500_000), (10_000, 20_000))
    lines = (Line(HASH, "hash", {}, chunk), Line(SPO_JOIN, "spo_paper", {}, chunk), Line("spo", "spo", {}, chunk))
    return sweep(run, windows, lines, _equal)


def figure_22(run: FigureRun) -> Figure:
    """Equality, throughput."""
    panel = _equalities(run, chunk=0).rates("Q1 with equalities", EQUALITY_WINDOWS)
    return THROUGHPUT.of(run, panel, panel.times(HASH, SPO_JOIN))


def figure_23(run: FigureRun) -> Figure:
    """Equality, latency."""
    slowest = _equalities(run, FRAME).series(lambda point: point.latency_us(99) / 1e3)
    y = f"ms a frame of {FRAME}, 99th percentile"
    panel = Panel("Q1 with equalities", EQUALITY_WINDOWS, y, slowest, log_y=True)
    return LATENCY.of(run, panel, panel.times(SPO_JOIN, HASH))


ENTRIES = (
    Entry("spo-join-07", 60, figure_7),
    Entry("spo-join-08", 45, figure_8),
    Entry("spo-join-09", 50, figure_9),
    Entry("spo-join-10", 35, figure_10),
    Entry("spo-join-11", 45, figure_11),
    Entry("spo-join-12", 30, figure_12),
    Entry("spo-join-13", 25, figure_13),
    Entry("spo-join-14", 25, figure_14),
    Entry("spo-join-15", 120, figure_15),
    Entry("spo-join-20", 40, figure_20),
    Entry("spo-join-21", 30, figure_21),
    Entry("spo-join-22", 30, figure_22),
    Entry("spo-join-23", 30, figure_23),
)
