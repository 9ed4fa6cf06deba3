"""The nested loop, vectorised: every probe against every tuple of its window.

What all other methods are measured against. Stored tuples are taken in blocks that stay in the first-level cache, and
all probes of a frame pass over a block before the next; the comparisons become vector instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import inlined, kernel
from spojoin.methods.side import I64, Check, Found, Searches, Side, SideSpec
from spojoin.methods.window import Window

#: Tuples of a block: two columns of them are 32 KB.
BLOCK = 2_048


class Scan(Side):
    """All stored tuples in arrival order, and nothing else."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._window = Window(spec.columns)

    def take(self, stored: I64, roles: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Store all, then compare: a probe's bounds tell what came before it."""
        self._window.append(stored)
        if len(lower):
            self._window.drop_below(int(lower[0]))
        pairs = zip(self.spec.roles, roles, strict=True)
        return [self._search(tests, searches, lower, upper) for tests, searches in pairs]

    def _search(self, tests: Sequence[Check], searches: Searches, lower: I64, upper: I64) -> Found:
        window, first = self._window.codes, self._window.first
        begin, end = lower - first, upper - first
        columns = np.array([test.column for test in tests])
        negated = np.array([test.negated for test in tests])
        self.counters.comparisons += len(tests) * int((end - begin).sum())
        flags = np.empty(BLOCK, np.bool_)
        counts = count(window, columns, negated, searches.lo, searches.hi, begin, end, flags)
        if not self.spec.lists:
            return Found(counts)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        partners = np.empty(int(offsets[-1]), np.int64)
        fill(window, columns, negated, searches.lo, searches.hi, begin, end, flags, offsets[:-1].copy(), partners)
        partners += first
        return Found(counts, offsets, partners)

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return self._window.nbytes

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return len(self._window)


@inlined
def _compare(
    window: I64,
    columns: I64,
    negated: NDArray[np.bool_],
    lo: I64,
    hi: I64,
    probe: int,
    begin: int,
    end: int,
    flags: NDArray[np.bool_],
) -> None:
    """Whether each of the stored tuples [begin, end) passes all tests of a probe."""
    flags[: end - begin] = True
    for test in range(len(columns)):
        column, low, high, flip = window[columns[test]], lo[test, probe], hi[test, probe], negated[test]
        for j in range(end - begin):
            code = column[begin + j]
            flags[j] &= ((code >= low) & (code <= high)) ^ flip


@kernel
def count(
    window: I64,
    columns: I64,
    negated: NDArray[np.bool_],
    lo: I64,
    hi: I64,
    begin: I64,
    end: I64,
    flags: NDArray[np.bool_],
) -> I64:
    """How many of the stored tuples [begin, end) of each probe pass its tests."""
    m = len(begin)
    counts = np.zeros(m, np.int64)
    for at in range(0, window.shape[1], BLOCK):
        for i in range(m):
            a, b = max(begin[i], at), min(end[i], at + BLOCK)
            if a < b:
                _compare(window, columns, negated, lo, hi, i, a, b, flags)
                found = 0
                for j in range(b - a):
                    found += flags[j]
                counts[i] += found
    return counts


@kernel
def fill(
    window: I64,
    columns: I64,
    negated: NDArray[np.bool_],
    lo: I64,
    hi: I64,
    begin: I64,
    end: I64,
    flags: NDArray[np.bool_],
    cursors: I64,
    partners: I64,
) -> None:
    """The places of those that `count` has counted, from each probe's cursor on, ascending."""
    for at in range(0, window.shape[1], BLOCK):
        for i in range(len(begin)):
            a, b = max(begin[i], at), min(end[i], at + BLOCK)
            if a < b:
                _compare(window, columns, negated, lo, hi, i, a, b, flags)
                cursor = cursors[i]
                for j in range(b - a):
                    if flags[j]:
                        partners[cursor] = a + j
                        cursor += 1
                cursors[i] = cursor
