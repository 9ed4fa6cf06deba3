"""The calibration phase of hybrid parallelism: how often each key comes (PPOIJ, section 4.3).

In the paper the emitters count, and the first replica makes one distribution of theirs. Here the router is all of that:
it counts the tuples of the log's frames, its predecessors' included, and from the frame after the last that it needs
on writes what it found into every frame. So a worker that reads the log again finds it beside the tuples, and a
successor takes it from the last frame; where the log was trimmed before the end of the calibration, a successor counts
from what is left. Once found it never changes: the paper calibrates once, in an initial period (why that is kept:
`layouts.ppoij.Hybrid`).

Not every key is told, which would fill the frames: the most frequent ones are, and the others by buckets.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.spread import spread
from spojoin.model import Query
from spojoin.wire.records import FREQUENCY_BUCKETS, I64, NO_FREQUENCIES, U32, Frame, Frequencies

#: Keys that are told one by one: with the buckets 2 KB a frame, where a full one has 170.
KEYS_TOLD = 64


class Calibrating(Protocol):
    """found: what every new frame carries."""

    found: Frequencies

    def note(self, frame: Frame) -> None:
        """A frame of the log."""
        ...


class NoCalibration:
    """Of all layouts but one."""

    found = NO_FREQUENCIES

    def note(self, frame: Frame) -> None:
        """Nothing is counted."""


class Calibration:
    """Counts keys of both streams until there are `tuples`; key_slots: each stream's slot of the key."""

    def __init__(self, key_slots: tuple[int, ...], tuples: int) -> None:
        self.found = NO_FREQUENCIES
        self._slots = key_slots
        self._wanted = tuples
        self._counts: list[Counter[int]] = [Counter() for _ in key_slots]

    def note(self, frame: Frame) -> None:
        """Count a frame's keys, or take what it has found."""
        if len(frame.frequencies):
            self.found = frame.frequencies
        if len(self.found):
            return
        for counts, slot, piece in zip(self._counts, self._slots, frame.slices, strict=True):
            codes, times = np.unique(piece.codes[slot], return_counts=True)
            counts.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
        if sum(counts.total() for counts in self._counts) >= self._wanted:
            self.found = frequencies(self._counts)
            self._counts = []


def calibration_of(query: Query) -> Calibrating:
    """What the router of a query counts."""
    options = dict(query.layout.options)
    if "calibration" not in options or query.key_slots is None:
        return NoCalibration()
    return Calibration(query.key_slots, int(options["calibration"]))


def frequencies(counts: list[Counter[int]]) -> Frequencies:
    """Shares of tuples and of pairs by key, from the counts of one stream (self join) or two."""
    codes = np.array(sorted(set().union(*counts)), np.int64)
    left, right = (np.array([c[code] for code in codes.tolist()], np.int64) for c in (counts[0], counts[-1]))
    tuples = left + right
    told = np.sort(np.argsort(-tuples, kind="stable")[:KEYS_TOLD])
    rest = np.setdiff1d(np.arange(len(codes)), told)
    buckets = spread(codes[rest], FREQUENCY_BUCKETS)
    return Frequencies(codes[told], *(_shares(values, told, rest, buckets) for values in (tuples, left * right)))


def _shares(values: NDArray[np.int64], told: I64, rest: I64, buckets: I64) -> U32:
    by_bucket = np.bincount(buckets, values[rest], FREQUENCY_BUCKETS)
    each = np.concatenate((values[told].astype(np.float64), by_bucket))
    shares: U32 = np.floor(each / max(each.sum(), 1) * (2**32 - 1)).astype(np.uint32)
    return shares
