"""The stored tuples that all probes' slices hold, counted for two predicates in logarithmic time.

A frame's probes all see what was stored before the frame, and differ in what they see of the frame itself; of that, its
later half sees the earlier half, and so on. What probes have in common is ranked anew among itself; the second
predicate's ranks in the order of the first are a permutation, in which each probe asks for a rectangle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U16, U32
from spojoin.kernels import sum_matrix
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.running_sums import running, running_at
from spojoin.kernels.wavelet import build, rectangle_counts

Two = tuple[U16, U16]

#: A matrix pays from so many probes on, which are compared with a tuple in the time of its place in the matrix, and
#: from so many tuples, which are compared with a probe in the time of a rectangle (measured); where tuples are also
#: weighed, `masked` has numbers of its own.
PROBES_MIN, TUPLES_MIN = 512, 1_536


class Common(NamedTuple):
    """Stored tuples with arrival offsets [begin, end), which all slices of some probes hold."""

    probes: slice
    begin: int
    end: int


class Remainder(NamedTuple):
    """What else these probes' slices hold: for each of them the arrival offsets [lo, hi), int64 (k,) each."""

    probes: slice
    lo: I64
    hi: I64


def divided(
    slice_lo: I64, slice_hi: I64, tuples_min: int, first: int = 0, held: tuple[int, int] | None = None
) -> Iterator[Common | Remainder]:
    """All probes' slices in pieces: what probes have in common, at least `tuples_min` tuples each, and the rest.

    Halves of the probes have more in common than all of them: of the frame itself, the later half sees the earlier one.

    first: the number of the first probe; held: the offsets that all these slices hold and that another piece has
    """
    m = len(slice_lo)
    probes = slice(first, first + m)
    if m >= PROBES_MIN:
        low, high = int(slice_lo.max()), int(slice_hi.min())
        for begin, end in [(low, high)] if held is None else [(low, held[0]), (held[1], high)]:
            if end - begin >= tuples_min:
                held = (begin, end) if held is None else (min(begin, held[0]), max(end, held[1]))
                yield Common(probes, begin, end)
    half = m // 2
    if half >= PROBES_MIN and _gain_of_halves(slice_lo, slice_hi, half, held) >= tuples_min:
        yield from divided(slice_lo[:half], slice_hi[:half], tuples_min, first, held)
        yield from divided(slice_lo[half:], slice_hi[half:], tuples_min, first + half, held)
    elif held is None:
        yield Remainder(probes, slice_lo, slice_hi)
    else:
        if (slice_lo < held[0]).any():
            yield Remainder(probes, slice_lo, np.full_like(slice_hi, held[0]))
        if (slice_hi > held[1]).any():
            yield Remainder(probes, np.full_like(slice_lo, held[1]), slice_hi)


def _gain_of_halves(slice_lo: I64, slice_hi: I64, half: int, held: tuple[int, int] | None) -> int:
    """How many tuples a half of the probes may have in common besides the held ones."""
    if held is None:
        return int((slice_hi - slice_lo).max())
    return max(held[0] - int(slice_lo[:half].max()), int(slice_hi[half:].min()) - held[1])


def count_common(ranks: Two, starts: Two, lengths: Two, begin: int, end: int) -> I64:
    """How many stored tuples of [begin, end) satisfy both predicates, for each probe.

    ranks: uint16 (n,) each, the stored positions by arrival; starts, lengths: uint16 (m,) each, wrapped intervals of
    positions as in `intervals16`; 0 <= begin < end <= n. Returns int64 (m,).
    """
    permutation, bounds, complement = _prepared(ranks, starts, lengths, begin, end)[1:]
    counts = rectangle_counts(build(permutation), end - begin, bounds[0, 0], bounds[0, 1], bounds[1, 0], bounds[1, 1])
    _leave_out(end - begin, bounds, complement, counts)
    return counts


