"""SPO-Join, figures 20 to 23: merges, the mutable share of the window, equality predicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.papers import data
from loadgen.papers.claims import NOTHING, Claim, checked, claim
from loadgen.papers.joins import F64, INEQUALITIES, MORE, SLIDES, MeasuredJoin, cross_join, self_join
from loadgen.papers.meter import Point
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

PUBLISHED, OWN_MERGES = "as published", "spo, all merges of delta tuples"
#: Tuples that arrive during a merge: the highest rate of the paper's figure 18.
ARRIVALS_A_SECOND = 5_000


def _q3(window: float, slide: float) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.matching(0.07, int(window) + MORE), int(window), int(slide))


def _one_slide(window: float) -> MeasuredJoin:
    return _q3(window, window)


def _delta(tuples: float) -> dict[str, str]:
    return {"delta": str(int(tuples))}


def figure_20(run: FigureRun) -> Figure:
    """What a merge costs."""
    deltas = run.pick((60_000, 70_000, 80_000, 90_000, 100_000), (4_000, 8_000))
    run.plan(3 * len(deltas))
    # Without probes several merges fit into the time.
    merging = sweep(run, deltas, (Line(PUBLISHED, "spo_paper", _delta, is_searching=False),), _one_slide)
    merges = [*merging.series(_merge_ms), _engine_merges(run, deltas)]
    left = Panel("a merge", "delta, tuples", "ms", merges, log_y=True)
    waits = _buffered(run, deltas, merging)
    right = Panel("tuples that came during a merge", "delta, tuples", "ms to evaluate them in the new list", [waits])
    how = (
        "Leaves to lists, with permutations, for a self join's two columns. 'spo' merges too, in small steps: its bars "
        "are all merges of a delta's tuples."
    )
    claims = _merge_claims(max(left.named(PUBLISHED).y), max(waits.y, default=None))
    return Figure("spo-join-20", "SPO-Join, figure 20: merge cost", how, (left, right), claims, run.left_out)


def _merge_ms(point: Point) -> float:
    return 1e3 * point.counters["merge_seconds"] / max(point.counters["merges"], 1)


def _engine_merges(run: FigureRun, deltas: Sequence[int]) -> Series:
    table = sweep(run, deltas, (Line(OWN_MERGES, "spo"),), lambda delta: _q3(10 * delta, delta))
    points = {x: point for (_, x), point in table.points.items()}
    ms = [1e3 * point.counters["merge_seconds"] / max(point.tuples, 1) * float(x) for x, point in points.items()]
    return Series(OWN_MERGES, list(points), ms)


def _buffered(run: FigureRun, deltas: Sequence[int], merging: SweepTable) -> Series:
    """Milliseconds to evaluate the tuples that arrive during a merge."""
    line = Line("a tuple, PO-Join", "spo_paper", _delta, is_storing=False)
    probing = {x: point for (_, x), point in sweep(run, deltas, (line,), _one_slide).points.items()}
    waiting = {x: _merge_ms(merging.points[PUBLISHED, x]) / 1e3 * ARRIVALS_A_SECOND for x in probing}
    return Series(PUBLISHED, list(probing), [waiting[x] * point.us / 1e3 for x, point in probing.items()])


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
    """How much of the window is mutable."""
    window = run.pick(500_000, 20_000)
    slide = window // 10
    run.plan(2 * len(MUTABLE_SHARES))
    mutable = sweep(
        run, MUTABLE_SHARES, (Line("mutable part", "bplus_bits"),), lambda share: _one_slide(int(window * share))
    )
    still = Line("immutable part", "spo_paper", {"delta": str(slide)}, is_storing=False)
    immutable = sweep(run, MUTABLE_SHARES, (still,), lambda share: _q3(int(window * (1 - share)), slide))
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
FRAME = 64


@dataclass(frozen=True, slots=True)
class _EqualityFigure:
    """What one of the two figures of equality predicates shows. low, high: the paper's range for its claim."""

    number: int
    shows: str
    paper: str
    low: float
    high: float

    def of(self, run: FigureRun, panel: Panel, ratios: Sequence[float]) -> Figure:
        """The figure of this panel."""
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
    lines = (
        Line(HASH, "hash", {}, chunk),
        Line(SPO_JOIN, "spo_paper", {}, chunk),
        Line("spo", "spo", {}, chunk),
    )
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
    Entry("spo-join-20", 40, figure_20),
    Entry("spo-join-21", 30, figure_21),
    Entry("spo-join-22", 30, figure_22),
    Entry("spo-join-23", 30, figure_23),
)
