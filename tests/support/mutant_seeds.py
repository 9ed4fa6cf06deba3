"""Where a planted bug is sought: first in a world that is known to reach it, where few do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from spojoin.simulate.editions import EDITION_SEEDS, FIFTH_SEEDS, FOURTH_SEEDS

SEEDS = range(EDITION_SEEDS, EDITION_SEEDS + 800)
#: By mutant, the first of the seeds that finds it. One that no longer does only makes the search longer.
_REACHING = {
    "backfill-too-short": 183,
    "band-by-sums": 168,
    "leaves-before-its-frame": 207,
    "limit-before-residual": 556,
    "null-is-true-of-a-pair": 70,
    "payload-of-another-row": 215,
    "runs-taken-for-made": 8_619,
    "sink-waits-for-others": 219,
    "void-rows-without-a-place": 85,
    "worker-count-of-the-newest-frame": 159,
}
#: The same in the fourth edition, where processes open writers.
_REACHING_FOURTH = {"retaken-writer-closed": (FOURTH_SEEDS + 101_065,)}
#: The same in the fifth edition, where left rows ask: several workers have found partners of one row.
_REACHING_FIFTH = {"maximum-merged-as-a-sum": (FIFTH_SEEDS + 927, FIFTH_SEEDS + 2_601)}


def seeds_for(mutant: str) -> Iterator[int]:
    """The seeds to try, in order."""
    known = [EDITION_SEEDS + _REACHING[mutant]] if mutant in _REACHING else []
    return chain(known, _REACHING_FOURTH.get(mutant, ()), SEEDS)


def asking_seeds_for(mutant: str, seeds: Iterable[int]) -> Iterator[int]:
    """The seeds to try of a mutant whose left rows ask, in order: those known to reach it, then `seeds`."""
    return chain(_REACHING_FIFTH.get(mutant, ()), seeds)
