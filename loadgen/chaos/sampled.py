"""Some answers kept while they come, and recomputed when all is over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.chaos.listener import HeardAnswers
from loadgen.chaos.ties import TiedJoin, TiedRows

I64 = NDArray[np.int64]

#: One answer in this many is kept; prime, so that frames' and slides' boundaries are met as well.
KEPT_EVERY = 251
#: Of those, so many are recomputed, spread over all.
RECOMPUTED_MAX = 4_000


class SampledAnswers:
    """The answers to every KEPT_EVERY-th tuple; judges nothing while they come."""

    def __init__(self) -> None:
        self._kept: list[HeardAnswers] = []

    def __call__(self, answers: HeardAnswers) -> None:
        """Keep some."""
        kept = answers.seqs % KEPT_EVERY == 0
        if kept.any():
            self._kept.append(HeardAnswers(*(column[kept] for column in answers)))

    def recompute(self, join: TiedJoin, rows: int) -> tuple[int, list[int]]:
        """How many were recomputed, and the seqs of those that the definition contradicts; `rows` were sent."""
        if not self._kept:
            return 0, []
        kept = HeardAnswers(*(np.concatenate(column) for column in zip(*self._kept, strict=True)))
        chosen = np.unique(np.linspace(0, len(kept.seqs) - 1, RECOMPUTED_MAX).astype(np.int64))
        found = HeardAnswers(*(column[chosen] for column in kept))
        wrong: I64 = found.seqs[TiedRows(join, join.stream(), 0, rows).contradict(*found)]
        return len(chosen), wrong.tolist()
