"""IM-Tree and PIM-Tree: an immutable tree for most of a window, B+-trees for newer tuples, and merges.

PIM-Tree, "Parallel Index-based Stream Join on a Multicore CPU" (Shahvarani, Jacobsen, SIGMOD 2020), sections 3.2,
3.3 and 4.2, and algorithms 1 to 3 of its appendix.
"""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

from loadgen.papers.methods.forest import NO_SPLITS, Forest
from loadgen.papers.methods.side import Counters, SideSpec
from loadgen.papers.methods.sorted_run import SortedRun
from loadgen.papers.methods.tree_side import SHARE_LEAST, Ask, Destination, Index, TreeSide, arrivals, search_tail
from spojoin.arrays import I64
from spojoin.kernels.tail import Tail


@dataclass(frozen=True, slots=True)
class Merging:
    """ratio: new tuples to a window's, at which a merge starts; depth: its nodes each have a B+-tree, or None.

    merger: the thread that merges while probes are answered; None if they wait for it
    """

    ratio: float
    depth: int | None
    merger: ThreadPoolExecutor | None


class MergeTree:
    """Two parts: TS, immutable, and TI, the B+-trees; and, during a merge only, a tail that is in neither."""

    def __init__(self, column: int, columns: int, merging: Merging, counters: Counters) -> None:
        self._column, self._merging, self._counters = column, merging, counters
        self._still = SortedRun.empty(column, columns)
        self._grown = Forest(column)
        self._running: Future[tuple[SortedRun, float]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of both parts."""
        return self._still.nbytes + self._grown.nbytes

    @property
    def tuples(self) -> int:
        """Tuples of both parts."""
        return self._still.count + self._grown.count

    def absorb(self, window: Tail, tuples_max: int) -> None:
        """Insert into TI, and merge whenever TI has its share of a window."""
        share = max(math.ceil(self._merging.ratio * tuples_max), SHARE_LEAST)
        while self._settled(window, share):
            begin = max(self._grown.end, window.first)
            end = min(begin + max(share - self._grown.count, 0), window.end)
            if begin < end:
                self._grown.insert(window, begin, end)
            if self._grown.count < share:
                break
            self._merge(window)

    def search(self, window: Tail, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Search both parts, and compare the tail."""
        self._still.search(ask, begin, end, answer)
        self._grown.search(window, ask, begin, end, answer)
        if self._grown.end < window.end:
            search_tail(window.buffer, window.origin, self._grown.end, ask, begin, end, answer)

    def _merge(self, window: Tail) -> None:
        grown = self._grown
        codes, first = arrivals(window, grown.end - grown.count, grown.end)
        if self._merging.merger is not None:
            self._running = self._merging.merger.submit(_merged, self._still, grown, codes, first, window.first)
            return
        self._swap(*_merged(self._still, grown, codes, first, window.first))

    def _settled(self, window: Tail, share: int) -> bool:
        """Whether no merge is running: a finished one takes effect, and one with a long tail is waited for."""
        if self._running is None:
            return True
        if not self._running.done() and window.end - self._grown.end < share:
            return False
        self._swap(*self._running.result())
        self._running = None
        return True

    def _swap(self, still: SortedRun, seconds: float) -> None:
        depth, end = self._merging.depth, self._grown.end
        self._still = still
        self._grown = Forest(self._column, NO_SPLITS if depth is None else still.splits(depth), end)
        self._counters.merges += 1
        self._counters.merge_seconds += seconds


def _merged(still: SortedRun, grown: Forest, codes: I64, first: int, floor: int) -> tuple[SortedRun, float]:
    """A new TS, and how long it took; changes neither part and doesn't read the window."""
    began = perf_counter()
    return still.merged(codes, first, grown.indexes(), floor), perf_counter() - began


class ImTree(TreeSide):
    """IM-Tree: TI is one B+-tree.

    The paper merges at a share of a fixed window and flags expired tuples. Here the share of a time window is taken of
    its current tuples, and expired tuples are known by their indexes. The query decides on asymmetric windows: each
    stream of a cross join has its own index and window. A non-blocking merge follows section 4.2: new tuples are not
    indexed but compared one by one until it is done, then inserted; if there are enough of them for another merge,
    searches wait for it. Threads share the probes of a chunk while nothing is inserted, so no lock is needed.
    Options: `merge_ratio`, `merge`, `threads`, and `predicate`.
    """

    def _index(self, column: int, counters: Counters) -> Index:
        return MergeTree(column, self.spec.columns, _merging(self.spec, None), counters)


class PimTree(ImTree):
    """PIM-Tree: TI is a B+-tree for each node of TS at the insertion depth, with all leaves in one list.

    If TS has equal codes in several nodes, all new ones go to the last of these. A depth below TS's leaves means its
    leaves, and while TS is empty or a single leaf there is one tree. Options: IM-Tree's, and `depth` (0 is the root).
    """

    def _index(self, column: int, counters: Counters) -> Index:
        return MergeTree(column, self.spec.columns, _merging(self.spec, int(self.spec.options["depth"])), counters)


def _merging(spec: SideSpec, depth: int | None) -> Merging:
    merger = ThreadPoolExecutor(1) if spec.options["merge"] == "non_blocking" else None
    return Merging(float(spec.options["merge_ratio"]), depth, merger)
