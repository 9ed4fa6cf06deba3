"""Copies of rows, of fixed and of variable length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel


def before(counts: NDArray[Any]) -> I64:
    """The sum of what comes before each place, int64 (n + 1,): where segments of these lengths begin and end."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def places_within(lengths: I64) -> I64:
    """The place of each element within its segment, from 0, int64 (n,); lengths: of the segments, int64 (g,)."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def one_each(values: I64, count: int) -> I64:
    """One value for all, or one each already, as int64 (count,)."""
    return values if len(values) == count else np.full(count, values[0], np.int64)


def one_if_equal(values: I64) -> I64:
    """One value if all of values int64 (n,) are equal, else all: `one_each` takes both."""
    return values[:1].copy() if len(values) and (values == values[0]).all() else values


def run_starts(values: I64) -> I64:
    """Where runs of equal values begin, int64, ascending; values: int64 (n,)."""
    return np.concatenate((np.zeros(min(len(values), 1), np.int64), np.flatnonzero(values[1:] != values[:-1]) + 1))


def distinct(values: I64) -> I64:
    """The distinct ones of values int64 (n,) that mostly repeat the one before, ascending."""
    return np.unique(values[run_starts(values)])


@kernel
def marked_each(marks: NDArray[np.bool_], offsets: I64) -> I64:
    """How many places of each segment are marked, int64 (g,); segment q is marks[offsets[q]:offsets[q + 1]]."""
    found = np.empty(len(offsets) - 1, np.int64)
    for q in range(len(found)):
        n = 0
        for i in range(offsets[q], offsets[q + 1]):
            n += marks[i]
        found[q] = n
    return found


@inlined
def with_room(values: I64, used: int, more: int) -> I64:
    """The same values, the first `used` of which count, or a copy with room for `more` behind them; int64 (n,)."""
    if used + more <= len(values):
        return values
    longer = np.empty(max(2 * len(values), used + more), np.int64)
    longer[:used] = values[:used]
    return longer


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
def sort_segments(offsets: I64, values: I64) -> None:
    """Sort each segment values[offsets[q]:offsets[q + 1]], most of which ascend; offsets int64 (m + 1,)."""
    for q in range(len(offsets) - 1):
        for k in range(offsets[q] + 1, offsets[q + 1]):
            if values[k] < values[k - 1]:
                values[offsets[q] : offsets[q + 1]].sort()
                break


@kernel
def gather(values: NDArray[Any], places: I64, first: int, out: NDArray[Any]) -> None:
    """out[k] = values[places[k] - first]; every place must lie within the values.

    places: int64 (n,); values, out: (m,) and (n,), of one type
    """
    for k in range(len(places)):
        out[k] = values[places[k] - first]


@kernel
def gather_bits(flags: NDArray[np.uint8], places: I64, first: int, out: NDArray[np.uint8]) -> int:
    """Bit k of `out`, from the lowest of its first byte on, is flags[places[k] - first]; returns how many are 0.

    flags: uint8 (m,), 0 or 1; places: int64 (n,), each within the flags; out: uint8 (ceil(n / 8),)
    """
    n, ones = len(places), np.int64(0)
    for byte in range(len(out)):
        bits = np.int64(0)
        for k in range(8 * byte, min(8 * byte + 8, n)):
            flag = np.int64(flags[places[k] - first])
            bits |= flag << (k - 8 * byte)
            ones += flag
        out[byte] = bits
    return n - int(ones)
