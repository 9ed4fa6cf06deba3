"""PO-Join lists: immutable batches as sorted columns and permutations, probed through a bit array.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 3.3, Algorithm 2 and section 3.4, Algorithm 4 and Figure 5.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from loadgen.papers.methods.bit_arrays import count_bits, list_bits, mask_of, set_bit
from loadgen.papers.methods.insert_tree import KEYS, NEXT, NONE, SIZE, Trees, clear, first_leaf
from loadgen.papers.methods.side import COMPARISONS, MARKS, NODES
from spojoin.arrays import I32, I64, U64
from spojoin.kernels.compile import inlined, kernel, trailing_zeros
from spojoin.kernels.segments import with_room

#: Rows of a plan, which has a column for each test.
COLUMN: Final = 0
NEGATED: Final = 1
PERMUTATION: Final = 2

_CAPACITY: Final = 4


class Lists(NamedTuple):
    """B batches of n tuples each: codes int64, orders int32 (B, columns, n); permutations int32 (B, pairs, n).

    codes: each column ascending; orders: the arrival offsets in that order; firsts: int64 (B,), the least index of each
    permutations: for a pair of columns (a, b), by rank in b's order, the same tuple's rank in a's
    """

    codes: I64
    orders: I32
    permutations: I32
    firsts: I64


class LinkedLists:
    """The batches of a window, the oldest first; batches come and go whole."""

    def __init__(self, columns: int, pairs: int, batch: int) -> None:
        self._shape = (columns, pairs, batch)
        self._all = self._empty(_CAPACITY)
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def nbytes(self) -> int:
        """Bytes of the batches held."""
        return sum(array.nbytes for array in self.held)

    @property
    def held(self) -> Lists:
        """All batches; valid until the next one is added."""
        return _slots(self._all, self._begin, self._end)

    def add(self, first: int) -> Lists:
        """Add a batch that begins with index `first`, for the caller to fill."""
        if self._end == len(self._all.firsts):
            self._make_room()
        self._end += 1
        self._all.firsts[self._end - 1] = first
        return _slots(self._all, self._end - 1, self._end)

    def drop_below(self, index: int) -> None:
        """Forget batches whose tuples all have smaller indexes."""
        while len(self) and self._all.firsts[self._begin] + self._shape[2] <= index:
            self._begin += 1

    def _empty(self, batches: int) -> Lists:
        columns, pairs, batch = self._shape
        return Lists(
            np.empty((batches, columns, batch), np.int64),
            np.empty((batches, columns, batch), np.int32),
            np.empty((batches, pairs, batch), np.int32),
            np.empty(batches, np.int64),
        )

    def _make_room(self) -> None:
        held, count = self.held, len(self)
        target = self._all if 2 * (count + 1) <= self._end else self._empty(2 * (count + 1))
        target.codes[:count], target.orders[:count] = held.codes.copy(), held.orders.copy()
        target.permutations[:count], target.firsts[:count] = held.permutations.copy(), held.firsts.copy()
        self._all, self._begin, self._end = target, 0, count


def _slots(lists: Lists, begin: int, end: int) -> Lists:
    return Lists(
        lists.codes[begin:end], lists.orders[begin:end], lists.permutations[begin:end], lists.firsts[begin:end]
    )


@kernel
def seal(trees: Trees, pairs: I64, first: int, batch: Lists) -> None:
    """Make a batch of one B+-tree per column, whose leaves are sorted already, and clear the trees.

    pairs: int64 (2, pairs), the columns of each permutation
    """
    values = (trees.nodes.shape[1] + KEYS) >> 1
    for column in range(batch.codes.shape[1]):
        node, rank = first_leaf(trees, column), 0
        while node != NONE:
            for j in range(trees.nodes[node, SIZE]):
                batch.codes[0, column, rank] = trees.nodes[node, KEYS + j]
                batch.orders[0, column, rank] = trees.nodes[node, values + j] - first
                rank += 1
            node = trees.nodes[node, NEXT]
        clear(trees, column)
    _permute(pairs, batch)


@inlined
def _permute(pairs: I64, batch: Lists) -> None:
    """Algorithm 2: two linear passes per pair."""
    n = batch.codes.shape[2]
    positions = np.empty(n, np.int32)
    for pair in range(pairs.shape[1]):
        of_a, of_b = batch.orders[0, pairs[0, pair]], batch.orders[0, pairs[1, pair]]
        for rank in range(n):
            positions[of_a[rank]] = rank
        for rank in range(n):
            batch.permutations[0, pair, rank] = positions[of_b[rank]]


@inlined
def _ranks(codes: I64, low: int, high: int, work: I64) -> tuple[int, int]:
    """Ranks [a, b) of the codes in [low, high], by two binary searches, so ties are all in or all out."""
    n = len(codes)
    a = np.searchsorted(codes, low, "left")
    b = np.searchsorted(codes, high, "right")
    while n:
        work[COMPARISONS] += 2
        n >>= 1
    return int(a), int(max(a, b))


@inlined
def _mark(permutation: I32, begin: int, end: int, words: U64, work: I64) -> None:
    for rank in range(begin, end):
        set_bit(words, permutation[rank])
    work[MARKS] += max(end - begin, 0)


@inlined
def _meet(
    lists: Lists, batch: int, plan: I64, begin: int, end: int, lo: I64, hi: I64, q: int, words: U64, work: I64
) -> None:
    """Row 0: by rank of the first test's column, whether all other tests hold; row 1 is scratch."""
    n = lists.codes.shape[2]
    for k in range(begin + 1, end):
        codes, permutation = lists.codes[batch, plan[COLUMN, k]], lists.permutations[batch, plan[PERMUTATION, k]]
        row = min(k - begin - 1, 1)
        words[row] = 0
        a, b = _ranks(codes, lo[k, q], hi[k, q], work)
        if plan[NEGATED, k]:
            _mark(permutation, 0, a, words[row], work)
            _mark(permutation, b, n, words[row], work)
        else:
            _mark(permutation, a, b, words[row], work)
        if row:
            words[0] &= words[1]


