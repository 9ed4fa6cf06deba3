"""The first of what probes match in whole nodes, in an order of values.

Where a probe matches many tuples, some of the first in the order are mostly among them: these are tried one by one.
Else the first in a rectangle of ranks is a least value; the next one is the first in what the rectangle is without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.arrays import I64, U8, U32, U64
from spojoin.kernels.chosen import Chosen, ValueOrder, better, insert
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.counting import (
    MATRIX,
    MATRIX_AT,
    SIGN,
    CountPlan,
    count_between,
    find_ends,
    find_group,
    room,
    search_node,
)
from spojoin.kernels.least import NOTHING, LeastMatrix, least_between, least_of, log2
from spojoin.kernels.memory import half_rows, half_words, levels, located, octets, signed_words

#: Words of an order's entry in a node's directory: how many tuples it has; their codes, ties, and ranks in the orders
#: of both conditions; the values and runs of a `LeastMatrix`, their rows, and the words of a row of values; and which
#: ranks in the order of the second condition those of the first have.
ENTRY = 11
#: Tuples that are tried for each that is wanted: a rectangle takes about as long.
_TRIED = 64
#: So many times as many are tried as should do, were the order of values independent of the conditions.
_PATIENCE = 4
#: Ranks of a condition that are searched one by one: more take longer than a rectangle.
_NARROW = 1 << 12
#: Rectangles of a probe: at first at most 2 * 2, and two for each that is parted.
_RECTANGLES = 64
#: A rectangle's words: where it begins and ends in both orders, and its least value.
_LEAST = 4


def order_entry(order: ValueOrder, ranks: Sequence[U32], matrix: LeastMatrix, mapped: U32 | None) -> list[int]:
    """An order's entry in a node's directory; ranks: its tuples' in the orders of one condition or both.

    mapped: uint32 (n,), by rank in the order of one condition the same tuple's in the other's, where there are two
    """
    first, second = located(ranks[0])[0], located(ranks[-1])[0]
    return [
        len(order.codes),
        located(order.codes)[0],
        located(order.ties)[0],
        first,
        second,
        located(matrix.values)[0],
        len(matrix.values),
        matrix.values.shape[1],
        located(matrix.runs)[0],
        len(matrix.runs),
        0 if mapped is None else located(mapped)[0],
    ]


def chosen(nodes: I64, entries: I64, plan: CountPlan, m: int, count: int) -> tuple[I64, list[Chosen]]:
    """The matches of m probes in n nodes in the one direction of a plan, int64 (m,), and the first `count` by order.

    nodes: as in `counting.counts`; entries: int64 (n, k, ENTRY), those of k orders
    """
    totals, kept = np.zeros(m, np.int64), [Chosen(m, count) for _ in range(entries.shape[1])]
    for number, one in enumerate(kept):
        totals[:] = 0
        _add_chosen(
            nodes,
            np.ascontiguousarray(entries[:, number]),
            (plan.values, plan.places, plan.starts),
            plan.searches,
            plan.directions,
            plan.edges,
            plan.groups,
            totals,
            (one.codes, one.ties, one.lengths),
        )
    return totals, kept


@kernel
def _add_chosen(
    nodes: I64,
    entries: I64,
    wanted: tuple[I64, I64, I64],
    searches: I64,
    directions: I64,
    edges: I64,
    groups: U32,
    totals: I64,
    kept: tuple[I64, I64, I64],
) -> None:
    found, group, ends, both, states = room(searches, len(totals))
    counts, rectangles = np.empty_like(totals), np.empty((_RECTANGLES, _LEAST + 1), np.int64)
    scratch = np.empty(kept[0].shape[1], np.int64)
    for i in range(len(nodes)):
        n, direction = nodes[i, 0], directions[0]
        matrices = search_node(nodes[i], wanted, searches, found)
        find_group(n, direction, found, groups, group)
        has = find_ends(n, 0, edges, found, ends)
        counts[:] = 0
        count_between(n, direction, matrices, group, ends, has, both, states, counts)
        for q in range(len(totals)):
            totals[q] += counts[q]
        _clip(group, ends, direction)
        _choose(n, direction, matrices, entries[i], group, ends, counts, rectangles, scratch, kept)


@inlined
def _clip(group: I64, ends: I64, direction: I64) -> None:
    """Bring the ends of conditions into the groups."""
    for condition in range(len(ends)):
        for q in range(group.shape[1]):
            begin, end = group[0, q], group[1, q]
            ends[condition, 0, q] = min(max(ends[condition, 0, q], begin), end)
            ends[condition, 1, q] = min(max(ends[condition, 1, q], ends[condition, 0, q]), end)


@inlined
def _structures(n: int, matrices: I64, entry: I64, at: int) -> tuple[U64, U8, U32, U32, U32]:
    """The matrix of both conditions' orders, empty where they have one; values and runs; and the orders' map."""
    matrix = matrices[max(at, 0) * MATRIX :]
    return (
        levels(matrix[0], matrix[1], matrix[2]) if at >= 0 else levels(entry[1], 0, 1),
        octets(matrix[3], matrix[4]) if at >= 0 else octets(entry[1], 0),
        half_rows(entry[5], entry[6], entry[7]),
        half_rows(entry[8], entry[9], entry[7] >> 5),
        half_words(entry[10], n if at >= 0 else 0),
    )


@inlined
def _choose(
    n: int,
    direction: I64,
    matrices: I64,
    entry: I64,
    group: I64,
    ends: I64,
    counts: I64,
    rectangles: I64,
    found: I64,
    kept: tuple[I64, I64, I64],
) -> None:
    """Take the first of each probe's matches in a node; counts: how many each has."""
    c, is_pair = entry[0], direction[MATRIX_AT] >= 0
    codes, ties = signed_words(entry[1], c), signed_words(entry[2], c)
    ranks = half_words(entry[3], c), half_words(entry[4], c)
    least = _structures(n, matrices, entry, direction[MATRIX_AT])
    is_one = kept[0].shape[1] == 1 and direction[SIGN] >= 0 and direction[SIGN + 1] >= 0
    for q in range(len(counts)):
        wanted, end, length = min(counts[q], kept[0].shape[1]), c, kept[2][q]
        if wanted == 0:
            continue
        if length == kept[0].shape[1]:
            end = better(codes, ties, kept[0][q, length - 1], kept[1][q, length - 1])
        is_dense = _PATIENCE * n <= _TRIED * counts[q]
        tried = min(end, _TRIED * wanted) if is_dense or end <= _TRIED else 0
        if is_one and end > 0:
            z = _first(least, ranks, (n, entry[7]), is_pair, ends, q, tried, end)
            if z < end:
                kept[0][q, 0], kept[1][q, 0], kept[2][q] = codes[z], ties[z], 1
        elif end > 0:
            many = _write_rectangles(
                direction, (group[0, q], group[1, q], n, entry[7]), ends[:, :, q], is_pair, rectangles
            )
            length = _first_few(least, ranks, is_pair, rectangles, many, tried, end, found[:wanted])
            for k in range(length):
                kept[2][q] = insert(kept[0][q], kept[1][q], kept[2][q], codes[found[k]], ties[found[k]])


