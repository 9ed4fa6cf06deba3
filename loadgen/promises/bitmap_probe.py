"""Full match bitmaps of a window, one bit a tuple in arrival order, node by node as a PO-Join worker makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.promises.batches import batches
from loadgen.promises.data import Columns, by_slot
from loadgen.promises.scans import SCANS, SIMD_TILED, count_both
from spojoin.index.conditions import Known, Probes, RankInterval, conditions, located
from spojoin.index.node import Node, from_batch
from spojoin.kernels import bitmaps
from spojoin.model import Direction, Query

#: Bitmaps of this number of probes, 1 MiB at most, about fit the second-level cache, and a call's cost doesn't show.
_TOGETHER = 128


@dataclass(frozen=True, slots=True)
class BitmapNodes:
    """A window as a worker's nodes: a group each, or as much of it as prefix bitmaps are made for."""

    query: Query
    stored: Columns
    nodes: list[Node]

    @classmethod
    def of(cls, query: Query, stored: Columns, group: int) -> BitmapNodes:
        """All of `stored`, in groups of this number of tuples."""
        made = batches(by_slot(query, stored), group, bitmaps.CHUNK_MAX)
        nodes = [from_batch(batch, (0, 1), with_seqs=False, with_permutations=False) for batch in made]
        return cls(query, stored, nodes)

    def match(self, direction: Direction, probes: Columns) -> Iterator[NDArray[np.uint64]]:
        """The bitmaps of all nodes, for some probes at a time: uint64 (k, words); rank lookups included."""
        frame, wanted = Probes(by_slot(self.query, probes)), conditions(direction.predicates)
        for node in self.nodes:
            known: Known = {}
            intervals = [located(condition, node, frame, known) for condition in wanted]
            predicates = _predicates(node, intervals)
            visit = bitmaps.in_parts(predicates, intervals[0].visit)
            for begin in range(0, len(probes), _TOGETHER):
                yield bitmaps.match_bitmaps(predicates, visit[begin : begin + _TOGETHER])

    def match_all(self, probes: Columns) -> None:
        """The bitmaps of both directions, each dropped when the next one comes."""
        for direction in self.query.directions:
            for _ in self.match(direction, probes):
                pass

    def check(self, probes: Columns) -> None:
        """Compare the bits' number with a scan. Raises AssertionError."""
        scanned = count_both(SCANS[SIMD_TILED], self.stored, probes)
        for direction, expected in zip(self.query.directions, scanned, strict=True):
            found = sum(int(np.bitwise_count(words).sum()) for words in self.match(direction, probes))
            if found != expected.sum():
                raise AssertionError(f"bitmaps hold {found} matches, a scan finds {expected.sum()}")


def _predicates(node: Node, intervals: Sequence[RankInterval]) -> bitmaps.Predicates:
    return bitmaps.Predicates(
        [node.prefixes(x.slot) for x in intervals],
        [node.columns[x.slot].order for x in intervals],
        [node.ranks(x.slot) for x in intervals],
        [x.a for x in intervals],
        [x.b for x in intervals],
        [x.complement for x in intervals],
    )
