"""Editions of the draws: what a seed runs stays the same for ever, and worlds become better.

A seed's number says which edition it belongs to. Seeds below EDITION_SEEDS are of the first, so that a seed which was
kept for what it found keeps its world.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from dataclasses import dataclass, replace

#: Where the seeds of the second to the eighth edition begin.
EDITION_SEEDS = 1 << 32
THIRD_SEEDS = 1 << 62
FOURTH_SEEDS = 3 << 61
FIFTH_SEEDS = 7 << 60
SIXTH_SEEDS = 15 << 59
SEVENTH_SEEDS = 31 << 58
EIGHTH_SEEDS = 63 << 57
#: Where fresh seeds may start: of the last edition, and small enough for 64 bits with all that follow.
STARTS = range(EIGHTH_SEEDS, (1 << 63) - (1 << 32))


@dataclass(frozen=True, slots=True)
class Edition:
    """What differs between editions.

    rows: how many rows a world has, of which one is drawn
    bridges_lulls: where nothing moves because a process is down or stalled, the storm goes on when that ends; else it
        ends, and most rows are answered in the quiet after it
    replaced_at_steps: when the next generation is requested, in steps from the start, of which one is drawn
    sweeps: how many values names may hold beyond what windows reach, of which one is drawn; none: the product's limit
    packs_generations: whether roles share a process, and processes have standbys, where a query is replaced as well
    opens_writers: whether processes fence each other's writers, stand still, and lose the log for a while
    asks: whether left rows of a statement may ask, each for one answer about all its partners
    asks_replaced: whether they may where the statement is replaced as well, at arrival
    asks_fully: whether right rows may ask as well, in FULL joins
    scans: up to how many tuples a node is scanned, of which one is drawn; none: the product's limit, which no world's
        nodes exceed, so that none of them is listed
    """

    rows: tuple[int, ...]
    bridges_lulls: bool
    replaced_at_steps: tuple[int, ...]
    sweeps: tuple[int, ...] = ()
    packs_generations: bool = False
    opens_writers: bool = False
    asks: bool = False
    asks_replaced: bool = False
    asks_fully: bool = False
    scans: tuple[int, ...] = ()


FIRST = Edition(rows=(25, 40, 40, 60, 60, 90, 160), bridges_lulls=False, replaced_at_steps=(0, 100, 400, 1_000, 2_000))
#: Faults meet nearly every row, so that fewer rows find the same bugs in less time.
SECOND = Edition(
    rows=(8, 10, 12, 14, 18, 24, 32, 64),
    bridges_lulls=True,
    replaced_at_steps=(0, 40, 80, 120, 160, 240, 400, 1_000),
    sweeps=(1, 3, 1 << 16),
)
THIRD = replace(SECOND, packs_generations=True)
FOURTH = replace(THIRD, opens_writers=True)
FIFTH = replace(FOURTH, asks=True)
SIXTH = replace(FIFTH, asks_replaced=True)
SEVENTH = replace(SIXTH, asks_fully=True)
EIGHTH = replace(SEVENTH, scans=(1, 3, 512))
_EDITIONS = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH)
_BEGINS = (EDITION_SEEDS, THIRD_SEEDS, FOURTH_SEEDS, FIFTH_SEEDS, SIXTH_SEEDS, SEVENTH_SEEDS, EIGHTH_SEEDS)


def fresh_start() -> int:
    """A seed to start at, drawn by the operating system."""
    return STARTS.start + secrets.randbelow(len(STARTS))


def edition_of(seed: int) -> Edition:
    """The edition that a seed belongs to; all later seeds are of the last one."""
    return _EDITIONS[bisect_right(_BEGINS, seed)]
