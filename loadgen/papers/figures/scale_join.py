"""ScaleJoin (Gulisano, Nikolakopoulos, Papatriantafilou, Tsigas, IEEE Big Data 2015), section VI: figures 5 to 8.

Two attributes are drawn from 1 to 10,000, and both must lie within 10 of one another: one comparison in 250,000 is a
match.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.papers.figure import NOTHING, Claim, Entry, Figure, FigureRun, Panel, Series, checked, claim, rises
from loadgen.papers.joins import query_text
from loadgen.papers.layout_cost import SIMULATED, LayoutCost, LayoutFeed, LayoutRun, MeasuredLayout, cost, query_of
from spojoin.protocol.machine import START, Action, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import Rows

CONDITION = "ABS(l.a - r.a) <= 10 AND ABS(l.b - r.b) <= 10"
MATCHES = 1 / 250_000
#: Tuples of each stream in a frame.
HALF = 512
OWN = MeasuredLayout("ScaleJoin", "scale_join", "scan")
HANDSHAKE = MeasuredLayout("Handshake", "handshake", "scan")
HOW = f"{SIMULATED}ScaleJoin's benchmark, frames of {2 * HALF} tuples, a scan with vector instructions."


def feed(window: int, rows: int = 60 * HALF) -> LayoutFeed:
    """Two streams with a window of this many tuples each, and `rows` tuples of each beyond it."""
    text = query_text(CONDITION, ("r", "s"), window // 10 * 10, window // 10)
    count = window + rows
    return LayoutFeed(text, (_columns(count, 1), _columns(count, 2)), (HALF, HALF), 2 * window)


def _columns(rows: int, seed: int) -> dict[str, NDArray[np.float64]]:
    a, b = np.floor(np.random.default_rng(seed).random((2, rows)) * 10_000) + 1
    return {"a": a, "b": b}


FRAME_TUPLES = 4_096
BATCH_ROWS = 4_096


def merge_rate(inputs: int, tuples: int) -> float:
    """Tuples per second that the router reads from this many inputs of two streams and puts in event-time order."""
    places = [(i % 2, i // 2) for i in range(max(inputs, 2))]
    router = _router()
    router.on_inputs(places)
    _drain(router, router.on_caught_up())
    _drain(router, router.on_chosen())
    rows_each = tuples // len(places)
    codes = np.random.default_rng(0).integers(0, 10_000, (2, rows_each))
    spent = 0.0
    for first in range(0, rows_each, BATCH_ROWS):
        for number, place in enumerate(places):
            rows = _rows(codes[:, first : first + BATCH_ROWS], first, number, len(places))
            began = time.perf_counter()
            _drain(router, router.on_rows(*place, rows))
            spent += time.perf_counter() - began
    return rows_each * len(places) / spent


def _router() -> RouterMachine:
    text = (
        feed(1_000)
        .text.replace("{a: double, b: double}", "{a: double, b: double, ts: timestamp}\n    time: ts")
        .replace("order: arrival", "order: event_time")
    )
    config = RouterConfig("figures", 1, frame_tuples=FRAME_TUPLES, credits_frames=2**62)
    return RouterMachine(query_of(OWN, text, 1), START, config)


def _rows(codes: NDArray[np.int64], first: int, number: int, inputs: int) -> Rows:
    """A batch of input `number`; the inputs' event times alternate."""
    count = codes.shape[1]
    offsets = np.arange(first, first + count)
    times = (offsets * inputs + number) * 1_000
    nothing = np.zeros(count, np.int64)
    return Rows(
        offsets, nothing, first + count, tuple(codes), times, pa.array(offsets), nothing, heartbeat_us=int(times[-1])
    )


def _drain(router: RouterMachine, actions: Iterable[Action]) -> None:
    """Read the frames that the router emits back from its log."""
    for action in actions:
        if isinstance(action, Emit) and action.topic is Topic.FRAMES:
            _drain(router, router.on_record(Topic.FRAMES, 0, 0, action.record))


