"""How a node answers: by interval lengths, the wavelet matrix, boxes, bitmaps, or a scan of 16-bit ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spojoin.arrays import I64, U16
from spojoin.index.conditions import RankInterval
from spojoin.index.node import Node
from spojoin.kernels import bitmaps, boxes, intervals16, summing, wavelet
from spojoin.kernels.chosen import Chosen
from spojoin.kernels.masked import masked_sums
from spojoin.wire.sums import Sums

#: counts, begins, lengths, each (m,), and stored offsets: probe q's, ascending, are `lengths[q]` from `begins[q]` on
Collected = tuple[I64, I64, I64, I64]


@dataclass(frozen=True, slots=True, eq=False)
class NodeMatches:
    """Counts of m probes, int64 (m,), the sums over the counted tuples, and by choice the first of them."""

    counts: I64
    sums: Sums
    chosen: Sequence[Chosen]


#: A node cut by a window's bound is split until a masked scan of it costs no more than the rest of the probe.
MASKED_MAX = 8192
#: Below this size a scan is as fast as a wavelet matrix, and needs no structure.
SCAN_MAX = 512


def count(node: Node, intervals: Sequence[RankInterval]) -> I64:
    """Matches of m probes among all tuples of a node: int64 (m,)."""
    if len(intervals) == 1:
        return _count_one(node, intervals[0])
    if node.size <= SCAN_MAX:
        return count_masked(node, intervals, *_everything(node, intervals))
    if len(intervals) == 2:
        return _count_two(node, intervals[0], intervals[1])
    if len(intervals) == 3:
        return _count_three(node, intervals)
    return _collect_bitmaps(node, intervals, np.zeros(len(intervals[0].a), np.int64))[0]


def count_masked(node: Node, intervals: Sequence[RankInterval], slice_lo: I64, slice_hi: I64) -> I64:
    """Like `count`, among the offsets [slice_lo, slice_hi), int64 (m,), of a node of at most MASKED_MAX tuples."""
    return intervals16.and_counts(*_wrapped(node, intervals), slice_lo, slice_hi)


def taken(node: Node, intervals: Sequence[RankInterval], kept: Sequence[Chosen], latest: Sequence[bool]) -> NodeMatches:
    """Matches of m probes among all tuples of a node, the sums of their weights, and the first of them.

    kept: by choice, what takes the first tuples; latest: by choice, whether the latest of equal ones comes first
    """
    if node.size <= SCAN_MAX:
        return taken_masked(node, intervals, _everything(node, intervals), kept, latest)
    everything = np.full(len(intervals[0].a), node.size)
    counts, begins, lengths, offsets = _collect_bitmaps(node, intervals, everything)
    for number, (one, is_latest) in enumerate(zip(kept, latest, strict=True)):
        one.add_listed(node.choice_order(number, is_latest=is_latest), node.size, (begins, lengths, offsets))
    rows = summing.listed_sums(begins, lengths, offsets, node.weights.rows)
    return NodeMatches(counts, Sums(node.weights.keys, rows), kept)


def taken_masked(
    node: Node,
    intervals: Sequence[RankInterval],
    slices: tuple[I64, I64],
    kept: Sequence[Chosen],
    latest: Sequence[bool],
) -> NodeMatches:
    """Like `taken`, among the offsets [lo, hi), int64 (m,) each, of a node of at most MASKED_MAX tuples."""
    ranks, starts, lengths = _wrapped(node, intervals)
    counts, rows = masked_sums(ranks, starts, lengths, *slices, node.weights.rows)
    for number, (one, is_latest) in enumerate(zip(kept, latest, strict=True)):
        order = node.choice_order(number, is_latest=is_latest)
        one.add_masked(order, ranks, (starts, lengths), slices, counts)
    return NodeMatches(counts, Sums(node.weights.keys, rows), kept)


def collect(node: Node, intervals: Sequence[RankInterval], limits: I64) -> Collected:
    """Matches of m probes among all tuples of a node, with the offsets of the first `limits`, int64 (m,), of them."""
    if node.size <= SCAN_MAX:
        return collect_masked(node, intervals, *_everything(node, intervals), limits)
    return _collect_bitmaps(node, intervals, limits)


def collect_masked(
    node: Node, intervals: Sequence[RankInterval], slice_lo: I64, slice_hi: I64, limits: I64
) -> Collected:
    """Like `collect`, among the offsets [slice_lo, slice_hi) of a node of at most MASKED_MAX tuples."""
    counts, offsets, found = intervals16.and_collect(*_wrapped(node, intervals), slice_lo, slice_hi, limits)
    return counts, offsets[:-1], np.diff(offsets), found


def _count_one(node: Node, x: RankInterval) -> I64:
    return node.size - (x.b - x.a) if x.complement else x.b - x.a


def _count_two(node: Node, x: RankInterval, y: RankInterval) -> I64:
    """Count a rectangle of ranks; complements by inclusion and exclusion."""
    both = _overlap(node, x, y)
    if x.complement and y.complement:
        return node.size - (x.b - x.a) - (y.b - y.a) + both
    if x.complement:
        return y.b - y.a - both
    return x.b - x.a - both if y.complement else both


def _overlap(node: Node, x: RankInterval, y: RankInterval) -> I64:
    if x.slot == y.slot:
        return np.asarray(np.maximum(np.minimum(x.b, y.b) - np.maximum(x.a, y.a), 0), np.int64)
    x, y = (x, y) if x.slot < y.slot else (y, x)
    return wavelet.rectangle_counts(node.wavelet(x.slot, y.slot), node.size, x.a, x.b, y.a, y.b)


def _count_three(node: Node, intervals: Sequence[RankInterval]) -> I64:
    """Count a box of ranks; a complement in a column with another condition, by inclusion and exclusion."""
    slots = [x.slot for x in intervals]
    if len(set(slots)) == 3:
        return _box(node, intervals)
    at = next(i for i, x in enumerate(intervals) if x.complement and slots.count(x.slot) > 1)
    others = [x for i, x in enumerate(intervals) if i != at]
    return _count_two(node, *others) - count(node, _both(replace(intervals[at], complement=False), others))


def _both(x: RankInterval, others: Sequence[RankInterval]) -> list[RankInterval]:
    """The conditions and one more interval, which is joined with another interval of the same column."""
    for i, y in enumerate(others):
        if y.slot == x.slot and not y.complement:
            a = np.maximum(x.a, y.a)
            joined = replace(x, a=a, b=np.maximum(a, np.minimum(x.b, y.b)))
            return [*others[:i], joined, *others[i + 1 :]]
    return [x, *others]


def _box(node: Node, intervals: Sequence[RankInterval]) -> I64:
    """Count a box by decomposing the column with the narrowest intervals, whose ends share most of a descent."""
    wide = sorted(intervals, key=lambda x: -int((x.b - x.a).sum()))
    matrices, slots = node.boxes((wide[0].slot, wide[1].slot, wide[2].slot))
    sides = {x.slot: boxes.BoxSide(x.a, x.b, x.complement) for x in intervals}
    return boxes.box_counts(matrices, *(sides[slot] for slot in slots))


def _everything(node: Node, intervals: Sequence[RankInterval]) -> tuple[I64, I64]:
    m = len(intervals[0].a)
    return np.zeros(m, np.int64), np.full(m, node.size, np.int64)


def _wrapped(node: Node, intervals: Sequence[RankInterval]) -> tuple[list[U16], list[U16], list[U16]]:
    wrapped = [intervals16.wrapped_intervals(x.a, x.b, node.size, x.complement) for x in intervals]
    return [node.ranks(x.slot) for x in intervals], [w[0] for w in wrapped], [w[1] for w in wrapped]


def _collect_bitmaps(node: Node, intervals: Sequence[RankInterval], limits: I64) -> Collected:
    predicates = bitmaps.Predicates(
        [node.prefixes(x.slot) for x in intervals],
        [node.columns[x.slot].order for x in intervals],
        [node.ranks(x.slot) for x in intervals],
        [x.a for x in intervals],
        [x.b for x in intervals],
        [x.complement for x in intervals],
    )
    return bitmaps.collect(predicates, intervals[0].visit, limits)
