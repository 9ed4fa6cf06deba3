"""Section `scan`: the cost of a window without an index, by the fastest scans of raw values.

A scan counts the stored tuples with `a > x and b < y` for each probe (x, y). The other direction of the self join,
`a < x and b > y`, is the same scan with the columns exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from loadgen.bench.measurement import Measurement, best_seconds
from loadgen.promises.data import ABOUT, NAMES, Columns, columns
from loadgen.promises.sizes import Context
from spojoin.arrays import F64, I64
from spojoin.kernels.compile import kernel

Scan = Callable[[F64, F64, F64, F64, I64], None]

#: Rows of two columns that stay in the first-level cache while probe after probe passes over them.
_BLOCK_ROWS = 2048
#: Rows at which NumPy's cost of a call is small and its masks still stay in the second-level cache.
_NUMPY_BLOCK_ROWS = 16_384
#: Probes compared with each value that a tiled scan loads.
TILE = 4

NUMPY, NUMPY_BLOCKED, SIMD, SIMD_BLOCKED, SIMD_TILED = (
    "NumPy", "NumPy in cache blocks", "SIMD, probe by probe", "SIMD in cache blocks", "SIMD in cache blocks, 4 probes",
)  # fmt: skip


def numpy_scan(a: F64, b: F64, x: F64, y: F64, out: I64) -> None:
    """Whole columns, one probe after the other, masks reused. All float64: stored (n,), probes (m,); out int64 (m,)."""
    above, below = np.empty((2, len(a)), np.bool_)
    for q in range(len(x)):
        np.greater(a, x[q], out=above)
        np.less(b, y[q], out=below)
        np.logical_and(above, below, out=above)
        out[q] = np.count_nonzero(above)


def numpy_blocked(a: F64, b: F64, x: F64, y: F64, out: I64) -> None:
    """As `numpy_scan`, but all probes pass over one block of rows before the next."""
    out[:] = 0
    part = np.empty_like(out)
    for begin in range(0, len(a), _NUMPY_BLOCK_ROWS):
        block = slice(begin, begin + _NUMPY_BLOCK_ROWS)
        numpy_scan(a[block], b[block], x, y, part)
        out += part


@kernel
def simd(a: F64, b: F64, x: F64, y: F64, out: I64) -> None:
    """Whole columns, one probe after the other, compiled to vector instructions."""
    for q in range(len(x)):
        x0, y0, count = x[q], y[q], 0
        for j in range(len(a)):
            count += (a[j] > x0) & (b[j] < y0)
        out[q] = count


@kernel
def simd_blocked(a: F64, b: F64, x: F64, y: F64, out: I64) -> None:
    """As `simd`, but all probes pass over one block of rows before the next."""
    out[:] = 0
    for begin in range(0, len(a), _BLOCK_ROWS):
        block_a, block_b = a[begin : begin + _BLOCK_ROWS], b[begin : begin + _BLOCK_ROWS]
        for q in range(len(x)):
            x0, y0, count = x[q], y[q], 0
            for j in range(len(block_a)):
                count += (block_a[j] > x0) & (block_b[j] < y0)
            out[q] += count


@kernel
def simd_tiled(a: F64, b: F64, x: F64, y: F64, out: I64) -> None:
    """As `simd_blocked`, each loaded value compared with TILE probes; their number must be a multiple of it."""
    out[:] = 0
    for begin in range(0, len(a), _BLOCK_ROWS):
        block_a, block_b = a[begin : begin + _BLOCK_ROWS], b[begin : begin + _BLOCK_ROWS]
        for q in range(0, len(x), 4):
            x0, x1, x2, x3 = x[q], x[q + 1], x[q + 2], x[q + 3]
            y0, y1, y2, y3 = y[q], y[q + 1], y[q + 2], y[q + 3]
            c0, c1, c2, c3 = 0, 0, 0, 0
            for j in range(len(block_a)):
                u, v = block_a[j], block_b[j]
                c0 += (u > x0) & (v < y0)
                c1 += (u > x1) & (v < y1)
                c2 += (u > x2) & (v < y2)
                c3 += (u > x3) & (v < y3)
            out[q] += c0
            out[q + 1] += c1
            out[q + 2] += c2
            out[q + 3] += c3


SCANS: dict[str, Scan] = {
    NUMPY: numpy_scan,
    NUMPY_BLOCKED: numpy_blocked,
    SIMD: simd,
    SIMD_BLOCKED: simd_blocked,
    SIMD_TILED: simd_tiled,
}
NUMPY_SCANS = (NUMPY, NUMPY_BLOCKED)


@dataclass(frozen=True, slots=True)
class ScanTime:
    """The fastest of some scans of a window, and all of them: microseconds a probe, both directions together."""

    name: str
    both_directions_us: float
    all_us: dict[str, float]


def count_both(scan: Scan, stored: Columns, probes: Columns) -> tuple[I64, I64]:
    """Matches of each probe as left and as right side, int64 (m,) each."""
    as_left, as_right = np.empty((2, len(probes)), np.int64)
    scan(stored.b, stored.a, probes.b, probes.a, as_left)
    scan(stored.a, stored.b, probes.a, probes.b, as_right)
    return as_left, as_right


def time_scans(stored: Columns, probes: Columns, repeats: int, names: Sequence[str] = tuple(SCANS)) -> ScanTime:
    """Time the named scans of `stored` by all probes, in turn."""
    runs = {name: partial(count_both, SCANS[name], stored, probes) for name in names}
    all_us = {name: best / len(probes) * 1e6 for name, best in best_seconds(runs, repeats).items()}
    fastest = min(all_us, key=lambda name: all_us[name])
    return ScanTime(fastest, all_us[fastest], all_us)


def measure(context: Context) -> Iterator[Measurement]:
    """Every scan of every workload, one direction and both."""
    sizes = context.sizes
    for name in NAMES:
        data = columns(name, sizes.window + sizes.scan_probes)
        timed = time_scans(data[: sizes.window], data[sizes.window :], sizes.repeats)
        for scan, both_us in timed.all_us.items():
            note = f"{ABOUT[name]}; both directions {both_us:.1f} us" + ("; the baseline" if scan == timed.name else "")
            yield Measurement(f"{name}: {scan}", both_us / 2, "us a probe and direction", note=note)
