"""The nested loop, vectorised: every probe against every tuple in its window.

The baseline for all other methods. It takes stored tuples in blocks that stay in the first-level cache, and compares
all probes of a chunk with a block before the next one; the comparisons become vector instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.methods.side import Check, Found, Searches, Side, SideSpec, offsets_of
from spojoin.arrays import I64, U64
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.tail import Tail

#: Tuples per block: two columns of them take 32 KB.
BLOCK = 2_048


class Scan(Side):
    """All stored tuples in arrival order."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        self._window = Tail(columns=spec.columns)

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Store all, then compare: a probe's bounds exclude tuples that came after it."""
        self._window.append(stored)
        if len(lower):
            self._window.drop_below(int(lower[0]))
        pairs = zip(self.spec.directions, directions, strict=True)
        return [self._search(checks, searches, lower, upper) for checks, searches in pairs]

    def _search(self, checks: Sequence[Check], searches: Searches, lower: I64, upper: I64) -> Found:
        buffer, origin = self._window.buffer, self._window.origin
        begin, end = lower - origin, upper - origin
        self.counters.comparisons += len(checks) * int((end - begin).sum())
        columns = np.array([check.column for check in checks])
        lo, span, flip = as_spans(checks, searches)
        counts = count(buffer, columns, lo, span, flip, begin, end)
        if not self.spec.lists:
            return Found(counts)
        offsets = offsets_of(counts)
        partners = np.empty(int(offsets[-1]), np.int64)
        fill(buffer, columns, lo, span, flip, begin, end, offsets[:-1].copy(), partners)
        partners += origin
        return Found(counts, offsets, partners)

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return self._window.nbytes

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return len(self._window)


def as_spans(checks: Sequence[Check], searches: Searches) -> tuple[I64, U64, NDArray[np.bool_]]:
    """Intervals for one unsigned comparison: a code is inside iff (code - lo) mod 2**64 <= span, unless flipped.

    lo int64, span uint64, flip bool, each (checks, m). An empty interval is the full range, flipped.
    """
    is_empty = searches.lo > searches.hi
    span = (searches.hi.view(np.uint64) - searches.lo.view(np.uint64)).copy()
    span[is_empty] = np.iinfo(np.uint64).max
    negated = np.array([check.negated for check in checks])[:, None]
    return searches.lo, span, is_empty ^ negated


@inlined
def _is_inside(code: np.int64, lo: np.int64, span: np.uint64, flip: np.bool_) -> np.bool_:
    return (np.uint64(code - lo) <= span) ^ flip


@kernel
def count(window: I64, columns: I64, lo: I64, span: U64, flip: NDArray[np.bool_], begin: I64, end: I64) -> I64:
    """The number of tuples in each probe's [begin, end), both nondecreasing, that pass its checks: int64 (m,)."""
    m = len(begin)
    counts = np.zeros(m, np.int64)
    one, other = window[columns[0]], window[columns[min(1, len(columns) - 1)]]
    if m == 0:
        return counts
    for at in range(begin[0], end[-1], BLOCK):
        for i in range(m):
            a, b = max(begin[i], at), min(end[i], at + BLOCK)
            if a >= b:
                continue
            # Slices, since an index that might be negative prevents vector instructions.
            found, x, y = np.int64(0), one[a:b], other[a:b]
            if len(columns) <= 2:
                # A single check is done twice, on values that are loaded already.
                last = len(columns) - 1
                lo0, span0, flip0 = lo[0, i], span[0, i], flip[0, i]
                lo1, span1, flip1 = lo[last, i], span[last, i], flip[last, i]
                if not flip0 and not flip1:
                    for j in range(len(x)):
                        found += (np.uint64(x[j] - lo0) <= span0) & (np.uint64(y[j] - lo1) <= span1)
                else:
                    for j in range(len(x)):
                        found += _is_inside(x[j], lo0, span0, flip0) & _is_inside(y[j], lo1, span1, flip1)
            else:
                for j in range(a, b):
                    found += _passes(window, columns, lo, span, flip, i, j)
            counts[i] += found
    return counts


@inlined
def _passes(
    window: I64, columns: I64, lo: I64, span: U64, flip: NDArray[np.bool_], probe: int, stored: int
) -> np.bool_:
    """Whether a stored tuple passes all checks of a probe."""
    passes = _is_inside(window[columns[0], stored], lo[0, probe], span[0, probe], flip[0, probe])
    for check in range(1, len(columns)):
        code = window[columns[check], stored]
        passes &= _is_inside(code, lo[check, probe], span[check, probe], flip[check, probe])
    return passes


@kernel
def fill(
    window: I64,
    columns: I64,
    lo: I64,
    span: U64,
    flip: NDArray[np.bool_],
    begin: I64,
    end: I64,
    cursors: I64,
    partners: I64,
) -> None:
    """The places of the tuples that `count` counted, from each probe's cursor on, ascending."""
    if len(begin) == 0:
        return
    for at in range(begin[0], end[-1], BLOCK):
        for i in range(len(begin)):
            cursor = cursors[i]
            for j in range(max(begin[i], at), min(end[i], at + BLOCK)):
                if _passes(window, columns, lo, span, flip, i, j):
                    partners[cursor] = j
                    cursor += 1
            cursors[i] = cursor
