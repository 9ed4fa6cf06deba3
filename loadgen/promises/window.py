"""What a count must be, by the definition of the window: a scan of the tuples that it holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from loadgen.promises.data import Columns


def expected_counts(data: Columns, seq: int, window: int, slide: int) -> tuple[int, int]:
    """Matches of tuple `seq` of a self join as left and as right side; its window is [ceil(seq/s)*s - L, seq)."""
    begin = max(-(-seq // slide) * slide - window, 0)
    a, b = data.a[begin:seq], data.b[begin:seq]
    x, y = data.a[seq], data.b[seq]
    return int(np.count_nonzero((a < x) & (b > y))), int(np.count_nonzero((a > x) & (b < y)))


def check_counts(data: Columns, window: int, slide: int, counts: pa.Table, probes: int) -> None:
    """Compare some rows of results, spread over all, with a scan. Raises AssertionError.

    counts: columns seq, as_left and as_right
    """
    for row in np.linspace(0, counts.num_rows - 1, probes, dtype=np.int64).tolist():
        found = {name: counts[name][row].as_py() for name in ("seq", "as_left", "as_right")}
        expected = expected_counts(data, found["seq"], window, slide)
        if (found["as_left"], found["as_right"]) != expected:
            raise AssertionError(f"row {row} of the results is {found}, a scan finds as left and right {expected}")