#: The lengths of the paper's windows, in minutes.
MINUTES = (5, 10, 15)
FULL_WINDOW, QUICK_WINDOW = 50_000, 2_000


@dataclass(slots=True)
class _Comparisons:
    """Comparisons per second by window and workers. spread: at the middle window, in percent of the mean."""

    workers: dict[int, list[int]] = field(default_factory=dict)
    rates: dict[int, list[float]] = field(default_factory=dict)
    spread: list[float] = field(default_factory=list)
    matches: float = 0.0
    comparisons: float = 0.0

    def add(self, workers: int, window: int, found: LayoutCost) -> None:
        made = found.total("comparisons")
        self.workers.setdefault(window, []).append(workers)
        self.rates.setdefault(window, []).append(made / found.tuples * found.rate)
        self.matches += found.matches
        self.comparisons += made

    def series(self, window: int) -> Series:
        """Comparisons per second over this window."""
        return Series(f"{window:,} tuples a window", self.workers.get(window, []), self.rates.get(window, []))


def figure_5(run: FigureRun) -> Figure:
    """Comparisons and tuples per second, by workers and window."""
    workers, window = run.pick((1, 2, 4, 8, 16), (1, 2)), run.pick(FULL_WINDOW, QUICK_WINDOW)
    windows = (window // 2, window, 2 * window)
    found = _Comparisons()
    for count, size in run.each([(n, w) for n in workers for w in windows]):
        one = cost(OWN, feed(size), count, run.point_s)
        found.add(count, size, one)
        if size == window:
            found.spread.append(100 * one.deviation("comparisons"))
        run.say(f"      {count} workers, {size:,} tuples: {found.rates[size][-1]:,.0f} comparisons/s")
    compared = [found.series(size) for size in windows]
    left = Panel("a, d: comparisons", "workers", "comparisons/s", compared)
    middle, right = _tuples(compared[1]), _balance_panel(compared[1], found.spread)
    how = (
        f"{HOW} Tuples/s follow from comparisons/s c by the paper's own bound: 2 * sqrt(c / (2 * seconds of "
        "window)) of both streams; its time windows at their highest rate hold more tuples than are measured here."
    )
    growth = left.growth(compared[1].name), middle.growth("10 min")
    claims = (*_growth_claims(workers[-1], *growth), *_comparison_claims(found, window))
    title = "ScaleJoin, figure 5: comparisons and tuples by workers"
    return Figure("scale-join-05", title, how, (left, middle, right), claims, run.left_out)


def _tuples(compared: Series) -> Panel:
    rates = [
        Series(f"{m} min", compared.x, [2 * float(np.sqrt(c / (2 * 60 * m))) for c in compared.y]) for m in MINUTES
    ]
    return Panel("b, e: tuples, of both streams", "workers", "highest tuples/s for windows of this length", rates)


def _balance_panel(compared: Series, spread: Sequence[float]) -> Panel:
    series = [Series("all workers", compared.x, spread)]
    return Panel("c, f: balance", "workers", "standard deviation of comparisons, % of the mean", series)


def _growth_claims(top: int, comparisons: Sequence[float], tuples: Sequence[float]) -> tuple[Claim, Claim]:
    why = "The fixed cost of a frame, calls of compiled code, doesn't shrink with a worker's share of the window."
    root = top**0.5
    return (
        claim(f"comparisons/s grow linearly: {top} times with {top} workers", comparisons, top, top, why),
        claim(f"tuples/s grow with the root: {root:.2g} times with {top} workers", tuples, root, root, why),
    )


def _comparison_claims(found: _Comparisons, window: int) -> tuple[Claim, ...]:
    first = next(iter(found.rates.get(window, ())), None)
    spread = max(found.spread, default=None)
    return (
        checked(
            "100 million comparisons/s with one worker",
            NOTHING if first is None else f"{first:,.0f}",
            "The paper's are Java on a 2.6 GHz Opteron; here one instruction compares up to sixteen tuples.",
            holds=None if first is None else first > 1e8,
        ),
        checked(
            "workers differ by 4 % at most",
            NOTHING if spread is None else f"{spread:.2g} %",
            "Comparisons are counted, and one counter assigns tuples to workers in turn.",
            holds=None if spread is None else spread <= 4,
        ),
        checked(
            "one comparison in 250,000 is a match",
            f"one in {found.comparisons / max(found.matches, 1):,.0f}",
            "Both bands of a probe together, over windows of these tuples.",
            holds=0.5 < found.matches / max(found.comparisons, 1) / MATCHES < 2,
        ),
    )


def figure_6(run: FigureRun) -> Figure:
    """ScaleJoin and the handshake join."""
    workers, window = run.pick((1, 2, 4, 8), (1, 2)), run.pick(FULL_WINDOW, QUICK_WINDOW)
    rates: dict[str, dict[int, float]] = {OWN.label: {}, HANDSHAKE.label: {}}
    for count, label in run.each([(n, each.label) for n in workers for each in (OWN, HANDSHAKE)]):
        is_own = label == OWN.label
        found = cost(OWN if is_own else HANDSHAKE, feed(window), count, run.point_s)
        # The whole chain takes its turn at once, so that its time is that of all its workers.
        share = 1 if is_own else count
        rates[label][count] = found.total("comparisons") / found.tuples * found.rate * share
    series = [Series(label, list(values), list(values.values())) for label, values in rates.items()]
    both = Panel("a, b: throughput", "workers", "comparisons/s", series)
    own, chain = rates[OWN.label], rates[HANDSHAKE.label]
    difference = Series("ScaleJoin - Handshake", list(chain), [own[count] - rate for count, rate in chain.items()])
    apart = Panel("c: difference", "workers", "comparisons/s", [difference])
    why = (
        "Both compare by the same scan here: they differ in the chain's message for each tuple and worker, and that "
        "time is small beside the comparisons."
    )
    paper = "with 48 workers ScaleJoin makes 2.7 times the handshake join's comparisons"
    claims = (claim(paper, both.times(OWN.label, HANDSHAKE.label)[-1:], 2.7, 2.7, why),)
    how = f"{HOW} The chain's time is that of all its workers, divided evenly."
    title = "ScaleJoin, figure 6: beside the handshake join"
    return Figure("scale-join-06", title, how, (both, apart), claims, run.left_out)


INPUTS = (1, 2, 4, 8, 16)
#: The highest number of tuples of a stream in any step.
STEP_TUPLES_MAX = 500


def figure_7(run: FigureRun) -> Figure:
    """The merge of many inputs, and latency."""
    workers, window = run.pick((1, 2, 4, 8), (1, 2)), run.pick(50_000, 5_000)
    run.plan(len(INPUTS) + len(workers))
    merges = {n: merge_rate(n, run.pick(400_000, 50_000)) for n in run.each(INPUTS)}
    gate = [Series("router", list(merges), list(merges.values()))]
    left = Panel("a: the router's merge", "inputs", "tuples/s", gate, log_x=True)
    found = {n: cost(OWN, feed(window), n, run.point_s) for n in run.each(workers)}
    right = _latency(found)
    slowest_ms = max((each.p99_ms for each in found.values()), default=None)
    how = (
        f"{HOW} Panel a: event-time order over the inputs of two streams in turn, rows in batches of {BATCH_ROWS:,}; "
        "b, c: a frame in an idle system."
    )
    title = "ScaleJoin, figure 7: merge and latency"
    claims = (*_merge_claims(left, min(merges.values())), *_latency_claims(right, slowest_ms))
    return Figure("scale-join-07", title, how, (left, right), claims, run.left_out)


def _latency(found: Mapping[int, LayoutCost]) -> Panel:
    waits = [
        Series("median", list(found), [each.p50_ms for each in found.values()]),
        Series("99th percentile", list(found), [each.p99_ms for each in found.values()]),
    ]
    return Panel("b, c: latency", "workers", "ms a frame, of the slowest worker", waits)


def _merge_claims(gate: Panel, least: float) -> tuple[Claim, Claim]:
    return (
        rises(
            "the merge gets faster with inputs",
            gate.growth("router"),
            "A single router merges here, and sorts what is ready at once; the paper's sources insert into a shared "
            "skip list.",
        ),
        checked(
            "the merge is 50 times faster than the join: 150,000 tuples/s",
            f"{least:,.0f} tuples/s at least",
            holds=least > 150_000,
        ),
    )


def _latency_claims(latency: Panel, slowest_ms: float | None) -> tuple[Claim, Claim]:
    return (
        checked(
            "latency is below 70 ms",
            NOTHING if slowest_ms is None else f"{slowest_ms:.3g} ms",
            "The tuples of a frame are searched for together; the paper's wait one by one.",
            holds=None if slowest_ms is None else slowest_ms < 70,
        ),
        rises(
            "latency rises with workers",
            latency.growth("median"),
            "Each worker has less to compare, and results don't wait for other workers here: the time of the slowest "
            "is all.",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """Bursty inputs. rate: the tuples of R and of S in step t."""

    title: str
    workers: int
    rate: Callable[[int], tuple[int, int]]

    def __str__(self) -> str:
        return self.title


def _fluctuating(step: int) -> tuple[int, int]:
    return int(120 + 90 * np.sin(step / 3)), int(120 + 60 * np.sin(step / 5))


def _peaks(step: int) -> tuple[int, int]:
    return 400 if step % 10 == 3 else 80, 400 if step % 15 == 7 else 60


CASES = (
    _Case("a: distinct constant rates, 10 workers", 10, lambda _: (120, 90)),
    _Case("b: fluctuating rates, 12 workers", 12, _fluctuating),
    _Case("c: rates with peaks, 14 workers", 14, _peaks),
)


def figure_8(run: FigureRun) -> Figure:
    """Bursty inputs."""
    window, steps = run.pick(50_000, 5_000), run.pick(60, 30)
    panels: list[Panel] = []
    deviations: list[float] = []
    for case in run.each(CASES):
        mean, deviation = _balance_by_step(case, window, steps)
        deviations += deviation
        panels += _panels(case.title, mean, deviation)
    claims = (
        checked(
            "the work is balanced: the standard deviation stays around 0.1 %",
            f"{np.mean(deviations):.2g} % on average, {max(deviations):.2g} % at most",
            "A step here has hundreds of tuples and a window of thousands, the paper's millions of comparisons a "
            "second: one tuple more or less weighs more.",
            holds=float(np.mean(deviations)) < 0.2,
        ),
    )
    how = (
        f"{HOW} Each step feeds the tuples of R and S that the case prescribes, and comparisons are counted. The "
        "physical streams are merged beforehand."
    )
    return Figure("scale-join-08", "ScaleJoin, figure 8: skew of bursty inputs", how, panels, claims, run.left_out)


def _panels(title: str, mean: Sequence[float], deviation: Sequence[float]) -> tuple[Panel, Panel]:
    steps = range(len(mean))
    return (
        Panel(title, "step", "comparisons of a worker", [Series("mean", steps, mean)]),
        Panel(title, "step", "standard deviation, % of the mean", [Series("all workers", steps, deviation)]),
    )


def _balance_by_step(case: _Case, window: int, steps: int) -> tuple[list[float], list[float]]:
    """For each step: the workers' mean comparisons, and their standard deviation in percent of the mean."""
    made = LayoutRun(OWN, feed(window, STEP_TUPLES_MAX * steps), case.workers)
    for _ in range(window // HALF):
        made.frame()
    means, deviations = [], []
    before = [load["comparisons"] for load in made.loads()]
    for step in range(steps):
        made.frame(case.rate(step))
        now = [load["comparisons"] for load in made.loads()]
        work = np.subtract(now, before)
        means.append(float(work.mean()))
        deviations.append(100 * float(work.std() / work.mean()))
        before = now
    return means, deviations


ENTRIES = (
    Entry("scale-join-05", 60, figure_5),
    Entry("scale-join-06", 30, figure_6),
    Entry("scale-join-07", 25, figure_7),
    Entry("scale-join-08", 20, figure_8),
)
