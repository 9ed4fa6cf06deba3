"""The mutable part's evaluation: 16-bit ranks of stored tuples against 16-bit rank intervals of probes.

Every predicate holds iff (position - start) mod 2**16 < length, so complements are wrapped intervals and the AND of
any predicates is a subtraction and a comparison per lane, which the compiler turns into vector instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U16, Unsigned
from spojoin.kernels.common_slice import PROBES_MIN, TUPLES_MIN, Common, count_common, divided
from spojoin.kernels.compile import inlined, kernel, trailing_zeros
from spojoin.kernels.permutation import invert, positions, sort_places
from spojoin.kernels.ranks import SortedKeys, rank_intervals, sorted_keys
from spojoin.kernels.segments import before

#: The complement of an empty interval has length n + 1, which must still be a uint16.
STORED_MAX = (1 << 16) - 2

#: One match in this many tuples: with more, a mispredicted branch per match costs more than a step per tuple.
_DENSE = 16
#: A probe with a predicate that admits at most one stored tuple in this many is answered from these tuples alone:
#: each of them costs as much as so many tuples of a scan.
_RARE = 128
#: An order of the stored tuples pays if so many probes are answered by it.
_RARE_PROBES_MIN = 64


def rank_columns(stored: I64, lo: I64, hi: I64, complement: bool) -> tuple[U16, U16, U16]:
    """One predicate's stored positions, and each probe's interval of them.

    stored: int64 (n,) codes in arrival order, n <= STORED_MAX; lo, hi: int64 (m,) inclusive code intervals.
    Returns uint16 positions (n,), start (m,), length (m,). ValueError if n is larger.
    """
    keys, ranks = rank_sorted(*sort_places(stored))
    return ranks, *wrapped_intervals(*rank_intervals(keys, lo, hi), keys.size, complement)


def rank_sorted(ascending: I64, places: Unsigned) -> tuple[SortedKeys, U16]:
    """Stored codes prepared for searching, and the rank of each by arrival, uint16 (n,); equal codes in any order.

    ascending: int64 (n,) codes, n <= STORED_MAX; places: where each is by arrival; ValueError if n is larger.
    """
    n = len(ascending)
    if n > STORED_MAX:
        raise ValueError(f"stored has {n} tuples, at most {STORED_MAX} have 16-bit ranks: hand over sooner")
    return sorted_keys(ascending), positions(places.astype(np.uint16, copy=False))


def wrapped_intervals(a: I64, b: I64, n: int, complement: bool) -> tuple[U16, U16]:
    """Rank intervals [a, b) among n tuples, or their complements, as uint16 start and length, each (m,)."""
    start, length = np.empty(len(a), np.uint16), np.empty(len(a), np.uint16)
    _wrap(a, b, n, complement, start, length)
    return start, length


def found_intervals(found: Sequence[I64], begins: int, ends: int, n: int, complement: bool) -> tuple[U16, U16]:
    """`wrapped_intervals` whose ends are among what was found for each probe: two int64 (m,).

    begins, ends: 0 or 1, in which of the two intervals begin and end; negative where they begin with the first of n
    tuples, or end with the last
    """
    start, length = np.empty((2, len(found[0])), np.uint16)
    _wrap_found(found[0], found[1], begins, ends, n, complement, start, length)
    return start, length


@kernel
def _wrap(a: I64, b: I64, n: int, complement: bool, start: U16, length: U16) -> None:
    for q in range(len(a)):
        start[q], length[q] = _wrapped(a[q], b[q], n, complement)


@kernel
def _wrap_found(
    first: I64, second: I64, begins: int, ends: int, n: int, complement: bool, start: U16, length: U16
) -> None:
    for q in range(len(start)):
        a = 0 if begins < 0 else (second[q] if begins == 1 else first[q])
        b = n if ends < 0 else (second[q] if ends == 1 else first[q])
        start[q], length[q] = _wrapped(a, max(a, b), n, complement)


@inlined
def _wrapped(a: int, b: int, n: int, complement: bool) -> tuple[int, int]:
    if not complement:
        return a, b - a
    return (0, n + 1) if a == b else (b, (1 << 16) - (b - a))


def and_counts(
    ranks: Sequence[U16], starts: Sequence[U16], lengths: Sequence[U16], slice_lo: I64, slice_hi: I64
) -> I64:
    """How many stored tuples of [slice_lo, slice_hi) satisfy all predicates, for each probe.

    ranks: per predicate uint16 (n,), the stored positions by arrival; starts, lengths: per predicate uint16 (m,);
    slice_lo, slice_hi: int64 (m,) arrival offsets within [0, n]. Returns int64 (m,).
    """
    if len(ranks) == 1 or (len(ranks) == 2 and len(slice_lo) < PROBES_MIN):
        return scan_counts(ranks, starts, lengths, slice_lo, slice_hi)
    few = len(ranks[0]) // _RARE
    shortest = reduce(np.minimum, lengths)
    rare = np.flatnonzero(shortest <= few)
    # A scan answers rare ones from few tuples, a matrix in the same time as others: it pays unless most are rare.
    if len(ranks) == 2 and 2 * len(rare) < len(shortest):
        return _count_of_two(ranks, starts, lengths, slice_lo, slice_hi)
    if len(ranks) == 2 or len(rare) < _RARE_PROBES_MIN:
        return scan_counts(ranks, starts, lengths, slice_lo, slice_hi)
    counts = np.empty(len(slice_lo), np.int64)
    _count_rarest(ranks, np.stack(starts), np.stack(lengths), (slice_lo, slice_hi), rare, counts)
    others = np.flatnonzero(shortest > few)
    if len(others) > 0:
        some_starts, some_lengths = [s[others] for s in starts], [n[others] for n in lengths]
        counts[others] = scan_counts(ranks, some_starts, some_lengths, slice_lo[others], slice_hi[others])
    return counts


def _count_of_two(
    ranks: Sequence[U16], starts: Sequence[U16], lengths: Sequence[U16], slice_lo: I64, slice_hi: I64
) -> I64:
    """`and_counts` of two predicates: what slices have in common at once, and the rest tuple by tuple."""
    counts = np.zeros(len(slice_lo), np.int64)
    for piece in divided(slice_lo, slice_hi, TUPLES_MIN):
        probes = piece.probes
        asked = (starts[0][probes], starts[1][probes]), (lengths[0][probes], lengths[1][probes])
        if isinstance(piece, Common):
            counts[probes] += count_common((ranks[0], ranks[1]), *asked, piece.begin, piece.end)
        else:
            counts[probes] += scan_counts(ranks, *asked, piece.lo, piece.hi)
    return counts


def _count_rarest(
    ranks: Sequence[U16], starts: U16, lengths: U16, slices: tuple[I64, I64], probes: I64, counts: I64
) -> None:
    """Count for some probes, each among the tuples that its rarest predicate admits."""
    stored = np.stack(ranks)
    orders = np.empty_like(stored)
    for p in range(len(ranks)):
        if (lengths[p] <= stored.shape[1] // _RARE).any():
            orders[p] = positions(stored[p])
    _count_candidates(orders, stored, starts, lengths, slices[0], slices[1], probes, counts)


def scan_counts(
    ranks: Sequence[U16], starts: Sequence[U16], lengths: Sequence[U16], slice_lo: I64, slice_hi: I64
) -> I64:
    """`and_counts`, tuple by tuple."""
    counts = np.empty(len(slice_lo), np.int64)
    match len(ranks):
        case 1:
            _count_1(ranks[0], starts[0], lengths[0], slice_lo, slice_hi, counts)
        case 2:
            _count_2(ranks[0], ranks[1], starts[0], starts[1], lengths[0], lengths[1], slice_lo, slice_hi, counts)
        case 3:
            _count_3(
                ranks[0], ranks[1], ranks[2],
                starts[0], starts[1], starts[2],
                lengths[0], lengths[1], lengths[2],
                slice_lo, slice_hi, counts,
            )  # fmt: skip
        case _:
            _count_any(np.stack(ranks), np.stack(starts), np.stack(lengths), slice_lo, slice_hi, counts)
    return counts


def and_collect(
    ranks: Sequence[U16],
    starts: Sequence[U16],
    lengths: Sequence[U16],
    slice_lo: I64,
    slice_hi: I64,
    limit: int | I64 | None,
) -> tuple[I64, I64, I64]:
    """`and_counts`, and the stored offsets, ascending, at most `limit` per probe (int64 (m,): one limit each).

    Returns counts int64 (m,), complete despite the limit, offsets int64 (m + 1,) and partners int64 (offsets[-1],).
    """
    counts = and_counts(ranks, starts, lengths, slice_lo, slice_hi)
    return counts, *collect_counted(ranks, starts, lengths, slice_lo, slice_hi, counts, limit)


def collect_counted(
    ranks: Sequence[U16],
    starts: Sequence[U16],
    lengths: Sequence[U16],
    slice_lo: I64,
    slice_hi: I64,
    counts: I64,
    limit: int | I64 | None,
) -> tuple[I64, I64]:
    """The offsets and partners of `and_collect`, of which `and_counts` has told the counts."""
    listed = counts if limit is None else np.minimum(counts, limit)
    offsets = before(listed)
    partners = np.empty(offsets[-1], np.int64)
    if len(partners):
        is_cut = limit is not None and bool((listed < counts).any())
        few = -1 if is_cut else len(ranks[0]) // _RARE  # the first ones of a limit are looked for in their order
        _collect(np.stack(ranks), np.stack(starts), np.stack(lengths), slice_lo, slice_hi, few, offsets, partners)
    return offsets, partners


@kernel
def _count_1(r0: U16, s0: U16, l0: U16, slice_lo: I64, slice_hi: I64, out: I64) -> None:
    few = _few(l0, l0, len(r0) // _RARE)
    order = _order(r0, l0, few)
    for q in range(len(out)):
        if l0[q] <= few:
            out[q] = _count_by_other(order, s0[q], l0[q], r0, s0[q], l0[q], slice_lo[q], slice_hi[q])
            continue
        stored = r0[slice_lo[q] : slice_hi[q]]
        start0, length0 = s0[q], l0[q]
        count = np.uint16(0)
        for j in range(len(stored)):
            count = np.uint16(count + np.uint16(np.uint16(stored[j] - start0) < length0))
        out[q] = count


@kernel
def _count_2(r0: U16, r1: U16, s0: U16, s1: U16, l0: U16, l1: U16, slice_lo: I64, slice_hi: I64, out: I64) -> None:
    few = _few(l0, l1, len(r0) // _RARE)
    order0, order1 = _order(r0, l0, few), _order(r1, l1, few)
    for q in range(len(out)):
        lo, hi = slice_lo[q], slice_hi[q]
        if l0[q] <= l1[q] and l0[q] <= few:
            out[q] = _count_by_other(order0, s0[q], l0[q], r1, s1[q], l1[q], lo, hi)
        elif l1[q] <= few:
            out[q] = _count_by_other(order1, s1[q], l1[q], r0, s0[q], l0[q], lo, hi)
        else:
            out[q] = _count_both(r0[lo:hi], r1[lo:hi], s0[q], s1[q], l0[q], l1[q])


@inlined
def _few(l0: U16, l1: U16, few: int) -> int:
    """How many tuples a predicate may admit for a probe to be answered from these; -1 for too few such probes."""
    rare = 0
    for q in range(len(l0)):
        rare += min(l0[q], l1[q]) <= few
    return few if rare >= _RARE_PROBES_MIN else -1


@inlined
def _order(ranks: U16, lengths: U16, few: int) -> U16:
    """The inverse of ranks where some probe needs it."""
    is_needed = False
    for q in range(len(lengths)):
        is_needed |= lengths[q] <= few
    if not is_needed:
        return ranks[:0]
    order = np.empty_like(ranks)
    invert(ranks, order)
    return order


@inlined
def _count_both(stored0: U16, stored1: U16, start0: int, start1: int, length0: int, length1: int) -> int:
    count = np.uint16(0)
    for j in range(len(stored0)):
        both = (np.uint16(stored0[j] - start0) < length0) & (np.uint16(stored1[j] - start1) < length1)
        count = np.uint16(count + np.uint16(both))
    return int(count)


@kernel
def _count_3(
    r0: U16, r1: U16, r2: U16, s0: U16, s1: U16, s2: U16, l0: U16, l1: U16, l2: U16,
    slice_lo: I64, slice_hi: I64, out: I64,
) -> None:  # fmt: skip
    for q in range(len(out)):
        lo, hi = slice_lo[q], slice_hi[q]
        stored0, stored1, stored2 = r0[lo:hi], r1[lo:hi], r2[lo:hi]
        start0, start1, start2, length0, length1, length2 = s0[q], s1[q], s2[q], l0[q], l1[q], l2[q]
        count = np.uint16(0)
        for j in range(len(stored0)):
            both = (np.uint16(stored0[j] - start0) < length0) & (np.uint16(stored1[j] - start1) < length1)
            count = np.uint16(count + np.uint16(both & (np.uint16(stored2[j] - start2) < length2)))
        out[q] = count


@kernel
def _count_any(ranks: U16, starts: U16, lengths: U16, slice_lo: I64, slice_hi: I64, out: I64) -> None:
    holds = np.empty(ranks.shape[1], np.uint16)
    for q in range(len(out)):
        lo, hi = slice_lo[q], slice_hi[q]
        n = max(hi - lo, 0)
        kept = holds[:n]
        kept[:] = 1
        for p in range(len(ranks)):
            stored = ranks[p, lo : lo + n]
            start, length = starts[p, q], lengths[p, q]
            for j in range(n):
                kept[j] = np.uint16(kept[j] & np.uint16(np.uint16(stored[j] - start) < length))
        count = np.uint16(0)
        for j in range(n):
            count = np.uint16(count + kept[j])
        out[q] = count


@kernel
def _count_candidates(
    orders: U16, ranks: U16, starts: U16, lengths: U16, slice_lo: I64, slice_hi: I64,
    probes: I64, counts: I64,
) -> None:  # fmt: skip
    for q in probes:
        rarest = _rarest(lengths, q)
        order, first, length = orders[rarest], int(starts[rarest, q]), int(lengths[rarest, q])
        count = 0
        for i in range(length):
            rank = (first + i) & 0xFFFF  # a complement that admits few goes round, past ranks that nothing has
            if rank >= len(order):
                continue
            j = np.int64(order[rank])
            holds = (slice_lo[q] <= j) & (j < slice_hi[q])
            for p in range(len(ranks)):
                holds &= np.uint16(ranks[p, j] - starts[p, q]) < lengths[p, q]
            count += holds
        counts[q] = count


@inlined
def _count_by_other(
    order: U16, first: np.uint16, length: np.uint16, ranks: U16, start: np.uint16, admitted: np.uint16, lo: int, hi: int
) -> int:
    """The candidates of one of two predicates, those from `first` on in its order, that the other admits."""
    count, n = np.int64(0), len(order)
    for i in range(np.int64(length)):
        rank = (np.int64(first) + i) & 0xFFFF  # as in `_count_candidates`
        if rank < n:
            j = np.int64(order[rank])
            count += (lo <= j) & (j < hi) & (np.uint16(ranks[j] - start) < admitted)
    return int(count)


@kernel
def _collect(
    ranks: U16, starts: U16, lengths: U16, slice_lo: I64, slice_hi: I64, few: int, offsets: I64, partners: I64
) -> None:
    """Set a byte for each match, which the compiler vectorises, then search for set bytes.

    Where a predicate admits at most `few` tuples, these alone are looked at, in its order.
    """
    flags = np.zeros((ranks.shape[1] + 7) & ~7, np.uint8)
    words = flags.view(np.uint64)
    has_order = np.zeros(len(ranks), np.bool_)
    orders = np.empty((len(ranks) if few >= 0 else 0, ranks.shape[1]), np.uint16)
    for q in range(len(slice_lo)):
        place, end = offsets[q], offsets[q + 1]
        if place == end:
            continue
        rarest = _rarest(lengths, q)
        if lengths[rarest, q] <= few:
            if not has_order[rarest]:
                invert(ranks[rarest], orders[rarest])
                has_order[rarest] = True
            _collect_few(
                orders[rarest], ranks, starts, lengths, q, rarest, slice_lo[q], slice_hi[q], partners[place:end]
            )
            continue
        lo, n = slice_lo[q], slice_hi[q] - slice_lo[q]
        kept = flags[:n]
        for p in range(len(ranks)):
            _flag(ranks[p, lo : lo + n], starts[p, q], lengths[p, q], p == 0, kept)
        flags[n:] = 0
        if (end - place) * _DENSE > n:
            _extract_dense(kept, lo, partners[place:end])
        else:
            _extract_rare(words, lo, partners[place:end])


@inlined
def _rarest(lengths: U16, q: int) -> int:
    """The predicate that admits the fewest tuples of a probe."""
    rarest = 0
    for p in range(1, len(lengths)):
        if lengths[p, q] < lengths[rarest, q]:
            rarest = p
    return rarest


@inlined
def _collect_few(
    order: U16, ranks: U16, starts: U16, lengths: U16, q: int, rarest: int, lo: int, hi: int, places: I64
) -> None:
    """Insert the candidates of one predicate that satisfy all, each among those before it; `places` holds them all."""
    found, first = 0, np.int64(starts[rarest, q])
    for i in range(np.int64(lengths[rarest, q])):
        rank = (first + i) & 0xFFFF  # as in `_count_candidates`
        if rank >= len(order):
            continue
        j = np.int64(order[rank])
        holds = (lo <= j) & (j < hi)
        for p in range(len(ranks)):
            holds &= np.uint16(ranks[p, j] - starts[p, q]) < lengths[p, q]
        if not holds:
            continue
        k = found
        while k > 0 and places[k - 1] > j:
            places[k] = places[k - 1]
            k -= 1
        places[k] = j
        found += 1


@inlined
def _extract_dense(kept: NDArray[np.uint8], lo: int, places: I64) -> None:
    """Write every offset, but advance only after a match: no branch to predict."""
    i, j = 0, 0
    while i < len(places):
        places[i] = lo + j
        i += kept[j]
        j += 1


@inlined
def _extract_rare(words: NDArray[np.uint64], lo: int, places: I64) -> None:
    """Search for set bytes eight at a time."""
    w, place = 0, 0
    while place < len(places):
        word = words[w]
        while word != 0 and place < len(places):
            places[place] = lo + (w << 3) + np.int64(trailing_zeros(word) >> np.uint64(3))
            word &= word - np.uint64(1)
            place += 1
        w += 1


@inlined
def _flag(stored: U16, start: np.uint16, length: np.uint16, is_first: bool, kept: NDArray[np.uint8]) -> None:
    if is_first:
        for j in range(len(kept)):
            kept[j] = np.uint8(np.uint16(stored[j] - start) < length)
    else:
        for j in range(len(kept)):
            kept[j] = np.uint8(kept[j] & np.uint8(np.uint16(stored[j] - start) < length))
