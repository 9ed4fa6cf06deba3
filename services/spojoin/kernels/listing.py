"""Partners of many probes in many nodes, in one call, found where they stand rather than counted.

A direction's first condition is an interval of ranks in one order, read as it stands; the second one, an interval in
another order, is checked by the ranks there, a line at a time. Where the interval that is read is long and the second
condition has one end, blocks of ranks are skipped whose greatest, or least, doesn't meet it: a priority search tree
(McCreight, SIAM Journal on Computing 14, 1985) over lines of ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U32, U64, Unsigned
from spojoin.kernels.compile import inlined, kernel, trailing_zeros
from spojoin.kernels.counting import SIGN, CountPlan, find_ends, find_group, room, search_node
from spojoin.kernels.lanes import HALVES, halves_within, prefetch
from spojoin.kernels.memory import half_words, levels, located, shorts, signed_words
from spojoin.kernels.segments import with_room

#: A node's size, and addresses of the offsets in an order, narrow or wide, of ranks and of the tree; 0 for none.
Read = tuple[int, int, int, int, int]
_COUNT, _NARROW_AT, _WIDE_AT, _RANKS_AT, _TREE_AT = range(5)
#: Addresses of what is listed, of a bitmap of a node's tuples, all 0 between calls, and of the stack of a descent.
Scratch = tuple[int, int, int]
_LISTED_AT, _BITS_AT, _STACK_AT = range(3)
#: Addresses of the first indexes of a node's pieces and of their offsets, and the number of pieces.
Pieces = tuple[int, int, int]
#: A rank lies within them if it is less than the second behind the first, modulo 2**32.
Bounds = tuple[np.uint32, np.uint32]

#: Words of an entry: the condition that is read, whether the other one has a begin, and addresses and sizes of the
#: offsets in the order that is read, of 16 bits or of 32, of the ranks in the other order, and of the tree over these;
#: sizes of 0 where there is none.
ENTRY = 10
_READ, _HAS_BEGIN, _NARROW, _NARROW_SIZE, _WIDE, _WIDE_SIZE, _RANKS, _RANKS_SIZE, _TREE, _TREE_SIZE = range(ENTRY)
#: Words of a head: a node's size, and addresses and sizes of its tuples' seqs, if they are kept, and of its pieces'
#: first indexes and offsets.
HEAD = 7
_SIZE, _SEQS, _SEQS_SIZE, _FIRSTS, _FIRSTS_SIZE, _OFFSETS, _OFFSETS_SIZE = range(HEAD)
#: Rows of what a probe asks of a node: ranks to read, bounds of the other condition, and its group, whose other ranks
#: are read where a condition is a complement.
_A, _B, _START, _LENGTH, _GROUP_A, _GROUP_B = range(6)
#: An interval of so many ranks is read through sooner than a tree is descended.
_READ_MAX = 256
#: A line's ranks are 1 << _SHIFT.
_SHIFT = HALVES.bit_length() - 1
#: Levels of a tree over 2**32 ranks.
_LEVELS_MAX = 8
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
#: So many probes are answered by one node after another: what was found of them stays in the second-level cache.
_TOGETHER = 512
#: Probes whose first partners are on their way to the cache.
_AHEAD = 12
#: So few partners are sorted by insertion.
_INSERTED_MAX = 32
#: More than one partner in so many words of a bitmap are sorted by setting bits.
_WORDS_A_PARTNER = 32
#: More than any rank.
_MOST = np.uint32(0xFFFF_FFFF)


def padded(ranks: NDArray[np.generic]) -> U32:
    """Ranks (n,) as uint32 in whole lines of HALVES; what is behind them is 0."""
    n = len(ranks)
    lines = np.zeros(-(-n // HALVES) * HALVES, np.uint32)
    lines[:n] = ranks
    return lines


def tree(ranks: U32, n: int, *, is_greatest: bool) -> U32:
    """The greatest, or least, of each line of n ranks, then of each line of these, and so on up to one line."""
    levels = [_summed(ranks, n, is_greatest)]
    n = -(-n // HALVES)
    while n > HALVES:
        levels.append(_summed(levels[-1], n, is_greatest))
        n = -(-n // HALVES)
    return np.concatenate(levels)


def entry(read: int, order: Unsigned, ranks: U32 | None, over: U32 | None, *, has_begin: bool) -> list[int]:
    """What a direction needs of a node.

    read: the condition that is read in `order`; ranks, over: of the other one, as of `padded` and `tree`; has_begin:
    whether it has a begin
    """
    halves = (None, order) if order.dtype == np.uint32 else (order, None)
    return [read, has_begin, *_addresses(*halves, ranks, over)]


def head(size: int, seqs: I64 | None, firsts: I64, offsets: I64) -> list[int]:
    """What a node says of its tuples: their seqs, or the pieces that map offsets to indexes, which are seqs then."""
    return [size, *_addresses(seqs, firsts, offsets)]


def _addresses(*arrays: NDArray[Any] | None) -> list[int]:
    return [word for each in arrays for word in ((0, 0) if each is None else located(each))]


def asked(nodes: I64, entries: I64, plan: CountPlan, m: int, widths: I64) -> U32:
    """What m probes ask of n nodes in d directions: uint32 (n, d, 2, 4 or 6, m), as `partners` takes it.

    nodes: int64 (n, w), the nodes' directories; entries: int64 (n, d, ENTRY)
    widths: int64 (d, 2), to which the numbers of ranks are added that are read, and those in the other condition's
    intervals
    The arrays whose addresses these hold must stay alive.
    """
    rows = 2 if plan.directions[:, SIGN + 1].any() == 0 else 4
    if (plan.directions[:, SIGN:] < 0).any():
        rows = 6
    found = np.empty((len(nodes), len(plan.directions), rows, m), np.uint32)
    wanted = plan.values, plan.places, plan.starts
    _ask(nodes, entries, wanted, plan.searches, plan.directions, plan.edges, plan.groups, found, widths)
    return found


def partners(heads: I64, entries: I64, wanted: U32, signs: I64, visits: I64) -> tuple[I64, I64, I64]:
    """The partners of some probes in n nodes and d directions: begins and lengths int64 (d, m), and seqs, ascending.

    heads: int64 (n, HEAD); entries: int64 (n, d, ENTRY); wanted: what `asked` returns; signs: int64 (d, 2), of the
    conditions; visits: int64 (d, k), the probes, in an order that keeps neighbours close. The lengths of others are 0.
    The arrays whose addresses these hold must stay alive.
    """
    begins, lengths = np.zeros((2, len(visits), wanted.shape[3]), np.int64)
    return begins, lengths, _list(heads, entries, wanted, signs, visits, begins, lengths)


@kernel
def _summed(ranks: U32, n: int, is_greatest: bool) -> U32:
    lines = -(-n // HALVES)
    found = np.zeros(-(-lines // HALVES) * HALVES, np.uint32)
    for line in range(lines):
        best = ranks[line * HALVES]
        for i in range(line * HALVES + 1, min((line + 1) * HALVES, n)):
            best = max(best, ranks[i]) if is_greatest else min(best, ranks[i])
        found[line] = best
    return found


@kernel
def _ask(
    nodes: I64, entries: I64, wanted: tuple[I64, I64, I64], searches: I64, directions: I64, edges: I64, groups: U32,
    asked_of: U32, widths: I64,
) -> None:  # fmt: skip
    m = asked_of.shape[3]
    found, group, ends, _, _ = room(searches, m)
    for i in range(len(nodes)):
        n = nodes[i, 0]
        search_node(nodes[i], wanted, searches, found)
        for d in range(len(directions)):
            find_group(n, directions[d], found, groups, group)
            has = find_ends(n, d, edges, found, ends)
            _bound(group, has, ends)
            rows, read = asked_of[i, d], ends[entries[i, d, _READ]]
            is_outside = directions[d, SIGN + entries[i, d, _READ]] < 0
            for q in range(m):
                rows[_A, q], rows[_B, q] = read[0, q], read[1, q]
                inside = read[1, q] - read[0, q]
                widths[d, 0] += group[1, q] - group[0, q] - inside if is_outside else inside
            if len(rows) > _START:
                other, sign = ends[1 - entries[i, d, _READ]], directions[d, SIGN + 1 - entries[i, d, _READ]]
                for q in range(m):
                    rows[_START, q], rows[_LENGTH, q] = _wrapped(n, other[0, q], other[1, q], sign)
                    widths[d, 1] += other[1, q] - other[0, q]
            if len(rows) > _GROUP_A:
                for q in range(m):
                    rows[_GROUP_A, q], rows[_GROUP_B, q] = group[0, q], group[1, q]


@inlined
def _bound(group: I64, has: NDArray[np.bool_], ends: I64) -> None:
    """Where a condition sets no end, its interval has the group's."""
    for condition in range(2):
        for end in range(2):
            if not has[condition, end]:
                ends[condition, end] = group[end]


