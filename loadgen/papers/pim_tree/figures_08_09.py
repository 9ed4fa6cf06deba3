"""PIM-Tree, figures 8 and 9: partitions, chains, insertion depth, merge ratio, and the cost of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from loadgen.papers.claims import NOTHING, Claim, checked, claim, falls
from loadgen.papers.measurable import StoredPart
from loadgen.papers.meter import Point
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.pim_tree.joins import B_TREE, HOW, IM, PIM, QUICK_WINDOW, SIZE_WHY, WINDOW, WINDOW_LABEL, two_way
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.sweep import Line, SweepTable, merged, sweep

#: Simulated threads of a round-robin partition.
THREADS = 8
_SHARE = StoredPart(0, THREADS)
LOOP, LOOP_SHARED = (
    Line("nested loop", "scan"),
    Line(f"nested loop, {THREADS} threads, simulated", "scan", share=_SHARE),
)
TREE_SHARED = Line(f"B+-tree, {THREADS} threads, simulated", "bplus_bits", share=_SHARE)
CHAINS = ("chain_b", "chain_ib")
DEPTHS, DEPTH_THREADS = (1, 2, 3, 4), (1, 2)
_ROUND_ROBIN_WHY = (
    "This is a worker's CPU time, of all probes against its eighth of the window: eight cores that do nothing else."
)


def figure_8(run: FigureRun) -> Figure:
    """Round-robin partitions, chained indexes, insertion depth."""
    windows = run.pick((1 << 12, 1 << 15, 1 << 18), (1 << 10, 1 << 13))
    lengths = run.pick((2, 4, 8, 16, 32), (2, 8))
    window = run.pick(WINDOW, QUICK_WINDOW)
    run.plan(4 * len(windows) + 2 * len(lengths) + 2 * len(DEPTHS))
    existing = sweep(run, windows, (LOOP, LOOP_SHARED, B_TREE, TREE_SHARED), two_way).rates(
        "a: round-robin partitions", WINDOW_LABEL, log_x=True
    )
    chains = [Line(name, name, _length) for name in CHAINS]
    chained = sweep(run, lengths, chains, lambda _: two_way(window)).rates(
        "b: chained indexes", "members of a chain", log_y=False
    )
    depth = sweep(run, DEPTHS, [_by_depth(threads) for threads in DEPTH_THREADS], lambda _: two_way(window)).rates(
        "c, d: PIM-Tree", "insertion depth", log_y=False
    )
    how = (
        f"{HOW} Round-robin threads are simulated: the time of one that stores an eighth of the tuples and "
        "searches for all. There is no Bw-tree."
    )
    title = "PIM-Tree, figure 8: round robin, chain length, insertion depth"
    claims = (*_partition_claims(existing), *_chain_claims(chained), _depth_claim(depth))
    return Figure("pim-tree-08", title, how, (existing, chained, depth), claims, run.left_out)


def _length(members: float) -> dict[str, str]:
    return {"length": str(int(members))}


def _by_depth(threads: int) -> Line:
    def options(depth: float) -> dict[str, str]:
        return {"depth": str(int(depth)), "threads": str(threads)}

    return Line(f"{threads} thread{'s' if threads > 1 else ''}", "pim_tree", options)


def _partition_claims(existing: Panel) -> tuple[Claim, Claim]:
    loops = existing.times(LOOP_SHARED.label, LOOP.label)
    trees = existing.times(TREE_SHARED.label, B_TREE.label)
    return (
        claim("eight round-robin threads are 8 times as fast with nested loops", loops, 8, 8, _ROUND_ROBIN_WHY),
        claim("eight round-robin threads are 2.5 times as fast with B+-trees", trees, 2.5, 2.5, _ROUND_ROBIN_WHY),
    )


def _chain_claims(chained: Panel) -> tuple[Claim, Claim]:
    faster = claim(
        "immutable chains have 1.5 times the throughput of B+-tree chains",
        chained.times("chain_ib", "chain_b"),
        1.5,
        1.5,
        "Members answer the probes of a chunk in sorted order here, which follows fewer cold pointers than the "
        "paper's one probe at a time.",
    )
    paper = "a chain of two is the best"
    best = chained.best_x("chain_ib")
    if best is None:
        return faster, checked(paper, NOTHING, holds=None)
    why = (
        "What a member costs beyond the search itself depends on how probes are batched; one additional member holds "
        "tuples of which some have expired."
    )
    here = f"the best is {best}" if isinstance(best, str) else f"the best is {best:g}"
    return faster, checked(paper, here, why, holds=best == 2)


def _depth_claim(depth: Panel) -> Claim:
    return falls(
        "with one thread the highest depth costs throughput",
        depth.growth("1 thread"),
        "The best depth differs with window, fan-out and cache; small trees insert faster as long as finding the "
        "right one is cheap.",
    )


@dataclass(frozen=True, slots=True)
class _RatioPanel:
    """A panel by merge ratio. options: the method's, beside the ratio."""

    title: str
    method: str
    options: Mapping[str, str] = field(default_factory=dict)

    def at(self, ratio: float) -> Mapping[str, str]:
        """The options at this merge ratio."""
        return {"merge_ratio": str(ratio), **self.options}

    def measured(self, run: FigureRun, ratios: Sequence[float], windows: Sequence[int]) -> Panel:
        """A curve for each window."""
        tables = [self._by_ratio(run, ratios, window) for window in windows]
        return merged(*tables).rates(self.title, "merge ratio", log_x=True, log_y=False)

    def _by_ratio(self, run: FigureRun, ratios: Sequence[float], window: int) -> SweepTable:
        line = Line(_tuples(window), self.method, self.at)
        return sweep(run, ratios, (line,), lambda _: two_way(window))


