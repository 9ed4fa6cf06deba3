"""STA's completeness: a probe misses tuples that workers share only at checkpoints.

STA (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), sections 4.2 to 4.4 and 7.3. A probe asks one of the workers
that store cold tuples, drawn at random, and this worker knows the others' tuples up to the last checkpoint. Tuples
of hot keys lie at two workers that are always asked. The chained index has no hot keys: all its tuples are shared at
checkpoints. This module simulates the misses; the project's own STA layout asks every worker.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import F64, I64

#: Probes compared with all stored tuples at once.
PROBES = 256


@dataclass(frozen=True, slots=True)
class Sharing:
    """workers: for cold tuples; rate: tuples per second; window_s, checkpoint_s: seconds, 0: no checkpoints."""

    workers: int
    rate: float
    window_s: float
    checkpoint_s: float
    seed: int = 0


def completeness(sharing: Sharing, low: F64, high: F64, keys: F64, is_hot: NDArray[np.bool_]) -> float:
    """The share of matches that probes find.

    low, high: float64 (n,), each tuple as a probe matches keys in [low, high]; keys: float64 (n,), its stored key
    is_hot: bool (n,), whether a stored tuple is at the hot workers
    """
    n, rng = len(keys), np.random.default_rng(sharing.seed)
    times = np.arange(n) / sharing.rate
    homes, asked = rng.integers(0, sharing.workers, (2, n))
    found = wanted = 0
    for first in range(0, n, PROBES):
        probes = np.arange(first, min(first + PROBES, n))
        match = _matches(sharing, times, probes, low, high, keys)
        wanted += int(match.sum())
        known = is_hot | (homes == asked[probes][:, None]) | (times < _shared(sharing, times[probes])[:, None])
        found += int((match & known).sum())
    return found / wanted if wanted else 1.0


def _matches(sharing: Sharing, times: F64, probes: I64, low: F64, high: F64, keys: F64) -> NDArray[np.bool_]:
    is_earlier = np.arange(len(keys)) < probes[:, None]
    is_held = times >= times[probes][:, None] - sharing.window_s
    match: NDArray[np.bool_] = (keys >= low[probes][:, None]) & (keys <= high[probes][:, None]) & is_earlier & is_held
    return match


def _shared(sharing: Sharing, now: F64) -> F64:
    """The time of the last checkpoint: all workers know the tuples before it."""
    if not sharing.checkpoint_s:
        return np.zeros_like(now)
    last: F64 = np.floor(now / sharing.checkpoint_s) * sharing.checkpoint_s
    return last
