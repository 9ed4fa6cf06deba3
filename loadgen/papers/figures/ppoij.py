"""PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025), section 5: figures 10 to 18, patterns for interval joins.

KP has one worker for each key, DP has all workers for every key, and HP as many as a key's frequency needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.figure import Claim, Entry, Figure, FigureRun, Panel, Series, checked, claim, falls, rises
from loadgen.papers.layout_cost import (
    SIMULATED,
    Costs,
    LayoutCost,
    LayoutFeed,
    MeasuredLayout,
    cost,
    cost_series,
    costs,
    rate_series,
    same,
)

RATE = 500
WORKERS, SKEW, UNIFORM = 8, 0.35, 0.5
BATCH = 32
#: Tuples from which HP learns the keys' frequencies; the following tuples fill the windows.
CALIBRATION = 2_000
KP, DP = MeasuredLayout("KP", "kp"), MeasuredLayout("DP", "dp")
HP = MeasuredLayout("HP", "hp", options={"calibration": str(CALIBRATION)})
PATTERNS = (KP, DP, HP)
#: Frames after the windows are full.
FRAMES = 60
HOW = (
    f"{SIMULATED}Two streams of {RATE} tuples/s each; equal keys, event times within the interval, and one inequality "
    "that every candidate is compared by, since the paper's operator visits all candidates. "
)
WHY = (
    "The paper's replicas take tuples one by one from queues, where a copy of a tuple costs as much as the tuple. "
    "Here a worker reads every frame of the log anyway, and a copy costs one search in the worker's table."
)


def self_similar(skew: float, keys: int, rows: int, seed: int) -> NDArray[np.int64]:
    """Keys below `keys`, int64 (rows,): a share `skew` of them has 1 - `skew` of the tuples, recursively."""
    drawn = np.random.default_rng(seed).random(rows)
    ranks: NDArray[np.int64] = (keys * drawn ** (np.log(skew) / np.log(1 - skew))).astype(np.int64)
    return np.minimum(ranks, np.int64(keys - 1))


class IntervalFeed(NamedTuple):
    """An interval join: its distinct keys and their skew, its width in seconds, and the tuples in a frame."""

    keys: int
    skew: float
    seconds: int
    batch: int = BATCH

    def feed(self) -> LayoutFeed:
        """The join's two streams."""
        rows = RATE * self.seconds + max(self.batch * FRAMES, 4_096) + 4_096 + CALIBRATION
        columns = [self._columns(rows, seed) for seed in (1, 2)]
        half = self.batch // 2
        return LayoutFeed(_text(self.seconds), columns, (half, half), 2 * RATE * self.seconds + CALIBRATION)

    def _columns(self, rows: int, seed: int) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        return {
            "a": self_similar(self.skew, self.keys, rows, seed),
            "b": np.random.default_rng(9 + seed).random(rows),
            "ts": np.arange(rows, dtype=np.int64) * 1_000 // RATE,
        }

    def by_keys(self, keys: float) -> LayoutFeed:
        """The join with another number of keys."""
        return self._replace(keys=int(keys)).feed()

    def by_skew(self, skew: float) -> LayoutFeed:
        """The join with another skew."""
        return self._replace(skew=skew).feed()

    def by_batch(self, batch: float) -> LayoutFeed:
        """The join with other frames."""
        return self._replace(batch=int(batch)).feed()

    def always(self) -> Callable[[float], LayoutFeed]:
        """The same join at every x."""
        made = self.feed()
        return lambda _: made


def _text(seconds: int) -> str:
    return f"""\
name: figure
streams:
  base:
    schema: {{a: long, b: double, ts: timestamp}}
    time: ts
  probe:
    schema: {{a: long, b: double, ts: timestamp}}
    time: ts
sql: |
  SELECT * FROM base AS l JOIN probe AS r
  ON l.a = r.a AND l.b < r.b AND r.ts BETWEEN l.ts - INTERVAL '{seconds} s' AND l.ts + INTERVAL '{seconds} s'
"""


def intervals(run: FigureRun) -> tuple[int, int]:
    """The two intervals that most figures have, in seconds."""
    return run.pick((10, 30), (4, 8))


