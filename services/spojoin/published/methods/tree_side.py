"""Common to methods with a tree for one predicate: an index for each searched column, and the form of results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.published.methods.asks import Ask, Destination, asked, chosen_test, sort_each
from spojoin.published.methods.side import I64, Counters, Found, Searches, Side, SideSpec, offsets_of
from spojoin.published.methods.tally import COMPARISONS, NODES, WORK

#: Fewer tuples than this are never split off or merged: they would not fill a node.
SHARE_LEAST = 16
COUNT_ONLY = np.empty(0, np.int64)


class Index(Protocol):
    """All tuples of a window, sorted by one column."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    @property
    def tuples(self) -> int:
        """Tuples held, expired ones included."""

    def absorb(self, window: Tail, tuples_max: int) -> None:
        """Take the window's new tuples, and drop expired ones; tuples_max: how many a window holds."""

    def search(self, window: Tail, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Answer the probes [begin, end)."""


def arrivals(window: Tail, begin: int, end: int) -> tuple[I64, int]:
    """A copy of the codes that the window still has of [begin, end), int64 (columns, n), and the index of the first."""
    first = max(begin, window.first)
    return window.held[:, first - window.first : max(end - window.first, 0)].copy(), first


class TreeSide(Side):
    """A window under trees, searched by one predicate a direction; the others are verified on its candidates.

    The papers treat one band predicate and process tuple by tuple. Here a chunk's tuples go in first; its probes then
    skip tuples that came later, by their indexes, as they skip expired ones.
    Option `predicate`: the predicate that the tree answers, counted from 1.
    """

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._window = Tail(columns=spec.columns)
        self._chosen = [chosen_test(tests, int(spec.options["predicate"])) for tests in spec.directions]
        threads = int(spec.options.get("threads", 1))
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        columns = [tests[chosen].column for tests, chosen in zip(spec.directions, self._chosen, strict=True)]
        self._columns = columns
        self._indexes = {column: self._index(column, self.counters) for column in columns}

    @abstractmethod
    def _index(self, column: int, counters: Counters) -> Index:
        """An empty index over a column."""

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Store all, then search."""
        self._window.append(stored)
        if len(lower):
            self._window.drop_below(int(lower[0]))
        for index in self._indexes.values():
            # The number of tuples in a time window is observed, not known.
            index.absorb(self._window, len(self._window) if self.spec.is_time else self.spec.length)
        return [
            self._search(self._indexes[column], asked(tests, chosen, searches, lower, upper))
            for tests, chosen, column, searches in zip(
                self.spec.directions, self._chosen, self._columns, directions, strict=True
            )
        ]

    def _search(self, index: Index, ask: Ask) -> Found:
        counts = np.zeros(len(ask.lower), np.int64)
        self._answer(index, ask, counts, COUNT_ONLY)
        if not self.spec.lists:
            return Found(counts)
        offsets = offsets_of(counts)
        partners = np.empty(int(offsets[-1]), np.int64)
        if len(partners):
            self._answer(index, ask, offsets[:-1].copy(), partners)
            sort_each(offsets, partners, ask.lower, ask.upper)
        return Found(counts, offsets, partners)

    def _answer(self, index: Index, ask: Ask, cursors: I64, partners: I64) -> None:
        """Threads answer equal numbers of probes, and each writes to its own places."""
        cuts = [len(cursors) * k // self._threads for k in range(self._threads + 1)]
        answers = [Destination(cursors, partners, np.zeros(WORK, np.int64)) for _ in cuts[1:]]
        tasks = list(zip(cuts[:-1], cuts[1:], answers, strict=True))
        if self._pool is None:
            index.search(self._window, ask, *tasks[0])
        else:
            running = [self._pool.submit(index.search, self._window, ask, *task) for task in tasks]
            for each in running:
                each.result()
        self.counters.nodes += sum(int(answer.tally[NODES]) for answer in answers)
        self.counters.comparisons += sum(int(answer.tally[COMPARISONS]) for answer in answers)

    @property
    def nbytes(self) -> int:
        """Bytes of trees and window."""
        return self._window.nbytes + sum(index.nbytes for index in self._indexes.values())

    @property
    def tuples(self) -> int:
        """Tuples of the largest index, expired ones included."""
        return max(len(self._window), *(index.tuples for index in self._indexes.values()), 0)
