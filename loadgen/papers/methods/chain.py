"""Chained indexes: a window cut by arrival, with a tree of its own for each piece.

BiStream (Lin, Ooi, Wang, Yu, SIGMOD 2015) as PIM-Tree (Shahvarani, Jacobsen) describes it in section 2.2.2; the two
designs stem from its section 5.1: B-chain and IB-chain.
"""

from __future__ import annotations

from time import perf_counter

from loadgen.papers.methods.forest import Forest
from loadgen.papers.methods.side import Counters
from loadgen.papers.methods.sorted_run import SortedRun
from loadgen.papers.methods.tree_side import SHARE_LEAST, Ask, Destination, Index, TreeSide, arrivals
from spojoin.kernels.tail import Tail


class Chain:
    """Members in the order of arrival; the last one is active, a B+-tree.

    immutable: whether a member becomes an immutable tree when archived; parts: members that cover a window
    """

    def __init__(self, column: int, parts: int, immutable: bool, counters: Counters) -> None:
        self._column, self._parts, self._immutable, self._counters = column, parts, immutable, counters
        self._active = Forest(column)
        self._archived: list[Forest | SortedRun] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all members."""
        return self._active.nbytes + sum(member.nbytes for member in self._archived)

    @property
    def tuples(self) -> int:
        """Tuples of all members."""
        return self._active.count + sum(member.count for member in self._archived)

    def absorb(self, window: Tail, tuples_max: int) -> None:
        """Fill the active member, archive it when it has its share of a window, and drop expired members."""
        share = max(-(-tuples_max // self._parts), SHARE_LEAST)
        at = max(self._active.end, window.first)
        while at < window.end:
            end = min(at + max(share - self._active.count, 0), window.end)
            self._active.insert(window, at, end)
            at = end
            if self._active.count >= share:
                self._archive(window)
        while self._archived and self._archived[0].end <= window.first:
            del self._archived[0]

    def search(self, window: Tail, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Search every member."""
        for member in self._archived:
            if isinstance(member, SortedRun):
                member.search(ask, begin, end, answer)
            else:
                member.search(window, ask, begin, end, answer)
        self._active.search(window, ask, begin, end, answer)

    def _archive(self, window: Tail) -> None:
        full = self._active
        self._archived.append(self._frozen(full, window) if self._immutable else full)
        self._active = Forest(self._column, end=full.end)

    def _frozen(self, full: Forest, window: Tail) -> SortedRun:
        began = perf_counter()
        codes, first = arrivals(window, full.end - full.count, full.end)
        frozen = SortedRun.empty(self._column, len(codes)).merged(codes, first, full.indexes(), first)
        self._counters.merges += 1
        self._counters.merge_seconds += perf_counter() - began
        return frozen


class ChainB(TreeSide):
    """B-chain: all members are B+-trees.

    Ties, and windows that move by more than a tuple, are handled as in all methods: a probe skips tuples outside its
    bounds, and a member is dropped whole when no window reaches it. A member of a time window takes its share of the
    tuples that the window holds at that time. Options: `length`, how many members cover a window, apart from one that
    is partly in it; and `predicate`.
    """

    immutable = False

    def _index(self, column: int, counters: Counters) -> Index:
        return Chain(column, int(self.spec.options["length"]), self.immutable, counters)


class ChainIB(ChainB):
    """IB-chain: a member becomes an immutable tree when it is archived."""

    immutable = True
