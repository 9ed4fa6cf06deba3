"""Match bitmaps in arrival order, from prefixes of a sort order that are kept every so many ranks.

The tuples of a rank interval [a, b) are those of prefix b without those of prefix a. A cursor holds a prefix and moves
to the next probe's: by flipping the tuples between where the way is short, as it is for probes visited in rank order,
else by copying the nearest kept prefix and flipping the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel, popcount, trailing_zeros

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Unsigned = NDArray[Any]

#: Ranks between kept prefixes: with chunks of at most CHUNK_MAX tuples at most 32 bytes a tuple and predicate.
SAMPLE_RANKS = 256
CHUNK_MAX = 1 << 16

#: Checking a candidate costs as much as so many words of a bitmap.
_CANDIDATE_WORDS = 4


class Predicates:
    """P predicates of m probes over one chunk of n tuples.

    prefixes: per predicate, of `build`; orders, ranks: per predicate unsigned (n,), each other's inverse
    a, b: per predicate rank intervals, int64 (m,); complement: per predicate whether the rest is meant
    """

    def __init__(
        self,
        prefixes: Sequence[U64],
        orders: Sequence[Unsigned],
        ranks: Sequence[Unsigned],
        a: Sequence[I64],
        b: Sequence[I64],
        complement: Sequence[bool],
    ) -> None:
        self.prefixes, self.orders, self.ranks = tuple(prefixes), tuple(orders), tuple(ranks)
        self.ends = np.array([a, b], np.int64)
        self.complement = np.array(complement, np.bool_)

    @property
    def probes(self) -> int:
        """How many probes, m."""
        return int(self.ends.shape[2])

    @property
    def words(self) -> int:
        """Words of a bitmap, ceil(n / 64)."""
        return (len(self.orders[0]) + 63) >> 6


def build(order: Unsigned) -> U64:
    """Prefix bitmaps of an order of n <= CHUNK_MAX tuples: uint64 (1 + n // SAMPLE_RANKS, ceil(n / 64))."""
    n = len(order)
    prefixes = np.zeros((1 + n // SAMPLE_RANKS, (n + 63) >> 6), np.uint64)
    _build(order, prefixes)
    return prefixes


def match_bitmaps(predicates: Predicates, visit: I64) -> U64:
    """The AND of all predicates, per probe: uint64 (m, ceil(n / 64)), bit j for the tuple that arrived j-th.

    visit: int64 (m,), an order of the probes in which some predicate's ranks ascend
    """
    p = predicates
    words = np.empty((p.probes, p.words), np.uint64)
    _match_bitmaps(p.prefixes, p.orders, p.ends, p.complement, visit, words)
    return words


def collect(predicates: Predicates, visit: I64, limits: I64) -> tuple[I64, I64, I64, I64]:
    """Matches of each probe and their places, ascending, the first `limits` int64 (m,) of them.

    Returns counts int64 (m,), whole whatever the limits, begins and taken int64 (m,), and places int64: those of probe
    q are places[begins[q] : begins[q] + taken[q]].
    """
    p = predicates
    counts, begins, taken = np.empty((3, p.probes), np.int64)
    arguments = p.prefixes, p.orders, p.ranks, p.ends, p.complement
    places = _collect(*arguments, visit, limits, counts, begins, taken)
    return counts, begins, taken, places


@inlined
def _flip(words: U64, order: Unsigned, begin: int, end: int) -> None:
    for rank in range(begin, end):
        j = np.uint64(order[rank])
        words[j >> np.uint64(6)] ^= np.uint64(1) << (j & np.uint64(63))


@kernel
def _build(order: Unsigned, prefixes: U64) -> None:
    for sample in range(1, len(prefixes)):
        prefixes[sample] = prefixes[sample - 1]
        _flip(prefixes[sample], order, (sample - 1) * SAMPLE_RANKS, sample * SAMPLE_RANKS)


@inlined
def _move(words: U64, prefixes: U64, order: Unsigned, at: int, to: int) -> None:
    """Turn the bitmap of prefix `at` into that of prefix `to`."""
    if abs(to - at) > SAMPLE_RANKS // 2:
        sample = min((to + SAMPLE_RANKS // 2) // SAMPLE_RANKS, len(prefixes) - 1)
        kept = prefixes[sample]
        for w in range(len(words)):
            words[w] = kept[w]
        at = sample * SAMPLE_RANKS
    _flip(words, order, min(at, to), max(at, to))


@inlined
def _match(
    prefixes: tuple[U64, ...], orders: tuple[Unsigned, ...], ends: I64, complement: Flags,
    q: int, cursors: U64, at: I64, row: U64,
) -> None:  # fmt: skip
    """Move the cursors (2, P, words), which stand `at` (2, P), to probe q and write its matches to `row`."""
    for p in range(len(orders)):
        for side in range(2):
            to = ends[side, p, q]
            _move(cursors[side, p], prefixes[p], orders[p], at[side, p], to)
            at[side, p] = to
        low, high = cursors[0, p], cursors[1, p]
        inverse = np.uint64(0xFFFF_FFFF_FFFF_FFFF) if complement[p] else np.uint64(0)
        if p == 0:
            for w in range(len(row)):
                row[w] = low[w] ^ high[w] ^ inverse
        else:
            for w in range(len(row)):
                row[w] &= low[w] ^ high[w] ^ inverse
    row[len(row) - 1] &= np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> np.uint64(-len(orders[0]) & 63)


@kernel
def _match_bitmaps(
    prefixes: tuple[U64, ...], orders: tuple[Unsigned, ...], ends: I64, complement: Flags, visit: I64, words: U64
) -> None:
    cursors = np.zeros((2, len(orders), words.shape[1]), np.uint64)
    at = np.zeros((2, len(orders)), np.int64)
    for q in visit:
        _match(prefixes, orders, ends, complement, q, cursors, at, words[q])


@kernel
def _collect(
    prefixes: tuple[U64, ...], orders: tuple[Unsigned, ...], ranks: tuple[Unsigned, ...], ends: I64,
    complement: Flags, visit: I64, limits: I64, counts: I64, begins: I64, taken: I64,
) -> I64:  # fmt: skip
    row = np.empty((len(orders[0]) + 63) >> 6, np.uint64)
    cursors = np.zeros((2, len(orders), len(row)), np.uint64)
    at = np.zeros((2, len(orders)), np.int64)
    places, filled = np.empty(1024, np.int64), np.empty(len(row), np.int64)
    used = 0
    for q in visit:
        begins[q] = used
        rarest = _rarest(ends, complement, q)
        candidates = ends[1, rarest, q] - ends[0, rarest, q]
        if candidates * _CANDIDATE_WORDS <= len(row) and not complement[rarest]:
            places = _with_room(places, used, candidates)
            counts[q] = _filter(orders[rarest], ranks, ends, complement, rarest, q, places[used:])
            places[used : used + counts[q]].sort()
            taken[q] = min(counts[q], limits[q])
        else:
            _match(prefixes, orders, ends, complement, q, cursors, at, row)
            counts[q] = _count(row)
            taken[q] = min(counts[q], limits[q])
            places = _with_room(places, used, taken[q])
            if taken[q] > 0:
                _extract(row, filled, places[used : used + taken[q]])
        used += taken[q]
    return places[:used]


@inlined
def _rarest(ends: I64, complement: Flags, q: int) -> int:
    """The predicate with the shortest interval; any where all are complements."""
    best = 0
    for p in range(1, len(complement)):
        shorter = ends[1, p, q] - ends[0, p, q] < ends[1, best, q] - ends[0, best, q]
        if complement[best] or (shorter and not complement[p]):
            best = p
    return best


@inlined
def _filter(
    order: Unsigned, ranks: tuple[Unsigned, ...], ends: I64, complement: Flags, rarest: int, q: int, places: I64
) -> int:
    """Write the matches among the tuples of the rarest predicate's interval, and return how many they are."""
    used = 0
    for rank in range(ends[0, rarest, q], ends[1, rarest, q]):
        j = np.int64(order[rank])
        holds = True
        for p in range(len(ranks)):
            other = np.int64(ranks[p][j])
            holds &= (ends[0, p, q] <= other < ends[1, p, q]) != complement[p]
        places[used] = j
        used += holds
    return used


@inlined
def _with_room(places: I64, used: int, more: int) -> I64:
    if used + more <= len(places):
        return places
    longer = np.empty(max(2 * len(places), used + more), np.int64)
    longer[:used] = places[:used]
    return longer


@inlined
def _count(row: U64) -> int:
    total = np.uint64(0)
    for w in range(len(row)):
        total += popcount(row[w])
    return int(total)


@inlined
def _extract(row: U64, filled: I64, places: I64) -> None:
    """The first len(places) set bits, ascending; `filled` int64 (words,) is scratch.

    Words with bits are listed first, without a branch for the machine to guess: most words of a rare match are empty.
    """
    i, n = 0, 0
    for w in range(len(row)):
        filled[n] = w
        n += row[w] != 0
    for k in range(n):
        word = row[filled[k]]
        base = filled[k] << 6
        while word != 0:
            if i == len(places):
                return
            places[i] = base + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            i += 1
