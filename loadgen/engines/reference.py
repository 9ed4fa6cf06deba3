"""The expected totals: a plain scan of every window, which shares no code with the measured engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

import numba
import numpy as np

from loadgen.engines.variants import VARIANTS, Variant
from loadgen.engines.workloads import MARKS, EngineWorkload
from spojoin.arrays import I32, I64

F = TypeVar("F", bound=Callable[..., object])

#: Stored tuples that a group of probes is compared with before the next are loaded; two columns of them are 16 KiB.
STORED, PROBES = 2_048, 256


def _compiled(function: F) -> F:
    """Compile a function that Python calls."""
    return cast("F", numba.njit(cache=True)(function))


def _compiled_helper(function: F) -> F:
    """Compile a function that kernels call."""
    return cast("F", numba.njit(function))


def totals(workload: EngineWorkload, probes: int = MARKS[-1]) -> list[int]:
    """The totals of the first probes up to each of MARKS that is at most `probes`."""
    marks = [mark for mark in MARKS if mark <= probes]
    return [int(total) for total in np.cumsum(counts(workload, marks[-1]))[np.array(marks) - 1]]


def counts(workload: EngineWorkload, probes: int) -> I64:
    """Each of the first probes' share of the total, in q1 to q3 its matches in all directions: int64 (probes,)."""
    if workload.question.asks:
        return _ASKED[workload.question.name](workload, probes)
    a, b = _columns(workload, probes, "ab")
    name, window = workload.question.name, workload.window
    found = np.zeros(probes, np.int64)
    if name == "q2":
        _near(a, b, window, workload.variant.band, found)
        return 2 * found
    upper = np.arange(workload.fill, workload.fill + probes, dtype=np.int64)
    if name == "q3":
        for x, y in ((a, b), (-a, -b)):
            _dominated(x[workload.fill :], y[workload.fill :], x, y, upper, window, found)
        return found
    for parity, x, y in ((0, a, b), (1, -a, -b)):
        # Before row i there are (i + 1) // 2 even rows and i // 2 odd ones.
        before = (upper[parity::2] + parity) // 2
        own, other = slice(workload.fill + parity, None, 2), slice(1 - parity, None, 2)
        probe_x, probe_y, stored_x, stored_y = map(np.ascontiguousarray, (x[own], y[own], x[other], y[other]))
        _dominated(probe_x, probe_y, stored_x, stored_y, before, window, found[parity::2])
    return found


def _columns(workload: EngineWorkload, probes: int, names: str) -> tuple[I32, ...]:
    """The columns of the fill and the first probes. All values fit 32 bits, which let a register hold twice as many."""
    return tuple(workload.columns[name][: workload.fill + probes].astype(np.int32) for name in names)


@lru_cache(maxsize=len(VARIANTS))
def _partners(variant: Variant, window: int, probes: int, shift: tuple[int, int]) -> I64:
    """For each probe, the number of its last `window` rows that are larger in a and smaller in b by over `shift`."""
    a, b = (column.astype(np.int32) for column in variant.columns(window + probes))
    found, upper = np.zeros(probes, np.int64), np.arange(window, window + probes, dtype=np.int64)
    _dominated(-a[window:] - shift[0], -b[window:] + shift[1], -a, -b, upper, window, found)
    return found


def _without(workload: EngineWorkload, probes: int) -> I64:
    return (_partners(workload.variant, workload.window, probes, workload.variant.shift) < 1).astype(np.int64)


def _outer(workload: EngineWorkload, probes: int) -> I64:
    rows: I64 = np.maximum(_partners(workload.variant, workload.window, probes, workload.variant.shift), 1)
    return rows


def _few(workload: EngineWorkload, probes: int) -> I64:
    return (_partners(workload.variant, workload.window, probes, (0, 0)) < workload.few).astype(np.int64)


def _summed(workload: EngineWorkload, probes: int) -> I64:
    a, b, c = _columns(workload, probes, "abc")
    found = np.zeros(probes, np.int64)
    _sums(a, b, (b, a, c, np.zeros_like(a)), workload.window, found)
    return found


def _latest(workload: EngineWorkload, probes: int) -> I64:
    a, c, k = _columns(workload, probes, "ack")
    found = np.zeros(probes, np.int64)
    _newest(a, c, k, (workload.window, workload.variant.rise), found)
    return found


def _close_by(workload: EngineWorkload, probes: int) -> I64:
    a, c, k = _columns(workload, probes, "ack")
    near, found = workload.variant.near, np.zeros(probes, np.int64)
    _sums(a - near + 1, a + near, (a, a + 1, c, k), workload.window, found)
    return found


