"""SPO-Join, figures 7 to 11: methods beside one another.

The paper ran Storm bolts on ten machines. Here each method is one thread without a network, which shows the ratios
between data structures, but not what the cluster adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loadgen.papers import data
from loadgen.papers.claims import Claim, claim, rises
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
from loadgen.papers.model import Figure, Panel
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

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
MUTABLE = (Line(B_BITS, "bplus_bits"), Line(B_SETS, "bplus_sets"))
WHOLE = (Line("spo, whole", "spo"),)
BIT_WHY = (
    "The paper's bit arrays and hash sets are Java objects between Storm bolts; here both are compiled loops over flat "
    "arrays, so that only the cost of the intersection differs."
)
CSS_WHY = (
    "The paper attributes the difference to linked leaves and an extra level of provenance; here the leaves of a "
    "CSS-tree are one sorted array, as in PO-Join, and the difference is how two predicates meet."
)


def _q3(window: float, slide: float = 0) -> MeasuredJoin:
    rows = int(window) + MORE
    return self_join(INEQUALITIES, *data.taxi(rows), int(window), int(slide or max(window // SLIDES, 1)))


def _q1(window: float) -> MeasuredJoin:
    rows = int(window) + MORE
    size, slide = int(window), int(window) // SLIDES
    return cross_join(INEQUALITIES, (data.taxi(rows, 1), data.taxi(rows, 2)), (size, size), (slide, slide))


def _compared(run: FigureRun, windows: Sequence[int], join: Callable[[float], MeasuredJoin]) -> SweepTable:
    """The immutable and mutable parts of every method, and the whole engine."""
    run.plan(len(windows) * (len(IMMUTABLE) + len(MUTABLE) + 1))
    immutable = sweep(run, windows, IMMUTABLE, join)
    mutable = sweep(run, windows, MUTABLE, lambda window: join(window // SLIDES))
    return merged(immutable, mutable, sweep(run, windows, WHOLE, join))


def figure_7(run: FigureRun) -> Figure:
    """Throughput of Q3, the self join."""
    table = _compared(run, run.pick(WINDOWS, QUICK_WINDOWS), _q3)
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
#: Where windows are of time, batches have a fixed number of tuples.
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
    run.plan(len(seconds) * (len(IMMUTABLE) + len(MUTABLE) + 1))
    immutable = sweep(run, seconds, TIMED_IMMUTABLE, _q2)
    mutable = sweep(run, seconds, MUTABLE, lambda length: _q2(max(length // TIME_SLIDES, 1)))
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
    q3, q1 = _waits("Q3", sweep(run, windows, CHAINED, _q3)), _waits("Q1", sweep(run, windows, CHAINED, _q1))
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


ENTRIES = (
    Entry("spo-join-07", 60, figure_7),
    Entry("spo-join-08", 45, figure_8),
    Entry("spo-join-09", 50, figure_9),
    Entry("spo-join-10", 35, figure_10),
    Entry("spo-join-11", 45, figure_11),
)