@inlined
def _first(
    least: tuple[U64, U8, U32, U32, U32],
    ranks: tuple[U32, U32],
    sizes: tuple[int, int],
    is_pair: bool,
    ends: I64,
    q: int,
    tried: int,
    end: int,
) -> int:
    """The first tuple of the order that probe q matches, or `end`; sizes: the node's, and the same padded."""
    x, y = (ends[0, 0, q], ends[0, 1, q]), (ends[1, 0, q], ends[1, 1, q])
    if not is_pair:
        x = y = max(x[0], y[0]), min(x[1], y[1])
    elif y[1] == sizes[0]:
        y = y[0], sizes[1]
    z = _first_inside(ranks, x, y, tried)
    if z < tried or tried == end:
        return z
    return int(_least_in(least[0], least[1], least[2], least[3], least[4], x, y, np.uint32(end)))


@inlined
def _first_few(
    least: tuple[U64, U8, U32, U32, U32],
    ranks: tuple[U32, U32],
    is_pair: bool,
    rectangles: I64,
    many: int,
    tried: int,
    end: int,
    found: I64,
) -> int:
    """The first of so many tuples of the order in rectangles, as many as there is room for in `found`; how many."""
    length = _try(ranks, is_pair, rectangles[:many], tried, found)
    if length == len(found) or tried == end:
        return length
    rows = ranks[0], np.uint32(end)
    return _search(least[0], least[1], least[2], least[3], least[4], rows, rectangles, many, found)


@inlined
def _first_inside(ranks: tuple[U32, U32], x: tuple[int, int], y: tuple[int, int], tried: int) -> int:
    """The first of so many tuples of the order that lies in a rectangle, or how many were tried."""
    for z in range(tried):
        if x[0] <= ranks[0][z] < x[1] and y[0] <= ranks[1][z] < y[1]:
            return z
    return tried