@kernel
def _list(heads: I64, entries: I64, wanted: U32, signs: I64, visits: I64, begins: I64, lengths: I64) -> I64:
    """Some probes at a time, node by node: what they read of a node lies close together.

    What is called for each of them takes addresses and gives out numbers: numba would count references to arrays, which
    takes longer than the search.
    """
    found, filled = np.empty(max(16 * visits.size, 1024), np.int64), 0
    listed, ends = np.empty(16 * _TOGETHER, np.int64), np.empty((len(heads), _TOGETHER), np.int64)
    bits = np.zeros((heads[:, _SIZE].max() + 63) >> 6, np.uint64)
    stack = np.empty((3, _LEVELS_MAX), np.int64)
    for d in range(len(visits)):
        for first in range(0, visits.shape[1], _TOGETHER):
            some, used = visits[d, first : first + _TOGETHER], 0
            for i in range(len(heads)):
                k = 0
                while k < len(some):
                    k, used, more = _list_some(
                        heads[i, _SIZE],
                        entries[i, d],
                        wanted[i, d],
                        signs[d],
                        some,
                        k,
                        bits,
                        stack,
                        listed,
                        used,
                        ends[i],
                    )
                    listed = with_room(listed, used, more)
            found = with_room(found, filled, used)
            filled = _gather(heads, some, listed, ends, found, filled, begins[d], lengths[d])
    return found[:filled]


