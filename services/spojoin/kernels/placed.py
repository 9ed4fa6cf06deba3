"""Of each segment of values the one at a place in their order: minima, maxima and quantiles of listed partners."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.compile import kernel


@kernel
def placed(codes: I64, counted: NDArray[np.bool_], offsets: I64, places: I64, found: I64) -> None:
    """Find the value that would stand at places[q] if the counted ones of segment q were sorted.

    Segment q is codes[offsets[q]:offsets[q + 1]]. found[q] says where in `codes` the value lies, the first of equal
    ones, or is -1 where no more than places[q] are counted. codes: int64 (n,); offsets: int64 (g + 1,); places, found:
    int64 (g,)
    """
    longest = 0
    for q in range(len(places)):
        longest = max(longest, offsets[q + 1] - offsets[q])
    scratch = np.empty(longest, np.int64)
    for q in range(len(places)):
        n = 0
        for i in range(offsets[q], offsets[q + 1]):
            scratch[n] = codes[i]
            n += counted[i]
        found[q] = -1
        if not 0 <= places[q] < n:
            continue
        code = np.partition(scratch[:n], places[q])[places[q]]
        at = offsets[q]
        while not (counted[at] and codes[at] == code):
            at += 1
        found[q] = at
