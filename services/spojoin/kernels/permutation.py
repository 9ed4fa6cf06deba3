"""Sorted columns of a batch and the permutations between them (the SPO-Join paper, section 4, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from spojoin.arrays import I64, Unsigned
from spojoin.kernels.compile import kernel

#: So few codes are sorted by insertion in less time than NumPy's calls take.
_INSERTED_MAX = 128


def rank_type(n: int) -> type[np.uint16] | type[np.uint32]:
    """The smallest type that holds every rank and arrival offset of n tuples."""
    return np.uint16 if n <= 1 << 16 else np.uint32


def sort_column(codes: I64) -> tuple[I64, Unsigned]:
    """Sort one column by code, ties by arrival.

    codes: int64 (n,) in arrival order. Returns the codes ascending and each one's arrival offset, of `rank_type(n)`.
    """
    if len(codes) <= _INSERTED_MAX:
        few, arrivals = np.empty(len(codes), np.int64), np.empty(len(codes), np.uint16)
        _insert_all(codes, few, arrivals)
        return few, arrivals
    packed = _sort_packed(codes)
    if packed is not None:
        return packed[0], packed[1].astype(rank_type(len(codes)))
    places = np.argsort(codes)
    ascending, order = codes[places], places.astype(rank_type(len(codes)))
    _restore_arrival(ascending, order)
    return ascending, order


def sort_places(codes: I64) -> tuple[I64, I64]:
    """Codes int64 (n,) ascending and each one's place among those given, int64 (n,), ties in any order."""
    packed = _sort_packed(codes)
    if packed is not None:
        return packed
    places = np.argsort(codes)
    return codes[places], places


def _sort_packed(codes: I64) -> tuple[I64, I64] | None:
    """`sort_places`, with ties by place, where the codes' range is small: then a word holds a code and its place.

    Keys of a few thousand values are sorted so. None where the range is too large.
    """
    n = len(codes)
    low, high = (int(codes.min()), int(codes.max())) if n else (0, 0)
    bits = n.bit_length()
    if (high - low) >> (63 - bits):
        return None
    words = np.sort((codes - low) << bits | np.arange(n))
    return (words >> bits) + low, words & ((1 << bits) - 1)


def positions(order: Unsigned) -> Unsigned:
    """The inverse of an order: for each tuple by arrival its rank. Same type and shape as `order`."""
    ranks = np.empty_like(order)
    invert(order, ranks)
    return ranks


def permutation(order_a: Unsigned, order_b: Unsigned) -> Unsigned:
    """For each rank in order a the same tuple's rank in order b (Algorithm 2). Same type and shape as `order_a`."""
    ranks = np.empty_like(order_a)
    _compose(positions(order_b), order_a, ranks)
    return ranks


def merge_sorted(first: tuple[I64, Unsigned], second: tuple[I64, Unsigned]) -> tuple[I64, Unsigned]:
    """Merge two sorted columns; the second arrived after the first, and its offsets continue those of the first."""
    n = len(first[0]) + len(second[0])
    codes, order = np.empty(n, np.int64), np.empty(n, rank_type(n))
    _merge(first[0], first[1], second[0], second[1], codes, order)
    return codes, order


def split_sorted(column: tuple[I64, Unsigned], at: int) -> tuple[tuple[I64, Unsigned], tuple[I64, Unsigned]]:
    """Undo a merge: tuples that arrived before offset `at`, and the others, each sorted."""
    codes, order = column
    n = len(codes)
    first = np.empty(at, np.int64), np.empty(at, rank_type(at))
    second = np.empty(n - at, np.int64), np.empty(n - at, rank_type(n - at))
    _split(codes, order, at, first[0], first[1], second[0], second[1])
    return first, second


@kernel
def _insert_all(codes: I64, ascending: I64, order: Unsigned) -> None:
    for i in range(len(codes)):
        code, k = codes[i], i
        while k > 0 and ascending[k - 1] > code:
            ascending[k], order[k] = ascending[k - 1], order[k - 1]
            k -= 1
        ascending[k], order[k] = code, i


@kernel
def _restore_arrival(codes: I64, order: Unsigned) -> None:
    """Sort the offsets of equal codes."""
    begin = 0
    for k in range(1, len(codes) + 1):
        if k == len(codes) or codes[k] != codes[begin]:
            if k - begin > 1:
                order[begin:k].sort()
            begin = k


@kernel
def invert(order: Unsigned, out: Unsigned) -> None:
    """`positions` into `out`."""
    for rank in range(len(order)):
        out[order[rank]] = rank


@kernel
def _compose(inner: Unsigned, outer: Unsigned, out: Unsigned) -> None:
    for rank in range(len(outer)):
        out[rank] = inner[outer[rank]]


@kernel
def _merge(codes_a: I64, order_a: Unsigned, codes_b: I64, order_b: Unsigned, codes: I64, order: Unsigned) -> None:
    n, m = len(codes_a), len(codes_b)
    i, j = 0, 0
    for k in range(n + m):
        if j == m or (i < n and codes_a[i] <= codes_b[j]):
            codes[k] = codes_a[i]
            order[k] = order_a[i]
            i += 1
        else:
            codes[k] = codes_b[j]
            order[k] = order_b[j] + n
            j += 1


@kernel
def _split(
    codes: I64, order: Unsigned, at: int, codes_a: I64, order_a: Unsigned, codes_b: I64, order_b: Unsigned
) -> None:
    i, j = 0, 0
    for k in range(len(codes)):
        offset = np.int64(order[k])
        if offset < at:
            codes_a[i] = codes[k]
            order_a[i] = offset
            i += 1
        else:
            codes_b[j] = codes[k]
            order_b[j] = offset - at
            j += 1
