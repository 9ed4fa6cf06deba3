"""An immutable B+-tree: tuples sorted by one column, and above them the first code of every node, level by level.

Children are found by arithmetic instead of references, as in PIM-Tree (Shahvarani, Jacobsen), section 3.1. A leaf holds
all columns, so candidates are verified array by array, in vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.insert_tree import below
from loadgen.papers.methods.side import COMPARISONS, NODES
from loadgen.papers.methods.tree_side import BLOCK, GREATEST, Ask, Destination, compare, other_test, reach
from spojoin.arrays import I64
from spojoin.kernels.compile import inlined, kernel

#: Keys per node: four cache lines, compared without a branch.
FANOUT = 32


class RunArrays(NamedTuple):
    """codes: int64 (columns, n), sorted by one of them; indexes: int64 (n,).

    directory: the levels above the leaves, the lowest first; starts: int64 (levels + 1,), where each begins in it
    """

    codes: I64
    indexes: I64
    directory: I64
    starts: I64


class SortedRun:
    """The tuples of a run."""

    def __init__(self, column: int, codes: I64, indexes: I64) -> None:
        self.column = column
        #: One past the greatest index.
        self.end = int(indexes.max()) + 1 if len(indexes) else 0
        self._run = RunArrays(codes, indexes, *_directory(codes[column]))

    @classmethod
    def empty(cls, column: int, columns: int) -> SortedRun:
        """Without tuples."""
        return cls(column, np.empty((columns, 0), np.int64), np.empty(0, np.int64))

    @property
    def count(self) -> int:
        """Tuples held."""
        return len(self._run.indexes)

    @property
    def nbytes(self) -> int:
        """Bytes of leaves and directory."""
        return sum(array.nbytes for array in self._run)

    def splits(self, depth: int) -> I64:
        """The least code of each node but the first at a depth; the root is at 0, leaves are the deepest."""
        starts = self._run.starts
        level = len(starts) - 1 - min(depth, len(starts) - 1)
        if level == len(starts) - 1:
            return np.empty(0, np.int64)
        return self._run.directory[starts[level] + 1 : starts[level + 1]].copy()

    def search(self, ask: Ask, begin: int, end: int, answer: Destination) -> None:
        """Answer the probes [begin, end)."""
        search(self._run, ask, begin, end, answer)

    def merged(self, codes: I64, first: int, order: I64, floor: int) -> SortedRun:
        """A run with new tuples from index `first` on, and without its own tuples whose index is below the floor.

        codes: int64 (columns, k), by arrival from `first` on; order: indexes by code, possibly some below `first`
        """
        return SortedRun(self.column, *merge(self._run, self.column, codes, first, order, floor))


def _directory(keys: I64) -> tuple[I64, I64]:
    levels = []
    while len(keys) > FANOUT:
        keys = keys[::FANOUT]
        levels.append(keys)
    starts = np.cumsum([0] + [len(level) for level in levels], dtype=np.int64)
    return np.concatenate([np.empty(0, np.int64), *levels]), starts


@inlined
def _first_from(run: RunArrays, keys: I64, code: int, tally: I64) -> int:
    """The number of keys below a code."""
    child = 0
    for level in range(len(run.starts) - 2, -1, -1):
        begin = run.starts[level] + child * FANOUT
        end = min(begin + FANOUT, run.starts[level + 1])
        child = child * FANOUT + max(below(run.directory[begin:end], code) - 1, 0)
        tally[NODES] += 1
        tally[COMPARISONS] += end - begin
    begin = child * FANOUT
    end = min(begin + FANOUT, len(keys))
    tally[NODES] += 1
    tally[COMPARISONS] += end - begin
    return begin + below(keys[begin:end], code)


@inlined
def _count(run: RunArrays, ask: Ask, probe: int, first: int, last: int) -> int:
    """The number of candidates at places [first, last) in the window that pass the one other test, if any."""
    lower, width = ask.lower[probe], np.uint64(ask.upper[probe] - ask.lower[probe])
    column, low, span, flip = other_test(ask, probe)
    # Slices, since an index that might be negative prevents vector instructions.
    indexes, codes = run.indexes[first:last], run.codes[column][first:last]
    found = 0
    for j in range(len(indexes)):
        found += int((np.uint64(indexes[j] - lower) < width) & ((np.uint64(codes[j] - low) <= span) ^ flip))
    return found


@inlined
def _scan(
    run: RunArrays, ask: Ask, probe: int, first: int, last: int, flags: NDArray[np.bool_], answer: Destination
) -> None:
    """The candidates at places [first, last) in the window that pass the other tests."""
    cursor, lower, upper = answer.cursors[probe], ask.lower[probe], ask.upper[probe]
    for at in range(first, last, BLOCK):
        count = min(BLOCK, last - at)
        indexes, whether = run.indexes[at : at + count], flags[:count]
        for j in range(len(indexes)):
            whether[j] = (indexes[j] >= lower) & (indexes[j] < upper)
        compare(ask, run.codes, ask.chosen, probe, at, count, flags)
        if len(answer.partners):
            for j in range(count):
                if flags[j]:
                    answer.partners[cursor] = run.indexes[at + j]
                    cursor += 1
        else:
            found = 0
            for j in range(count):
                found += flags[j]
            cursor += found
    answer.cursors[probe] = cursor


@kernel
def search(run: RunArrays, ask: Ask, begin: int, end: int, answer: Destination) -> None:
    """Answer the probes [begin, end)."""
    keys = run.codes[ask.columns[ask.chosen]]
    flags = np.empty(BLOCK, np.bool_)
    for probe in range(begin, end):
        for part in range(2):
            low, high = reach(ask, probe, part)
            if low > high:
                continue
            first = _first_from(run, keys, low, answer.tally)
            last = len(keys) if high == GREATEST else _first_from(run, keys, high + 1, answer.tally)
            answer.tally[COMPARISONS] += (last - first) * (len(ask.columns) - 1)
            answer.tally[NODES] += (last - first) // FANOUT
            if len(answer.partners) or len(ask.columns) > 2:
                _scan(run, ask, probe, first, last, flags, answer)
            else:
                answer.cursors[probe] += _count(run, ask, probe, first, last)


@kernel
def merge(run: RunArrays, column: int, codes: I64, first: int, order: I64, floor: int) -> tuple[I64, I64]:
    """Merge in one pass: sorted codes int64 (columns, n) and indexes int64 (n,) of the tuples that `merged` keeps."""
    columns, old = run.codes.shape
    room = old + len(order)
    merged, indexes = np.empty((columns, room), np.int64), np.empty(room, np.int64)
    i, j, n = 0, 0, 0
    while True:
        while i < old and run.indexes[i] < floor:
            i += 1
        while j < len(order) and order[j] < first:
            j += 1
        if i < old and (j == len(order) or run.codes[column, i] <= codes[column, order[j] - first]):
            for k in range(columns):
                merged[k, n] = run.codes[k, i]
            indexes[n] = run.indexes[i]
            i += 1
        elif j < len(order):
            for k in range(columns):
                merged[k, n] = codes[k, order[j] - first]
            indexes[n] = order[j]
            j += 1
        else:
            break
        n += 1
    return merged[:, :n].copy(), indexes[:n].copy()