@inlined
def _list_some(
    n: int,
    entry: I64,
    asked_of: U32,
    signs: I64,
    visit: I64,
    first: int,
    bits: U64,
    stack: I64,
    listed: I64,
    used: int,
    ends: I64,
) -> tuple[int, int, int]:
    """List the offsets of partners in one node and direction, of the probes from number `first` on; fill in their ends.

    Ends before a probe that there may be no room for. Returns its number, the room used, and how much more it may need.
    """
    node = n, entry[_NARROW], entry[_WIDE], entry[_RANKS], entry[_TREE]
    scratch = listed.ctypes.data, bits.ctypes.data, stack.ctypes.data
    is_outside, words = signs[entry[_READ]] < 0, len(bits)
    inside = above = np.uint32(0), np.uint32(n)
    for k in range(first, len(visit)):
        _fetch(node, _signed(asked_of[_A, visit[min(k + _AHEAD, len(visit) - 1)]]))
        q, begin = visit[k], used
        a, b = _signed(asked_of[_A, q]), _signed(asked_of[_B, q])
        if entry[_RANKS] != 0:
            inside = asked_of[_START, q], asked_of[_LENGTH, q]
            above = _above(inside, entry[_HAS_BEGIN])
        most = _signed(asked_of[_GROUP_B, q]) - _signed(asked_of[_GROUP_A, q]) if is_outside else b - a
        if used + most > len(listed):
            return k, used, most
        if is_outside:
            used = _read(node, _signed(asked_of[_GROUP_A, q]), a, inside, above, scratch, used)
            used = _read(node, b, _signed(asked_of[_GROUP_B, q]), inside, above, scratch, used)
        else:
            used = _read(node, a, b, inside, above, scratch, used)
        if used > begin + 1:
            _sort(scratch, begin, used, words)
        ends[k] = used
    return len(visit), used, 0


@inlined
def _above(inside: Bounds, has_begin: int) -> Bounds:
    """The bounds of a line's greatest, or least, rank if one of its ranks may lie inside."""
    if has_begin:
        return inside[0], np.uint32(_MOST - inside[0])
    return np.uint32(0), np.uint32(inside[0] + inside[1])


@inlined
def _fetch(node: Read, rank: int) -> None:
    """Begin to bring what is read of a rank into the cache; to ask for an address that isn't there takes long."""
    if node[_WIDE_AT] != 0:
        prefetch(half_words(node[_WIDE_AT], node[_COUNT]), rank)
    if node[_RANKS_AT] != 0:
        prefetch(half_words(node[_RANKS_AT], node[_COUNT]), rank)