def rates(found: Costs, title: str, x: str, *, log_x: bool = False) -> Panel:
    """Throughput, a curve for each label."""
    return Panel(title, x, "tuples/s", rate_series(found), log_x, log_y=True)


def figures_10_to_12(run: FigureRun) -> Figure:
    """The number of keys, uniform and skewed; the copies of tuples, and the balance of workers."""
    keys = run.pick((1, 5, 25, 100, 1_000), (1, 25))
    run.plan(4 * len(keys) * len(PATTERNS))
    panels: list[Panel] = []
    skewed: Costs = {}
    for number, skew in ((10, UNIFORM), (11, SKEW)):
        for seconds in intervals(run):
            skewed = costs(run, keys, PATTERNS, IntervalFeed(1, skew, seconds).by_keys, same(WORKERS))
            kind = "uniform" if skew == UNIFORM else "skewed"
            panels.append(rates(skewed, f"{number}: {kind} keys, I = {seconds} s", "keys", log_x=True))
    copies, balance = _copies(skewed), _balance(skewed)
    how = f"{HOW}{WORKERS} workers, frames of {BATCH} tuples."
    title = "PPOIJ, figures 10 to 12: keys, splitting, balance"
    claims = (*_rate_claims(panels, keys[-1]), *_split_claims(copies, balance, keys[-1]))
    return Figure("ppoij-10-12", title, how, (*panels, copies, balance), claims, run.left_out)


def _copies(skewed: Costs) -> Panel:
    series = cost_series(skewed, lambda cost: cost.total("messages") / cost.tuples)
    return Panel("12: workers that receive a tuple", "keys", "copies of a tuple", series, log_x=True, log_y=True)


def _balance(skewed: Costs) -> Panel:
    series = cost_series(skewed, lambda cost: cost.imbalance("examined"))
    y = "highest comparisons of a worker / mean"
    return Panel("12: balance", "keys", y, series, log_x=True, log_y=True)


def _rate_claims(panels: Sequence[Panel], many: int) -> tuple[Claim, ...]:
    uniform, few, skewed = panels[0], panels[2], panels[3]
    kp_to_dp, hp_to_kp = uniform.times_at(many, "KP", "DP"), skewed.times_at(25, "HP", "KP")
    return (
        claim("10: with many keys KP is the fastest, DP far behind", kp_to_dp, 1.2, 3, WHY),
        rises("10: with one key DP beats KP", uniform.times_at(1, "DP", "KP"), WHY),
        rises("11: with few skewed keys DP beats KP", few.times_at(1, "DP", "KP"), WHY),
        claim("11: with more skewed keys HP beats KP", hp_to_kp, 1.2, 4, WHY),
        rises("11: with more skewed keys HP beats DP", skewed.times_at(many, "HP", "DP"), WHY),
    )


def _split_claims(copies: Panel, balance: Panel, many: int) -> tuple[Claim, ...]:
    why = "Algorithm 1 splits keys until the load is even."
    hp_to_dp = balance.times_at(many, "HP", "DP")
    return (
        falls("12: HP splits less as there are more keys", copies.growth("HP"), why),
        claim("12: HP is as balanced as DP", hp_to_dp, 0.95, 1.1, "Calibration sees a sample of the tuples."),
        rises("12: KP is less balanced than DP", balance.times_at(1, "KP", "DP"), "One key has one worker."),
    )


KEYS = 50


def figure_13(run: FigureRun) -> Figure:
    """Workers."""
    workers = run.pick((1, 2, 4, 8, 16), (1, 4))
    run.plan(2 * len(workers) * len(PATTERNS))
    panels = [
        rates(costs(run, workers, PATTERNS, IntervalFeed(KEYS, SKEW, i).always(), int), f"I = {i} s", "workers")
        for i in intervals(run)
    ]
    last = panels[-1]
    claims = (
        rises("HP scales better than KP", _scaling(last, "HP", "KP"), WHY),
        rises("HP scales better than DP", _scaling(last, "HP", "DP"), WHY),
        rises(
            "HP gains with workers",
            last.growth("HP"),
            "The fixed cost of a frame in each worker doesn't shrink with more workers.",
        ),
    )
    how = f"{HOW}{KEYS} keys, skew {SKEW}, frames of {BATCH} tuples."
    return Figure("ppoij-13", "PPOIJ, figure 13: replicas", how, panels, claims, run.left_out)


