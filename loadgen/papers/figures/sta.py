"""STA, stream-aware indexing (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), section 7: figures 11 to 35."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.papers import data
from loadgen.papers.figure import Claim, Entry, Figure, FigureRun, Panel, Series, checked, claim
from loadgen.papers.joins import INEQUALITIES, query_text
from loadgen.papers.layout_cost import (
    FRAME_TUPLES,
    SIMULATED,
    Costs,
    LayoutCost,
    LayoutFeed,
    LayoutRun,
    MeasuredLayout,
    cost_series,
    costs,
    rate_series,
    same,
)
from loadgen.papers.layouts.costs import imbalance
from loadgen.papers.layouts.layout import spread
from loadgen.papers.schemes.checkpoint import Sharing, completeness
from loadgen.window import window_of
from spojoin.arrays import F64

#: Tuples after the windows are full.
MORE = 40 * FRAME_TUPLES
EIGHT_PIECES = {"length": "8"}
STA = MeasuredLayout("STA", "sta", "chain_b", EIGHT_PIECES)
OTHERS = (
    MeasuredLayout("split join", "split_join"),
    MeasuredLayout("chained index", "split_join", "chain_b", EIGHT_PIECES),
    MeasuredLayout("PIM-Tree", "split_join", "pim_tree"),
    MeasuredLayout("BCHJ", "bchj"),
    MeasuredLayout("multi-chained index", "bchj", "chain_b", EIGHT_PIECES),
)
LAYOUTS = (STA, *OTHERS)
HOW = (
    f"{SIMULATED}Frames of {FRAME_TUPLES} tuples. All layouts are exact here: where the paper asks one cold worker and "
    "shares state at checkpoints, every worker is asked. Split join and BCHJ compare tuple by tuple, with vector "
    "instructions; STA and the chained indexes have B+-trees in eight pieces."
)
WHY = (
    "The paper's nested loops run in Java with a queue before them; here a scan compares with vector instructions, and "
    "trees pay off only where a predicate is narrow and the window large. Part of STA's advantage in the paper is what "
    "it omits: it doesn't ask all workers."
)

#: The columns a and b, given the number of rows.
Draw = Callable[[int], tuple[F64, F64]]


@dataclass(frozen=True, slots=True)
class FigureStream:
    """A self join's condition, and how its columns are drawn."""

    condition: str
    draw: Draw

    def feed(self, window: int) -> LayoutFeed:
        """The join over a window of this many tuples."""
        a, b = self.draw(window + MORE)
        return LayoutFeed(text(self.condition, window), ({"a": a, "b": b},), (FRAME_TUPLES,), window)


