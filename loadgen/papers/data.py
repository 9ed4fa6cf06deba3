"""The columns that figures join: float64, seeded, in arrival order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from loadgen.load import workloads
from spojoin.arrays import F64

#: Keys and band widths are whole numbers below this.
DOMAIN = 1 << 30
ZIPF_KEYS = 10_000
#: Sampled keys from which a band's width is computed.
SAMPLE = 8_000

Draw = Callable[[int, int], F64]


def uniform(rows: int, seed: int = 0) -> F64:
    """Uniformly distributed whole numbers: (rows,)."""
    return np.floor(np.random.default_rng(seed).random(rows) * DOMAIN)


def gaussian(rows: int, seed: int = 0) -> F64:
    """Normally distributed whole numbers: mean 0.5, deviation 0.125 of the domain, so its middle half holds 95 %."""
    drawn = np.random.default_rng(seed).normal(0.5, 0.125, rows)
    return np.floor(np.clip(drawn, 0.0, 1.0) * DOMAIN)


def gamma(shape: float, scale: float) -> Draw:
    """Whole numbers that follow a gamma distribution."""

    def draw(rows: int, seed: int = 0) -> F64:
        return np.floor(np.random.default_rng(seed).gamma(shape, scale, rows) * DOMAIN / 32)

    return draw


def zipf(exponent: float, keys: int = ZIPF_KEYS) -> Draw:
    """Keys 0 to keys - 1 in random order of frequency; the r-th most frequent has a weight of r ** -exponent."""
    weights = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    spread = np.random.default_rng(0).permutation(keys).astype(np.float64)

    def draw(rows: int, seed: int = 0) -> F64:
        ranks = np.searchsorted(weights / weights[-1], np.random.default_rng(seed).random(rows), "right")
        return spread[np.minimum(ranks, keys - 1)]

    return draw


def drifting(speed: float) -> Draw:
    """A normal distribution whose mean moves by `speed` standard deviations in a million tuples."""

    def draw(rows: int, seed: int = 0) -> F64:
        deviation = DOMAIN / 64
        moved = np.arange(rows) * (speed * deviation / 1e6)
        return np.floor(np.random.default_rng(seed).normal(0.0, deviation, rows) + moved)

    return draw


def matching(rate: float, rows: int, seed: int = 0) -> tuple[F64, F64]:
    """Two columns; `l.a > r.a AND l.b < r.b` holds for this share of their pairs, below 0.5."""
    return workloads.matching(np.random.default_rng(seed), rows, rate)


def taxi(rows: int, seed: int = 0) -> tuple[F64, F64]:
    """Distance and fare of rides: correlated, 7 % of pairs match."""
    return workloads.taxi(np.random.default_rng(seed), rows)


@cache
def band_width(draw: Draw, window: int, matches: float, seed: int = 7) -> float:
    """The half width of a band that gives a probe about `matches` matches in a window, from a sample of the keys."""
    sample = np.sort(draw(SAMPLE, seed))
    wanted = matches / window
    low, high = 0.0, float(sample[-1] - sample[0]) + 1.0
    for _ in range(40):
        middle = (low + high) / 2
        ends = np.searchsorted(sample, sample + middle, "right") - np.searchsorted(sample, sample - middle, "left")
        low, high = (middle, high) if np.mean(ends - 1) / (len(sample) - 1) < wanted else (low, middle)
    return max(float(np.round(high)), 1.0)
