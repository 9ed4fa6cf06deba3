"""The frequencies of keys: the router counts them, and frames carry them to the hybrid layout's workers (PPOIJ, 4.3).

In the paper the emitters count, and the first replica merges their counts into one distribution. Here the router's
guide does all this. It counts the tuples of the log's frames, including its predecessors' frames; once it has counted
enough, every frame carries the result. So a worker that reads the log again finds the result beside the tuples, and a
successor takes it from the last frame. If the log was trimmed before the calibration ended, a successor counts the
rest. The result never changes: the paper calibrates once, in an initial period (`ppoij.Hybrid` says why this code does
the same).

Listing every key would fill the frames: the most frequent keys are listed one by one, the others counted in buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.layouts.layout import spread
from spojoin.arrays import I64, U8, U32
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import Guide, hot_flags
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import NO_GUIDANCE, Frame, HotKeys, StreamSlice

#: Keys that are not among the frequent ones are counted together, in this many buckets.
FREQUENCY_BUCKETS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """The router's only result; empty arrays before it.

    codes: int64 (k,), the most frequent keys, ascending
    tuples, pairs: uint32 (k + FREQUENCY_BUCKETS,), shares of all tuples, and of all pairs of a left and a right tuple
        with the same key, in units of 2**-32: for each of these keys, then for the other keys in each bucket
    """

    codes: I64
    tuples: U32
    pairs: U32

    def __len__(self) -> int:
        return len(self.tuples)

    def packed(self) -> U8:
        """The three arrays, one after the other."""
        return np.frombuffer(b"".join(each.tobytes() for each in (self.codes, self.tuples, self.pairs)), np.uint8)

    @classmethod
    def unpacked(cls, guidance: U8) -> Frequencies:
        """From the bytes of a frame, which has none before the result."""
        if not len(guidance):
            return cls(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))
        data = guidance.tobytes()
        # k codes of 8 bytes, then twice k + FREQUENCY_BUCKETS shares of 4 bytes
        k = (len(data) - 8 * FREQUENCY_BUCKETS) // 16
        shares = np.frombuffer(data, np.uint32, offset=8 * k)
        return cls(np.frombuffer(data, np.int64, k), shares[: len(shares) // 2], shares[len(shares) // 2 :])


#: Keys listed one by one: with the buckets they take 2 KB of a full frame's 170.
KEYS_TOLD = 64


class Calibration(Guide):
    """Counts the keys of `tuples` tuples of both streams; key_slots: the key's slot in each stream."""

    def __init__(self, key_slots: tuple[int, ...], tuples: int) -> None:
        self._found = NO_GUIDANCE
        self._slots = key_slots
        self._wanted = tuples
        self._counts: list[Counter[int]] = [Counter() for _ in key_slots]

    def follow_frame(self, frame: Frame) -> None:
        """Count a frame's keys, or take over the result that it carries."""
        if not len(self._found):
            self._found = frame.guidance
        if len(self._found):
            return
        for counts, slot, piece in zip(self._counts, self._slots, frame.slices, strict=True):
            codes, times = np.unique(piece.codes[slot], return_counts=True)
            counts.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
        if sum(counts.total() for counts in self._counts) >= self._wanted:
            self._found = frequencies(self._counts).packed()
            self._counts = []

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> U8:
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


class HotKeyGuide(Guide):
    """Flags tuples whose keys the predictor calls hot, for the stream-aware layout."""

    def __init__(self) -> None:
        self._hot_keys: HotKeys | None = None

    def hear(self, hot_keys: HotKeys) -> None:
        """Use these hot keys from the next frame on."""
        self._hot_keys = hot_keys

    def guidance(self, count: int, slices: Sequence[StreamSlice]) -> U8:
        """The flags; nothing if no key is hot yet or the frame is empty."""
        if self._hot_keys is None or not self._hot_keys.hot or not count:
            return NO_GUIDANCE
        return hot_flags(self._hot_keys, count, slices)


def _calibration(query: Query) -> Guide:
    plan = SearchPlan(query)
    assert plan.key_slots is not None, "the check of the query lets no layout by keys pass without a key"
    return Calibration(plan.key_slots, int(dict(query.layout.options)["calibration"]))


_GUIDES: Mapping[str, Callable[[Query], Guide]] = {"hp": _calibration, "sta": lambda _: HotKeyGuide()}


def guide_of(query: Query) -> Guide:
    """The router's addition to frames: none for most layouts."""
    make = _GUIDES.get(query.layout.name)
    return Guide() if make is None else make(query)
