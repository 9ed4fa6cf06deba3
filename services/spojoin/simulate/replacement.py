"""Draws a run in which a query is replaced while it is served: the queries that follow, and how they fill windows.

All queries read the same rows: a run's inputs are drawn for its first query, and the others use its columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from spojoin.model import Order
from spojoin.protocol.backfill import Backfill
from spojoin.simulate import probabilities as odds
from spojoin.simulate.drawn_query import DrawnQuery, as_interval_join, redraw_query
from spojoin.simulate.editions import edition_of
from spojoin.simulate.scenario import Elaborate, Scenario, draw_with_query, fits, with_packings, with_reader

#: The backfill looks at this many records of an input at a time: drawn so small that it looks back in many steps.
SHRUNK = {"spojoin.runtime.backfill.LOOK_RECORDS": (3, 5, 9)}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One seed's generations, in order; `backfills` is how each but the first fills its windows."""

    scenarios: tuple[Scenario, ...]
    backfills: tuple[Backfill, ...]


def draw_replacement(seed: int, elaborate: Elaborate | None = None) -> Replacement:
    """The generations of a seed: two or three; what `elaborate` makes of queries holds for each."""
    first, drawn = draw_with_query(seed, elaborate)
    rng = Random(f"generations {seed}")
    count = rng.choice(odds.REPLACEMENTS)
    later = tuple(_redrawn(rng, first, drawn, elaborate) for _ in range(count))
    limits = first.limits | {name: rng.choice(sizes) for name, sizes in SHRUNK.items()}
    backfills = tuple(rng.choice(odds.BACKFILLS) for _ in later)
    scenarios = replace(first, limits=limits), *later
    return Replacement(tuple(map(with_packings, scenarios)) if _packs(seed) else scenarios, backfills)


def _packs(seed: int) -> bool:
    return edition_of(seed).packs_generations


def _redrawn(rng: Random, first: Scenario, drawn: DrawnQuery, elaborate: Elaborate | None) -> Scenario:
    """Another query over the same rows."""
    while True:
        other = _other(rng, drawn)
        if elaborate is not None:
            other = elaborate(rng, other)
        scenario = replace(first, query=other.query, join=other.join)
        if fits(scenario):
            return with_reader(scenario)


def _other(rng: Random, drawn: DrawnQuery) -> DrawnQuery:
    """Another query over the same columns, sometimes an interval join."""
    other = redraw_query(rng, drawn)
    if other.query.order is Order.EVENT_TIME and rng.random() < odds.INTERVAL_JOIN:
        return as_interval_join(rng, other)
    return other