@inlined
def _signed(half: np.uint32) -> int:
    """A half as a signed word; numba makes floats of an unsigned and a signed one."""
    return int(np.int64(half))


@inlined
def _gather(heads: I64, visit: I64, listed: I64, ends: I64, found: I64, filled: int, begins: I64, lengths: I64) -> int:
    """Append each probe's partners of all nodes, as seqs, to what was found."""
    at, to = listed.ctypes.data, found.ctypes.data
    for k in range(len(visit)):
        begins[visit[k]], last = filled, 0
        for i in range(len(heads)):
            begin = int(ends[i, k - 1]) if k > 0 else last
            last, end = int(ends[i, len(visit) - 1]), int(ends[i, k])
            if begin == end:
                continue
            if heads[i, _SEQS_SIZE] > 0:
                filled = _name(heads[i, _SEQS], at, begin, end, to, filled)
            else:
                pieces = heads[i, _FIRSTS], heads[i, _OFFSETS], heads[i, _FIRSTS_SIZE]
                filled = _number(pieces, at, begin, end, to, filled)
        lengths[visit[k]] = filled - begins[visit[k]]
    return filled


@inlined
def _name(seqs_at: int, listed_at: int, begin: int, end: int, found_at: int, filled: int) -> int:
    """Append the seqs of a node's offsets to what was found."""
    seqs, listed, found = signed_words(seqs_at, 0), signed_words(listed_at, end), signed_words(found_at, 0)
    for k in range(begin, end):
        found[filled + k - begin] = seqs[listed[k]]
    return filled + end - begin


@inlined
def _number(pieces: Pieces, listed_at: int, begin: int, end: int, found_at: int, filled: int) -> int:
    """Append the indexes of a node's offsets, ascending, to what was found."""
    firsts, begins = signed_words(pieces[0], pieces[2]), signed_words(pieces[1], pieces[2] + 1)
    listed, found = signed_words(listed_at, end), signed_words(found_at, 0)
    piece, high = 0, pieces[2] - 1
    while piece < high:
        middle = (piece + high + 1) >> 1
        piece, high = (middle, high) if begins[middle] <= listed[begin] else (piece, middle - 1)
    for k in range(begin, end):
        while listed[k] >= begins[piece + 1]:
            piece += 1
        found[filled + k - begin] = listed[k] + firsts[piece] - begins[piece]
    return filled + end - begin


@inlined
def _wrapped(n: int, low: int, high: int, sign: int) -> Bounds:
    """The bounds of the ranks [low, high), or where `sign` is negative of all others."""
    if sign >= 0:
        return np.uint32(low), np.uint32(high - low)
    if low == high:
        return np.uint32(0), np.uint32(n)
    return np.uint32(high), np.uint32((1 << 32) - (high - low))


@inlined
def _read(node: Read, a: int, b: int, inside: Bounds, above: Bounds, scratch: Scratch, used: int) -> int:
    """List what the other condition admits of the ranks [a, b)."""
    if a >= b:
        return used
    if node[_RANKS_AT] == 0:
        return _copy(node[_NARROW_AT], node[_WIDE_AT], a, b, scratch[_LISTED_AT], used)
    if node[_TREE_AT] != 0 and b - a > _READ_MAX:
        return _descend(node, a, b, inside, above, scratch, used)
    ranks = half_words(node[_RANKS_AT], node[_COUNT])
    for line in range(a >> _SHIFT, ((b - 1) >> _SHIFT) + 1):
        admitted = halves_within(ranks, line * HALVES, inside[0], inside[1])
        if admitted != 0:
            used = _append(node, line, admitted & _within(line, a, b), scratch[_LISTED_AT], used)
    return used


@inlined
def _copy(narrow: int, wide: int, a: int, b: int, listed_at: int, used: int) -> int:
    """List the offsets of the ranks [a, b) in an order that is narrow or wide; the other address is 0."""
    listed = signed_words(listed_at, 0)
    if wide != 0:
        offsets = half_words(wide, b)
        for rank in range(a, b):
            listed[used + rank - a] = offsets[rank]
    else:
        few = shorts(narrow, b)
        for rank in range(a, b):
            listed[used + rank - a] = few[rank]
    return used + b - a


@inlined
def _within(line: int, a: int, b: int) -> np.uint64:
    """Which of a line's places lie in [a, b)."""
    begin, end = max(a - line * HALVES, 0), min(b - line * HALVES, HALVES)
    return (_ALL << np.uint64(begin)) & (_ALL >> np.uint64(HALVES - end))


