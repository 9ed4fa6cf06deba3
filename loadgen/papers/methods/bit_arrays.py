"""The intersection of a probe's checks: as bit arrays over the places of a batch, or as hash sets of ids.

A structure that is sorted by a column's codes answers a check with slices of its array of ids: places [begin, end)
whose tuples pass. The rest is the same for all such structures. As bits, every check marks its ids in a bit array over
the window, and the arrays are AND-ed (SPO-Join, section 3.2, "Tuple evaluation"). As sets, the ids of the check with
the fewest go into a hash set, the next check looks up its ids there, and so on: the intersection through hash tables
with which SPO-Join is compared (section 2.4, "Index tree tuples processing", and 5.4). The paper builds a table for
every check; here the largest is only looked up, never built, and with a single check there is no table.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U64
from spojoin.kernels.compile import inlined, popcount, trailing_zeros

_ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE: Final = np.uint64(1)
_SIX: Final = np.uint64(6)
_LAST: Final = np.uint64(63)


@inlined
def words_of(places: int) -> int:
    """The number of words that hold this many bits."""
    return (places + 63) >> 6


@inlined
def set_bit(words: U64, place: int) -> None:
    """Set one bit."""
    bit = np.uint64(place)
    words[bit >> _SIX] |= _ONE << (bit & _LAST)


@inlined
def mask_of(word: int, begin: int, end: int) -> np.uint64:
    """The bits of a word that stand for places in [begin, end); the word has at least one of them."""
    mask = _ALL
    if word == begin >> 6:
        mask &= _ALL << np.uint64(begin & 63)
    if word == (end - 1) >> 6:
        mask &= _ALL >> np.uint64(63 - ((end - 1) & 63))
    return np.uint64(mask)


@inlined
def count_bits(words: U64, begin: int, end: int) -> int:
    """Bits set at places in [begin, end)."""
    found = np.uint64(0)
    if begin < end:
        for word in range(begin >> 6, ((end - 1) >> 6) + 1):
            found += popcount(words[word] & mask_of(word, begin, end))
    return int(found)


@inlined
def list_bits(words: U64, begin: int, end: int, first: int, out: I64, used: int) -> int:
    """Append first + place of the bits set at places in [begin, end), ascending; the new length."""
    if begin < end:
        for word in range(begin >> 6, ((end - 1) >> 6) + 1):
            left = words[word] & mask_of(word, begin, end)
            while left:
                out[used] = first + (word << 6) + np.int64(trailing_zeros(left))
                used += 1
                left &= left - _ONE
    return used


Ids = NDArray[Any]

#: The result of `work`: words, kept, table.
Work = tuple[U64, I64, I64]

#: 2**64 over the golden ratio: the product's high bits are well mixed.
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)


def work(checks: int, tuples: int, as_sets: bool) -> Work:
    """Scratch to intersect a probe's checks over this many tuples.

    words uint64 (checks, words): bit arrays; kept int64 (2, tuples): ids that passed so far; table int64: a hash set
    """
    if not as_sets:
        return np.empty((checks, words_of(tuples)), np.uint64), np.empty((2, 0), np.int64), np.empty(0, np.int64)
    slots = 1 << max(2 * tuples - 1, 1).bit_length()
    return np.empty((checks, 0), np.uint64), np.empty((2, tuples), np.int64), np.empty(slots, np.int64)


@inlined
def meet(
    ids: Ids,
    columns: I64,
    slices: I64,
    ends: I64,
    low: int,
    high: int,
    base: int,
    work: Work,
    as_sets: bool,
    out: I64,
    at: int,
    shift: int,
) -> int:
    """The number of ids in [low, high) in the slices of every check; written to `out` from `at` on, if they fit.

    ids (columns, n); slices int64 (s, 2), check k's end at ends[k]; base: the id of bit 0; no id is below it
    or at `high` or above; shift: added to ids when written. As bits they come ascending, as sets in any order.
    """
    if as_sets:
        return _meet_sets(ids, columns, slices, ends, low, work, out, at, shift)
    return _meet_bits(ids, columns, slices, ends, low, high, base, work, out, at, shift)


@inlined
def _meet_bits(
    ids: Ids,
    columns: I64,
    slices: I64,
    ends: I64,
    low: int,
    high: int,
    base: int,
    work: Work,
    out: I64,
    at: int,
    shift: int,
) -> int:
    words = work[0]
    s, last = 0, words_of(high - base)
    for k in range(len(columns)):
        row = words[k, :last]
        row[:] = 0
        while s < ends[k]:
            marked = ids[columns[k], slices[s, 0] : slices[s, 1]]
            for j in range(len(marked)):
                set_bit(row, marked[j] - base)
            s += 1
        for w in range(last if k else 0):
            words[0, w] &= row[w]
    if len(out) == 0:
        return count_bits(words[0], low - base, high - base)
    return list_bits(words[0], low - base, high - base, base + shift, out, at) - at


@inlined
def _meet_sets(
    ids: Ids,
    columns: I64,
    slices: I64,
    ends: I64,
    low: int,
    work: Work,
    out: I64,
    at: int,
    shift: int,
) -> int:
    kept, table, count = work[1], work[2], 0
    sizes = np.empty(len(columns), np.int64)
    for k in range(len(columns)):
        begin = ends[k - 1] if k else 0
        sizes[k] = (slices[begin : ends[k], 1] - slices[begin : ends[k], 0]).sum()
    for step in range(len(columns)):
        k = int(sizes.argmin())
        sizes[k] = np.iinfo(np.int64).max
        begin = ends[k - 1] if k else 0
        bits = _build(kept[(step + 1) & 1, :count], table) if step else 0
        count = _sift(ids[columns[k]], slices[begin : ends[k]], low, table, bits, kept[step & 1])
        if count == 0:
            return 0
    if len(out):
        for j in range(count):
            out[at + j] = kept[(len(columns) - 1) & 1, j] + shift
    return count


@inlined
def _slot(key: int, bits: int) -> np.uint64:
    return (np.uint64(key) * _GOLDEN) >> np.uint64(64 - bits)


@inlined
def _build(ids: I64, table: I64) -> int:
    """Build a hash set of ids, at most half full; 2 ** the number returned are its slots. Free slots hold -1."""
    bits = 1
    while (1 << bits) < 2 * len(ids):
        bits += 1
    mask = np.uint64((1 << bits) - 1)
    table[: 1 << bits] = -1
    for j in range(len(ids)):
        slot = _slot(int(ids[j]), bits)
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = ids[j]
    return bits


@inlined
def _sift(ids: Ids, slices: I64, low: int, table: I64, bits: int, kept: I64) -> int:
    """Keep the ids of the slices that are in the set of 2 ** bits slots; without a set, the ids from `low` on."""
    count, mask = 0, np.uint64((1 << bits) - 1)
    for s in range(len(slices)):
        piece = ids[slices[s, 0] : slices[s, 1]]
        for j in range(len(piece)):
            key = int(piece[j])
            if bits == 0:
                kept[count] = key
                count += 1 if key >= low else 0
                continue
            slot = _slot(key, bits)
            while table[slot] >= 0 and table[slot] != key:
                slot = (slot + np.uint64(1)) & mask
            if table[slot] == key:
                kept[count] = key
                count += 1
    return count
