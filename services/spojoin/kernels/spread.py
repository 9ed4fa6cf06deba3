"""Codes as pseudo-random numbers, which spread tuples and keys over workers, and keys over buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]


def spread(codes: I64, choices: int, salt: int = 0) -> I64:
    """For each code a pseudo-random number in [0, choices), which depends on the salt: int64 (n,).

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): it spreads adjacent codes over all bits.
    """
    mixed = codes.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(choices)).astype(np.int64)
