"""ScaleJoin (Gulisano, Nikolakopoulos, Papatriantafilou, Tsigas, IEEE Big Data 2015), section VI: figures 5 to 8.

Its benchmark, which CellJoin and Handshake join have as well: two attributes drawn from 1 to 10,000, both within 10 of
one another; one comparison in 250,000 is a match.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.papers.joins import query_text
from loadgen.papers.laid import SIMULATED, Fed, Laid, Steps, asked, cost
from loadgen.papers.model import Entry, Figure, Panel, Series, claim, rises, tells
from loadgen.papers.run import FigureRun
from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import Rows

CONDITION = "ABS(l.a - r.a) <= 10 AND ABS(l.b - r.b) <= 10"
MATCHES = 1 / 250_000
MINUTES = (5, 10, 15)
#: Tuples of each stream in a frame.
HALF = 512
FRAMES = 4_096
OWN = Laid("ScaleJoin", "scale_join", "scan")
HANDSHAKE = Laid("Handshake", "handshake", "scan")
HOW = f"{SIMULATED}ScaleJoin's benchmark, frames of {2 * HALF} tuples, a scan in vector instructions."


def _columns(rows: int, seed: int) -> dict[str, NDArray[np.float64]]:
    a, b = np.floor(np.random.default_rng(seed).random((2, rows)) * 10_000) + 1
    return {"a": a, "b": b}


def _fed(window: int, rows: int = 0) -> Fed:
    text = query_text(CONDITION, ("r", "s"), window // 10 * 10, window // 10)
    count = window + (rows or 60 * HALF)
    return Fed(text, (_columns(count, 1), _columns(count, 2)), (HALF, HALF), 2 * window)


def figure_5(run: FigureRun) -> Figure:
    """Comparisons and tuples a second by workers and window."""
    workers, window = run.pick((1, 2, 4, 8, 16), (1, 2)), run.pick(50_000, 2_000)
    windows = (window // 2, window, 2 * window)
    compared: dict[int, list[float]] = {w: [] for w in windows}
    spread: list[float] = []
    done: dict[int, list[int]] = {w: [] for w in windows}
    matches = comparisons = 0.0
    for count, size in run.each([(n, w) for n in workers for w in windows]):
        found = cost(OWN, _fed(size), count, run.point_s)
        made = found.total("comparisons")
        compared[size].append(made / found.tuples * found.rate)
        done[size].append(count)
        matches, comparisons = matches + found.matches, comparisons + made
        if size == window:
            spread.append(100 * found.deviation("comparisons"))
        run.say(f"      {count} workers, {size:,} tuples: {compared[size][-1]:,.0f} comparisons/s")
    left = Panel(
        "a, d: comparisons",
        "workers",
        "comparisons/s",
        [Series(f"{w:,} tuples a window", done[w], compared[w]) for w in windows],
    )
    rates = [
        Series(f"{m} min", done[window], [2 * float(np.sqrt(c / (2 * 60 * m))) for c in compared[window]])
        for m in MINUTES
    ]
    middle = Panel("b, e: tuples, of both streams", "workers", "tuples/s that windows of so many minutes bear", rates)
    right = Panel(
        "c, f: balance",
        "workers",
        "standard deviation of comparisons, % of the mean",
        [Series("all workers", done[window], spread)],
    )
    top = workers[-1]
    growth = left.growth(left.series[1].name)
    why = "A frame's fixed cost, that of calling compiled loops, doesn't shrink with a worker's share of the window."
    claims = (
        claim(f"comparisons/s grow linearly: {top} times with {top} workers", growth, top, top, why),
        claim(
            f"tuples/s grow with the root: {top**0.5:.2g} times with {top} workers",
            middle.growth("10 min"),
            top**0.5,
            top**0.5,
            why,
        ),
        tells(
            "100 million comparisons/s with one worker",
            f"{compared[window][0]:,.0f}",
            "The paper's are Java on a 2.6 GHz Opteron; here sixteen are compared at once.",
            holds=compared[window][0] > 1e8,
        ),
        tells(
            "workers differ by 4 % at most",
            f"{max(spread):.2g} %",
            "Comparisons are counted; one counter deals tuples in turn.",
            holds=max(spread) <= 4,
        ),
        tells(
            "one comparison in 250,000 is a match",
            f"one in {comparisons / max(matches, 1):,.0f}",
            "A probe's two bands together, on windows of these tuples.",
            holds=0.5 < matches / max(comparisons, 1) / MATCHES < 2,
        ),
    )
    how = (
        f"{HOW} Tuples/s follow from comparisons/s c by the paper's own bound: 2 * sqrt(c / (2 * seconds of "
        "window)) of both streams; its time windows at their highest rate hold more tuples than are measured here."
    )
    return Figure(
        "scale-join-05",
        "ScaleJoin, figure 5: comparisons and tuples by workers",
        how,
        (left, middle, right),
        claims,
        run.left_out,
    )


def figure_6(run: FigureRun) -> Figure:
    """ScaleJoin and the handshake join."""
    workers, window = run.pick((1, 2, 4, 8), (1, 2)), run.pick(50_000, 2_000)
    rates: dict[str, list[float]] = {OWN.label: [], HANDSHAKE.label: []}
    done: dict[str, list[int]] = {OWN.label: [], HANDSHAKE.label: []}
    for count, label in run.each([(n, each.label) for n in workers for each in (OWN, HANDSHAKE)]):
        laid = OWN if label == OWN.label else HANDSHAKE
        found = cost(laid, _fed(window), count, run.point_s)
        # All of the chain takes turns as one, so that its time is that of all workers.
        share = 1 if laid is OWN else count
        made = found.total("comparisons")
        rates[label].append(made / found.tuples * found.rate * share)
        done[label].append(count)
    both = Panel(
        "a, b: throughput",
        "workers",
        "comparisons/s",
        [Series(label, done[label], values) for label, values in rates.items()],
    )
    gap = [
        Series(
            "ScaleJoin - Handshake",
            done[HANDSHAKE.label],
            [a - b for a, b in zip(rates[OWN.label], rates[HANDSHAKE.label], strict=False)],
        )
    ]
    apart = Panel("c: difference", "workers", "comparisons/s", gap)
    why = (
        "Both compare by the same scan here: what differs is a message a tuple and worker in the chain, and that "
        "time is small beside comparing."
    )
    claims = (
        claim(
            "with 48 workers ScaleJoin makes 2.7 times the handshake join's comparisons",
            both.times(OWN.label, HANDSHAKE.label)[-1:],
            2.7,
            2.7,
            why,
        ),
    )
    how = f"{HOW} The chain's time is that of all its workers, shared out evenly."
    return Figure(
        "scale-join-06", "ScaleJoin, figure 6: beside the handshake join", how, (both, apart), claims, run.left_out
    )


def figure_7(run: FigureRun) -> Figure:
    """The merge of many inputs, and latency."""
    sources, workers = (1, 2, 4, 8, 16), run.pick((1, 2, 4, 8), (1, 2))
    window = run.pick(50_000, 5_000)
    run.plan(len(sources) + len(workers))
    merged = [(n, _merged(n, run.pick(400_000, 50_000))) for n in run.each(sources)]
    gate = Panel(
        "a: the router's merge",
        "inputs",
        "tuples/s",
        [Series("router", [n for n, _ in merged], [r for _, r in merged])],
        log_x=True,
    )
    found = {n: cost(OWN, _fed(window), n, run.point_s) for n in run.each(workers)}
    waits = [
        Series("median", list(found), [each.p50_ms for each in found.values()]),
        Series("99th percentile", list(found), [each.p99_ms for each in found.values()]),
    ]
    right = Panel("b, c: latency", "workers", "ms a frame, of the slowest worker", waits)
    slowest = max(each.p99_ms for each in found.values())
    claims = (
        rises(
            "the merge gets faster with inputs",
            gate.growth("router"),
            "One router merges here, and sorts what is ready at once; the paper's sources insert into "
            "a shared skip list.",
        ),
        tells(
            "the merge is 50 times faster than the join: 150,000 tuples/s",
            f"{min(r for _, r in merged):,.0f} tuples/s at least",
            holds=min(r for _, r in merged) > 150_000,
        ),
        tells(
            "latency is below 70 ms",
            f"{slowest:.3g} ms",
            "A frame's tuples are searched for together; the paper's wait one by one.",
            holds=slowest < 70,
        ),
        rises(
            "latency rises with workers",
            right.growth("median"),
            "Each worker has less to compare, and results wait for no other here: the slowest worker's time is all.",
        ),
    )
    how = (
        f"{HOW} Panel a: event-time order over so many inputs of two streams in turns, rows in batches of 4,096; "
        "b, c: a frame in an idle system."
    )
    return Figure("scale-join-07", "ScaleJoin, figure 7: merge and latency", how, (gate, right), claims, run.left_out)


def _merged(inputs: int, tuples: int) -> float:
    """Tuples a second that the router takes from so many inputs and puts in order."""
    text = (
        _fed(1_000)
        .text.replace("{a: double, b: double}", "{a: double, b: double, ts: timestamp}\n    time: ts")
        .replace("order: arrival", "order: event_time")
    )
    query = asked(OWN, text, 1)
    router = RouterMachine(query, START, RouterConfig("figures", 1, frame_tuples=FRAMES, credits_frames=2**62))
    places = [(i % 2, i // 2) for i in range(max(inputs, 2))]
    router.on_inputs(places)
    _drain(router, router.on_caught_up())
    each, batch = tuples // len(places), 4_096
    codes = np.random.default_rng(0).integers(0, 10_000, (2, each))
    spent = 0.0
    for first in range(0, each, batch):
        for number, place in enumerate(places):
            rows = _rows(codes[:, first : first + batch], first, number, len(places))
            began = time.perf_counter()
            _drain(router, router.on_rows(*place, rows))
            spent += time.perf_counter() - began
    return each * len(places) / spent


def _rows(codes: NDArray[np.int64], first: int, number: int, inputs: int) -> Rows:
    count = codes.shape[1]
    offsets = np.arange(first, first + count)
    times = (offsets * inputs + number) * 1_000
    nothing = np.zeros(count, np.int64)
    return Rows(
        offsets, nothing, first + count, tuple(codes), times, pa.array(offsets), nothing, heartbeat_us=int(times[-1])
    )


def _drain(router: RouterMachine, actions: object) -> None:
    for action in actions:  # type: ignore[attr-defined]
        if isinstance(action, Emit) and action.topic is Topic.FRAMES:
            _drain(router, router.on_record(Topic.FRAMES, 0, 0, action.record))


#: (title, workers, tuples of R and S in step t)
Case = tuple[str, int, Callable[[int], tuple[int, int]]]
CASES: Sequence[Case] = (
    ("a: distinct constant rates, 10 workers", 10, lambda t: (120, 90)),
    ("b: fluctuating rates, 12 workers", 12, lambda t: (int(120 + 90 * np.sin(t / 3)), int(120 + 60 * np.sin(t / 5)))),
    ("c: rates with peaks, 14 workers", 14, lambda t: (400 if t % 10 == 3 else 80, 400 if t % 15 == 7 else 60)),
)


def figure_8(run: FigureRun) -> Figure:
    """Bursty inputs."""
    window, steps = run.pick(50_000, 5_000), run.pick(60, 30)
    panels, deviations = [], []
    for title, workers, rate in run.each(CASES):
        mean, deviation = _balance(window, steps, workers, rate)
        deviations += deviation
        panels.append(Panel(title, "step", "comparisons of a worker", [Series("mean", range(steps), mean)]))
        panels.append(
            Panel(title, "step", "standard deviation, % of the mean", [Series("all workers", range(steps), deviation)])
        )
    claims = (
        tells(
            "the work is balanced: the standard deviation stays around 0.1 %",
            f"{np.mean(deviations):.2g} % in the mean, {max(deviations):.2g} % at most",
            "A step here has hundreds of tuples and a window of thousands, the paper's millions of comparisons a "
            "second: one tuple more or less weighs more.",
            holds=float(np.mean(deviations)) < 0.2,
        ),
    )
    how = (
        f"{HOW} Each step feeds as many tuples of R and S as the case has it; comparisons are counted. The "
        "physical streams are merged before."
    )
    return Figure("scale-join-08", "ScaleJoin, figure 8: skew of bursty inputs", how, panels, claims, run.left_out)


def _balance(
    window: int, count: int, workers: int, rate: Callable[[int], tuple[int, int]]
) -> tuple[list[float], list[float]]:
    """Of each step: comparisons of a worker in the mean, and their standard deviation in percent of it."""
    steps = Steps(OWN, _fed(window, 500 * count), workers)
    for _ in range(window // HALF):
        steps.frame()
    means, deviations = [], []
    before = [load["comparisons"] for load in steps.loads()]
    for t in range(count):
        steps.frame(rate(t))
        now = [load["comparisons"] for load in steps.loads()]
        step = np.subtract(now, before)
        means.append(float(step.mean()))
        deviations.append(100 * float(step.std() / step.mean()))
        before = now
    return means, deviations


ENTRIES = (
    Entry("scale-join-05", 60, figure_5),
    Entry("scale-join-06", 30, figure_6),
    Entry("scale-join-07", 25, figure_7),
    Entry("scale-join-08", 20, figure_8),
)
