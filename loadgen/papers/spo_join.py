"""SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 5.4: figures 7 to 11, methods against one another.

The paper ran Storm bolts on ten machines. Here each method is one thread without network, so that ratios between data
structures show and what the cluster adds does not.
"""

from __future__ import annotations

import numpy as np

from loadgen.papers import data
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
from loadgen.papers.latency import cdf_panel, percentile_ratios
from loadgen.papers.model import Entry, Figure, claim, rises
from loadgen.papers.run import FigureRun
from loadgen.papers.sweep import Line, SweepTable, sweep

WINDOWS, QUICK_WINDOWS = (200_000, 600_000, 1_000_000), (20_000, 40_000)
#: Half width of Q2's bands: of coordinates that are spread over 1e6, so that 0.1 % of pairs match.
BAND = "ABS(l.a - r.a) < 16000 AND ABS(l.b - r.b) < 16000"
ONE_THREAD = (
    "One thread a method, no network. Bars: the slowest and fastest tenth of the measured chunks. A "
    "tuple of the mutable "
    "part is stored and searched for in both roles in a window of one slide; of the immutable part it is only searched "
    "for, in a window that was filled before. 'spo, whole' does both over the whole window, orders and reports."
)
IMMUTABLE = (
    Line(
        "PO-Join lists, as published",
        "spo_paper",
        a_slide_is_mutable,
        is_storing=False,
    ),
    Line("CSS, bit arrays", "css_bits", lambda w: {"batch": str(int(w) // SLIDES)}, is_storing=False),
    Line("CSS, hash sets", "css_sets", lambda w: {"batch": str(int(w) // SLIDES)}, is_storing=False),
)
MUTABLE = (Line("B+, bit arrays", "bplus_bits"), Line("B+, hash sets", "bplus_sets"))
WHOLE = (Line("spo, whole", "spo"),)
BIT_WHY = (
    "The paper's bit arrays and hash sets are Java objects between Storm bolts; here both are compiled loops over flat "
    "arrays, so only the cost of the intersection differs."
)
CSS_WHY = (
    "The paper puts the difference down to linked leaves and an extra level of provenance; here the "
    "leaves of a CSS-tree "
    "are one sorted array, as in PO-Join, and what differs is how two predicates meet."
)


def _q3(window: float, slide: float = 0) -> MeasuredJoin:
    rows = int(window) + MORE
    return self_join(INEQUALITIES, *data.taxi(rows), int(window), int(slide or max(window // SLIDES, 1)))


def _q1(window: float) -> MeasuredJoin:
    rows = int(window) + MORE
    size, slide = int(window), int(window) // SLIDES
    return cross_join(INEQUALITIES, (data.taxi(rows, 1), data.taxi(rows, 2)), (size, size), (slide, slide))


def _compared(run: FigureRun, windows: tuple[int, ...], name: str) -> SweepTable:
    make = _q3 if name == "Q3" else _q1
    run.plan(len(windows) * (len(IMMUTABLE) + len(MUTABLE) + 1))
    table = sweep(run, windows, IMMUTABLE, make)
    mutable = sweep(run, windows, MUTABLE, lambda w: make(w // SLIDES))
    return table.merged(mutable).merged(sweep(run, windows, WHOLE, make))


def figure_7(run: FigureRun) -> Figure:
    """Throughput of Q3, the self join."""
    table = _compared(run, run.pick(WINDOWS, QUICK_WINDOWS), "Q3")
    panel = table.rates("Q3, self join, taxi-like", "tuples of window; a slide is a tenth")
    claims = (
        claim(
            "immutable: PO-Join 12 to 31 times CSS with bit arrays",
            panel.times("PO-Join lists, as published", "CSS, bit arrays"),
            12,
            31,
            CSS_WHY,
        ),
        claim(
            "immutable: PO-Join 25 to 57 times CSS with hash sets",
            panel.times("PO-Join lists, as published", "CSS, hash sets"),
            25,
            57,
            CSS_WHY,
        ),
        claim(
            "mutable: bit arrays 9 to 44 times hash sets",
            panel.times("B+, bit arrays", "B+, hash sets"),
            9,
            44,
            BIT_WHY,
        ),
    )
    return Figure(
        "spo-join-07", "SPO-Join, figure 7: throughput of Q3, self join", ONE_THREAD, (panel,), claims, run.left_out
    )


def figure_8(run: FigureRun) -> Figure:
    """Throughput of Q2, the band join over time windows."""
    rate, slides = 1_000, 5
    seconds = run.pick((60, 120, 300), (10, 20))

    def timed(length: float) -> MeasuredJoin:
        rows = int(length) * rate
        rng = np.random.default_rng(3)
        a, b = rng.random((2, rows + rows // slides + MORE)) * 1e6
        return timed_join(BAND, a, b, int(length), slides, rate)

    run.plan(len(seconds) * (len(IMMUTABLE) + len(MUTABLE) + 1))
    immutable = tuple(
        Line(line.label, line.method, {"delta" if line.method == "spo_paper" else "batch": "4096"}, is_storing=False)
        for line in IMMUTABLE
    )
    table = sweep(run, seconds, immutable, timed)
    table = table.merged(sweep(run, seconds, MUTABLE, lambda length: timed(max(length // slides, 1))))
    panel = table.merged(sweep(run, seconds, WHOLE, timed)).rates(
        "Q2, two bands, 0.1 % of pairs match", "seconds of window"
    )
    why = "The bands here are two, and narrow: a range scan of each finds 3 % of the window. " + CSS_WHY
    claims = (
        rises(
            "immutable: PO-Join well above CSS with bit arrays",
            panel.times("PO-Join lists, as published", "CSS, bit arrays"),
            why,
        ),
        rises(
            "immutable: PO-Join well above CSS with hash sets",
            panel.times("PO-Join lists, as published", "CSS, hash sets"),
            why,
        ),
        rises("mutable: bit arrays above hash sets", panel.times("B+, bit arrays", "B+, hash sets"), BIT_WHY),
    )
    how = (
        f"{ONE_THREAD} {rate:,} tuples a second of event time; slides of a fifth of the window, "
        "batches of 4,096 tuples."
    )
    return Figure(
        "spo-join-08",
        "SPO-Join, figure 8: throughput of Q2, band join, time windows",
        how,
        (panel,),
        claims,
        run.left_out,
    )


def figure_9(run: FigureRun) -> Figure:
    """Throughput of Q1, the cross join."""
    panel = _compared(run, run.pick((100_000, 300_000, 500_000), (10_000, 20_000)), "Q1").rates(
        "Q1, cross join", "tuples of each window; a slide is a tenth"
    )
    claims = (
        claim(
            "immutable: PO-Join 2 to 19 times CSS",
            panel.times("PO-Join lists, as published", "CSS, bit arrays"),
            2,
            19,
            CSS_WHY,
        ),
        claim(
            "mutable: bit arrays 2 to 5.2 times hash sets",
            panel.times("B+, bit arrays", "B+, hash sets"),
            2,
            5.2,
            BIT_WHY,
        ),
    )
    return Figure(
        "spo-join-09", "SPO-Join, figure 9: throughput of Q1, cross join", ONE_THREAD, (panel,), claims, run.left_out
    )


QUEUE = (
    "Event-time latency: tuples arrive evenly, in frames of 64, at half the rate that the slowest method "
    "of the panel bears, "
    "and wait for one thread; waiting is computed from the measured time of each frame, merges included. The paper's "
    "percentiles are tens of seconds, as its rate is above what its operators bear and the queue grows "
    "as long as it runs."
)


def figure_10(run: FigureRun) -> Figure:
    """Latency of Q1, by method and by both merging thresholds."""
    window = run.pick(200_000, 20_000)
    slide = window // SLIDES
    run.plan(6)
    frame = 64
    methods = [
        Line("PO-Join lists and B+", "spo_paper", {"delta": str(slide)}, frame),
        Line("CSS, bit arrays", "css_bits", {"batch": str(slide)}, frame),
        Line("B+, bit arrays", "bplus_bits", {}, frame),
        Line("spo", "spo", {}, frame),
    ]
    compared = sweep(run, (window,), methods, _q1)
    thresholds = [
        Line("delta is the slide", "spo_paper", {"delta": str(slide)}, frame),
        Line("delta is a tenth of the slide", "spo_paper", {"delta": str(max(slide // 10, 16))}, frame),
    ]
    divided = sweep(run, (window,), thresholds, _q1)
    left, right = cdf_panel("methods", compared, frame), cdf_panel("PO-Join, both thresholds", divided, frame)
    claims = (
        claim(
            "PO-Join's median is 0.76 of CSS's",
            percentile_ratios(compared, "PO-Join lists and B+", "CSS, bit arrays", 50),
            0.5,
            0.99,
            CSS_WHY,
        ),
        claim(
            "the divided slide's median is a 70th (immutable) and two thirds (mutable) of the full slide's",
            percentile_ratios(divided, "delta is a tenth of the slide", "delta is the slide", 50),
            1 / 70,
            0.67,
            "A smaller delta makes trees cheaper and merges shorter, but gives every probe ten times as many lists "
            "to search; the paper searches those on ten PEs at once, here one thread does.",
        ),
    )
    how = f"{QUEUE} Windows of {window:,} tuples a stream."
    return Figure(
        "spo-join-10", "SPO-Join, figure 10: latency of Q1, thresholds delta", how, (left, right), claims, run.left_out
    )


def figure_11(run: FigureRun) -> Figure:
    """Latency and throughput against chained indexes."""
    windows = run.pick((100_000, 300_000, 500_000), (10_000, 20_000))
    run.plan(2 * 4 * len(windows))
    lines = (
        Line("SPO-Join as published", "spo_paper", {}, 64),
        Line("chained index, B+", "chain_b", {"length": str(SLIDES)}, 64),
        Line("chained index, immutable", "chain_ib", {"length": str(SLIDES)}, 64),
        Line("spo", "spo", {}, 64),
    )
    panels, claims = [], []
    for name, make, low, high in (("Q3", _q3, 3.7, 11.7), ("Q1", _q1, 11.9, 51.0)):
        table = sweep(run, windows, lines, make)
        series = table.series(lambda point: point.latency_us(95) / 1e3)
        panel = table.rates(name, "tuples of window")
        panels.append(
            type(panel)(f"{name}, 95th percentile", "tuples of window", "ms a frame of 64", series, log_y=True)
        )
        claims.append(
            claim(
                f"{name}: 95th percentile of chained indexes {low} to {high} times SPO-Join's",
                panels[-1].times("chained index, B+", "SPO-Join as published"),
                low,
                high,
                "The paper's latency holds queues, which grow with any difference of cost; here it is "
                "the processing of a "
                "frame. The chain verifies the second predicate on the candidates of the first.",
            )
        )
    how = (
        "A frame of 64 tuples, from its arrival at an idle thread to its last result. Chains of ten "
        "members, a slide each."
    )
    return Figure("spo-join-11", "SPO-Join, figure 11a, c: chained indexes", how, panels, claims, run.left_out)


ENTRIES = (
    Entry("spo-join-07", 60, figure_7),
    Entry("spo-join-08", 45, figure_8),
    Entry("spo-join-09", 50, figure_9),
    Entry("spo-join-10", 35, figure_10),
    Entry("spo-join-11", 45, figure_11),
)