@inlined
def _write_rectangles(
    direction: I64, group: tuple[int, int, int, int], ends: I64, is_pair: bool, rectangles: I64
) -> int:
    """What a probe's conditions admit: ranks in the orders of both, or, in one order, in it alone; returns how many.

    group: where the probe's begins and ends, the node's number of tuples, and the same padded; ends: int64 (2, 2)
    """
    many = 0
    for i in range(1 + (direction[SIGN] < 0)):
        x = _admitted(direction[SIGN], i, group, ends[0])
        for j in range(1 + (direction[SIGN + 1] < 0)):
            y = _admitted(direction[SIGN + 1], j, group, ends[1])
            if not is_pair:
                x_and_y, y = (max(x[0], y[0]), min(x[1], y[1])), (0, group[2])
            else:
                x_and_y = x
            if x_and_y[0] < x_and_y[1] and y[0] < y[1]:
                rectangles[many, 0], rectangles[many, 1] = x_and_y
                rectangles[many, 2], rectangles[many, 3] = y[0], y[1] if y[1] < group[2] else group[3]
                many += 1
    return many


@inlined
def _admitted(sign: int, part: int, group: tuple[int, int, int, int], ends: I64) -> tuple[int, int]:
    """The ranks that a condition admits, or of a complement what is before (0) and behind (1) its interval."""
    if sign > 0:
        return ends[0], ends[1]
    if sign == 0:
        return group[0], group[1]
    return (ends[1], group[1]) if part else (group[0], ends[0])


@inlined
def _try(ranks: tuple[U32, U32], is_pair: bool, rectangles: I64, tried: int, found: I64) -> int:
    """The first of so many tuples of the order that lie in a rectangle, as many as there is room for in `found`."""
    length, z = 0, 0
    while z < tried and length < len(found):
        x, y = np.int64(ranks[0][z]), np.int64(ranks[1][z])
        for k in range(len(rectangles)):
            in_x = rectangles[k, 0] <= x < rectangles[k, 1]
            if in_x and (not is_pair or rectangles[k, 2] <= y < rectangles[k, 3]):
                found[length] = z
                length += 1
                break
        z += 1
    return length


@inlined
def _search(
    entries: U64,
    leaves: U8,
    values: U32,
    runs: U32,
    mapped: U32,
    rows: tuple[U32, np.uint32],
    rectangles: I64,
    many: int,
    found: I64,
) -> int:
    """As many of the first tuples in rectangles as there is room for; each found parts its rectangle.

    rows: ranks in the order of the first condition, and how many tuples of the order of values matter
    """
    ranks, end = rows
    for k in range(many):
        limit = end if len(found) > 1 or k == 0 else np.uint32(rectangles[k - 1, _LEAST])
        rectangles[k, _LEAST] = _least_of_one(entries, leaves, values, runs, mapped, rectangles, k, limit)
    for length in range(len(found)):
        best = 0
        for k in range(1, many):
            best = k if rectangles[k, _LEAST] < rectangles[best, _LEAST] else best
        if many == 0 or rectangles[best, _LEAST] >= end:
            return length
        found[length] = rectangles[best, _LEAST]
        if length + 1 < len(found):
            rectangles[many] = rectangles[best]
            rectangles[best, 1] = np.int64(ranks[found[length]])
            rectangles[many, 0] = rectangles[best, 1] + 1
            for k in (best, many):
                rectangles[k, _LEAST] = _least_of_one(entries, leaves, values, runs, mapped, rectangles, k, end)
            many += 1
    return len(found)


@inlined
def _least_of_one(
    entries: U64, leaves: U8, values: U32, runs: U32, mapped: U32, rectangles: I64, k: int, limit: np.uint32
) -> np.uint32:
    x, y = (rectangles[k, 0], rectangles[k, 1]), (rectangles[k, 2], rectangles[k, 3])
    return limit if x[0] >= x[1] else _least_in(entries, leaves, values, runs, mapped, x, y, limit)


@inlined
def _least_in(
    entries: U64,
    leaves: U8,
    values: U32,
    runs: U32,
    mapped: U32,
    x: tuple[int, int],
    y: tuple[int, int],
    limit: np.uint32,
) -> np.uint32:
    """The least value in a rectangle, or `limit` where none is less."""
    if len(leaves) == 0:
        return least_between(values, runs, log2(values.shape[1]), 0, x[0], x[1], limit)
    if x[1] - x[0] > _NARROW:
        return least_of(entries, leaves, values, runs, x, y, limit)
    begin, width = np.uint32(y[0]), np.uint32(y[1] - y[0])
    ranks, row = mapped[x[0] : x[1]], values[0, x[0] : x[1]]
    for i in range(len(ranks)):
        value = row[i] if np.uint32(ranks[i] - begin) < width else NOTHING
        limit = min(limit, value)
    return limit