def _scaling(panel: Panel, above: str, below: str) -> list[float]:
    one, other = panel.growth(above), panel.growth(below)
    return [one[0] / other[0]] if one and other and other[0] else []


def figure_14(run: FigureRun) -> Figure:
    """Skew."""
    skews = run.pick((0.1, 0.2, 0.35, 0.45, 0.5), (0.2, 0.5))
    run.plan(2 * len(skews) * len(PATTERNS))
    panels = [
        rates(
            costs(run, skews, PATTERNS, IntervalFeed(KEYS, UNIFORM, i).by_skew, same(WORKERS)),
            f"I = {i} s",
            "skew factor; 0.5 is uniform",
        )
        for i in intervals(run)
    ]
    last = panels[-1]
    flat, no_skew = last.growth("DP"), last.times_at(UNIFORM, "HP", "KP")
    claims = (
        claim("DP hardly depends on the skew", flat, 0.9, 1.1, "Skew makes more pairs, and every pair is compared."),
        rises("KP is better with less skew", last.growth("KP"), WHY),
        falls(
            "with extreme skew HP is slower than DP",
            last.times_at(skews[0], "HP", "DP"),
            "In the paper HP's overhead is its collectors; here it is a look-up of groups.",
        ),
        claim("with no skew HP is slightly worse than KP", no_skew, 0.8, 0.99, WHY),
    )
    how = f"{HOW}{WORKERS} workers, {KEYS} keys, frames of {BATCH} tuples."
    return Figure("ppoij-14", "PPOIJ, figure 14: skew", how, panels, claims, run.left_out)


def figure_15(run: FigureRun) -> Figure:
    """Batching."""
    batches = run.pick((4, 8, 32, 128, 512), (16, 64))
    run.plan(2 * len(batches) * len(PATTERNS))
    seconds = run.pick(10, 4)
    uniform, skewed = (
        rates(
            costs(run, batches, PATTERNS, IntervalFeed(KEYS, skew, seconds).by_batch, same(WORKERS)),
            title,
            "tuples of a frame",
            log_x=True,
        )
        for title, skew in (("uniform keys", UNIFORM), ("skewed keys", SKEW))
    )
    first, last = batches[0], batches[-1]
    claims = (
        rises("small batches: KP is the fastest with uniform keys", uniform.times_at(first, "KP", "DP"), WHY),
        rises(
            "small batches: KP beats HP with skewed keys",
            skewed.times_at(first, "KP", "HP"),
            "A frame of a few tuples costs every worker its fixed time, whatever the pattern.",
        ),
        rises("larger batches make DP faster", skewed.growth("DP"), WHY),
        rises("with batches HP beats KP with skewed keys", skewed.times_at(last, "HP", "KP"), WHY),
    )
    how = f"{HOW}{WORKERS} workers, {KEYS} keys, I = {seconds} s (the paper's is 30 s)."
    return Figure("ppoij-15", "PPOIJ, figure 15: batching", how, (uniform, skewed), claims, run.left_out)


PERCENTS = (50, 99, 100)
#: The paper's batch of 1 is a frame of this many tuples here.
SMALL = 4


def _cdf(title: str, found: Sequence[tuple[str, LayoutCost]]) -> Panel:
    series = [Series(name, [each.p50_ms, each.p99_ms, each.max_ms], PERCENTS) for name, each in found if each.tuples]
    return Panel(title, "ms a frame, of the slowest worker", "% of frames", series, log_x=True)


def _medians(panel: Panel, above: str, below: str) -> list[float]:
    found = {series.name: series.x[0] for series in panel.series}
    one, other = found.get(above), found.get(below)
    return [float(one) / float(other)] if one and other else []


