"""The paper's encoding of a mutable joiner's answer: one bit a probe and stored tuple (section 4.1), to compare with.

It is made as fast as it can be: compared and packed 64 stored tuples at a time, without branches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.promises.data import I64
from spojoin.kernels.compile import kernel, popcount

U64 = NDArray[np.uint64]
_WORD = 64


def bit_arrays(stored: I64, lo: I64, hi: I64) -> U64:
    """Bit j of row q says whether lo[q] <= stored[j] <= hi[q]: uint64 (m, ceil(n / 64)).

    stored: int64 (n,) codes in arrival order; lo, hi: int64 (m,)
    """
    words = np.zeros((len(lo), -(-len(stored) // _WORD)), np.uint64)
    _pack(stored, lo, hi, words)
    return words


def and_counts(first: U64, second: U64, ends: I64) -> I64:
    """How many of the stored tuples before ends[q] have both bits, for each probe: int64 (m,)."""
    counts = np.empty(len(ends), np.int64)
    _count(first, second, ends, counts)
    return counts


@kernel
def _pack(stored: I64, lo: I64, hi: I64, words: U64) -> None:
    n = len(stored)
    whole = n // _WORD
    for q in range(len(lo)):
        least, greatest = lo[q], hi[q]
        row = words[q]
        for w in range(whole):
            begin, word = w * _WORD, np.uint64(0)
            for j in range(_WORD):
                code = stored[begin + j]
                word |= np.uint64((code >= least) & (code <= greatest)) << np.uint64(j)
            row[w] = word
        for j in range(whole * _WORD, n):
            row[whole] |= np.uint64((stored[j] >= least) & (stored[j] <= greatest)) << np.uint64(j - whole * _WORD)


@kernel
def _count(first: U64, second: U64, ends: I64, counts: I64) -> None:
    one = np.uint64(1)
    for q in range(len(ends)):
        whole, rest = ends[q] >> 6, np.uint64(ends[q] & 63)
        total = np.uint64(0)
        for w in range(whole):
            total += popcount(first[q, w] & second[q, w])
        if rest:
            total += popcount(first[q, whole] & second[q, whole] & ((one << rest) - one))
        counts[q] = total
