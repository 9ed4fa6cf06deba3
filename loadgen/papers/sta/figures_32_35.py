"""STA, figures 32 to 35: load balance, aggregation and completeness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadgen.papers import data
from loadgen.papers.claims import Claim, checked, claim
from loadgen.papers.joins import F64, INEQUALITIES
from loadgen.papers.layout_cost import LayoutFeed, LayoutRun, MeasuredLayout, cost_series, costs, same
from loadgen.papers.model import Figure, Panel, Series
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.schemes.checkpoint import Sharing, completeness
from loadgen.papers.sta.layouts import STA, FigureStream, text, zipf
from spojoin.kernels.spread import spread
from spojoin.published.layouts.load import imbalance

EXPONENTS = (0.5, 1.0, 1.5, 2.0)
HASHED, RANDOM = "hash of the key", "random"


def figure_32(run: FigureRun) -> Figure:
    """Load imbalance."""
    tuples, workers = run.pick(100_000, 20_000), 10
    hashed = [_imbalance(spread(_whole_keys(exponent, tuples, 3), workers), workers) for exponent in EXPONENTS]
    random = [_imbalance(spread(np.arange(tuples), workers), workers)] * len(EXPONENTS)
    panel = Panel(
        "stored tuples",
        "Zipf exponent",
        "highest of a worker / mean",
        [Series(HASHED, EXPONENTS, hashed), Series(RANDOM, EXPONENTS, random), *_own_imbalance(run, workers)],
    )
    at_most = [h / r for h, r in zip(hashed, random, strict=True)][1:]
    why = "The skew of the keys and the number of workers determine the factor."
    claims = (
        claim("hashing is more than 2 times less balanced than random", at_most, 2, 10, why),
        claim("hashing gets worse with skew", panel.growth(HASHED), 1.2, 10, "The share of one key bounds it."),
        claim("random stays the same", panel.growth(RANDOM), 0.9, 1.1, "It doesn't depend on the keys."),
    )
    how = (
        f"{tuples:,} tuples over {workers} workers, counted. STA's own layout keeps hot keys on two of them, which "
        "store more or less than the others, depending on the skew."
    )
    return Figure("sta-32", "STA, figure 32: load imbalance", how, (panel,), claims, run.left_out)


def _whole_keys(exponent: float, tuples: int, seed: int) -> NDArray[np.int64]:
    return data.zipf(exponent)(tuples, seed).astype(np.int64)


def _imbalance(homes: NDArray[np.int64], workers: int) -> float:
    return imbalance(np.bincount(homes, minlength=workers).tolist())


def _own_imbalance(run: FigureRun, workers: int) -> list[Series]:
    layouts = (
        MeasuredLayout("STA, two choices", "sta"),
        MeasuredLayout("STA, one choice", "sta", options={"choices": "1"}),
    )
    found = costs(run, EXPONENTS, layouts, lambda z: FigureStream(INEQUALITIES, zipf(z)).feed(5_000), same(workers))
    return cost_series(found, lambda each: each.imbalance("stored"))


#: Tuples of a block, and the keys that are hot.
BLOCK, HOT_KEYS = 1_000, 32


def figure_33(run: FigureRun) -> Figure:
    """The workers at which a thousand tuples lie."""
    workers, tuples = 100, run.pick(100_000, 20_000)
    robin = [_workers_of_blocks(np.arange(tuples) % workers)] * len(EXPONENTS)
    random = [_workers_of_blocks(_homes(_whole_keys(z, tuples, 5), workers)) for z in EXPONENTS]
    series = [Series("round robin", EXPONENTS, robin), Series("random, hot keys at two", EXPONENTS, random)]
    panel = Panel(f"each {BLOCK:,} tuples", "Zipf exponent", "workers that hold some", series)
    claims = (
        checked(
            "round robin aggregates from all 100 workers",
            f"{min(robin):.3g} to {max(robin):.3g}",
            holds=min(robin) == workers,
        ),
        checked(
            "random uses almost 60 of 100 workers",
            f"{min(random):.3g} to {max(random):.3g}",
            "A thousand cold tuples reach nearly all of 100 workers; fewer do where most tuples are hot. The paper "
            "doesn't state its skew here.",
            holds=min(random) <= 60 <= max(random),
        ),
    )
    how = (
        f"Counted: the {HOT_KEYS} most frequent keys lie at two workers, others at random ones. Exact joins ask all "
        "workers, whatever they hold."
    )
    return Figure("sta-33", "STA, figure 33: aggregation", how, (panel,), claims, run.left_out)


def _homes(keys: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """The worker of each tuple: hot keys alternate between the first two, cold tuples go to random others."""
    numbers = np.arange(len(keys))
    is_hot = np.isin(keys, np.argsort(-np.bincount(keys))[:HOT_KEYS])
    return np.where(is_hot, numbers % 2, 2 + spread(numbers, workers - 2))


def _workers_of_blocks(homes: NDArray[np.int64]) -> float:
    """How many workers hold tuples of a block, on average over all blocks."""
    return float(np.mean([len(set(block.tolist())) for block in homes.reshape(-1, BLOCK)]))


STA_SHARED, CHAIN_SHARED, OWN = "STA, checkpoints", "chained index, checkpoints", "this project's STA layout"
RATE = 200.0


def figures_34_and_35(run: FigureRun) -> Figure:
    """Completeness by checkpoint interval, and that of the layout here."""
    length, tuples = run.pick(10.0, 5.0), run.pick(8_000, 3_000)
    own = Series(OWN, EXPONENTS, _exact(run))
    ten = _completeness_panel("34: 10 workers, 1 s", Sharing(10, RATE, length, 1.0), tuples, own)
    hundred = _completeness_panel("35: 100 workers, 5 s", Sharing(100, RATE, length, 5.0), tuples, own)
    how = (
        f"A simulation of the checkpoints: {RATE:g} tuples/s, windows of {length:g} s, a band over Zipf keys. This "
        "project's layout is measured: its matches are counted, and compared with those of a nested loop."
    )
    title = "STA, figures 34 and 35: completeness"
    claims = (*_completeness_claims(ten, hundred), _exact_claim(own.y))
    return Figure("sta-34-35", title, how, (ten, hundred), claims, run.left_out)


def _completeness_panel(title: str, sharing: Sharing, tuples: int, own: Series) -> Panel:
    found: dict[str, list[float]] = {STA_SHARED: [], CHAIN_SHARED: []}
    for exponent in EXPONENTS:
        keys = data.zipf(exponent)(tuples, 6)
        is_hot = np.isin(keys, _hottest(keys, HOT_KEYS))
        for name, hot in ((STA_SHARED, is_hot), (CHAIN_SHARED, np.zeros(tuples, np.bool_))):
            found[name].append(completeness(sharing, keys - 50, keys + 50, keys, hot))
    series = [Series(name, EXPONENTS, values) for name, values in found.items()]
    return Panel(title, "Zipf exponent", "completeness", [*series, own])


def _hottest(keys: F64, count: int) -> F64:
    values, counts = np.unique(keys, return_counts=True)
    return values[np.argsort(-counts)[:count]]


def _completeness_claims(ten: Panel, hundred: Panel) -> tuple[Claim, ...]:
    why = (
        "A probe misses the tuples since the last checkpoint, which are at most that share of a window: the paper's "
        "losses are larger, so that more than the interval must delay its state."
    )
    chain, sta = ten.named(CHAIN_SHARED).y[0], ten.named(STA_SHARED).y[-1]
    first, second = (panel.times(STA_SHARED, CHAIN_SHARED) for panel in (ten, hundred))
    return (
        claim("34: at Z = 0.5 the chained index finds 1 of 3.5 matches", [chain], 1 / 3.5, 1 / 3.5, why),
        claim("34: STA is 1.5 times as complete as the chained index", first, 1.5, 1.5, why),
        claim("35: STA is 1.5 to 2 times as complete", second, 1.5, 2, why),
        checked("STA approaches 1 with skew", f"{sta:.3g}", why, holds=sta > 0.95),
    )


def _exact_claim(own: Sequence[float]) -> Claim:
    return checked(
        "(not in the paper) asking all workers makes completeness 1",
        f"{min(own):g} to {max(own):g}",
        holds=set(own) == {1.0},
    )


#: Tuples of a frame, and half the width of the band, of the layout's own measurement.
FRAME, HALF_WIDTH = 250, 50


def _exact(run: FigureRun) -> list[float]:
    """The matches that the layout's workers find, divided by those of a nested loop, at each exponent."""
    tuples = run.pick(3_000, 1_000)
    window = tuples // 3
    return [_exact_share(data.zipf(exponent)(tuples, 6), window) for exponent in EXPONENTS]


def _exact_share(keys: F64, window: int) -> float:
    query = text(f"ABS(l.a - r.a) <= {HALF_WIDTH}", window)
    made = LayoutRun(STA, LayoutFeed(query, ({"a": keys, "b": keys},), (FRAME,), window), 4)
    while made.has_more:
        made.frame()
    return made.engine.matches / _nested_loop(keys[: len(keys) // FRAME * FRAME], window)


def _nested_loop(keys: F64, window: int) -> int:
    """Matches of the self join, counted probe by probe, in both directions."""
    slide, length = max(window // 10, 1), window // 10 * 10
    found = 0
    for i, key in enumerate(keys):
        members = keys[max(-(-i // slide) * slide - length, 0) : i]
        found += 2 * int(np.sum(np.abs(members - key) <= HALF_WIDTH))
    return found


ENTRIES = (
    Entry("sta-32", 20, figure_32),
    Entry("sta-33", 5, figure_33),
    Entry("sta-34-35", 25, figures_34_and_35),
)
