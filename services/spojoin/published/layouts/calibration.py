"""The calibration phase of hybrid parallelism: how often each key occurs (PPOIJ, section 4.3).

In the paper the emitters count, and the first replica merges their counts into one distribution. Here the router's
guide does all of that: it counts the tuples of the log's frames, including those of its predecessors, and once it has
counted enough, every frame carries the result. So a worker that reads the log again finds it beside the tuples, and a
successor takes it from the last frame; if the log was trimmed before the calibration ended, a successor counts what is
left. The result never changes: the paper calibrates once, in an initial period (`layouts.ppoij.Hybrid` says why this
code does the same).

Listing every key would fill the frames: the most frequent keys are listed one by one, the others counted in buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.spread import spread
from spojoin.protocol.guidance import Guide
from spojoin.wire.records import FREQUENCY_BUCKETS, I64, U32, Frame, Frequencies, Guidance, StreamSlice

#: Keys listed one by one: with the buckets they take 2 KB of a full frame's 170.
KEYS_TOLD = 64


class Calibration(Guide):
    """Counts the keys of `tuples` tuples of both streams; key_slots: the key's slot in each stream."""

    def __init__(self, key_slots: tuple[int, ...], tuples: int) -> None:
        self._found: Guidance | None = None
        self._slots = key_slots
        self._wanted = tuples
        self._counts: list[Counter[int]] = [Counter() for _ in key_slots]

    def note(self, frame: Frame) -> None:
        """Count a frame's keys, or take over the result that it carries."""
        self._found = self._found or frame.guidance
        if self._found is not None:
            return
        for counts, slot, piece in zip(self._counts, self._slots, frame.slices, strict=True):
            codes, times = np.unique(piece.codes[slot], return_counts=True)
            counts.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
        if sum(counts.total() for counts in self._counts) >= self._wanted:
            self._found = Guidance(frequencies=frequencies(self._counts))
            self._counts = []

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> Guidance | None:
        """The result, the same for all frames."""
        return self._found


def frequencies(counts: list[Counter[int]]) -> Frequencies:
    """Shares of tuples and of pairs by key, from the counts of one stream (self join) or two."""
    codes = np.array(sorted(set().union(*counts)), np.int64)
    left, right = (np.array([c[code] for code in codes.tolist()], np.int64) for c in (counts[0], counts[-1]))
    tuples = left + right
    listed = np.sort(np.argsort(-tuples, kind="stable")[:KEYS_TOLD])
    rest = np.setdiff1d(np.arange(len(codes)), listed)
    buckets = spread(codes[rest], FREQUENCY_BUCKETS)
    return Frequencies(codes[listed], *(_shares(values, listed, rest, buckets) for values in (tuples, left * right)))


def _shares(values: NDArray[np.int64], listed: I64, rest: I64, buckets: I64) -> U32:
    by_bucket = np.bincount(buckets, values[rest], FREQUENCY_BUCKETS)
    each = np.concatenate((values[listed].astype(np.float64), by_bucket))
    shares: U32 = np.floor(each / max(each.sum(), 1) * (2**32 - 1)).astype(np.uint32)
    return shares
