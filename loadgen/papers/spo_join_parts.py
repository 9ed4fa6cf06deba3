"""SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 5.4: figures 12 to 15 and 20 to 23, part by part."""

from __future__ import annotations

import numpy as np

from loadgen.papers import data
from loadgen.papers.joins import INEQUALITIES, MORE, SLIDES, MeasuredJoin, a_slide_is_mutable, cross_join, self_join
from loadgen.papers.meter import Point
from loadgen.papers.model import Entry, Figure, Panel, Series, claim, tells
from loadgen.papers.run import FigureRun
from loadgen.papers.sweep import Line, sweep

#: Match rates of a synthetic Q3; the paper's 15 to 249 million pairs a window of 25,000 to 100,000 are these shares.
SHARES = (0.012, 0.05, 0.11, 0.25)
SHARES_TEXT = "share of pairs that match"


def _q3(window: int, slide: int, rate: float = 0.07) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.matching(rate, window + MORE), window, slide)


def figure_12(run: FigureRun) -> Figure:
    """Insertion alone."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    lines = (
        Line(
            "SPO-Join, mutable B+",
            "spo_paper",
            a_slide_is_mutable,
            is_searching=False,
        ),
        Line("PIM-Tree", "pim_tree", {"merge_ratio": "0.1"}, is_searching=False),
        Line("B+-tree", "bplus_bits", is_searching=False),
        Line("scan (a copy)", "scan", is_searching=False),
    )
    table = sweep(run, windows, lines, lambda w: _q3(int(w), int(w) // SLIDES))
    panel = Panel(
        "insertion, both columns where both are indexed",
        "tuples of window",
        "us a tuple",
        table.series(lambda p: p.us),
        log_x=True,
    )
    why = (
        "Windows are a fiftieth of the paper's. SPO-Join and B+-trees index both columns, PIM-Tree "
        "one and verifies the "
        "other; merges are part of the cost of both that have them."
    )
    claims = (
        claim(
            "PIM-Tree inserts at 0.77 (10M) to 1.5 times (50M) SPO-Join's cost",
            panel.times("PIM-Tree", "SPO-Join, mutable B+"),
            0.77,
            1.5,
            why,
        ),
        claim(
            "a plain B+-tree inserts at 1.15 (10M) to 1.7 times (50M) SPO-Join's cost",
            panel.times("B+-tree", "SPO-Join, mutable B+"),
            1.15,
            1.7,
            why,
        ),
    )
    how = (
        "Tuples are stored and not searched for, one probe a chunk apart, which lets the window move. A tenth of "
        "the window is mutable."
    )
    return Figure("spo-join-12", "SPO-Join, figure 12: insertion cost", how, (panel,), claims, run.left_out)


def figure_13(run: FigureRun) -> Figure:
    """Bytes held."""
    windows = run.pick((100_000, 300_000, 1_000_000), (10_000, 40_000))
    lines = (
        Line(
            "SPO-Join as published",
            "spo_paper",
            a_slide_is_mutable,
            is_searching=False,
        ),
        Line("PIM-Tree, one column", "pim_tree", {"merge_ratio": "1"}, is_searching=False),
        Line("CSS-tree", "css_bits", is_searching=False),
        Line("B+-tree", "bplus_bits", is_searching=False),
        Line("spo, indexes", "spo"),
    )
    table = sweep(run, windows, lines, lambda w: _cross(int(w)))
    held = table.series(lambda point: point.nbytes / 1e6)
    panel = Panel("memory of a cross join", "tuples of each window", "MB", held, log_x=True, log_y=True)
    claims = (
        claim(
            "PIM-Tree takes 1.5 to 2.5 times SPO-Join's memory",
            panel.times("PIM-Tree, one column", "SPO-Join as published"),
            1.5,
            2.5,
            "PO-Join keeps two sorted columns, two orders and two permutations, as a self join's roles need both ways; "
            "PIM-Tree has one column's tree here, with every other column beside it, and codes are 8 bytes, not 4.",
        ),
    )
    how = "Bytes of all arrays after windows were filled and have moved on; no measurement of the process."
    return Figure("spo-join-13", "SPO-Join, figure 13: memory", how, (panel,), claims, run.left_out)


def _cross(window: int) -> MeasuredJoin:
    rows = window + MORE
    columns = (data.matching(0.07, rows, 1), data.matching(0.07, rows, 2))
    return cross_join(INEQUALITIES, columns, (window, window), (window // SLIDES, window // SLIDES))


def figure_14(run: FigureRun) -> Figure:
    """The mutable part by match rate."""
    slide = run.pick(50_000, 5_000)
    lines = (
        Line("B+, bit arrays", "bplus_bits"),
        Line("spo_paper, mutable alone", "spo_paper", {"delta": str(2 * slide)}),
    )
    table = sweep(run, SHARES, lines, lambda share: _q3(slide, slide, share))
    panel = table.rates("mutable part, Q3", SHARES_TEXT)
    why = (
        "The cost of a range scan depends on each predicate's own selectivity, a half here at every match rate; "
        "what is AND-ed is as long in all."
    )
    claims = (
        claim(
            "mean throughput falls from 167 to 114 tuples/s, to 0.68", panel.growth("B+, bit arrays"), 0.5, 0.95, why
        ),
    )
    how = (
        f"A window of one slide, {slide:,} tuples; the columns' correlation sets the match rate. The paper varies "
        "the slide with it, here it stays."
    )
    return Figure("spo-join-14", "SPO-Join, figure 14: match rate, mutable part", how, (panel,), claims, run.left_out)


def figure_15(run: FigureRun) -> Figure:
    """The immutable part by match rate."""
    window = run.pick(500_000, 20_000)
    lines = (
        Line("PO-Join lists, as published", "spo_paper", {"delta": str(window // SLIDES)}, 16, is_storing=False),
        Line("spo, whole", "spo", {}, 16),
    )
    table = sweep(run, SHARES, lines, lambda share: _q3(window, window // SLIDES, share))
    series = table.series(lambda point: point.latency_us(99) / 1e3 / 16)
    panel = Panel("immutable part, Q3", SHARES_TEXT, "ms a tuple, 99th percentile of frames of 16", series, log_y=True)
    why = (
        "The paper's window grows with its match rate, here it stays; a list of partners is not asked "
        "for, only their number."
    )
    claims = (
        claim(
            "maximum latency grows from 51 to 190 ms, 3.7 times",
            panel.growth("PO-Join lists, as published"),
            2,
            3.7,
            why,
        ),
    )
    how = f"{window:,} tuples in ten lists, searched by one thread."
    return Figure("spo-join-15", "SPO-Join, figure 15: match rate, immutable part", how, (panel,), claims, run.left_out)


def figure_20(run: FigureRun) -> Figure:
    """What a merge costs."""
    deltas = run.pick((60_000, 70_000, 80_000, 90_000, 100_000), (4_000, 8_000))
    lines = (Line("as published", "spo_paper", lambda delta: {"delta": str(int(delta))}),)
    # Without probes several merges fit into the time.
    merging = [Line(line.label, line.method, line.options, is_searching=False) for line in lines]
    run.plan(3 * len(deltas))
    merged = sweep(run, deltas, merging, lambda delta: _q3(int(delta), int(delta)))
    panel = Panel(
        "a merge", "delta, tuples", "ms", [*merged.series(_merge_ms), *_engine_merges(run, deltas)], log_y=True
    )
    one = [Line("a tuple, PO-Join", "spo_paper", lambda delta: {"delta": str(int(delta))}, is_storing=False)]
    probing = sweep(run, deltas, one, lambda delta: _q3(int(delta), int(delta)))
    buffered = [_buffered(merged.points["as published", x], point) for (_, x), point in probing.points.items()]
    waits = Series("as published", [x for _, x in probing.points], buffered)
    right = Panel("tuples that came during a merge", "delta, tuples", "ms to evaluate them in the new list", [waits])
    slowest = max(panel.named("as published").y)
    claims = (
        tells(
            "10 to 15 s a merge of 60,000 to 100,000 tuples, network included",
            f"{slowest:.3g} ms at most",
            "The paper's merge crosses the network and Storm's queues; here it is two linear passes of one thread.",
            holds=slowest > 1e3,
        ),
        tells(
            "buffered tuples take 1 to 2 s",
            f"{max(buffered):.3g} ms at most",
            "As many tuples wait as come during a merge, here at 5,000 a second; a shorter merge leaves fewer.",
            holds=max(buffered) > 1e3,
        ),
    )
    how = (
        "Leaves to lists, with permutations, for a self join's two columns. 'spo' merges too, in small steps: its "
        "bars are all merges of a delta's tuples."
    )
    return Figure("spo-join-20", "SPO-Join, figure 20: merge cost", how, (panel, right), claims, run.left_out)


#: What came during a merge, by the paper's highest rate of figure 18.
ARRIVALS_A_SECOND = 5_000


def _merge_ms(point: Point) -> float:
    return 1e3 * point.counters["merge_seconds"] / max(point.counters["merges"], 1)


def _buffered(merging: Point, probing: Point) -> float:
    waiting = _merge_ms(merging) / 1e3 * ARRIVALS_A_SECOND
    return waiting * probing.us / 1e3


def _engine_merges(run: FigureRun, deltas: tuple[int, ...]) -> list[Series]:
    table = sweep(
        run, deltas, [Line("spo, all merges of delta tuples", "spo")], lambda delta: _q3(10 * int(delta), int(delta))
    )
    points = {x: p for (_, x), p in table.points.items()}
    ms = [1e3 * p.counters["merge_seconds"] / max(p.tuples, 1) * float(x) for x, p in points.items()]
    return [Series("spo, all merges of delta tuples", list(points), ms)]


def figure_21(run: FigureRun) -> Figure:
    """How much of the window is mutable."""
    window = run.pick(500_000, 20_000)
    shares = (0.1, 0.2, 0.3, 0.4, 0.5)
    lines = (Line("mutable part", "bplus_bits"),)
    run.plan(2 * len(shares))
    table = sweep(run, shares, lines, lambda share: _q3(int(window * share), int(window * share)))
    still = [Line("immutable part", "spo_paper", lambda share: {"delta": str(window // 10)}, is_storing=False)]
    table = table.merged(sweep(run, shares, still, lambda share: _q3(int(window * (1 - share)), window // 10)))
    panel = table.rates(f"Q3, {window:,} tuples in all", "share of the window that is mutable")
    claims = (
        claim(
            "mutable throughput at 50 % is 0.39 of that at 10 %",
            panel.growth("mutable part"),
            0.2,
            0.6,
            "Range scans and bit arrays are linear in the mutable part, so that five times its size costs more than "
            "the paper's factor unless insertion or fixed costs weigh in.",
        ),
    )
    how = "The mutable part is a B+-tree a column with bit arrays, the rest ten equal PO-Join lists at most."
    return Figure("spo-join-21", "SPO-Join, figure 21: mutable to immutable", how, (panel,), claims, run.left_out)


EQUALITY = "l.a = r.a AND l.b = r.b"


def _equal(window: int) -> MeasuredJoin:
    rng = np.random.default_rng(11)
    rows = window + MORE
    columns = tuple(tuple(np.floor(rng.random(rows) * 1_000) for _ in range(2)) for _ in range(2))
    return cross_join(EQUALITY, columns, (window, window), (window // SLIDES, window // SLIDES))  # type: ignore[arg-type]


def _equality(run: FigureRun, number: int) -> Figure:
    windows = run.pick((100_000, 300_000, 500_000), (10_000, 20_000))
    chunk = 0 if number == 22 else 64
    lines = (
        Line("hash join", "hash", {}, chunk),
        Line("SPO-Join as published", "spo_paper", {}, chunk),
        Line("spo", "spo", {}, chunk),
    )
    table = sweep(run, windows, lines, lambda w: _equal(int(w)))
    label = "tuples of each window; a slide is a tenth"
    why = (
        "The paper's hash join is Storm's own, with its cost a tuple; SPO-Join's lists cost the length "
        "of a bit array each, "
        "however few tuples match, so the hash table's advantage is larger where nothing else costs."
    )
    if number == 22:
        panel = table.rates("Q1 with equalities", label)
        said, low, high = "hash join has 1.14 to 6.8 times SPO-Join's throughput", 1.14, 6.8
        ratios = panel.times("hash join", "SPO-Join as published")
    else:
        slowest = table.series(lambda point: point.latency_us(99) / 1e3)
        panel = Panel("Q1 with equalities", label, "ms a frame of 64, 99th percentile", slowest, log_y=True)
        said, low, high = "SPO-Join's maximum latency is 2 to 2.7 times the hash join's", 2.0, 2.7
        ratios = panel.times("SPO-Join as published", "hash join")
    how = (
        "Two equalities on uniform keys, 1,000 values each, one thread; the hash join has a table of one and "
        "verifies the other."
    )
    title = f"SPO-Join, figure {number}: equality predicates, {'throughput' if number == 22 else 'latency'}"
    return Figure(f"spo-join-{number}", title, how, (panel,), (claim(said, ratios, low, high, why),), run.left_out)


def figure_22(run: FigureRun) -> Figure:
    """Equality, throughput."""
    return _equality(run, 22)


def figure_23(run: FigureRun) -> Figure:
    """Equality, latency."""
    return _equality(run, 23)


ENTRIES = (
    Entry("spo-join-12", 30, figure_12),
    Entry("spo-join-13", 25, figure_13),
    Entry("spo-join-14", 25, figure_14),
    Entry("spo-join-15", 120, figure_15),
    Entry("spo-join-20", 40, figure_20),
    Entry("spo-join-21", 30, figure_21),
    Entry("spo-join-22", 30, figure_22),
    Entry("spo-join-23", 30, figure_23),
)
