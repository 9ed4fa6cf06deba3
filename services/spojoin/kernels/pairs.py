"""Puts the matches of several parts and directions into output order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spojoin.arrays import I64
from spojoin.kernels.compile import kernel

Segments = tuple[I64, I64]


def _column(n: int) -> I64:
    return np.empty(n, np.int64)


def merge_segments(a: Segments, b: Segments, limit: int | None) -> Segments:
    """Merge two lists of ascending segments, segment by segment, keeping the first `limit` values of each.

    A list of m segments is offsets int64 (m + 1,) and values int64 (offsets[-1],).
    """
    lengths = np.diff(a[0]) + np.diff(b[0])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths if limit is None else np.minimum(lengths, limit), out=offsets[1:])
    values = np.empty(offsets[-1], np.int64)
    _merge(a[0], a[1], b[0], b[1], offsets, values)
    return offsets, values


def interleave(
    rights: Segments, lefts: Segments, limit: int | None, first_seq: int, column: Callable[[int], I64] = _column
) -> tuple[I64, I64, I64]:
    """Pairs of m probes in output order: those where the probe is the right tuple, then those where it is the left.

    rights, lefts: m segments of partner seqs each. With a limit, a probe keeps its earliest partners of both directions
    (among equal ones, the right direction's first). The probes' seqs count up from `first_seq`. Returns for each pair
    the seqs of the probe, of the left and of the right tuple, int64 (n,) each, in arrays that `column` returns for n.
    """
    kept_right, kept_left = _kept(rights, lefts, limit)
    counts = kept_right + kept_left
    probe, left, right = (column(int(counts.sum())) for _ in range(3))
    _repeat_seqs(counts, first_seq, probe)
    _interleave(rights[0], rights[1], lefts[0], lefts[1], kept_right, kept_left, first_seq, left, right)
    return probe, left, right


def interleave_sides(
    rights: Segments, lefts: Segments, limit: int | None, first_seq: int, column: Callable[[int], I64] = _column
) -> tuple[I64, I64]:
    """`interleave` without the probes' seqs: of a pair's seqs it is the greater."""
    kept_right, kept_left = _kept(rights, lefts, limit)
    total = int(kept_right.sum() + kept_left.sum())
    left, right = column(total), column(total)
    _interleave(rights[0], rights[1], lefts[0], lefts[1], kept_right, kept_left, first_seq, left, right)
    return left, right


def _kept(rights: Segments, lefts: Segments, limit: int | None) -> tuple[I64, I64]:
    right, left = np.diff(rights[0]), np.diff(lefts[0])
    if limit is not None:
        _limit(rights[0], rights[1], lefts[0], lefts[1], limit, right, left)
    return right, left


@kernel
def _merge(ao: I64, av: I64, bo: I64, bv: I64, offsets: I64, values: I64) -> None:
    for q in range(len(offsets) - 1):
        i, j, end_i, end_j = ao[q], bo[q], ao[q + 1], bo[q + 1]
        for k in range(offsets[q], offsets[q + 1]):
            if j == end_j or (i < end_i and av[i] <= bv[j]):
                values[k] = av[i]
                i += 1
            else:
                values[k] = bv[j]
                j += 1


@kernel
def _limit(ro: I64, rv: I64, lo: I64, lv: I64, limit: int, right: I64, left: I64) -> None:
    for q in range(len(right)):
        if right[q] + left[q] <= limit:
            continue
        i, j = 0, 0
        while i + j < limit:
            if j == left[q] or (i < right[q] and rv[ro[q] + i] <= lv[lo[q] + j]):
                i += 1
            else:
                j += 1
        right[q], left[q] = i, j


@kernel
def _repeat_seqs(counts: I64, first_seq: int, probe: I64) -> None:
    k = 0
    for q in range(len(counts)):
        probe[k : k + counts[q]] = first_seq + q
        k += counts[q]


@kernel
def _interleave(
    ro: I64,
    rv: I64,
    lo: I64,
    lv: I64,
    kept_right: I64,
    kept_left: I64,
    first_seq: int,
    left: I64,
    right: I64,
) -> None:
    k = 0
    for q in range(len(kept_right)):
        seq = first_seq + q
        for i in range(kept_right[q]):
            left[k], right[k] = rv[ro[q] + i], seq
            k += 1
        for i in range(kept_left[q]):
            left[k], right[k] = seq, lv[lo[q] + i]
            k += 1
