"""Match bitmaps in arrival order, from prefixes of a sort order that are kept at regular ranks.

The tuples of a rank interval [a, b) are those of prefix b without those of prefix a. For the first predicate, in whose
order the probes are visited, a cursor holds a prefix and moves to the next probe's by flipping the tuples between. For
every other one the kept prefixes around the interval are applied as they are, and the few surplus tuples cleared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.arrays import I64, U64, Flags, Unsigned
from spojoin.kernels.compile import inlined, kernel, popcount, trailing_zeros
from spojoin.kernels.segments import with_room

#: Ranks between kept prefixes: with chunks of at most CHUNK_MAX tuples at most 32 bytes a tuple and predicate.
SAMPLE_RANKS = 256
CHUNK_MAX = 1 << 16

#: Checking a candidate costs as much as this many words of a bitmap.
_CANDIDATE_WORDS = 4
#: Bitmaps of this many probes stay in the second-level cache from one predicate to the next.
_ROWS = 16
#: The kept prefixes of a predicate are visited a part at a time, which fits the second-level cache.
_PARTS = 4
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Predicates:
    """P predicates of m probes over one chunk of n tuples.

    prefixes: per predicate, of `build`; orders, ranks: per predicate unsigned (n,), each other's inverse
    a, b: per predicate rank intervals, int64 (m,); complement: per predicate, whether it holds outside the interval
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
        """The number of probes, m."""
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
    """The AND of all predicates, per probe visited: uint64 (k, ceil(n / 64)), bit j for the j-th tuple to arrive.

    visit: int64 (k,), the probes wanted, in an order in which the first predicate's ranks ascend here and there
    """
    p = predicates
    words = np.empty((len(visit), p.words), np.uint64)
    _match_bitmaps(p.prefixes, p.orders, p.ends, p.complement, visit, words)
    return words


def in_parts(predicates: Predicates, visit: I64) -> I64:
    """A better order of `visit` int64 (k,): by parts of the second predicate's ranks, within a part as before."""
    if len(predicates.orders) == 1:
        return visit
    low, high = predicates.ends[:, 1, visit]
    n = len(predicates.orders[0])
    part = (np.where(low == 0, high, low) * _PARTS // (n + 1)).astype(np.uint8)
    return visit[np.argsort(part, kind="stable")]


def collect(predicates: Predicates, visit: I64, limits: I64) -> tuple[I64, I64, I64, I64]:
    """Matches of each probe and their places, ascending, at most `limits` int64 (m,).

    Returns complete counts int64 (m,), despite limits, begins and taken int64 (m,), and places int64: those of probe
    q are places[begins[q] : begins[q] + taken[q]].
    """
    p = predicates
    counts, begins, taken = np.empty((3, p.probes), np.int64)
    arguments = p.prefixes, p.orders, p.ranks, p.ends, p.complement
    places = _collect(*arguments, in_parts(p, visit), limits, counts, begins, taken)
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
    chosen: I64, cursors: U64, at: I64, rows: U64,
) -> None:  # fmt: skip
    """Write the matches of the probes `chosen` to `rows`; the cursors (2, words) stand `at` (2,)."""
    done, second = 1, min(1, len(orders) - 1)
    if second > 0 and _are_rays(ends, complement, len(orders[0]), chosen):
        _write_rays(prefixes[0], prefixes[second], orders[0], orders[second], ends, chosen, cursors[0], at, rows)
        done = 2
    else:
        _write(prefixes[0], orders[0], ends[0, 0], ends[1, 0], complement[0], chosen, cursors, at, rows)
    for p in range(done, len(orders)):
        if complement[p]:
            _drop(prefixes[p], orders[p], ends[0, p], ends[1, p], chosen, rows)
        else:
            _keep(prefixes[p], orders[p], ends[0, p], ends[1, p], chosen, rows)


