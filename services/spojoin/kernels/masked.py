"""Counts of stored tuples by 16-bit ranks, as in `intervals16`, with the sums of their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.arrays import I64, U16
from spojoin.kernels.common_slice import PROBES_MIN, Common, divided, sum_common
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.intervals16 import and_counts, scan_counts
from spojoin.kernels.lanes import SHORTS, sum_admitted

#: Stored tuples that are weighed at once: the masks of so many stay in the cache.
_BLOCK = 2048

#: From so many tuples that slices have in common a matrix of their sums pays: weights of 16 bits are added up in lanes,
#: others one by one (measured).
_SHORTS_MIN, _LONGS_MIN = 4_096, 1_024

Shorts = tuple[U16, list[int]]


def masked_sums(
    ranks: Sequence[U16], starts: Sequence[U16], lengths: Sequence[U16], slice_lo: I64, slice_hi: I64, weights: I64
) -> tuple[I64, I64]:
    """What `intervals16.and_counts` counts, int64 (m,), and the weights of it, int64 (k, m); weights: int64 (k, n)."""
    if not len(weights):
        return and_counts(ranks, starts, lengths, slice_lo, slice_hi), np.zeros((0, len(slice_lo)), np.int64)
    shorts = _shorts(weights) if len(ranks) == 2 else None
    if len(ranks) != 2 or len(slice_lo) < PROBES_MIN:
        return _scanned(ranks, starts, lengths, slice_lo, slice_hi, weights, shorts)
    tuples_min = _LONGS_MIN if shorts is None else _SHORTS_MIN
    counts, found = np.zeros(len(slice_lo), np.int64), np.zeros((len(weights), len(slice_lo)), np.int64)
    for piece in divided(slice_lo, slice_hi, tuples_min):
        probes = piece.probes
        asked = (starts[0][probes], starts[1][probes]), (lengths[0][probes], lengths[1][probes])
        if isinstance(piece, Common):
            of_piece = sum_common((ranks[0], ranks[1]), *asked, piece.begin, piece.end, weights)
        else:
            of_piece = _scanned(ranks, *asked, piece.lo, piece.hi, weights, shorts)
        counts[probes] += of_piece[0]
        found[:, probes] += of_piece[1]
    return counts, found


def _scanned(
    ranks: Sequence[U16],
    starts: Sequence[U16],
    lengths: Sequence[U16],
    slice_lo: I64,
    slice_hi: I64,
    weights: I64,
    shorts: Shorts | None,
) -> tuple[I64, I64]:
    counts, found = np.empty(len(slice_lo), np.int64), np.zeros((len(weights), len(slice_lo)), np.int64)
    if shorts is not None:
        above, least = shorts
        for row, base, of_row in zip(above, least, found, strict=True):
            of_two = ranks[0], ranks[1], starts[0], starts[1], lengths[0], lengths[1]
            _add_masked_shorts(*of_two, slice_lo, slice_hi, row, base, counts, of_row)
    else:
        counts = scan_counts(ranks, starts, lengths, slice_lo, slice_hi)
        stacked = np.stack(ranks), np.stack(starts), np.stack(lengths)
        _add_masked(*stacked, slice_lo, slice_hi, np.ascontiguousarray(weights), found)
    return counts, found


def _shorts(weights: I64) -> Shorts | None:
    """Weights, int64 (k, n), in 16 bits: above the least of each row and 0, and these; None if some don't fit."""
    least = weights.min(axis=1, initial=0)
    if not (weights.max(axis=1, initial=0) - least < 1 << 16).all():
        return None
    return (weights - least[:, None]).astype(np.uint16), least.tolist()


@kernel
def _add_masked(ranks: U16, starts: U16, lengths: U16, slice_lo: I64, slice_hi: I64, weights: I64, found: I64) -> None:
    holds = np.empty(_BLOCK, np.int64)
    for q in range(len(slice_lo)):
        for begin in range(slice_lo[q], slice_hi[q], _BLOCK):
            end = min(begin + _BLOCK, slice_hi[q])
            masks = holds[: end - begin]
            masks[:] = -1
            for p in range(len(ranks)):
                stored, start, length = ranks[p, begin:end], starts[p, q], lengths[p, q]
                for j in range(len(stored)):
                    masks[j] &= -np.int64(np.uint16(stored[j] - start) < length)
            for k in range(len(weights)):
                of_block, total = weights[k, begin:end], np.int64(0)
                for j in range(len(of_block)):
                    total += of_block[j] & masks[j]
                found[k, q] += total


@kernel
def _add_masked_shorts(
    r0: U16, r1: U16, s0: U16, s1: U16, l0: U16, l1: U16,
    slice_lo: I64, slice_hi: I64, weights: U16, least: int, counts: I64, found: I64,
) -> None:  # fmt: skip
    """As `_add_masked` of two predicates and one row; weights: what they exceed the least by; counts are written."""
    for q in range(len(slice_lo)):
        lo, hi = slice_lo[q], max(slice_lo[q], slice_hi[q])
        whole = (hi - lo) & -SHORTS
        stored0, stored1, above = r0[lo:hi], r1[lo:hi], weights[lo:hi]
        count, total = sum_admitted(stored0, stored1, above, whole, s0[q], l0[q], s1[q], l1[q])
        more, rest = _of_few(stored0[whole:], stored1[whole:], above[whole:], s0[q], l0[q], s1[q], l1[q])
        counts[q] = count + more
        found[q] += total + rest + counts[q] * least


@inlined
def _of_few(
    stored0: U16, stored1: U16, weights: U16, start0: int, length0: int, start1: int, length1: int
) -> tuple[np.int64, np.int64]:
    """As `lanes.sum_admitted`, one by one."""
    count, total = np.int64(0), np.int64(0)
    for j in range(len(stored0)):
        both = (np.uint16(stored0[j] - start0) < length0) & (np.uint16(stored1[j] - start1) < length1)
        count += np.int64(both)
        total += np.int64(both) * np.int64(weights[j])
    return count, total
