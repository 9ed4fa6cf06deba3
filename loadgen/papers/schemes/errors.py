"""The wrong answers of a scheme's workers, counted against the definition of the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.schemes.setup import I64
from loadgen.papers.schemes.state import HeldTrace, SimulatedWorkers

#: (probes int64 (m,), stored int64 (k,)) -> which of them match, bool (m, k).
Matches = Callable[[I64, I64], NDArray[np.bool_]]
#: Probes compared with a run of stored tuples at once.
PROBES = 512


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of all workers together.

    extra: the mean number, per probe, of tuples met in batches that were expired or not handed over yet; probes: the
        share of probes that met any
    false_positives, false_negatives: matching pairs of a probe and a stored tuple in such batches, and in missed ones
    """

    extra: float
    probes: float
    false_positives: int
    false_negatives: int


def count(workers: SimulatedWorkers, trace: HeldTrace, matches: Matches) -> Errors:
    """Compare what workers held with the window: batches held that it has left, and batches missing that it includes.

    trace: that of the tuples from the first on
    """
    tuples = np.arange(trace.lower.shape[1])
    true, delta = workers.setup.lower(tuples), workers.setup.delta
    batches = (len(tuples) - 1) // delta
    stale, positives, negatives = np.zeros(len(tuples), np.int64), 0, 0
    for worker in range(workers.setup.workers):
        lower, upper = trace.lower[worker], trace.upper[worker]
        for end in ((workers.own(worker, batches) + 1) * delta).tolist():
            stored = np.arange(end - delta, end)
            held = (end > lower) & (end <= upper)
            wanted = (end > true) & (end <= tuples)
            stale[held & ~wanted] += delta
            positives += _pairs(np.flatnonzero(held & ~wanted), stored, matches)
            negatives += _pairs(np.flatnonzero(wanted & ~held), stored, matches)
    return Errors(float(stale.mean()), float((stale > 0).mean()), positives, negatives)


def _pairs(probes: I64, stored: I64, matches: Matches) -> int:
    return sum(int(matches(probes[i : i + PROBES], stored).sum()) for i in range(0, len(probes), PROBES))
