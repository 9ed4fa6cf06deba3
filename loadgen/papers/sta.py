"""STA, stream-aware indexing (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), section 7: figures 11 to 35."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from loadgen.papers import data
from loadgen.papers.joins import INEQUALITIES, query_text
from loadgen.papers.laid import FRAME_TUPLES, SIMULATED, Cost, Costs, Fed, Laid, Steps, costs, panel
from loadgen.papers.model import Claim, Entry, Figure, Panel, Series, claim, tells
from loadgen.papers.run import FigureRun
from loadgen.papers.schemes.checkpoint import Sharing, completeness
from spojoin.kernels.spread import spread
from spojoin.published.layouts.load import imbalance

F64 = NDArray[np.float64]
SECONDS = 50
#: Tuples behind full windows.
MORE = 40 * FRAME_TUPLES
METHODS = (
    Laid("STA", "sta", "chain_b", {"length": "8"}),
    Laid("split join", "split_join"),
    Laid("chained index", "split_join", "chain_b", {"length": "8"}),
    Laid("PIM-Tree", "split_join", "pim_tree"),
    Laid("BCHJ", "bchj"),
    Laid("multi-chained index", "bchj", "chain_b", {"length": "8"}),
)
OTHERS = tuple(each.label for each in METHODS[1:])
HOW = (
    f"{SIMULATED}Frames of {FRAME_TUPLES} tuples. All of them are exact here: where the paper asks one "
    "cold worker and shares "
    "state at checkpoints, every worker is asked. Split join and BCHJ compare tuple by tuple, in vector "
    "instructions; STA and the "
    "chained indexes have B+-trees in eight pieces."
)
WHY = (
    "The paper's nested loops run in Java with a queue before them; here a scan compares in vector instructions, and "
    "trees pay only where a predicate is narrow and the window large. STA's advantage in the paper is also what it "
    "doesn't do: it doesn't ask all workers."
)


def _text(condition: str, window: int) -> str:
    return query_text(condition, ("rows", "rows"), window // 10 * 10, max(window // 10, 1))


Draw = Callable[[int], tuple[F64, F64]]


def _fed(condition: str, draw: Draw, window: int) -> Fed:
    a, b = draw(window + MORE)
    return Fed(_text(condition, window), ({"a": a, "b": b},), (FRAME_TUPLES,), window)


def _voltage(rows: int) -> tuple[F64, F64]:
    """Two readings of a mains voltage: a narrow bell, in steps of a tenth."""
    drawn = np.random.default_rng(1).normal(230.0, 2.0, (2, rows)).round(1)
    return drawn[0], drawn[1]


def _current(rows: int) -> tuple[F64, F64]:
    """Two readings of a current: mostly near nothing, with a long tail."""
    drawn = np.random.default_rng(2).exponential(1.5, (2, rows)).round(2)
    return drawn[0], drawn[1]


def _swept(run: FigureRun, condition: str, draw: Draw) -> tuple[Costs, Costs, Costs]:
    """By input rate, by workers, and by window; a rate and a window in seconds make the window's tuples."""
    rates, workers, seconds = run.pick(((250, 500, 1_000), (2, 4, 8), (10, 25, 50)), ((100, 200), (2, 4), (5, 10)))
    rate, usual = run.pick((500, 4), (100, 2))
    run.plan(len(METHODS) * (len(rates) + len(workers) + len(seconds)))
    length = run.pick(SECONDS, 10)
    return (
        costs(run, rates, METHODS, lambda r: _fed(condition, draw, int(r) * length), lambda _: usual),
        costs(run, workers, METHODS, lambda _: _fed(condition, draw, rate * length), int),
        costs(run, seconds, METHODS, lambda s: _fed(condition, draw, rate * int(s)), lambda _: usual),
    )


AXES = ("tuples/s, windows of 50 s", "workers", "seconds of window")


def _panels(found: Sequence[Costs], first: int, y: str, value: Callable[[Cost], float]) -> list[Panel]:
    return [panel(each, f"{first + i}", AXES[i], y, value) for i, each in enumerate(found)]