def sum_common(ranks: Two, starts: Two, lengths: Two, begin: int, end: int, weights: I64) -> tuple[I64, I64]:
    """`count_common`, int64 (m,), and the weights of it, int64 (k, m); weights: int64 (k, n), by arrival."""
    below, permutation, bounds, complement = _prepared(ranks, starts, lengths, begin, end)
    matrix, order = build(permutation), np.empty((2, end - begin), np.uint32)
    for p in range(2):
        order[p, below[p, ranks[p][begin:end]]] = np.arange(end - begin, dtype=np.uint32)
    rows = np.ascontiguousarray(weights[:, begin:end])
    orders = [[running(each, row) for each in order] for row in rows]
    matrices = [sum_matrix.build(permutation, row[order[0]], matrix) for row in rows]
    counts, found = sum_matrix.rectangle_sums(matrix, matrices, orders, end - begin, bounds[0], bounds[1])
    _leave_out(end - begin, bounds, complement, counts)
    for row, (first, second) in zip(found, orders, strict=True):
        _leave_out_sums(np.array([first.entry, second.entry]), end - begin, bounds, complement, row)
    return counts, found


def _prepared(ranks: Two, starts: Two, lengths: Two, begin: int, end: int) -> tuple[U32, U32, I64, NDArray[np.bool_]]:
    """What `_arrange` and `_bounds` write: below, permutation, bounds and complement."""
    below = np.zeros((2, len(ranks[0]) + 1), np.uint32)
    permutation = np.empty(end - begin, np.uint32)
    _arrange(ranks[0], ranks[1], begin, end, below, permutation)
    m = len(starts[0])
    bounds, complement = np.empty((2, 2, m), np.int64), np.empty((2, m), np.bool_)
    for p in range(2):
        _bounds(starts[p], lengths[p], below[p], bounds[p], complement[p])
    return below, permutation, bounds, complement


@kernel
def _arrange(first: U16, second: U16, begin: int, end: int, below: U32, permutation: U32) -> None:
    """below: of each position of all n + 1, by predicate, how many tuples of [begin, end) have a smaller one."""
    for j in range(begin, end):
        below[0, np.int64(first[j]) + 1] = 1
        below[1, np.int64(second[j]) + 1] = 1
    for i in range(1, below.shape[1]):
        below[0, i] += below[0, i - 1]
        below[1, i] += below[1, i - 1]
    for j in range(begin, end):
        permutation[below[0, np.int64(first[j])]] = below[1, np.int64(second[j])]


@kernel
def _bounds(start: U16, length: U16, below: U32, bounds: I64, complement: NDArray[np.bool_]) -> None:
    """Each probe's interval among the tuples of the slice, or the one that it excludes."""
    n = len(below) - 1
    for q in range(len(start)):
        last = np.int64(start[q]) + np.int64(length[q])
        complement[q] = last >= 1 << 16
        if complement[q]:
            bounds[0, q], bounds[1, q] = below[last - (1 << 16)], below[start[q]]
        else:
            bounds[0, q], bounds[1, q] = below[start[q]], below[last if last < n else n]


@kernel
def _leave_out(n: int, bounds: I64, complement: NDArray[np.bool_], counts: I64) -> None:
    """Of the tuples in both intervals make those that satisfy the predicates, by inclusion and exclusion."""
    for q in range(len(counts)):
        within = bounds[0, 1, q] - bounds[0, 0, q], bounds[1, 1, q] - bounds[1, 0, q]
        counts[q] = _satisfying(counts[q], np.int64(n), within, (complement[0, q], complement[1, q]))


@kernel
def _leave_out_sums(orders: I64, n: int, bounds: I64, complement: NDArray[np.bool_], sums: I64) -> None:
    """As `_leave_out`; orders: int64 (2, RUNNING_ENTRY), the running sums of both orders of n tuples."""
    first, second = orders[0], orders[1]
    for q in range(len(sums)):
        if not (complement[0, q] or complement[1, q]):
            continue
        within = (
            running_at(first, bounds[0, 1, q]) - running_at(first, bounds[0, 0, q]),
            running_at(second, bounds[1, 1, q]) - running_at(second, bounds[1, 0, q]),
        )
        whole = running_at(first, n)
        sums[q] = _satisfying(sums[q], whole, within, (complement[0, q], complement[1, q]))


@inlined
def _satisfying(
    both: np.int64, whole: np.int64, within: tuple[np.int64, np.int64], complement: tuple[bool, bool]
) -> np.int64:
    """What satisfies two predicates of a whole, by what lies in both intervals and in each."""
    if complement[0] and complement[1]:
        return both + whole - within[0] - within[1]
    if complement[0]:
        return within[1] - both
    return within[0] - both if complement[1] else both
