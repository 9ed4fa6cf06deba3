"""Where a planted bug is sought: first in a world that is known to reach it, where few do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from spojoin.simulate.editions import EDITION_SEEDS, EIGHTH_SEEDS, FIFTH_SEEDS, FOURTH_SEEDS, SEVENTH_SEEDS

SEEDS = range(EDITION_SEEDS, EDITION_SEEDS + 800)
#: By mutant, the first of the seeds that finds it. One that no longer does only makes the search longer.
_REACHING = {
    "backfill-too-short": 713,
    "band-by-sums": 168,
    "leaves-before-its-frame": 207,
    "limit-before-residual": 556,
    "null-is-true-of-a-pair": 70,
    "payload-of-another-row": 215,
    "residual-in-one-direction": 49,
    "runs-taken-for-made": 8_619,
    "sink-waits-for-others": 219,
    "void-rows-without-a-place": 85,
    "worker-count-of-the-newest-frame": 324,
}
#: The same in the fourth edition, where processes open writers.
_REACHING_FOURTH = {"retaken-writer-closed": (FOURTH_SEEDS + 101_065,)}
#: The same in the fifth edition, where left rows ask. Of `maximum-merged-as-a-sum` none that is tried else reaches it.
_REACHING_FIFTH = {
    "aggregate-without-the-last": (80,),
    "chosen-too-few": (73,),
    "closes-again-after-a-restart": (85,),
    "having-ignores-nulls": (122,),
    "later-partners-forgotten": (73,),
    "maximum-merged-as-a-sum": (927, 2_601),
    "open-rows-forgotten": (24,),
    "own-by-number": (28,),
    "whole-frame-found": (73,),
}
#: The same in the seventh edition, where right rows ask as well.
_REACHING_SEVENTH = {"right-row-beside-a-match": 126, "void-rows-found": 30}
#: The same in the eighth edition, where small nodes are listed.
_REACHING_EIGHTH = {"partners-behind-the-window": 329, "partners-by-node": 275}
#: The same where the right side is a table, by seeds of the first edition.
_REACHING_TABLES = {"part-of-a-version-seen": 25, "version-by-its-content": 115}


def seeds_for(mutant: str) -> Iterator[int]:
    """The seeds to try, in order."""
    known = [EDITION_SEEDS + _REACHING[mutant]] if mutant in _REACHING else []
    return chain(known, _REACHING_FOURTH.get(mutant, ()), SEEDS)


def listing_seeds_for(mutant: str) -> Iterator[int]:
    """The seeds to try of a mutant that needs nodes that are listed, in order."""
    known = [EIGHTH_SEEDS + _REACHING_EIGHTH[mutant]] if mutant in _REACHING_EIGHTH else []
    return chain(known, range(EIGHTH_SEEDS, EIGHTH_SEEDS + len(SEEDS)))


def asking_seeds_for(mutant: str, seeds: Iterable[int]) -> Iterator[int]:
    """The seeds to try of a mutant whose rows ask, in order: those known to reach it, then `seeds`."""
    fifth = (FIFTH_SEEDS + number for number in _REACHING_FIFTH.get(mutant, ()))
    seventh = [SEVENTH_SEEDS + _REACHING_SEVENTH[mutant]] if mutant in _REACHING_SEVENTH else []
    return chain(fifth, seventh, seeds)


def table_seeds_for(mutant: str, seeds: Iterable[int]) -> Iterator[int]:
    """The seeds to try of a mutant that needs a table, in order: one known to reach it, then `seeds`."""
    known = [_REACHING_TABLES[mutant]] if mutant in _REACHING_TABLES else []
    return chain(known, seeds)
