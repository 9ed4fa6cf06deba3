"""IEEE doubles as int64 codes whose signed order is the doubles' order, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_SIGN_SHIFT = np.int64(63)


def fold_doubles(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Codes int64 (n,) of doubles (n,): x < y iff code(x) < code(y); -0.0 gets the code of 0.0.

    NaN, whatever its sign and bits, is one value above all others.
    """
    doubles = np.add(values, 0.0, dtype=np.float64)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    flip = np.right_shift(bits, _SIGN_SHIFT)
    flip &= MAGNITUDE
    flip ^= bits
    return flip


def unfold_doubles(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Doubles (n,) of the codes int64 (n,) that `fold_doubles` gave."""
    flip = np.right_shift(codes, _SIGN_SHIFT)
    flip &= MAGNITUDE
    flip ^= codes
    return flip.view(np.float64)
