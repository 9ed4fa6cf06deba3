"""PPOIJ, figures 10 to 12: keys, splitting and balance."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.papers.claims import Claim, claim, falls, rises
from loadgen.papers.layout_cost import Costs, cost_series, costs, same
from loadgen.papers.model import Figure, Panel
from loadgen.papers.ppoij.joins import BATCH, HOW, PATTERNS, SKEW, UNIFORM, WHY, WORKERS, IntervalFeed, intervals, rates
from loadgen.papers.run import Entry, FigureRun


def figures_10_to_12(run: FigureRun) -> Figure:
    """The number of keys, uniform and skewed; how often tuples are copied, and how balanced workers are."""
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


ENTRIES = (Entry("ppoij-10-12", 110, figures_10_to_12),)