def text(condition: str, window: int) -> str:
    """The text of a self join over a window of this many tuples, rounded down to tens."""
    return query_text(condition, ("rows", "rows"), window // 10 * 10, max(window // 10, 1))


def voltage(rows: int) -> tuple[F64, F64]:
    """Two readings of a mains voltage: a narrow normal distribution, in steps of a tenth."""
    drawn = np.random.default_rng(1).normal(230.0, 2.0, (2, rows)).round(1)
    return drawn[0], drawn[1]


def current(rows: int) -> tuple[F64, F64]:
    """Two readings of a current: mostly near zero, with a long tail."""
    drawn = np.random.default_rng(2).exponential(1.5, (2, rows)).round(2)
    return drawn[0], drawn[1]


def zipf(exponent: float) -> Draw:
    """Two columns of Zipf keys."""
    draw = data.zipf(exponent)
    return lambda rows: (draw(rows, 1), draw(rows, 2))


#: Seconds of a window.
SECONDS, QUICK_SECONDS = 50, 10
AXES = ("tuples/s, windows of 50 s", "workers", "seconds of window")
P99 = "ms a frame, 99th percentile"
#: STA's advantage over each other layout, for each panel.
Factors = Sequence[Mapping[str, float]]


def _of_others(*factors: float) -> dict[str, float]:
    return dict(zip((other.label for other in OTHERS), factors, strict=True))


TAXI_RATES: Factors = (
    {"split join": 1.6, "chained index": 1.13, "PIM-Tree": 2.6},
    {"split join": 1.5, "chained index": 1.2, "PIM-Tree": 2.4},
    {"split join": 2.5, "chained index": 2.0, "PIM-Tree": 1.6},
)
TAXI_LATENCIES: Factors = (
    _of_others(2.8, 2.3, 5.0, 3.0, 7.0),
    _of_others(1.2, 2.0, 1.7, 3.8, 7.0),
    _of_others(2.5, 3.4, 5.0, 2.0, 7.0),
)
VOLTAGE: Factors = (
    _of_others(4.8, 4.0, 4.2, 3.0, 8.0),
    {"PIM-Tree": 2.0, "chained index": 1.5, "split join": 5.0, "BCHJ": 2.8},
    {"split join": 3.8, "BCHJ": 3.0, "chained index": 2.1, "PIM-Tree": 2.8},
)
CURRENT: Factors = (
    _of_others(3.0, 3.2, 3.5, 2.0, 7.8),
    _of_others(3.1, 2.2, 2.8, 2.5, 6.5),
    _of_others(3.1, 2.2, 2.8, 2.5, 6.5),
)
ZIPF: Factors = (
    {"multi-chained index": 1.5, "chained index": 2.0, "PIM-Tree": 2.1},
    {"multi-chained index": 1.3, "chained index": 2.2, "split join": 2.1},
)


def _swept(run: FigureRun, stream: FigureStream) -> tuple[Costs, Costs, Costs]:
    """By input rate, by workers and by window; rate times seconds gives the window's tuples."""
    rates, workers, seconds = run.pick(((250, 500, 1_000), (2, 4, 8), (10, 25, 50)), ((100, 200), (2, 4), (5, 10)))
    rate, usual = run.pick((500, 4), (100, 2))
    length = run.pick(SECONDS, QUICK_SECONDS)
    run.plan(len(LAYOUTS) * (len(rates) + len(workers) + len(seconds)))
    return (
        costs(run, rates, LAYOUTS, lambda x: stream.feed(int(x) * length), same(usual)),
        costs(run, workers, LAYOUTS, lambda _: stream.feed(rate * length), int),
        costs(run, seconds, LAYOUTS, lambda x: stream.feed(rate * int(x)), same(usual)),
    )


def _panels(found: Sequence[Costs], first: int, y: str, value: Callable[[LayoutCost], float]) -> list[Panel]:
    return [Panel(f"{first + i}", AXES[i], y, cost_series(each, value), log_y=True) for i, each in enumerate(found)]


def _throughput_claims(panels: Sequence[Panel], factors: Factors) -> list[Claim]:
    return [
        claim(f"{panel.title}: STA's throughput is {n} times better than {other}", panel.times("STA", other), n, n, WHY)
        for panel, by_other in zip(panels, factors, strict=True)
        for other, n in by_other.items()
    ]


def _latency_claims(panels: Sequence[Panel], factors: Factors) -> list[Claim]:
    return [
        claim(f"{panel.title}: STA's latency is {n} times better than {other}", panel.times(other, "STA"), n, n, WHY)
        for panel, by_other in zip(panels, factors, strict=True)
        for other, n in by_other.items()
    ]


def figures_11_to_16(run: FigureRun) -> Figure:
    """Taxi: throughput and latency by rate, workers and window."""
    found = _swept(run, FigureStream(INEQUALITIES, data.taxi))
    rates = _panels(found, 11, "tuples/s", lambda each: each.rate)
    waits = _panels(found, 14, P99, lambda each: each.p99_ms)
    claims = [*_throughput_claims(rates, TAXI_RATES), *_latency_claims(waits, TAXI_LATENCIES)]
    how = f"{HOW} Taxi-like distance and fare, two inequalities."
    return Figure("sta-11-16", "STA, figures 11 to 16: taxi data", how, (*rates, *waits), claims, run.left_out)


@dataclass(frozen=True, slots=True)
class _LatencyFigure:
    """Three figures of the latency on one kind of reading; the first has this number."""

    first: int
    what: str
    draw: Draw
    factors: Factors

    def measured(self, run: FigureRun) -> Figure:
        """By rate, workers and window."""
        last = self.first + 2
        waits = _panels(_swept(run, FigureStream("l.a > r.b", self.draw)), self.first, P99, lambda each: each.p99_ms)
        how = f"{HOW} One inequality between two readings of a {self.what}, with few values and many ties."
        title = f"STA, figures {self.first} to {last}: latency, {self.what}"
        claims = _latency_claims(waits, self.factors)
        return Figure(f"sta-{self.first}-{last}", title, how, waits, claims, run.left_out)


def figures_17_to_19(run: FigureRun) -> Figure:
    """Voltage: latency."""
    return _LatencyFigure(17, "voltage", voltage, VOLTAGE).measured(run)


def figures_20_to_22(run: FigureRun) -> Figure:
    """Current: latency."""
    return _LatencyFigure(20, "current", current, CURRENT).measured(run)


def figures_23_to_31(run: FigureRun) -> Figure:
    """Zipf skew and insertion delay."""
    delays, exponents, workers = run.pick((1, 2, 3), (1, 3)), (1.0, 1.5, 2.0), run.pick(4, 2)
    length = run.pick(25, 4)
    run.plan(len(LAYOUTS) * len(delays) * len(exponents))
    panels = [
        Panel(
            f"Z = {exponent}",
            "ms between insertions",
            "tuples/s",
            rate_series(costs(run, delays, LAYOUTS, _by_delay(exponent, length), same(workers))),
            log_y=True,
        )
        for exponent in exponents
    ]
    highest = panels[2]
    claims = _throughput_claims(panels[:2], ZIPF)
    claims += [
        claim(f"{highest.title}: STA is better than {each.label}", highest.times(STA.label, each.label), 1.1, 10.0, WHY)
        for each in OTHERS
    ]
    how = (
        f"{HOW} Figures 23, 26 and 29 are the first panel by delay, and so on. Windows of {length} s: a longer delay "
        "means fewer tuples."
    )
    title = "STA, figures 23 to 31: Zipf skew and insertion delay"
    return Figure("sta-23-31", title, how, panels, claims, run.left_out)


def _by_delay(exponent: float, seconds: int) -> Callable[[float], LayoutFeed]:
    stream = FigureStream(INEQUALITIES, zipf(exponent))
    return lambda delay_ms: stream.feed(1_000 // int(delay_ms) * seconds)


EXPONENTS = (0.5, 1.0, 1.5, 2.0)
HASHED, RANDOM = "hash of the key", "random"


def figure_32(run: FigureRun) -> Figure:
    """Load imbalance."""
    tuples, workers = run.pick(100_000, 20_000), 10
    hashed = [_imbalance(spread(_whole_keys(exponent, tuples, 3), workers), workers) for exponent in EXPONENTS]
    random = [_imbalance(spread(np.arange(tuples), workers), workers)] * len(EXPONENTS)
    panel = Panel(
        "stored tuples",
        "Zipf exponent",
        "highest of a worker / mean",
        [Series(HASHED, EXPONENTS, hashed), Series(RANDOM, EXPONENTS, random), *_own_imbalance(run, workers)],
    )
    at_most = [h / r for h, r in zip(hashed, random, strict=True)][1:]
    why = "The skew of the keys and the number of workers determine the factor."
    claims = (
        claim("hashing is more than 2 times less balanced than random", at_most, 2, 10, why),
        claim("hashing gets worse with skew", panel.growth(HASHED), 1.2, 10, "The share of one key bounds it."),
        claim("random stays the same", panel.growth(RANDOM), 0.9, 1.1, "It doesn't depend on the keys."),
    )
    how = (
        f"{tuples:,} tuples over {workers} workers, counted. STA's own layout keeps hot keys on two of them, which "
        "store more or less than the others, depending on the skew."
    )
    return Figure("sta-32", "STA, figure 32: load imbalance", how, (panel,), claims, run.left_out)


def _whole_keys(exponent: float, tuples: int, seed: int) -> NDArray[np.int64]:
    return data.zipf(exponent)(tuples, seed).astype(np.int64)


def _imbalance(homes: NDArray[np.int64], workers: int) -> float:
    return imbalance(np.bincount(homes, minlength=workers).tolist())


def _own_imbalance(run: FigureRun, workers: int) -> list[Series]:
    layouts = (
        MeasuredLayout("STA, two choices", "sta"),
        MeasuredLayout("STA, one choice", "sta", options={"choices": "1"}),
    )
    found = costs(run, EXPONENTS, layouts, lambda z: FigureStream(INEQUALITIES, zipf(z)).feed(5_000), same(workers))
    return cost_series(found, lambda each: each.imbalance("stored"))


#: Tuples of a block, and the keys that are hot.
BLOCK, HOT_KEYS = 1_000, 32


def figure_33(run: FigureRun) -> Figure:
    """The workers at which a thousand tuples lie."""
    workers, tuples = 100, run.pick(100_000, 20_000)
    robin = [_workers_of_blocks(np.arange(tuples) % workers)] * len(EXPONENTS)
    random = [_workers_of_blocks(_homes(_whole_keys(z, tuples, 5), workers)) for z in EXPONENTS]
    series = [Series("round robin", EXPONENTS, robin), Series("random, hot keys at two", EXPONENTS, random)]
    panel = Panel(f"each {BLOCK:,} tuples", "Zipf exponent", "workers that hold some", series)
    claims = (
        checked(
            "round robin aggregates from all 100 workers",
            f"{min(robin):.3g} to {max(robin):.3g}",
            holds=min(robin) == workers,
        ),
        checked(
            "random uses almost 60 of 100 workers",
            f"{min(random):.3g} to {max(random):.3g}",
            "A thousand cold tuples reach nearly all of 100 workers; fewer do where most tuples are hot. The paper "
            "doesn't state its skew here.",
            holds=min(random) <= 60 <= max(random),
        ),
    )
    how = (
        f"Counted: the {HOT_KEYS} most frequent keys lie at two workers, others at random ones. Exact joins ask all "
        "workers, whatever they hold."
    )
    return Figure("sta-33", "STA, figure 33: aggregation", how, (panel,), claims, run.left_out)


def _homes(keys: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """The worker of each tuple: hot keys alternate between the first two, cold tuples go to random others."""
    numbers = np.arange(len(keys))
    is_hot = np.isin(keys, np.argsort(-np.bincount(keys))[:HOT_KEYS])
    return np.where(is_hot, numbers % 2, 2 + spread(numbers, workers - 2))


def _workers_of_blocks(homes: NDArray[np.int64]) -> float:
    """The mean number of workers that hold tuples of a block."""
    return float(np.mean([len(set(block.tolist())) for block in homes.reshape(-1, BLOCK)]))


STA_SHARED, CHAIN_SHARED, OWN = "STA, checkpoints", "chained index, checkpoints", "this project's STA layout"
RATE = 200.0


def figures_34_and_35(run: FigureRun) -> Figure:
    """Completeness by checkpoint interval, and the completeness of the layout here."""
    length, tuples = run.pick(10.0, 5.0), run.pick(8_000, 3_000)
    own = Series(OWN, EXPONENTS, _exact(run))
    ten = _completeness_panel("34: 10 workers, 1 s", Sharing(10, RATE, length, 1.0), tuples, own)
    hundred = _completeness_panel("35: 100 workers, 5 s", Sharing(100, RATE, length, 5.0), tuples, own)
    how = (
        f"A simulation of the checkpoints: {RATE:g} tuples/s, windows of {length:g} s, a band over Zipf keys. This "
        "project's layout is measured: its matches are counted, and compared with those of a nested loop."
    )
    title = "STA, figures 34 and 35: completeness"
    claims = (*_completeness_claims(ten, hundred), _exact_claim(own.y))
    return Figure("sta-34-35", title, how, (ten, hundred), claims, run.left_out)


def _completeness_panel(title: str, sharing: Sharing, tuples: int, own: Series) -> Panel:
    found: dict[str, list[float]] = {STA_SHARED: [], CHAIN_SHARED: []}
    for exponent in EXPONENTS:
        keys = data.zipf(exponent)(tuples, 6)
        is_hot = np.isin(keys, _hottest(keys, HOT_KEYS))
        for name, hot in ((STA_SHARED, is_hot), (CHAIN_SHARED, np.zeros(tuples, np.bool_))):
            found[name].append(completeness(sharing, keys - 50, keys + 50, keys, hot))
    series = [Series(name, EXPONENTS, values) for name, values in found.items()]
    return Panel(title, "Zipf exponent", "completeness", [*series, own])


def _hottest(keys: F64, count: int) -> F64:
    values, counts = np.unique(keys, return_counts=True)
    return values[np.argsort(-counts)[:count]]


def _completeness_claims(ten: Panel, hundred: Panel) -> tuple[Claim, ...]:
    why = (
        "A probe misses the tuples since the last checkpoint, which are at most that share of a window: the paper's "
        "losses are larger, so that more than the interval must delay its state."
    )
    chain, sta = ten.named(CHAIN_SHARED).y[0], ten.named(STA_SHARED).y[-1]
    first, second = (panel.times(STA_SHARED, CHAIN_SHARED) for panel in (ten, hundred))
    return (
        claim("34: at Z = 0.5 the chained index finds 1 of 3.5 matches", [chain], 1 / 3.5, 1 / 3.5, why),
        claim("34: STA is 1.5 times as complete as the chained index", first, 1.5, 1.5, why),
        claim("35: STA is 1.5 to 2 times as complete", second, 1.5, 2, why),
        checked("STA approaches 1 with skew", f"{sta:.3g}", why, holds=sta > 0.95),
    )


def _exact_claim(own: Sequence[float]) -> Claim:
    return checked(
        "(not in the paper) asking all workers makes completeness 1",
        f"{min(own):g} to {max(own):g}",
        holds=set(own) == {1.0},
    )


#: Tuples of a frame, and half the width of the band, of the layout's own measurement.
FRAME, HALF_WIDTH = 250, 50


def _exact(run: FigureRun) -> list[float]:
    """The matches that the layout's workers find, divided by a nested loop's, at each exponent."""
    tuples = run.pick(3_000, 1_000)
    window = tuples // 3
    return [_exact_share(data.zipf(exponent)(tuples, 6), window) for exponent in EXPONENTS]


def _exact_share(keys: F64, window: int) -> float:
    query = text(f"ABS(l.a - r.a) <= {HALF_WIDTH}", window)
    made = LayoutRun(STA, LayoutFeed(query, ({"a": keys, "b": keys},), (FRAME,), window), 4)
    while made.has_more:
        made.frame()
    return made.engine.matches / _nested_loop(keys[: len(keys) // FRAME * FRAME], window)


def _nested_loop(keys: F64, window: int) -> int:
    """Matches of the self join, counted probe by probe, in both directions."""
    slide, length = max(window // 10, 1), window // 10 * 10
    found = 0
    for i, key in enumerate(keys):
        members = keys[window_of(i, length, slide)]
        found += 2 * int(np.sum(np.abs(members - key) <= HALF_WIDTH))
    return found


ENTRIES = (
    Entry("sta-11-16", 150, figures_11_to_16),
    Entry("sta-17-19", 100, figures_17_to_19),
    Entry("sta-20-22", 100, figures_20_to_22),
    Entry("sta-23-31", 110, figures_23_to_31),
    Entry("sta-32", 20, figure_32),
    Entry("sta-33", 5, figure_33),
    Entry("sta-34-35", 25, figures_34_and_35),
)