def _claims(panels: Sequence[Panel], told: Sequence[dict[str, float]], *, is_latency: bool) -> list[Claim]:
    """told: by panel, how many times better STA is than each other."""
    word = "latency" if is_latency else "throughput"
    found = []
    for each, factors in zip(panels, told, strict=True):
        for other, factor in factors.items():
            ratios = each.times(other, "STA") if is_latency else each.times("STA", other)
            found.append(
                claim(f"{each.title}: STA's {word} is {factor} times better than {other}", ratios, factor, factor, WHY)
            )
    return found


TAXI_RATES = (
    {"split join": 1.6, "chained index": 1.13, "PIM-Tree": 2.6},
    {"split join": 1.5, "chained index": 1.2, "PIM-Tree": 2.4},
    {"split join": 2.5, "chained index": 2.0, "PIM-Tree": 1.6},
)
TAXI_LATENCIES = (
    dict(zip(OTHERS, (2.8, 2.3, 5.0, 3.0, 7.0), strict=True)),
    dict(zip(OTHERS, (1.2, 2.0, 1.7, 3.8, 7.0), strict=True)),
    dict(zip(OTHERS, (2.5, 3.4, 5.0, 2.0, 7.0), strict=True)),
)
VOLTAGE = (
    dict(zip(OTHERS, (4.8, 4.0, 4.2, 3.0, 8.0), strict=True)),
    {"PIM-Tree": 2.0, "chained index": 1.5, "split join": 5.0, "BCHJ": 2.8},
    {"split join": 3.8, "BCHJ": 3.0, "chained index": 2.1, "PIM-Tree": 2.8},
)
CURRENT = (
    dict(zip(OTHERS, (3.0, 3.2, 3.5, 2.0, 7.8), strict=True)),
    dict(zip(OTHERS, (3.1, 2.2, 2.8, 2.5, 6.5), strict=True)),
    dict(zip(OTHERS, (3.1, 2.2, 2.8, 2.5, 6.5), strict=True)),
)


def figures_11_to_16(run: FigureRun) -> Figure:
    """Taxi: throughput and latency by rate, workers and window."""
    found = _swept(run, INEQUALITIES, data.taxi)
    rates = _panels(found, 11, "tuples/s", lambda each: each.rate)
    waits = _panels(found, 14, "ms a frame, 99th percentile", lambda each: each.p99_ms)
    claims = [*_claims(rates, TAXI_RATES, is_latency=False), *_claims(waits, TAXI_LATENCIES, is_latency=True)]
    how = f"{HOW} Taxi-like distance and fare, two inequalities."
    return Figure("sta-11-16", "STA, figures 11 to 16: taxi data", how, (*rates, *waits), claims, run.left_out)


def _latencies(run: FigureRun, first: int, what: str, draw: Draw, told: Sequence[dict[str, float]]) -> Figure:
    waits = _panels(_swept(run, "l.a > r.b", draw), first, "ms a frame, 99th percentile", lambda each: each.p99_ms)
    how = f"{HOW} One inequality between two readings of a {what}, with few values and many ties."
    title = f"STA, figures {first} to {first + 2}: latency, {what}"
    return Figure(f"sta-{first}-{first + 2}", title, how, waits, _claims(waits, told, is_latency=True), run.left_out)


def figures_17_to_19(run: FigureRun) -> Figure:
    """Voltage: latency."""
    return _latencies(run, 17, "voltage", _voltage, VOLTAGE)


def figures_20_to_22(run: FigureRun) -> Figure:
    """Current: latency."""
    return _latencies(run, 20, "current", _current, CURRENT)


def _zipf(exponent: float) -> Draw:
    draw = data.zipf(exponent)
    return lambda rows: (draw(rows, 1), draw(rows, 2))