@inlined
def _are_rays(ends: I64, complement: Flags, n: int, chosen: I64) -> bool:
    """Whether all intervals of the first two predicates begin with the first rank or end with the last."""
    rays = not (complement[0] or complement[1])
    for p in range(2):
        for q in chosen:
            rays &= ends[0, p, q] == 0 or ends[1, p, q] == n
    return rays


@inlined
def _write_rays(
    prefixes: U64, others: U64, order: Unsigned, other: Unsigned, ends: I64,
    chosen: I64, cursor: U64, at: I64, rows: U64,
) -> None:  # fmt: skip
    """Each row is the intersection of two rays, the usual inequalities: a single pass over a bitmap each."""
    n = len(order)
    for i in range(len(chosen)):
        q, row = chosen[i], rows[i]
        begins = ends[0, 0, q] == 0
        to, inverse = (ends[1, 0, q], np.uint64(0)) if begins else (ends[0, 0, q], _ALL)
        _move(cursor, prefixes, order, at[0], to)
        at[0] = to
        sample, other_inverse, begin, end = _around(ends[0, 1, q], ends[1, 1, q], n, len(others))
        kept = others[sample]
        for w in range(len(row)):
            row[w] = (cursor[w] ^ inverse) & (kept[w] ^ other_inverse)
        row[len(row) - 1] &= _ALL >> np.uint64(-n & 63)
        _clear(row, other, begin, end)


