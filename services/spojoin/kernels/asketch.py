"""Augmented sketch: a small exact filter of frequent keys in front of a count-min sketch.

Roy, Khan and Alonso, "Augmented sketch" (SIGMOD 2016), as the STA paper uses it (section 3.2, algorithm 1; section 7:
32 filter items before 16 KB of sketch). Departures: a key of the filter is hot by its share of all tuples, while in the
paper every key of the filter is hot; and counts can be halved, so that hot keys can cool down.

Never underestimates: without halving, `estimate` of a key is at least its true count, because a key's cells hold at
least what it added, a key enters the filter with its cells' estimate, and on leaving it adds its count from the filter
to its cells. A key that stays in the filter from its first tuple on is counted exactly.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spojoin.arrays import I64, U64
from spojoin.kernels.compile import kernel

FILTER_ITEMS: Final = 32
DEPTH: Final = 4
#: 4 rows of 512 counters of 8 bytes: 16 KB.
WIDTH_BITS: Final = 9
#: Odd multipliers of multiply-shift hashing (Dietzfelbinger et al. 1997), one per row; fixed, so that replays agree.
_MULTIPLIERS: Final = np.random.default_rng(0x5EED).integers(0, 2**63, DEPTH, dtype=np.uint64) * np.uint64(
    2
) + np.uint64(1)


class ASketch:
    """Estimates frequencies of int64 codes."""

    def __init__(self, filter_items: int = FILTER_ITEMS, width_bits: int = WIDTH_BITS) -> None:
        self.total = 0
        self._keys = np.zeros(filter_items, np.int64)
        self._new = np.zeros(filter_items, np.int64)
        self._old = np.zeros(filter_items, np.int64)
        self._used = np.zeros(1, np.int64)
        self._cells = np.zeros((DEPTH, 1 << width_bits), np.int64)
        self._shift = np.uint64(64 - width_bits)

    def add(self, codes: I64) -> None:
        """Count codes, int64 (n,), one after the other."""
        _add(codes, self._keys, self._new, self._old, self._used, self._cells, _MULTIPLIERS, self._shift)
        self.total += len(codes)

    def estimate(self, codes: I64) -> I64:
        """Estimated counts int64 (n,) of codes (n,)."""
        counts = np.empty(len(codes), np.int64)
        keys, new = self.frequent()
        _estimate(codes, keys, new, self._cells, _MULTIPLIERS, self._shift, counts)
        return counts

    def frequent(self) -> tuple[I64, I64]:
        """The filter's keys and their counts, int64 (k,) each, in no order."""
        used = int(self._used[0])
        return self._keys[:used].copy(), self._new[:used].copy()

    def hot(self, share: float, least: int = 2) -> tuple[I64, I64]:
        """Keys of at least this share of all tuples and this count, codes ascending, and their estimated counts."""
        keys, counts = self.frequent()
        chosen = np.flatnonzero(counts >= max(float(least), share * self.total))
        order = chosen[np.argsort(keys[chosen])]
        return keys[order], counts[order]

    def halve(self) -> None:
        """Halve all counts, rounding up: estimates stay at least half of the true counts."""
        self.total = (self.total + 1) // 2
        for counts in (self._new, self._cells):
            np.add(counts, 1, out=counts)
            np.right_shift(counts, 1, out=counts)
        # Rounded down, so that the count that a leaving key adds to its cells is rounded up.
        np.right_shift(self._old, 1, out=self._old)


@kernel
def _cell(code: int, multiplier: np.uint64, shift: np.uint64) -> np.uint64:
    return (np.uint64(code) * multiplier) >> shift


@kernel
def _add(codes: I64, keys: I64, new: I64, old: I64, used: I64, cells: I64, multipliers: U64, shift: np.uint64) -> None:
    for i in range(len(codes)):
        code = codes[i]
        place = _find(code, keys, used[0])
        if place >= 0:  # algorithm 1, lines 1 to 4
            new[place] += 1
        elif used[0] < len(keys):  # lines 5 to 7
            keys[used[0]], new[used[0]], old[used[0]] = code, 1, 0
            used[0] += 1
        else:  # lines 8 to 15
            estimate = _count(code, 1, cells, multipliers, shift)
            least = np.argmin(new)
            if estimate > new[least]:
                gained = new[least] - old[least]
                if gained > 0:
                    _count(keys[least], gained, cells, multipliers, shift)
                keys[least], new[least], old[least] = code, estimate, estimate


@kernel
def _find(code: int, keys: I64, used: int) -> int:
    for place in range(used):
        if keys[place] == code:
            return place
    return -1


@kernel
def _count(code: int, gained: int, cells: I64, multipliers: U64, shift: np.uint64) -> np.int64:
    """Add to a key's cells; the estimate is the least of them."""
    estimate = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    for row in range(len(multipliers)):
        column = _cell(code, multipliers[row], shift)
        cells[row, column] += gained
        estimate = min(estimate, cells[row, column])
    return estimate


@kernel
def _estimate(codes: I64, keys: I64, new: I64, cells: I64, multipliers: U64, shift: np.uint64, counts: I64) -> None:
    for i in range(len(codes)):
        place = _find(codes[i], keys, len(keys))
        counts[i] = new[place] if place >= 0 else _count(codes[i], 0, cells, multipliers, shift)
