"""SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 5.4: figures 11b, d and 16 to 19, its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from loadgen.papers import data
from loadgen.papers.joins import INEQUALITIES, MORE, MeasuredJoin, query_text, self_join
from loadgen.papers.laid import SIMULATED as WORKERS
from loadgen.papers.laid import Fed, Laid, costs
from loadgen.papers.laid import panel as drawn
from loadgen.papers.meter import StoredPart
from loadgen.papers.model import Claim, Entry, Figure, Panel, Series, claim, falls, tells
from loadgen.papers.run import FigureRun
from loadgen.papers.schemes.errors import Errors, Matches, count
from loadgen.papers.schemes.logical_and import Meeting, OperatorLoad, correctness
from loadgen.papers.schemes.setup import Setup
from loadgen.papers.schemes.state import Scheme, SimulatedWorkers
from loadgen.papers.sweep import Line, SweepTable, sweep
from spojoin.local.children import Children
from spojoin.local.redis import LocalRedis
from spojoin.ports.redis_store import RedisStore

Value = Callable[[Errors], float]

SIMULATED = (
    "Workers are simulated: each one's CPU time is measured by itself on one core, all tuples are sent "
    "to all workers, and "
    "batches are stored in turn; n workers take as long as the slowest of those measured. No network, no queues."
)


def _joined(window: int, batches: int) -> MeasuredJoin:
    return self_join(INEQUALITIES, *data.taxi(window + MORE), window, window // batches)


def _worker(delta: int, workers: int, worker: int, chunk: int = 0) -> Line:
    share = StoredPart(worker, workers, delta)
    return Line(f"worker {worker}", "spo_paper", {"delta": str(delta)}, chunk, is_storing=False, share=share)


LAYOUTS = (
    Laid("SPO-Join as published", "split_join", "spo_paper"),
    Laid("split join", "split_join"),
    Laid("BCHJ", "bchj"),
)


def figure_11(run: FigureRun) -> Figure:
    """Split join and broadcast hash join."""
    windows, workers = run.pick((50_000, 100_000, 200_000), (5_000, 10_000)), 4
    run.plan(2 * len(windows) * len(LAYOUTS))
    panels = [
        drawn(
            costs(run, windows, LAYOUTS, make, lambda _: workers),
            title,
            "tuples of window",
            "tuples/s",
            lambda c: c.rate,
        )
        for title, make in (("b: Q3, self join", _fed_q3), ("d: Q1, cross join", _fed_q1))
    ]
    why = (
        "The paper's nested loops run in Java, a tuple at a time; here a scan compares in vector "
        "instructions, which bit "
        "arrays that are set bit by bit don't."
    )
    claims = (
        claim(
            "Q3: SPO-Join has 71 to 90 times split join's throughput",
            panels[0].times(LAYOUTS[0].label, "split join"),
            71,
            90,
            why,
        ),
        claim(
            "Q3: SPO-Join has 32 to 90 times BCHJ's throughput", panels[0].times(LAYOUTS[0].label, "BCHJ"), 32, 90, why
        ),
        claim(
            "Q1: SPO-Join has 43 times the alternatives' throughput",
            panels[1].times(LAYOUTS[0].label, "split join"),
            43,
            43,
            why,
        ),
    )
    how = f"{WORKERS}{workers} workers, frames of 512 tuples. SPO-Join's tuples go to the workers in turn, one by one."
    return Figure("spo-join-11b-d", "SPO-Join, figure 11b, d: split join and BCHJ", how, panels, claims, run.left_out)


def _fed_q3(window: float) -> Fed:
    a, b = data.taxi(int(window) + 20_480)
    return Fed(
        query_text(INEQUALITIES, ("rows", "rows"), int(window), int(window) // 10),
        ({"a": a, "b": b},),
        (512,),
        int(window),
    )


def _fed_q1(window: float) -> Fed:
    columns = [dict(zip("ab", data.taxi(int(window) + 20_480, seed), strict=True)) for seed in (1, 2)]
    text = query_text(INEQUALITIES, ("left", "right"), int(window), int(window) // 10)
    return Fed(text, columns, (256, 256), 2 * int(window))


def figure_16(run: FigureRun) -> Figure:
    """Nodes and workers on them."""
    window, batches = run.pick((450_000, 45), (18_000, 45))
    nodes, workers = (1, 3, 5, 9), (1, 3, 5)
    run.plan(len(nodes) * len(workers))
    join = _joined(window, batches)
    series = []
    for each in workers:
        points = {
            count: next(
                iter(_points(run, count, _worker(window // batches, count * each, 0, 16), join).points.values()), None
            )
            for count in nodes
        }
        known = {count: point for count, point in points.items() if point and point.tuples}
        label = f"{each} worker{'s' if each > 1 else ''} a node"
        series.append(Series(label, list(known), [point.latency_us(99) / 16e3 for point in known.values()]))
    panel = Panel("immutable part, Q3", "nodes", "ms a tuple, 99th percentile of frames of 16", series, log_y=True)
    why = (
        "A worker's lists are as many fewer as there are more workers, and each costs the same; the paper's have "
        "queues and a network before them."
    )
    claims = (
        falls(
            "maximum latency falls with nodes and with workers",
            [ratio for each in series for ratio in panel.growth(each.name)],
            why,
        ),
    )
    return Figure(
        "spo-join-16",
        "SPO-Join, figure 16: nodes",
        f"{SIMULATED} {window:,} tuples in {batches} lists.",
        (panel,),
        claims,
        run.left_out,
    )


def _points(run: FigureRun, x: int, line: Line, join: MeasuredJoin) -> SweepTable:
    return sweep(run, (x,), (line,), lambda _: join)


def figure_17(run: FigureRun) -> Figure:
    """Throughput by workers."""
    window, batches = run.pick((500_000, 20), (20_000, 20))
    workers = (1, 2, 5, 10, 20)
    run.plan(2 * len(workers))
    join, delta = _joined(window, batches), window // batches
    rates, lows, highs, known = [], [], [], []
    for n in workers:
        lines = [_worker(delta, n, worker) for worker in sorted({0, n - 1})]
        points = [point for line in lines for point in _points(run, n, line, join).points.values() if point.tuples]
        if points:
            slowest = min(points, key=lambda point: point.rate)
            known.append(n)
            rates.append(slowest.rate)
            lows.append(min(slowest.rate, float(slowest.rates.min())))
            highs.append(max(slowest.rate, float(slowest.rates.max())))
    panel = Panel("immutable part, Q3", "workers", "tuples/s", (Series("PO-Join lists", known, rates, lows, highs),))
    why = (
        "Every worker searches for every tuple, which costs two binary searches a list and predicate; what is "
        "shared is the lists."
    )
    claims = (
        claim(
            "mean throughput grows from 419 to 6,167 tuples/s with 20 workers, 14.7 times",
            panel.growth("PO-Join lists"),
            14.7,
            14.7,
            why,
        ),
    )
    how = (
        f"{SIMULATED} {window:,} tuples in {batches} lists; of more than one worker, the first and "
        "the last are measured."
    )
    return Figure("spo-join-17", "SPO-Join, figure 17: workers", how, (panel,), claims, run.left_out)


#: Means of the two predicate operators' times a tuple: the paper's mutable part bears 167 to 249 tuples/s (figure 14).
SERVICE_MS = (4.0, 6.0)


def figure_18(run: FigureRun) -> Figure:
    """Correctness of the mutable part with and without the hash table."""
    tuples, stored = run.pick((5_000, 512), (1_000, 128))
    rng = np.random.default_rng(18)
    a, b = rng.random((2, tuples)), rng.random((2, stored))
    bits = [a[0][:, None] > b[0], a[1][:, None] < b[1]]
    rates, workers = (50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0), (10, 20, 40)
    without = {
        (n, rate): correctness(Meeting.OVERWRITING_UNSAFE, OperatorLoad(rate, SERVICE_MS, n), bits)
        for n in workers
        for rate in run.each(rates)
    }
    series = [
        Series(
            f"no hash table, {n} workers",
            [r for m, r in without if m == n],
            [100 * c.tuples for (m, _), c in without.items() if m == n],
        )
        for n in workers
    ]
    hashed = [correctness(Meeting.BY_ID, OperatorLoad(rate, SERVICE_MS, workers[0]), bits) for rate in rates]
    series.append(Series(f"hash table, {workers[0]} workers", rates, [100 * c.tuples for c in hashed]))
    panel = Panel("logical AND", "tuples/s", "% of tuples with exactly their matches", series, log_x=True)
    few, many = (100 * without.get(key, hashed[0]).tuples for key in ((10, 5_000.0), (40, 500.0)))
    why = (
        "The share depends on how long an overload lasts: the lag between the operators grows with every tuple, "
        "and here the run is shorter or longer than the paper's, which it doesn't tell."
    )
    claims = (
        tells(
            "without a hash table 0.3 % are right at 5,000 tuples/s and 10 workers", f"{few:.2g} %", why, holds=few < 10
        ),
        tells(
            "without a hash table 8 % are right at 500 tuples/s and 40 workers",
            f"{many:.2g} %",
            why,
            holds=few < many < 50,
        ),
        tells(
            "with a hash table 100 % are right",
            f"{min(100 * c.tuples for c in hashed):.4g} %",
            why,
            holds=all(c.tuples == 1 for c in hashed),
        ),
    )
    wrong = sum(c.false_positives + c.false_negatives for c in without.values())
    how = (
        f"A simulation: {tuples:,} tuples, two operators that take {SERVICE_MS[0]:g} and {SERVICE_MS[1]:g} ms a "
        "tuple, exponentially "
        "distributed, as the paper's mutable throughput has it; 1 ms a hop. Wrong pairs without the hash "
        f"table, in all: {wrong:,}."
    )
    return Figure(
        "spo-join-18", "SPO-Join, figure 18: correctness of the mutable part", how, (panel,), claims, run.left_out
    )


def figure_19(run: FigureRun) -> Figure:
    """False positives of the state schemes, the cache being a real Redis."""
    with _redis() as store:
        return _figure_19(run, store)


@contextmanager
def _redis() -> Iterator[RedisStore]:
    with Children() as children, LocalRedis(children) as redis:
        store = RedisStore(redis.url, timeout_s=5)
        yield store
        store.close()


def _figure_19(run: FigureRun, store: RedisStore) -> Figure:
    slides, rates, workers = run.pick((25_000, 100_000), (2_000, 4_000)), (3_000.0, 5_000.0, 7_000.0), 4
    found: dict[tuple[Scheme, int, float], Errors] = {}
    for slide, rate, scheme in run.each(
        [(slide, rate, scheme) for slide in slides for rate in rates for scheme in Scheme]
    ):
        delta = slide if scheme is Scheme.ROUND_ROBIN_UNSAFE else slide // workers
        # So that round robin's slides, all but one of the window, are shared evenly.
        setup = Setup((2 * workers + 1) * slide, slide, delta, workers, rate, hop_ms=2.0, merge_us=20.0)
        tuples, simulated = setup.window + 2 * slide + slide // 2, SimulatedWorkers(setup, scheme, store)
        found[scheme, slide, rate] = count(simulated, simulated.take(tuples), _sample(tuples))
    panels = []
    for slide in slides:
        by_scheme = {scheme: {r: e for (s, w, r), e in found.items() if (s, w) == (scheme, slide)} for scheme in Scheme}
        panels += [
            _errors_panel(
                f"slide of {slide:,}", "expired tuples that a probe meets, in the mean", by_scheme, lambda e: e.extra
            ),
            _errors_panel(f"slide of {slide:,}", "false positives", by_scheme, lambda e: float(e.false_positives)),
        ]
    how = (
        f"A simulation of {workers} workers: {2.0:g} ms a hop, merges of 20 us a tuple, the cache written and read "
        "every 10 ms through a "
        "real Redis. Windows of nine slides. False positives are of a band that matches a hundredth of all "
        "pairs, counted pair by "
        f"pair. False negatives: {_negatives(found)}."
    )
    return Figure(
        "spo-join-19",
        "SPO-Join, figure 19: false positives of the state schemes",
        how,
        panels,
        _better(panels),
        run.left_out,
    )


def _errors_panel(title: str, y: str, by_scheme: dict[Scheme, dict[float, Errors]], value: Value) -> Panel:
    series = [Series(scheme, list(errors), [value(e) for e in errors.values()]) for scheme, errors in by_scheme.items()]
    return Panel(title, "tuples/s", y, series)


def _better(panels: list[Panel]) -> list[Claim]:
    claims = []
    for panel, low, high in ((panels[0], 13, 38), (panels[2], 82, 94)):
        ratios = panel.times(Scheme.SIZE_BROADCAST_UNSAFE, Scheme.DISTRIBUTED_CACHE_UNSAFE)
        why = (
            "With sizes, a worker learns of a new slide by the next batch, delta tuples later; with the cache, "
            "after its interval. The "
            "ratio is delta to what comes in an interval and the hops, and the paper tells neither its "
            "interval nor its delays."
        )
        claims.append(claim(f"{panel.title}: the cache leaves {low} to {high} times fewer", ratios, low, high, why))
        exact = max((abs(y) for series in panel.series if series.name == Scheme.EXACT for y in series.y), default=None)
        here = "nothing to compare" if exact is None else f"{exact:g} tuples"
        claims.append(
            tells(
                f"{panel.title}: (not in the paper) a bound that comes with the tuple leaves none",
                here,
                holds=None if exact is None else exact == 0,
            )
        )
    return claims


def _negatives(found: dict[tuple[Scheme, int, float], Errors]) -> str:
    return ", ".join(f"{s} {sum(e.false_negatives for (o, _, _), e in found.items() if o is s):,}" for s in Scheme)


def _sample(tuples: int) -> Matches:
    """Whole numbers below 100 a tuple; pairs of equal ones match."""
    keys = np.random.default_rng(19).integers(0, 100, tuples).astype(np.int8)

    def matches(probes: NDArray[np.int64], stored: NDArray[np.int64]) -> NDArray[np.bool_]:
        return keys[probes][:, None] == keys[stored]

    return matches


ENTRIES = (
    Entry("spo-join-11b-d", 150, figure_11),
    Entry("spo-join-16", 30, figure_16),
    Entry("spo-join-17", 25, figure_17),
    Entry("spo-join-18", 15, figure_18),
    Entry("spo-join-19", 75, figure_19),
)