RATIO_PANELS = (
    _RatioPanel("a: PIM-Tree, two threads", "pim_tree", {"threads": "2"}),
    _RatioPanel("c: IM-Tree", "im_tree"),
    _RatioPanel("d: PIM-Tree", "pim_tree"),
)


def figure_9(run: FigureRun) -> Figure:
    """Merge ratio, and what each step costs."""
    ratios = run.pick((1 / 64, 1 / 16, 1 / 4, 1.0), (1 / 16, 1.0))
    windows = run.pick((1 << 14, 1 << 18), (1 << 11, 1 << 13))
    run.plan(3 * 2 * len(ratios) + 9 * len(windows) // 2)
    panels = [each.measured(run, ratios, windows) for each in RATIO_PANELS]
    steps = _steps(run, windows[-1])
    how = (
        f"{HOW} Panel b: a window of {windows[-1]:,}; insertion alone, search alone in a full window, "
        "merges while inserting."
    )
    claims = (_ratio_claim(panels[0], _tuples(windows[-1])), *_step_claims(steps))
    title = "PIM-Tree, figure 9: merge ratio, cost of each step"
    return Figure("pim-tree-09", title, how, (*panels, steps), claims, run.left_out)


def _tuples(window: int) -> str:
    return f"{window:,} tuples"


def _ratio_claim(panel: Panel, label: str) -> Claim:
    paper = "with several threads the highest merge ratio is the best"
    best = panel.best_x(label)
    if best is None:
        return checked(paper, NOTHING, holds=None)
    why = (
        "Two threads share the probes of a chunk, and neither waits for locks, so that rare merges save less here than "
        "in the paper."
    )
    highest = max(x for x in panel.named(label).x if not isinstance(x, str))
    return checked(paper, f"{best} is, with {label}", why, holds=best == highest)


def _steps(run: FigureRun, window: int) -> Panel:
    trees = (B_TREE, IM, PIM)
    inserting = sweep(run, (window,), [replace(tree, is_searching=False) for tree in trees], two_way)
    searching = sweep(run, (window,), [replace(tree, is_storing=False) for tree in trees], two_way)
    series = [
        _step_series(tree.label, inserting.points.get((tree.label, window)), searching.points.get((tree.label, window)))
        for tree in trees
    ]
    return Panel("b: steps", "", "us a tuple", series)


def _step_series(label: str, stored: Point | None, searched: Point | None) -> Series:
    if stored is None or searched is None:
        return Series(label, (), ())
    merges = 1e6 * stored.counters.get("merge_seconds", 0.0) / max(stored.tuples, 1)
    return Series(label, ("insert", "search", "merge"), (max(stored.us - merges, 0.0), searched.us, merges))


def _step_claims(steps: Panel) -> tuple[Claim, Claim]:
    return (
        claim(
            "PIM-Tree and IM-Tree insert 2.6 times as fast as a B+-tree on large windows",
            steps.times_at("insert", "B+-tree", "PIM-Tree"),
            2.6,
            2.6,
            SIZE_WHY,
        ),
        claim(
            "on large windows, searching costs the same in PIM-Tree and B+-tree",
            steps.times_at("search", "PIM-Tree", "B+-tree"),
            0.9,
            1.1,
            "The paper scans from the lowest match; here a search returns counts, and verifies ranges inside nodes "
            "with vector instructions.",
        ),
    )


ENTRIES = (Entry("pim-tree-08", 50, figure_8), Entry("pim-tree-09", 50, figure_9))
