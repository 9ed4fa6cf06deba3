"""Copies of rows, of fixed and of variable length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import kernel

I64 = NDArray[np.int64]


@kernel
def append_segments(begins: I64, lengths: I64, values: I64, places: I64, out: I64) -> None:
    """Copy row q of `values`, lengths[q] from begins[q] on, to out[places[q]:].

    All int64; begins, lengths (m,), and places (m,), which advances by the number copied.
    """
    for q in range(len(places)):
        for i in range(lengths[q]):
            out[places[q] + i] = values[begins[q] + i]
        places[q] += lengths[q]


@kernel
def gather(values: I64, places: I64, first: int, out: I64) -> None:
    """out[k] = values[places[k] - first], all int64; every place must lie within the values."""
    for k in range(len(places)):
        out[k] = values[places[k] - first]