def figure_16(run: FigureRun) -> Figure:
    """Latency."""
    run.plan(2 * len(PATTERNS))
    seconds = intervals(run)[0]
    uniform, skewed = (
        _latency(run, title, IntervalFeed(50, skew, seconds))
        for title, skew in (("uniform keys", UNIFORM), ("skewed keys", SKEW))
    )
    why = (
        "The paper's latencies include queues, of tuples before replicas and of results that wait for their order; "
        "here they are a frame's processing alone."
    )
    claims = (
        claim("uniform keys: DP's latency is 13.6 times HP's", _medians(uniform, "DP", "HP"), 13.6, 13.6, why),
        claim("uniform keys: HP's latency is that of KP", _medians(uniform, "HP", "KP"), 0.9, 1.1, why),
        claim("skewed keys: KP's latency is 2.9 times DP's", _medians(skewed, "KP", "DP"), 2.9, 2.9, why),
        claim("skewed keys: HP's latency is 3.3 times DP's", _medians(skewed, "HP", "DP"), 3.3, 3.3, why),
    )
    how = f"{HOW}{WORKERS} workers, 50 keys, I = {seconds} s, frames of {BATCH} tuples in an idle system."
    return Figure("ppoij-16", "PPOIJ, figure 16: latency", how, (uniform, skewed), claims, run.left_out)


def _latency(run: FigureRun, title: str, interval: IntervalFeed) -> Panel:
    found = [(each.label, cost(each, interval.feed(), WORKERS, run.point_s)) for each in run.each(PATTERNS)]
    return _cdf(title, found)


def _label(batch: int) -> str:
    return f"HP, frames of {batch}"


def figures_17_and_18(run: FigureRun) -> Figure:
    """HP with small and with larger frames; the paper's other systems aren't measured."""
    workers, seconds = run.pick((1, 2, 4, 8), (1, 2)), run.pick(10, 4)
    run.plan(4 * len(workers) + 2)
    panels = [_by_workers(run, workers, IntervalFeed(keys, UNIFORM, seconds)) for keys in (100, 1_000)]
    waits = [
        (_label(batch), cost(HP, IntervalFeed(100, UNIFORM, seconds, batch).feed(), WORKERS, run.point_s))
        for batch in run.each((SMALL, BATCH))
    ]
    latency = _cdf("18: latency, 100 keys", waits)
    slowest_ms = max((each.max_ms for _, each in waits), default=0.0)
    how = (
        f"{HOW}Uniform keys, I = {seconds} s. A frame of {SMALL} stands for the paper's batch of 1: a frame is the "
        "smallest unit that moves."
    )
    title = "PPOIJ, figures 17 and 18: beside other systems"
    claims = _batching_claims(panels[0], latency, slowest_ms)
    return Figure("ppoij-17-18", title, how, (*panels, latency), claims, run.left_out)


def _by_workers(run: FigureRun, workers: Sequence[int], interval: IntervalFeed) -> Panel:
    found: dict[tuple[str, float], LayoutCost] = {}
    for batch in (SMALL, BATCH):
        layouts = (replace(HP, label=_label(batch)),)
        found |= costs(run, workers, layouts, interval._replace(batch=batch).always(), int)
    return rates(found, f"17: {interval.keys:,} keys", "workers")


def _batching_claims(throughput: Panel, latency: Panel, slowest_ms: float) -> tuple[Claim, ...]:
    one, other = _label(BATCH), _label(SMALL)
    return (
        checked("HP outperforms Scale-OIJ from 4 replicas on, and Flink", "neither is measured here", holds=None),
        rises("batching makes HP faster", throughput.times(one, other), WHY),
        rises(
            "batching makes latencies slightly higher",
            _medians(latency, one, other),
            "The paper's batch waits until it is full.",
        ),
        checked("latency is below 27 ms", f"{slowest_ms:.3g} ms", WHY, holds=slowest_ms < 27),
    )


ENTRIES = (
    Entry("ppoij-10-12", 110, figures_10_to_12),
    Entry("ppoij-13", 60, figure_13),
    Entry("ppoij-14", 60, figure_14),
    Entry("ppoij-15", 60, figure_15),
    Entry("ppoij-16", 20, figure_16),
    Entry("ppoij-17-18", 40, figures_17_and_18),
)