@inlined
def _append(node: Read, line: int, admitted: np.uint64, listed_at: int, used: int) -> int:
    """List the offsets of the admitted places of a line."""
    listed, narrow, wide = (
        signed_words(listed_at, 0),
        shorts(node[_NARROW_AT], node[_COUNT]),
        half_words(node[_WIDE_AT], node[_COUNT]),
    )
    while admitted != 0:
        rank = line * HALVES + np.int64(trailing_zeros(admitted))
        listed[used] = np.int64(wide[rank]) if node[_WIDE_AT] != 0 else np.int64(narrow[rank])
        admitted &= admitted - np.uint64(1)
        used += 1
    return used


@inlined
def _descend(node: Read, a: int, b: int, inside: Bounds, above: Bounds, scratch: Scratch, used: int) -> int:
    """`_read` by the tree: only lines of ranks of which one at least is admitted."""
    n, ranks, over = node[_COUNT], half_words(node[_RANKS_AT], node[_COUNT]), half_words(node[_TREE_AT], node[_COUNT])
    starts, lines, waiting = (
        signed_words(scratch[_STACK_AT], _LEVELS_MAX),
        signed_words(scratch[_STACK_AT] + 8 * _LEVELS_MAX, _LEVELS_MAX),
        signed_words(scratch[_STACK_AT] + 16 * _LEVELS_MAX, _LEVELS_MAX),
    )
    top, size, starts[0] = 0, -(-n // HALVES), 0
    while size > HALVES:
        starts[top + 1] = starts[top] + -(-size // HALVES) * HALVES
        size, top = -(-size // HALVES), top + 1
    while top > 0 and (b - 1) >> (_SHIFT * (top + 1)) == a >> (_SHIFT * (top + 1)):
        top -= 1
    for line in range(a >> (_SHIFT * (top + 2)), ((b - 1) >> (_SHIFT * (top + 2))) + 1):
        level = top
        lines[level], waiting[level] = line, _admitted(over, starts[level], line, level, a, b, above)
        while level <= top:
            left = np.uint64(waiting[level])
            if left == 0:
                level += 1
                continue
            child = lines[level] * HALVES + np.int64(trailing_zeros(left))
            waiting[level] = np.int64(left & (left - np.uint64(1)))
            if level > 0:
                level -= 1
                lines[level], waiting[level] = child, _admitted(over, starts[level], child, level, a, b, above)
                continue
            admitted = halves_within(ranks, child * HALVES, inside[0], inside[1]) & _within(child, a, b)
            used = _append(node, child, admitted, scratch[_LISTED_AT], used)
    return used


@inlined
def _admitted(over: U32, begin: int, line: int, level: int, a: int, b: int, above: Bounds) -> np.int64:
    """Which places of a level's line stand for ranks in [a, b) of which one at least may be admitted."""
    shift = _SHIFT * (level + 1)
    some = halves_within(over, begin + line * HALVES, above[0], above[1])
    return np.int64(some & _within(line, a >> shift, ((b - 1) >> shift) + 1))


@inlined
def _sort(scratch: Scratch, begin: int, end: int, words: int) -> None:
    """Sort distinct offsets from `begin` to `end`. words: how many the bitmap has, all 0 before and after."""
    offsets = signed_words(scratch[_LISTED_AT], end)
    if end - begin > _INSERTED_MAX:
        _sort_many(offsets, begin, end, levels(scratch[_BITS_AT], 1, words)[0])
        return
    for i in range(begin + 1, end):
        offset, k = offsets[i], i
        while k > begin and offsets[k - 1] > offset:
            offsets[k] = offsets[k - 1]
            k -= 1
        offsets[k] = offset


@inlined
def _sort_many(offsets: I64, begin: int, end: int, bits: U64) -> None:
    if (end - begin) * _WORDS_A_PARTNER < len(bits):
        offsets[begin:end].sort()
        return
    for i in range(begin, end):
        bits[offsets[i] >> 6] |= np.uint64(1) << np.uint64(offsets[i] & 63)
    k = begin
    for w in range(len(bits)):
        word = bits[w]
        if word == 0:
            continue
        bits[w] = 0
        while word != 0:
            offsets[k] = (w << 6) + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            k += 1