def figures_23_to_31(run: FigureRun) -> Figure:
    """Zipf skew and insertion delay."""
    delays, exponents, workers = run.pick((1, 2, 3), (1, 3)), (1.0, 1.5, 2.0), run.pick(4, 2)
    length = run.pick(25, 4)
    run.plan(len(METHODS) * len(delays) * len(exponents))
    panels = []
    for exponent in exponents:
        found = costs(
            run,
            delays,
            METHODS,
            lambda ms, z=exponent: _fed(INEQUALITIES, _zipf(z), 1_000 // int(ms) * length),
            lambda _: workers,
        )
        panels.append(panel(found, f"Z = {exponent}", "ms between insertions", "tuples/s", lambda each: each.rate))
    told = (
        {"multi-chained index": 1.5, "chained index": 2.0, "PIM-Tree": 2.1},
        {"multi-chained index": 1.3, "chained index": 2.2, "split join": 2.1},
    )
    claims = _claims(panels[:2], told, is_latency=False)
    claims += [
        claim(f"{panels[2].title}: STA is better than {other}", panels[2].times("STA", other), 1.1, 10.0, WHY)
        for other in OTHERS
    ]
    how = (
        f"{HOW} Figures 23, 26, 29 are the first panel by delay, and so on. Windows of {length} s: a longer delay "
        "means fewer tuples."
    )
    return Figure(
        "sta-23-31", "STA, figures 23 to 31: Zipf skew and insertion delay", how, panels, claims, run.left_out
    )


EXPONENTS = (0.5, 1.0, 1.5, 2.0)


def figure_32(run: FigureRun) -> Figure:
    """Load imbalance."""
    tuples, workers = run.pick(100_000, 20_000), 10
    schemes: dict[str, list[float]] = {"hash of the key": [], "random": []}
    numbers = spread(np.arange(tuples), workers)
    for exponent in EXPONENTS:
        keys = data.zipf(exponent)(tuples, 3).astype(np.int64)
        schemes["hash of the key"].append(imbalance(np.bincount(spread(keys, workers), minlength=workers).tolist()))
        schemes["random"].append(imbalance(np.bincount(numbers, minlength=workers).tolist()))
    laid = (Laid("STA, two choices", "sta"), Laid("STA, one choice", "sta", options={"choices": "1"}))
    found = costs(run, EXPONENTS, laid, lambda z: _fed(INEQUALITIES, _zipf(z), 5_000), lambda _: workers)
    both = panel(found, "", "", "", lambda each: each.imbalance("stored"))
    series = [Series(name, EXPONENTS, values) for name, values in schemes.items()]
    own = Panel("stored tuples", "Zipf exponent", "the most of a worker to the mean", [*series, *both.series])
    at_most = [h / r for h, r in zip(schemes["hash of the key"], schemes["random"], strict=True)][1:]
    claims = (
        claim(
            "hashing is more than 2 times less balanced than random",
            at_most,
            2,
            10,
            "How skewed keys are, and how many workers there are, set the factor.",
        ),
        claim("hashing gets worse with skew", own.growth("hash of the key"), 1.2, 10, "One key's share bounds it."),
        claim("random stays as it is", own.growth("random"), 0.9, 1.1, "It doesn't know the keys."),
    )
    how = (
        f"{tuples:,} tuples over {workers} workers, counted. STA's own layout keeps hot keys on two of them, which "
        "have more or less than the others as the skew has it."
    )
    return Figure("sta-32", "STA, figure 32: load imbalance", how, (own,), claims, run.left_out)


def figure_33(run: FigureRun) -> Figure:
    """How many workers a thousand tuples lie at."""
    workers, tuples, hot = 100, run.pick(100_000, 20_000), 32
    robin, random = [], []
    for exponent in EXPONENTS:
        keys = data.zipf(exponent)(tuples, 5).astype(np.int64)
        is_hot = np.isin(keys, np.argsort(-np.bincount(keys))[:hot])
        homes = np.where(is_hot, np.arange(tuples) % 2, 2 + spread(np.arange(tuples), workers - 2))
        robin.append(float(np.mean([len(set(block)) for block in (np.arange(tuples) % workers).reshape(-1, 1_000)])))
        random.append(float(np.mean([len(set(block.tolist())) for block in homes.reshape(-1, 1_000)])))
    series = [Series("round robin", EXPONENTS, robin), Series("random, hot keys at two", EXPONENTS, random)]
    own = Panel("each 1,000 tuples", "Zipf exponent", "workers that hold some", series)
    claims = (
        tells(
            "round robin aggregates from all 100 workers",
            f"{min(robin):.3g} to {max(robin):.3g}",
            holds=min(robin) == workers,
        ),
        tells(
            "random uses almost 60 of 100 workers",
            f"{min(random):.3g} to {max(random):.3g}",
            "A thousand cold tuples reach nearly all of 100 workers; fewer do where most tuples are hot. The paper "
            "doesn't tell its skew here.",
            holds=min(random) <= 60 <= max(random),
        ),
    )
    how = (
        f"Counted: the {hot} most frequent keys lie at two workers, others at random ones. Exact joins ask all "
        "workers whatever they hold."
    )
    return Figure("sta-33", "STA, figure 33: aggregation", how, (own,), claims, run.left_out)


def figures_34_and_35(run: FigureRun) -> Figure:
    """Completeness by checkpoint interval, with ours."""
    rate, length, tuples = 200.0, run.pick(10.0, 5.0), run.pick(8_000, 3_000)
    panels = []
    for title, workers, checkpoint_s in (("34: 10 workers, 1 s", 10, 1.0), ("35: 100 workers, 5 s", 100, 5.0)):
        curves: dict[str, list[float]] = {"STA, checkpoints": [], "chained index, checkpoints": []}
        for exponent in EXPONENTS:
            keys = data.zipf(exponent)(tuples, 6)
            is_hot = np.isin(keys, _hottest(keys, 32))
            sharing = Sharing(workers, rate, length, checkpoint_s)
            for name, hot in (("STA, checkpoints", is_hot), ("chained index, checkpoints", np.zeros(tuples, np.bool_))):
                curves[name].append(completeness(sharing, keys - 50, keys + 50, keys, hot))
        series = [Series(name, EXPONENTS, values) for name, values in curves.items()]
        panels.append(
            Panel(
                title,
                "Zipf exponent",
                "completeness",
                [*series, Series("this project's STA layout", EXPONENTS, _exact(run))],
            )
        )
    first, second = panels
    own = [y for each in panels for y in each.named("this project's STA layout").y]
    why = (
        "A probe misses what came since the last checkpoint, at most a window's share of it: the paper's losses "
        "are larger, so that more than the interval must delay its state."
    )
    claims = (
        claim(
            "34: at Z = 0.5 the chained index finds 1 of 3.5 matches",
            [first.named("chained index, checkpoints").y[0]],
            1 / 3.5,
            1 / 3.5,
            why,
        ),
        claim(
            "34: STA is 1.5 times as complete as the chained index",
            first.times("STA, checkpoints", "chained index, checkpoints"),
            1.5,
            1.5,
            why,
        ),
        claim(
            "35: STA is 1.5 to 2 times as complete",
            second.times("STA, checkpoints", "chained index, checkpoints"),
            1.5,
            2,
            why,
        ),
        tells(
            "STA approaches 1 with skew",
            f"{first.named('STA, checkpoints').y[-1]:.3g}",
            why,
            holds=first.named("STA, checkpoints").y[-1] > 0.95,
        ),
        tells(
            "(not in the paper) asking all workers makes completeness 1",
            f"{min(own):g} to {max(own):g}",
            holds=set(own) == {1.0},
        ),
    )
    how = (
        f"A simulation of the checkpoints: {rate:g} tuples/s, windows of {length:g} s, a band over Zipf keys. This "
        "project's layout is measured: matches counted, to those of a nested loop."
    )
    return Figure("sta-34-35", "STA, figures 34 and 35: completeness", how, panels, claims, run.left_out)


def _hottest(keys: F64, count: int) -> F64:
    values, counts = np.unique(keys, return_counts=True)
    return values[np.argsort(-counts)[:count]]


def _exact(run: FigureRun) -> list[float]:
    """Matches that the layout's workers found, to those of a nested loop, at each exponent."""
    tuples, found = run.pick(3_000, 1_000), []
    window = tuples // 3
    for exponent in EXPONENTS:
        keys = data.zipf(exponent)(tuples, 6)
        fed = Fed(_text("ABS(l.a - r.a) <= 50", window), ({"a": keys, "b": keys},), (250,), window)
        steps = Steps(METHODS[0], fed, 4)
        while steps.has_more:
            steps.frame()
        slide, taken = max(window // 10, 1), tuples // 250 * 250
        wanted = sum(
            2 * int(np.sum(np.abs(keys[max(-(-i // slide) * slide - window // 10 * 10, 0) : i] - keys[i]) <= 50))
            for i in range(taken)
        )
        found.append(steps.engine.matches / wanted)
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
