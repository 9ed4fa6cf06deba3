"""The parallel patterns for interval joins: key partitioning, data parallel, hybrid.

PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025), section 3. They differ in how many workers share a key: one, all, or
as many as its frequency needs. A key's workers take turns at storing its tuples, and all of them search for each one.

In the paper each replica merges the output of several emitters, so collectors must restore an order: of all tuples for
the data parallel pattern, of each key for the hybrid, which keeps a watermark per key (section 4, table 1). Here the
log defines one order for all workers, so each key is in event order at each of its workers, and the windows in the
frame, by which workers purge what they hold, take the place of watermarks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.spread import spread
from spojoin.model import Query
from spojoin.published.layouts.layout import I64, FrameShare, Layout, Mask, every
from spojoin.published.layouts.splitting import Splitting
from spojoin.wire.records import FREQUENCY_BUCKETS, NO_FREQUENCIES, Frame, Frequencies


class KeyPartitioning(Layout):
    """KP-OIJ, section 3.1: the worker of a key's hash stores its tuples and searches for their partners."""

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored and evaluated by one worker."""
        own = homes(keys_of(self.query, frame, stream), workers) == worker
        return FrameShare(own, own)


class DataParallel(Layout):
    """DP-OIJ, section 3.2: all workers take turns at storing a key's tuples, and each searches for every tuple."""

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored by one worker, evaluated by all."""
        codes = keys_of(self.query, frame, stream)
        return FrameShare(turns(codes, frame.slices[stream].first_index) % workers == worker, every(frame, stream))


class Hybrid(Layout):
    """HP-OIJ, section 3.3: key partitioning until keys' frequencies are known, then each key has a group of workers.

    The groups are a function of the frame's frequencies and the worker count. A key's group always includes the worker
    that held it before, so tuples that come after the calibration find those stored before its end.

    Frequencies are counted once, as in the paper: keys are monitored at runtime (section 3.3), in a calibration phase
    at the beginning of the execution (section 4.3), then algorithm 1 runs, and its mapping is used. The conclusion says
    the same. The paper doesn't mention a second calibration, drift, or how long the first one lasts. Its one rule, that
    a key keeps its worker, has the reason above, and a second calibration would have to obey it, too: a key's earlier
    workers must keep searching as long as a window reaches what they stored. As a layout sees one frame alone, each
    frame would have to carry the frequencies of every calibration that its windows reach; or groups could only grow,
    until every key that was ever frequent had all workers, as in DP-OIJ. A restarted query counts again.
    """

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self._known = NO_FREQUENCIES
        self._groups = Groups.of_homes(1)

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored by one worker of the key's group, evaluated by the whole group."""
        codes = keys_of(self.query, frame, stream)
        found = NO_FREQUENCIES if frame.guidance is None else frame.guidance.frequencies
        groups = self._groups_of(found, workers)
        items = groups.items(codes)
        stored = groups.member(items, turns(codes, frame.slices[stream].first_index)) == worker
        return FrameShare(stored, groups.has(items, worker))

    def _groups_of(self, found: Frequencies, workers: int) -> Groups:
        if found is not self._known or self._groups.workers != workers:
            if not (_is_same(found, self._known) and self._groups.workers == workers):
                self._groups = self._split(found, workers) if len(found) else Groups.of_homes(workers)
            self._known = found
        return self._groups

    def _split(self, found: Frequencies, workers: int) -> Groups:
        return split(
            found,
            workers,
            float(self.options["theta"]),
            int(self.options["max_splitting"]),
            has_pairs=self.options["balance"] == "both",
        )


class Groups:
    """The workers of each item: the frequent keys, codes int64 (k,) ascending, then the buckets of other keys."""

    def __init__(self, codes: I64, members: list[list[int]], workers: int) -> None:
        self.workers = workers
        self.sizes = np.array([len(group) for group in members], np.int64)
        self._codes = codes
        self._first = np.cumsum(self.sizes) - self.sizes
        self._members = np.array([worker for group in members for worker in group], np.int64)
        self._has = np.zeros((workers, len(members)), np.bool_)
        for item, group in enumerate(members):
            self._has[group, item] = True

    @classmethod
    def of_homes(cls, workers: int) -> Groups:
        """Every key at the worker of its hash."""
        return cls(np.empty(0, np.int64), [[home] for home in _bucket_homes(workers)], workers)

    def items(self, codes: I64) -> I64:
        """The item of each code, int64 (n,)."""
        found = len(self._codes) + spread(codes, FREQUENCY_BUCKETS)
        at = np.searchsorted(self._codes, codes)
        is_listed = at < len(self._codes)
        is_listed[is_listed] = self._codes[at[is_listed]] == codes[is_listed]
        return np.where(is_listed, at, found)

    def member(self, items: I64, turn: I64) -> I64:
        """The worker whose turn it is in each item's group, int64 (n,)."""
        member: I64 = self._members[self._first[items] + turn % self.sizes[items]]
        return member

    def has(self, items: I64, worker: int) -> Mask:
        """Whether the worker is in each item's group, bool (n,)."""
        has: NDArray[np.bool_] = self._has[worker, items]
        return has


def split(found: Frequencies, workers: int, theta: float, max_splitting: int, *, has_pairs: bool) -> Groups:
    """The groups that algorithm 1 forms from frequencies; `has_pairs`: balance comparisons, too."""
    weights = np.stack([found.tuples, found.pairs] if has_pairs else [found.tuples]).astype(np.float64)
    at = [*homes(found.codes, workers).tolist(), *_bucket_homes(workers)]
    splitting = Splitting(weights, at, workers, theta, max_splitting)
    if has_pairs:
        splitting.by_weight()
    else:
        splitting.in_turn()
    return Groups(found.codes, splitting.groups, workers)


def keys_of(query: Query, frame: Frame, stream: int) -> I64:
    """The join keys of a frame's tuples of a stream, int64 (n,); the same for all if the query has no key."""
    piece = frame.slices[stream]
    return np.zeros(len(piece), np.int64) if query.key_slots is None else piece.codes[query.key_slots[stream]]


def homes(codes: I64, workers: int) -> I64:
    """The worker of each key's hash, int64 (n,): the same for all keys of a bucket."""
    return spread(codes, FREQUENCY_BUCKETS) % workers


def _bucket_homes(workers: int) -> list[int]:
    return [bucket % workers for bucket in range(FREQUENCY_BUCKETS)]


def turns(codes: I64, first_index: int) -> I64:
    """Each tuple's turn within its key, int64 (n,): from an arbitrary start, then one by one.

    The start depends on the key and the frame, so that a key with one tuple per frame goes round the workers as well.
    """
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    begins = np.ones(len(codes), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    places = np.arange(len(codes), dtype=np.int64)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return ranks + spread(codes, 2**31, salt=first_index)


def _is_same(one: Frequencies, other: Frequencies) -> bool:
    return (
        np.array_equal(one.codes, other.codes)
        and np.array_equal(one.tuples, other.tuples)
        and np.array_equal(one.pairs, other.pairs)
    )