@inlined
def _around(a: int, b: int, n: int, samples: int) -> tuple[int, np.uint64, int, int]:
    """A kept prefix that holds the ray [a, b), whether it is inverted, and the surplus ranks [begin, end)."""
    if a > 0:
        sample = a // SAMPLE_RANKS
        return sample, _ALL, sample * SAMPLE_RANKS, a
    sample = -(-b // SAMPLE_RANKS)
    if sample == samples:
        return 0, _ALL, b, n
    return sample, np.uint64(0), b, sample * SAMPLE_RANKS


@inlined
def _write(
    prefixes: U64, order: Unsigned, a: I64, b: I64, complement: bool, chosen: I64, cursors: U64, at: I64, rows: U64
) -> None:
    """Each row is the ranks [a, b), or all others."""
    n = len(order)
    low, high = cursors[0], cursors[1]
    inverse = _ALL if complement else np.uint64(0)
    for i in range(len(chosen)):
        q, row = chosen[i], rows[i]
        if a[q] > 0:
            _move(low, prefixes, order, at[0], a[q])
            at[0] = a[q]
        if b[q] < n:
            _move(high, prefixes, order, at[1], b[q])
            at[1] = b[q]
        if a[q] == 0 and b[q] == n:
            row[:] = _ALL ^ inverse
        elif a[q] == 0:
            for w in range(len(row)):
                row[w] = high[w] ^ inverse
        elif b[q] == n:
            for w in range(len(row)):
                row[w] = ~low[w] ^ inverse
        else:
            for w in range(len(row)):
                row[w] = low[w] ^ high[w] ^ inverse
        row[len(row) - 1] &= _ALL >> np.uint64(-n & 63)


@inlined
def _keep(prefixes: U64, order: Unsigned, a: I64, b: I64, chosen: I64, rows: U64) -> None:
    """Clear all but the ranks [a, b) in each row: all outside the kept prefixes, then the rest between."""
    n = len(order)
    for i in range(len(chosen)):
        q, row = chosen[i], rows[i]
        below, above = a[q] // SAMPLE_RANKS, -(-b[q] // SAMPLE_RANKS)
        low, high = prefixes[below], prefixes[min(above, len(prefixes) - 1)]
        if above < len(prefixes) and below == 0:
            for w in range(len(row)):
                row[w] &= high[w]
        elif above < len(prefixes):
            for w in range(len(row)):
                row[w] &= high[w] & ~low[w]
        elif below > 0:
            for w in range(len(row)):
                row[w] &= ~low[w]
        _clear(row, order, below * SAMPLE_RANKS, a[q])
        _clear(row, order, b[q], min(above * SAMPLE_RANKS, n))


@inlined
def _drop(prefixes: U64, order: Unsigned, a: I64, b: I64, chosen: I64, rows: U64) -> None:
    """Clear the ranks [a, b) in each row: those between kept prefixes, then those at the ends."""
    for i in range(len(chosen)):
        q, row = chosen[i], rows[i]
        first, last = -(-a[q] // SAMPLE_RANKS), b[q] // SAMPLE_RANKS
        if first < last:
            low, high = prefixes[first], prefixes[last]
            for w in range(len(row)):
                row[w] &= ~(high[w] & ~low[w])
            _clear(row, order, a[q], first * SAMPLE_RANKS)
            _clear(row, order, last * SAMPLE_RANKS, b[q])
        else:
            _clear(row, order, a[q], b[q])


@inlined
def _clear(words: U64, order: Unsigned, begin: int, end: int) -> None:
    for rank in range(begin, end):
        j = np.uint64(order[rank])
        words[j >> np.uint64(6)] &= ~(np.uint64(1) << (j & np.uint64(63)))


@kernel
def _match_bitmaps(
    prefixes: tuple[U64, ...], orders: tuple[Unsigned, ...], ends: I64, complement: Flags, visit: I64, words: U64
) -> None:
    cursors, at = np.zeros((2, words.shape[1]), np.uint64), np.zeros(2, np.int64)
    for begin in range(0, len(visit), _ROWS):
        some = slice(begin, min(begin + _ROWS, len(visit)))
        _match(prefixes, orders, ends, complement, visit[some], cursors, at, words[some])


@kernel
def _collect(
    prefixes: tuple[U64, ...], orders: tuple[Unsigned, ...], ranks: tuple[Unsigned, ...], ends: I64,
    complement: Flags, visit: I64, limits: I64, counts: I64, begins: I64, taken: I64,
) -> I64:  # fmt: skip
    rows = np.empty((_ROWS, (len(orders[0]) + 63) >> 6), np.uint64)
    cursors, at = np.zeros((2, rows.shape[1]), np.uint64), np.zeros(2, np.int64)
    places, filled = np.empty(1024, np.int64), np.empty(rows.shape[1], np.int64)
    chosen = np.empty(_ROWS, np.int64)
    used = waiting = 0
    for k in range(len(visit)):
        q = visit[k]
        rarest = _rarest(ends, complement, q)
        candidates = ends[1, rarest, q] - ends[0, rarest, q]
        if candidates * _CANDIDATE_WORDS <= rows.shape[1] and not complement[rarest]:
            places = with_room(places, used, candidates)
            counts[q] = _filter(orders[rarest], ranks, ends, complement, rarest, q, places[used:])
            places[used : used + counts[q]].sort()
            begins[q], taken[q] = used, min(counts[q], limits[q])
            used += taken[q]
        else:
            chosen[waiting] = q
            waiting += 1
        if waiting == _ROWS or (waiting > 0 and k == len(visit) - 1):
            _match(prefixes, orders, ends, complement, chosen[:waiting], cursors, at, rows)
            for i in range(waiting):
                q = chosen[i]
                counts[q] = _count(rows[i])
                begins[q], taken[q] = used, min(counts[q], limits[q])
                places = with_room(places, used, taken[q])
                if taken[q] > 0:
                    _extract(rows[i], filled, places[used : used + taken[q]])
                used += taken[q]
            waiting = 0
    return places[:used]


@inlined
def _rarest(ends: I64, complement: Flags, q: int) -> int:
    """The predicate with the shortest interval; any if all are complements."""
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
    """Write the matches among the tuples of the rarest predicate's interval, and return their number."""
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
def _count(row: U64) -> int:
    total = np.uint64(0)
    for w in range(len(row)):
        total += popcount(row[w])
    return int(total)


@inlined
def _extract(row: U64, filled: I64, places: I64) -> None:
    """The first len(places) set bits, ascending; `filled` int64 (words,) is scratch.

    Lists words with bits first, without a branch to predict: with rare matches most words are empty.
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
