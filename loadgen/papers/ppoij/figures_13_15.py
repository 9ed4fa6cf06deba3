"""PPOIJ, figures 13 to 15: replicas, skew and batching."""

from __future__ import annotations

from loadgen.papers.claims import claim, falls, rises
from loadgen.papers.layout_cost import costs, same
from loadgen.papers.model import Figure, Panel
from loadgen.papers.ppoij.joins import BATCH, HOW, PATTERNS, SKEW, UNIFORM, WHY, WORKERS, IntervalFeed, intervals, rates
from loadgen.papers.run import Entry, FigureRun

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


ENTRIES = (
    Entry("ppoij-13", 60, figure_13),
    Entry("ppoij-14", 60, figure_14),
    Entry("ppoij-15", 60, figure_15),
)