@inlined
def _arrived(words: U64, begin: int, end: int, order: I32, target: U64) -> None:
    """Set in `target`, by arrival, the bits that `words` has set at ranks in [begin, end)."""
    if begin < end:
        for word in range(begin >> 6, ((end - 1) >> 6) + 1):
            left = words[word] & mask_of(word, begin, end)
            while left:
                set_bit(target, order[(word << 6) + np.int64(trailing_zeros(left))])
                left &= left - np.uint64(1)


@inlined
def _by_arrival(
    lists: Lists,
    batch: int,
    column: int,
    ranges: tuple[int, int, int, int],
    cut: int,
    is_listed: bool,
    words: U64,
    out: I64,
    used: int,
) -> tuple[int, I64]:
    """Keep the bits in row 0, at two ranges of ranks, that arrived from offset `cut` on; row 2 is scratch."""
    n, order = lists.codes.shape[2], lists.orders[batch, column]
    words[2] = 0
    _arrived(words[0], ranges[0], ranges[1], order, words[2])
    _arrived(words[0], ranges[2], ranges[3], order, words[2])
    found = count_bits(words[2], cut, n)
    if is_listed:
        out = with_room(out, used, found)
        list_bits(words[2], cut, n, lists.firsts[batch], out, used)
    return found, out


@inlined
def probe_batch(
    lists: Lists,
    batch: int,
    plan: I64,
    begin: int,
    end: int,
    lo: I64,
    hi: I64,
    q: int,
    lower: int,
    is_listed: bool,
    words: U64,
    out: I64,
    used: int,
    work: I64,
) -> tuple[int, I64]:
    """Find the matches of probe q in one batch by tests [begin, end), from index `lower` on.

    words: uint64 (3, words of a batch), scratch
    Returns their number, and the list with them from `used` on, reallocated if it had to grow.
    """
    n = lists.codes.shape[2]
    cut = max(lower - lists.firsts[batch], 0)
    if cut >= n:
        return 0, out
    column = plan[COLUMN, begin]
    a, b = _ranks(lists.codes[batch, column], lo[begin, q], hi[begin, q], work)
    is_plain = cut == 0 and not is_listed
    if end - begin > 1:
        _meet(lists, batch, plan, begin, end, lo, hi, q, words, work)
    elif is_plain:
        return n - b + a if plan[NEGATED, begin] else b - a, out
    else:
        words[0] = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    ranges = (0, a, b, n) if plan[NEGATED, begin] else (a, b, n, n)
    work[NODES] += 1
    if is_plain:
        return count_bits(words[0], ranges[0], ranges[1]) + count_bits(words[0], ranges[2], ranges[3]), out
    return _by_arrival(lists, batch, column, ranges, cut, is_listed, words, out, used)