def _in_common(workload: EngineWorkload, probes: int) -> I64:
    a, c, e = _columns(workload, probes, "ace")
    found = np.zeros(probes, np.int64)
    _sums(a, e, (a, e, c, np.zeros_like(a)), workload.window, found)
    return found


_ASKED: Mapping[str, Callable[[EngineWorkload, int], I64]] = {
    "q4": _without,
    "q5": _outer,
    "q6": _summed,
    "q7": _latest,
    "q8": _few,
    "q9": _close_by,
    "q10": _in_common,
}


@_compiled
def _sums(begin: I32, end: I32, stored: tuple[I32, I32, I32, I32], window: int, found: I64) -> None:
    """Add to found (m,) the c of its last `window` rows with the same k that overlap its [begin, end).

    stored: the rows' begins, ends, c and k. A row overlaps if it begins below the probe's end and ends above its begin.
    Two other columns may stand for begin and end, as they do if rows dominate others.
    """
    fill, (begins, ends, c, k) = len(begin) - len(found), stored
    for first in range(0, len(found), PROBES):
        last = min(first + PROBES, len(found))
        for at in range(fill + first - window, fill + last - 1, STORED):
            for i in range(first, last):
                low, high = max(at, fill + i - window), min(at + STORED, fill + i)
                if low < high:
                    some = begins[low:high], ends[low:high], c[low:high], k[low:high]
                    found[i] += _sum_of(some, begin[fill + i], end[fill + i], k[fill + i])


@_compiled_helper
def _sum_of(stored: tuple[I32, I32, I32, I32], begin: np.int32, end: np.int32, key: np.int32) -> np.int32:
    # 2,048 values below 2^10 need 21 bits.
    begins, ends, c, k = stored
    total = np.int32(0)
    for j in range(len(begins)):
        total += c[j] * np.int32((begins[j] < end) & (ends[j] > begin) & (k[j] == key))
    return total


@_compiled
def _newest(a: I32, c: I32, k: I32, window_and_rise: tuple[int, int], found: I64) -> None:
    """Put into found (m,) the c of the newest of its last `window` rows with the same k and an a larger by more."""
    fill, (window, rise) = len(a) - len(found), window_and_rise
    for i in range(fill, len(a)):
        for j in range(i - 1, i - window - 1, -1):
            if k[j] == k[i] and a[j] > a[i] + rise:
                found[i - fill] = c[j]
                break


@_compiled
def _dominated(x: I32, y: I32, stored_x: I32, stored_y: I32, upper: I64, window: int, found: I64) -> None:
    """Add to found (m,) the number of stored[upper - window : upper] with smaller x and larger y than probe (m,)."""
    for first in range(0, len(found), PROBES):
        last = min(first + PROBES, len(found))
        for at in range(upper[first] - window, upper[last - 1], STORED):
            for i in range(first, last):
                begin, end = max(at, upper[i] - window), min(at + STORED, upper[i])
                if begin < end:
                    found[i] += _smaller_and_larger(stored_x[begin:end], stored_y[begin:end], x[i], y[i])


@_compiled_helper
def _smaller_and_larger(stored_x: I32, stored_y: I32, x: np.int32, y: np.int32) -> np.int32:
    hits = np.int32(0)
    for j in range(len(stored_x)):
        hits += np.int32((stored_x[j] < x) & (stored_y[j] > y))
    return hits


@_compiled
def _near(a: I32, b: I32, window: int, band: tuple[int, int], found: I64) -> None:
    """Add to found (m,), for each of the last m rows, the number of its last `window` rows within the widths."""
    fill = len(a) - len(found)
    for first in range(0, len(found), PROBES):
        last = min(first + PROBES, len(found))
        for at in range(fill + first - window, fill + last - 1, STORED):
            for i in range(first, last):
                begin, end = max(at, fill + i - window), min(at + STORED, fill + i)
                if begin < end:
                    widths = np.int32(band[0]), np.int32(band[1])
                    found[i] += _within(a[begin:end], b[begin:end], a[fill + i], b[fill + i], widths)


@_compiled_helper
def _within(stored_a: I32, stored_b: I32, a: np.int32, b: np.int32, widths: tuple[np.int32, np.int32]) -> np.int32:
    hits = np.int32(0)
    for j in range(len(stored_a)):
        hits += np.int32((abs(stored_a[j] - a) < widths[0]) & (abs(stored_b[j] - b) < widths[1]))
    return hits
