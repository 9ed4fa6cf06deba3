"""ScaleJoin, figures 5 and 6: comparisons and tuples by workers, and the handshake join beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from loadgen.papers.claims import NOTHING, Claim, checked, claim
from loadgen.papers.layout_cost import LayoutCost, cost
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.scale_join.joins import HANDSHAKE, HOW, MATCHES, OWN, feed

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
        """Take one measurement."""
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
    middle, right = _tuples(compared[1]), _balance(compared[1], found.spread)
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


def _balance(compared: Series, spread: Sequence[float]) -> Panel:
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
    apart = Panel("c: difference", "workers", "comparisons/s", [_difference(rates[OWN.label], rates[HANDSHAKE.label])])
    why = (
        "Both compare by the same scan here: they differ in the chain's message for each tuple and worker, and that "
        "time is small beside the comparisons."
    )
    paper = "with 48 workers ScaleJoin makes 2.7 times the handshake join's comparisons"
    claims = (claim(paper, both.times(OWN.label, HANDSHAKE.label)[-1:], 2.7, 2.7, why),)
    how = f"{HOW} The chain's time is that of all its workers, divided evenly."
    title = "ScaleJoin, figure 6: beside the handshake join"
    return Figure("scale-join-06", title, how, (both, apart), claims, run.left_out)


def _difference(own: dict[int, float], chain: dict[int, float]) -> Series:
    return Series("ScaleJoin - Handshake", list(chain), [own[count] - rate for count, rate in chain.items()])


ENTRIES = (Entry("scale-join-05", 60, figure_5), Entry("scale-join-06", 30, figure_6))
