"""A search of a tree for kernels: all probes of a direction, and the test that the tree answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.side import (
    COMPARISONS,
    NODES,
    WORK,
    Check,
    Counters,
    Found,
    Searches,
    Side,
    SideSpec,
    offsets_of,
)
from spojoin.arrays import I64
from spojoin.errors import ConfigurationError
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.tail import Tail

LEAST = np.iinfo(np.int64).min
GREATEST = np.iinfo(np.int64).max
#: Candidates compared at a time: their flags, and a column of them, stay in the first-level cache.
BLOCK = 2_048
#: The value of `skip` if all tests are compared.
NO_TEST = -1


class Ask(NamedTuple):
    """m probes of one direction with its tests.

    columns, negated: the tests; chosen: the test that the tree answers; lo, hi: int64 (tests, m)
    lower, upper: int64 (m,), each probe reaches the indexes [lower, upper)
    """

    columns: I64
    negated: NDArray[np.bool_]
    chosen: int
    lo: I64
    hi: I64
    lower: I64
    upper: I64


class Destination(NamedTuple):
    """The place for results.

    cursors: int64 (m,), advanced by every partner; partners: filled at the cursors, or empty to only count
    tally: int64 (WORK,), the work done
    """

    cursors: I64
    partners: I64
    tally: I64


def asked(tests: Sequence[Check], chosen: int, searches: Searches, lower: I64, upper: I64) -> Ask:
    """The probes of a direction as contiguous arrays."""
    columns = np.array([test.column for test in tests], np.int64)
    negated = np.array([test.negated for test in tests], np.bool_)
    whole = np.ascontiguousarray
    return Ask(columns, negated, chosen, whole(searches.lo), whole(searches.hi), whole(lower), whole(upper))


def chosen_test(tests: Sequence[Check], predicate: int) -> int:
    """The place of the predicate that the option names, which counts from 1. Raises ConfigurationError."""
    if predicate > len(tests):
        raise ConfigurationError(
            f"method option predicate is {predicate}; expected 1 to {len(tests)}, the query's predicates"
        )
    return predicate - 1


@inlined
def reach(ask: Ask, probe: int, part: int) -> tuple[int, int]:
    """The codes [low, high] that pass the chosen test: part 0, and part 1 beyond the gap of a negated test.

    low > high if there are none.
    """
    low, high = ask.lo[ask.chosen, probe], ask.hi[ask.chosen, probe]
    if not ask.negated[ask.chosen]:
        return (low, high) if part == 0 else (GREATEST, LEAST)
    if low > high:
        return (LEAST, GREATEST) if part == 0 else (GREATEST, LEAST)
    if part == 0:
        return (LEAST, low - 1) if low > LEAST else (GREATEST, LEAST)
    return (high + 1, GREATEST) if high < GREATEST else (GREATEST, LEAST)


@inlined
def passes(ask: Ask, codes: I64, at: int, probe: int) -> bool:
    """Whether the tuple at a place of `codes` passes all tests but the chosen one."""
    for test in range(len(ask.columns)):
        if test != ask.chosen:
            code = codes[ask.columns[test], at]
            if ((code >= ask.lo[test, probe]) & (code <= ask.hi[test, probe])) == ask.negated[test]:
                return False
    return True


@inlined
def other_test(ask: Ask, probe: int) -> tuple[int, np.int64, np.uint64, np.bool_]:
    """The test not chosen, of two, as (column, lo, hi - lo, negated); with one test, one that every code passes."""
    test = len(ask.columns) - 1 - ask.chosen
    column, low, high, flip = ask.columns[test], ask.lo[test, probe], ask.hi[test, probe], ask.negated[test]
    if len(ask.columns) == 1:
        return column, np.int64(0), np.uint64(2**64 - 1), np.bool_(False)
    if low > high:
        return column, np.int64(0), np.uint64(2**64 - 1), np.bool_(not flip)
    return column, low, np.uint64(high - low), flip


@inlined
def compare(ask: Ask, codes: I64, skip: int, probe: int, begin: int, count: int, flags: NDArray[np.bool_]) -> None:
    """Clear the flags of `count` tuples, from place `begin` on, if they fail a test other than `skip`."""
    for test in range(len(ask.columns)):
        if test != skip:
            # Slices, since an index that might be negative prevents vector instructions.
            those, whether = codes[ask.columns[test]][begin : begin + count], flags[:count]
            low, high, flip = ask.lo[test, probe], ask.hi[test, probe], ask.negated[test]
            for j in range(len(those)):
                whether[j] &= ((those[j] >= low) & (those[j] <= high)) ^ flip


@kernel
def search_tail(codes: I64, origin: int, edge: int, ask: Ask, begin: int, end: int, answer: Destination) -> None:
    """Compare the tuples from index `edge` on, which no tree holds yet, with the probes [begin, end)."""
    flags = np.empty(BLOCK, np.bool_)
    for probe in range(begin, end):
        cursor = answer.cursors[probe]
        first, last = max(ask.lower[probe], edge), ask.upper[probe]
        answer.tally[COMPARISONS] += max(last - first, 0) * len(ask.columns)
        for at in range(first, last, BLOCK):
            count = min(BLOCK, last - at)
            flags[:count] = True
            compare(ask, codes, NO_TEST, probe, at - origin, count, flags)
            for j in range(count):
                if flags[j]:
                    if len(answer.partners):
                        answer.partners[cursor] = at + j
                    cursor += 1
        answer.cursors[probe] = cursor


@kernel
def sort_each(offsets: I64, partners: I64, lower: I64, upper: I64) -> None:
    """Sort each probe's partners; many among few indexes by marks, in linear time."""
    marks = np.zeros(0, np.bool_)
    for probe in range(len(lower)):
        own = partners[offsets[probe] : offsets[probe + 1]]
        span = upper[probe] - lower[probe]
        if len(own) * 16 < span:
            own.sort()
            continue
        if len(marks) < span:
            marks = np.zeros(2 * span, np.bool_)
        for index in own:
            marks[index - lower[probe]] = True
        k = 0
        for i in range(span):
            if marks[i]:
                own[k] = lower[probe] + i
                k += 1
                marks[i] = False


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
            index.absorb(self._window, self.spec.window.rows or len(self._window))
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
