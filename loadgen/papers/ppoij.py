"""PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025), section 5: figures 10 to 18, patterns for interval joins.

KP has one worker a key, DP all workers for every key, HP as many as a key's frequency asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.laid import SIMULATED, Cost, Costs, Fed, Laid, cost, costs, panel
from loadgen.papers.model import Claim, Entry, Figure, Panel, Series, claim, falls, rises, tells
from loadgen.papers.run import FigureRun

RATE = 500
WORKERS, SKEW, UNIFORM = 8, 0.35, 0.5
BATCH = 32
#: Tuples from which HP learns how frequent keys are; windows are filled by what comes after them.
CALIBRATION = 2_000
PATTERNS = (Laid("KP", "kp"), Laid("DP", "dp"), Laid("HP", "hp", options={"calibration": str(CALIBRATION)}))
#: Frames behind full windows.
FRAMES = 60
HOW = (
    f"{SIMULATED}Two streams of {RATE} tuples/s each; equal keys, event times within the interval, and one "
    "inequality that every "
    "candidate is compared by, as the paper's operator visits its pairs. "
)
WHY = (
    "The paper's replicas take tuples one by one from queues, where a copy of a tuple costs as much as the tuple. "
    "Here a worker reads "
    "every frame of the log anyhow, and a copy costs one search in the worker's table."
)


def self_similar(skew: float, keys: int, rows: int, seed: int) -> NDArray[np.int64]:
    """Keys below `keys`, int64 (rows,): a share `skew` of them has 1 - `skew` of the tuples, and so within it."""
    drawn = np.random.default_rng(seed).random(rows)
    return np.minimum((keys * drawn ** (np.log(skew) / np.log(1 - skew))).astype(np.int64), keys - 1)


def _fed(keys: int, skew: float, seconds: int, batch: int = BATCH) -> Fed:
    text = f"""\
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
    rows = RATE * seconds + max(batch * FRAMES, 4_096) + 4_096 + CALIBRATION
    columns = [
        {
            "a": self_similar(skew, keys, rows, seed),
            "b": np.random.default_rng(9 + seed).random(rows),
            "ts": np.arange(rows) * 1_000 // RATE,
        }
        for seed in (1, 2)
    ]
    return Fed(text, columns, (batch // 2, batch // 2), 2 * RATE * seconds + CALIBRATION)


def _intervals(run: FigureRun) -> tuple[int, int]:
    return run.pick((10, 30), (4, 8))


def figures_10_to_12(run: FigureRun) -> Figure:
    """Keys, with even and skewed keys; splitting and balance."""
    keys = run.pick((1, 5, 25, 100, 1_000), (1, 25))
    run.plan(4 * len(keys) * len(PATTERNS))
    panels: list[Panel] = []
    skewed: Costs = {}
    for number, skew in ((10, UNIFORM), (11, SKEW)):
        for seconds in _intervals(run):
            found = costs(run, keys, PATTERNS, lambda k, s=skew, i=seconds: _fed(int(k), s, i), lambda _: WORKERS)
            title = f"{number}: {'uniform' if skew == UNIFORM else 'skewed'} keys, I = {seconds} s"
            panels.append(_rates(found, title, "keys", log_x=True))
            skewed = found
    degree = panel(
        skewed,
        "12: workers that a tuple comes to",
        "keys",
        "copies of a tuple",
        lambda c: c.total("messages") / c.tuples,
        log_x=True,
    )
    balance = panel(
        skewed,
        "12: balance",
        "keys",
        "most comparisons of a worker to the mean",
        lambda c: c.imbalance("examined"),
        log_x=True,
    )
    many = keys[-1]
    claims = (
        claim("10: with many keys KP is the fastest, DP far behind", _at(panels[0], "KP", "DP", many), 1.2, 3, WHY),
        rises("10: with one key DP beats KP", _at(panels[0], "DP", "KP", 1), WHY),
        rises("11: with few skewed keys DP beats KP", _at(panels[2], "DP", "KP", 1), WHY),
        claim("11: with more skewed keys HP beats KP", _at(panels[3], "HP", "KP", 25), 1.2, 4, WHY),
        rises("11: with more skewed keys HP beats DP", _at(panels[3], "HP", "DP", many), WHY),
        falls(
            "12: HP's splitting falls as there are more keys",
            degree.growth("HP"),
            "Algorithm 1 splits keys until the load is even.",
        ),
        claim(
            "12: HP is as balanced as DP",
            _at(balance, "HP", "DP", many),
            0.95,
            1.1,
            "A calibration sees a sample of the tuples.",
        ),
        rises("12: KP is less balanced than DP", _at(balance, "KP", "DP", 1), "One key has one worker."),
    )
    how = f"{HOW}{WORKERS} workers, frames of {BATCH} tuples."
    return Figure(
        "ppoij-10-12",
        "PPOIJ, figures 10 to 12: keys, splitting, balance",
        how,
        (*panels, degree, balance),
        claims,
        run.left_out,
    )


def _rates(found: Costs, title: str, x: str, *, log_x: bool = False) -> Panel:
    return panel(found, title, x, "tuples/s", lambda each: each.rate, log_x=log_x)


def _at(each: Panel, above: str, below: str, x: float) -> list[float]:
    values = [
        dict(zip(series.x, series.y, strict=True)).get(x)
        for name in (above, below)
        for series in each.series
        if series.name == name
    ]
    return [values[0] / values[1]] if len(values) == 2 and values[0] and values[1] else []


def figure_13(run: FigureRun) -> Figure:
    """Workers."""
    workers = run.pick((1, 2, 4, 8, 16), (1, 4))
    run.plan(2 * len(workers) * len(PATTERNS))
    panels = [
        _rates(costs(run, workers, PATTERNS, lambda _, i=i: _fed(50, SKEW, i), int), f"I = {i} s", "workers")
        for i in _intervals(run)
    ]
    last = panels[-1]
    claims = (
        rises("HP scales better than KP", _beyond(last, "HP", "KP"), WHY),
        rises("HP scales better than DP", _beyond(last, "HP", "DP"), WHY),
        rises(
            "HP gains with workers",
            last.growth("HP"),
            "A frame's fixed cost a worker doesn't shrink with more of them.",
        ),
    )
    how = f"{HOW}50 keys, skew {SKEW}, frames of {BATCH} tuples."
    return Figure("ppoij-13", "PPOIJ, figure 13: replicas", how, panels, claims, run.left_out)


def _beyond(each: Panel, above: str, below: str) -> list[float]:
    one, other = each.growth(above), each.growth(below)
    return [one[0] / other[0]] if one and other and other[0] else []


def figure_14(run: FigureRun) -> Figure:
    """Skew."""
    skews = run.pick((0.1, 0.2, 0.35, 0.45, 0.5), (0.2, 0.5))
    run.plan(2 * len(skews) * len(PATTERNS))
    panels = [
        _rates(
            costs(run, skews, PATTERNS, lambda s, i=i: _fed(50, s, i), lambda _: WORKERS),
            f"I = {i} s",
            "skew factor; 0.5 is uniform",
        )
        for i in _intervals(run)
    ]
    last = panels[-1]
    claims = (
        claim(
            "DP hardly depends on the skew",
            last.growth("DP"),
            0.9,
            1.1,
            "Skew makes more pairs, and every pair is compared.",
        ),
        rises("KP is better with less skew", last.growth("KP"), WHY),
        falls(
            "with extreme skew HP is slower than DP",
            _at(last, "HP", "DP", skews[0]),
            "HP's overhead in the paper is its collectors'; here it is a look-up of groups.",
        ),
        claim("with no skew HP is slightly worse than KP", _at(last, "HP", "KP", UNIFORM), 0.8, 0.99, WHY),
    )
    how = f"{HOW}{WORKERS} workers, 50 keys, frames of {BATCH} tuples."
    return Figure("ppoij-14", "PPOIJ, figure 14: skew", how, panels, claims, run.left_out)


def figure_15(run: FigureRun) -> Figure:
    """Batching."""
    batches = run.pick((4, 8, 32, 128, 512), (16, 64))
    run.plan(2 * len(batches) * len(PATTERNS))
    seconds = run.pick(10, 4)
    panels = [
        _rates(
            costs(run, batches, PATTERNS, lambda b, s=s: _fed(50, s, seconds, int(b)), lambda _: WORKERS),
            title,
            "tuples of a frame",
            log_x=True,
        )
        for title, s in (("uniform keys", UNIFORM), ("skewed keys", SKEW))
    ]
    claims = (
        rises("small batches: KP is the fastest with uniform keys", _at(panels[0], "KP", "DP", batches[0]), WHY),
        rises(
            "small batches: KP beats HP with skewed keys",
            _at(panels[1], "KP", "HP", batches[0]),
            "A frame of a few tuples costs every worker its fixed time, whatever the pattern.",
        ),
        rises("larger batches make DP faster", panels[1].growth("DP"), WHY),
        rises("with batches HP beats KP with skewed keys", _at(panels[1], "HP", "KP", batches[-1]), WHY),
    )
    how = f"{HOW}{WORKERS} workers, 50 keys, I = {seconds} s (the paper's is 30 s)."
    return Figure("ppoij-15", "PPOIJ, figure 15: batching", how, panels, claims, run.left_out)


PERCENTS = (50, 99, 100)


def _cdf(title: str, found: Sequence[tuple[str, Cost]]) -> Panel:
    series = [Series(name, [each.p50_ms, each.p99_ms, each.max_ms], PERCENTS) for name, each in found if each.tuples]
    return Panel(title, "ms a frame, of the slowest worker", "% of frames", series, log_x=True)


def _median(each: Panel, above: str, below: str) -> list[float]:
    found = {series.name: series.x[0] for series in each.series}
    one, other = found.get(above), found.get(below)
    return [float(one) / float(other)] if one and other else []


def figure_16(run: FigureRun) -> Figure:
    """Latency."""
    run.plan(2 * len(PATTERNS))
    seconds = _intervals(run)[0]
    panels = [
        _cdf(title, [(p.label, cost(p, _fed(50, s, seconds), WORKERS, run.point_s)) for p in run.each(PATTERNS)])
        for title, s in (("uniform keys", UNIFORM), ("skewed keys", SKEW))
    ]
    why = (
        "The paper's latencies are queues, of tuples before replicas and of results that wait for their order; "
        "here is a frame's processing alone."
    )
    claims = (
        claim("uniform keys: DP's latency is 13.6 times HP's", _median(panels[0], "DP", "HP"), 13.6, 13.6, why),
        claim("uniform keys: HP's latency is that of KP", _median(panels[0], "HP", "KP"), 0.9, 1.1, why),
        claim("skewed keys: KP's latency is 2.9 times DP's", _median(panels[1], "KP", "DP"), 2.9, 2.9, why),
        claim("skewed keys: HP's latency is 3.3 times DP's", _median(panels[1], "HP", "DP"), 3.3, 3.3, why),
    )
    how = f"{HOW}{WORKERS} workers, 50 keys, I = {seconds} s, frames of {BATCH} tuples in an idle system."
    return Figure("ppoij-16", "PPOIJ, figure 16: latency", how, panels, claims, run.left_out)


def figures_17_and_18(run: FigureRun) -> Figure:
    """HP with small and larger frames; what it is compared with in the paper isn't here."""
    workers, seconds = run.pick((1, 2, 4, 8), (1, 2)), run.pick(10, 4)
    small = 4
    run.plan(4 * len(workers) + 2)
    panels = []
    for keys in (100, 1_000):
        found: dict[tuple[str, float], Cost] = {}
        for batch in (small, BATCH):
            laid = (replace(PATTERNS[2], label=f"HP, frames of {batch}"),)
            found |= costs(run, workers, laid, _always(_fed(keys, UNIFORM, seconds, batch)), int)
        panels.append(_rates(found, f"17: {keys:,} keys", "workers"))
    waits = [
        (f"HP, frames of {batch}", cost(PATTERNS[2], _fed(100, UNIFORM, seconds, batch), WORKERS, run.point_s))
        for batch in run.each((small, BATCH))
    ]
    latency = _cdf("18: latency, 100 keys", waits)
    one, other = f"HP, frames of {BATCH}", f"HP, frames of {small}"
    claims: tuple[Claim, ...] = (
        tells("HP outperforms Scale-OIJ from 4 replicas on, and Flink", "neither is part of this project", holds=None),
        rises("batching makes HP faster", panels[0].times(one, other), WHY),
        rises(
            "batching makes latencies slightly higher",
            _median(latency, one, other),
            "The paper's batch waits until it is full.",
        ),
        tells(
            "latency is below 27 ms",
            f"{max((c.max_ms for _, c in waits), default=0.0):.3g} ms",
            WHY,
            holds=all(c.max_ms < 27 for _, c in waits),
        ),
    )
    how = (
        f"{HOW}Uniform keys, I = {seconds} s. The paper's batch of 1 is a frame of {small} here: a frame is the "
        "smallest thing that moves."
    )
    return Figure(
        "ppoij-17-18", "PPOIJ, figures 17 and 18: beside other systems", how, (*panels, latency), claims, run.left_out
    )


def _always(fed: Fed) -> Callable[[float], Fed]:
    return lambda _: fed


ENTRIES = (
    Entry("ppoij-10-12", 110, figures_10_to_12),
    Entry("ppoij-13", 60, figure_13),
    Entry("ppoij-14", 60, figure_14),
    Entry("ppoij-15", 60, figure_15),
    Entry("ppoij-16", 20, figure_16),
    Entry("ppoij-17-18", 40, figures_17_and_18),
)
