"""ScaleJoin, figures 7 and 8: the merge of many inputs, latency, and the balance under bursty inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.papers.claims import NOTHING, Claim, checked, rises
from loadgen.papers.layout_cost import LayoutCost, LayoutRun, cost
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.scale_join.joins import HALF, HOW, OWN, feed
from loadgen.papers.scale_join.merge import BATCH_ROWS, merge_rate

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


def _constant(_: int) -> tuple[int, int]:
    return 120, 90


def _fluctuating(step: int) -> tuple[int, int]:
    return int(120 + 90 * np.sin(step / 3)), int(120 + 60 * np.sin(step / 5))


def _peaks(step: int) -> tuple[int, int]:
    return 400 if step % 10 == 3 else 80, 400 if step % 15 == 7 else 60


CASES = (
    _Case("a: distinct constant rates, 10 workers", 10, _constant),
    _Case("b: fluctuating rates, 12 workers", 12, _fluctuating),
    _Case("c: rates with peaks, 14 workers", 14, _peaks),
)


def figure_8(run: FigureRun) -> Figure:
    """Bursty inputs."""
    window, steps = run.pick(50_000, 5_000), run.pick(60, 30)
    panels: list[Panel] = []
    deviations: list[float] = []
    for case in run.each(CASES):
        mean, deviation = _balance(case, window, steps)
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


def _balance(case: _Case, window: int, steps: int) -> tuple[list[float], list[float]]:
    """For each step: the workers' mean comparisons, and their standard deviation in percent of that."""
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


ENTRIES = (Entry("scale-join-07", 25, figure_7), Entry("scale-join-08", 20, figure_8))
