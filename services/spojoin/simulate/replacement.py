"""What is drawn for a run in which a query is replaced while it is served: the queries that follow, and how far back.

All ask about the same rows: a run's inputs are drawn for its first query, and the others take their columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from spojoin.model import Order
from spojoin.protocol.backfill import Backfill
from spojoin.simulate.asked import DrawnQuestion, as_interval_join, ask_otherwise
from spojoin.simulate.scenario import Scenario, draw_asked, fits

#: At most so many records of an input are looked at before the backfill is long enough, drawn so small that it looks
#: back in many steps.
SHRUNK = {"spojoin.runtime.backfill.LOOK_RECORDS": (1, 2, 5)}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One seed's generations, in order; `backfills` is how each but the first fills its windows."""

    scenarios: tuple[Scenario, ...]
    backfills: tuple[Backfill, ...]


def draw_replacement(seed: int) -> Replacement:
    """The generations of a seed: two or three."""
    first, question = draw_asked(seed)
    rng = Random(f"generations {seed}")
    count = rng.choice((1, 2))
    later = tuple(_asked_instead(rng, first, question) for _ in range(count))
    limits = first.limits | {name: rng.choice(sizes) for name, sizes in SHRUNK.items()}
    backfills = tuple(rng.choice((Backfill.WINDOW, Backfill.WINDOW, Backfill.NONE, Backfill.EARLIEST)) for _ in later)
    return Replacement((replace(first, limits=limits), *later), backfills)


def _asked_instead(rng: Random, first: Scenario, question: DrawnQuestion) -> Scenario:
    """Another query over the same rows."""
    while True:
        other = _other(rng, question)
        scenario = replace(first, query=other.query, join=other.join)
        if fits(scenario):
            return scenario


def _other(rng: Random, question: DrawnQuestion) -> DrawnQuestion:
    """Another question about the same columns, now and then of an interval join."""
    asked = ask_otherwise(rng, question)
    if asked.query.order is Order.EVENT_TIME and rng.random() < 0.25:
        return as_interval_join(rng, asked)
    return asked
