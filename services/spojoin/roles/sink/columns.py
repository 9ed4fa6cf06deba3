"""Result columns that are written in place.

Arrow's memory pool keeps the pages of freed memory. NumPy's large arrays come fresh from the system each time, and
mapping their pages costs several times as much as filling them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.wire.records import I64


def int64_column(n: int) -> tuple[I64, pa.Array]:
    """Make n values to be written, and the Arrow array that will hold them."""
    buffer = pa.allocate_buffer(n * 8)
    return np.frombuffer(buffer, np.int64), pa.Array.from_buffers(pa.int64(), n, [None, buffer])


def held_in(values: I64) -> list[pa.Array]:
    """The rows of int64 (k, n), contiguous, as Arrow arrays in their memory; to look at them would take longer."""
    memory, (k, n) = pa.py_buffer(values), values.shape
    return [pa.Array.from_buffers(pa.int64(), n, [None, memory], offset=row * n) for row in range(k)]
