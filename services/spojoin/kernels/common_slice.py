"""The stored tuples that all probes' slices hold, counted for two predicates in logarithmic time.

A frame's probes all see what was stored before the frame, and differ in what they see of the frame itself. The former
are ranked anew among themselves; the second predicate's ranks in the order of the first are a permutation, in which
each probe asks for a rectangle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U16, U32
from spojoin.kernels import sum_matrix
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.running_sums import running, running_at
from spojoin.kernels.wavelet import build, rectangle_counts

Two = tuple[U16, U16]

#: A matrix pays from so many tuples, which are compared with a probe in the time of a rectangle, and so many probes,
#: which are compared with a tuple in the time of its place in the matrix (measured).
TUPLES_MIN, PROBES_MIN = 2_048, 512


def common_slice(slice_lo: I64, slice_hi: I64) -> tuple[int, int]:
    """The arrival offsets [begin, end) that are in all probes' slices; empty, (0, 0), where counting it doesn't pay."""
    if len(slice_lo) < PROBES_MIN:
        return 0, 0
    begin, end = int(slice_lo.max()), int(slice_hi.min())
    return (begin, end) if end - begin >= TUPLES_MIN else (0, 0)


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
