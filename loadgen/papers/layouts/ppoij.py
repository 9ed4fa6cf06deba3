"""The parallel patterns for interval joins: key partitioning, data parallel, hybrid.

PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025), section 3. They differ in how many workers share a key: one, all, or
as many as its frequency needs. A key's workers take turns at storing its tuples, and all of them search for each one.

In the paper each replica merges the output of several emitters, so collectors must restore an order: of all tuples for
the data parallel pattern, of each key for the hybrid, which keeps a watermark per key (section 4, table 1). Here the
log defines one order for all workers, so each key is in event order at each of its workers, and workers purge by the
windows in the frame, which take the place of watermarks.

A key's workers share its tuples evenly, and all of them search for each one. A key starts with the worker that it had
before frequencies were known (lines 4 to 10 are skipped then, section 4.3), and never loses a worker.

Departures from the paper, and the reasons:

- A key stays as it is if none of its workers is overloaded. Algorithm 1 splits every key in turn until all workers are
  balanced, and so splits keys that cause no imbalance: with 1,000 keys of Zipf 1.0, 8 workers and theta 1.05 it sends
  2.8 messages a tuple; this one sends 1.7.
- Frequencies measure the tuples that workers hold. Comparisons grow with the product of both streams' frequencies,
  which is near their square: with balanced tuples, one worker still makes 2.3 times the mean number of comparisons.
  `by_weight` balances several weights at once. It splits the heaviest key of the most loaded worker: splitting keys in
  turn, as algorithm 1 does, would take 7.4 messages a tuple; this way takes 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.layouts.calibration import FREQUENCY_BUCKETS, Frequencies
from loadgen.papers.layouts.layout import FrameShare, Layout, every, spread
from spojoin.arrays import F64, I64, U8, Flags
from spojoin.model import Query
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import NO_GUIDANCE, Frame


class Splitting:
    """The workers that share each of k items (keys, or buckets of keys).

    weights: float64 (w, k), one row of shares for each weight to balance; homes: each item's first worker
    theta: the largest allowed ratio of a worker's load to the mean; max_splitting: the most workers of an item
    """

    def __init__(self, weights: F64, homes: list[int], workers: int, theta: float, max_splitting: int) -> None:
        totals = weights.sum(axis=1, keepdims=True)
        self._weights = weights * workers / np.where(totals > 0, totals, 1)
        self._theta = theta
        self._most = min(workers, max_splitting)
        self.groups = [[home] for home in homes]
        self.loads = np.zeros((len(weights), workers))
        for item, home in enumerate(homes):
            self.loads[:, home] += self._weights[:, item]

    @property
    def is_balanced(self) -> bool:
        """Whether each worker has some load, at most theta times the mean."""
        return bool((self.loads <= self._theta).all() and (self.loads > 0).all())

    def in_turn(self) -> None:
        """Algorithm 1, lines 11 to 28: give items more workers in turn, the heaviest first, until balanced."""
        order = np.argsort(-self._weights.max(axis=0), kind="stable").tolist()
        has_split = True
        while has_split and not self.is_balanced:
            has_split = False
            for item in order:
                if self._may_split(item) and (self.loads[:, self.groups[item]] > self._theta).any():
                    self._split(item)
                    has_split = True
                    if self.is_balanced:
                        return

    def by_weight(self) -> None:
        """Give a worker to the item that weighs most on the most loaded worker, until balanced."""
        while not self.is_balanced:
            weight, worker = divmod(int(np.argmax(self.loads)), self.loads.shape[1])
            item = max(self._at(worker), key=lambda item: self._relief(weight, item), default=None)
            if item is None or self._relief(weight, item) <= 0:
                return
            self._split(item)

    def _at(self, worker: int) -> Iterator[int]:
        return (item for item, group in enumerate(self.groups) if worker in group and self._may_split(item))

    def _may_split(self, item: int) -> bool:
        return len(self.groups[item]) < self._most

    def _relief(self, weight: int, item: int) -> float:
        """The load that each of the item's workers would lose."""
        shared = len(self.groups[item])
        return float(self._weights[weight, item] / shared / (shared + 1))

    def _split(self, item: int) -> None:
        """Lines 15 to 23: one more worker, the least loaded without the item."""
        group, weight = self.groups[item], self._weights[:, item]
        most = self.loads.max(axis=0)
        most[group] = np.inf
        self.loads[:, group] -= (weight / len(group) / (len(group) + 1))[:, None]
        group.append(int(np.argmin(most)))
        self.loads[:, group[-1]] += weight / len(group)


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
    that held it before, so tuples after the calibration find tuples stored before its end.

    Frequencies are counted once, as in the paper: keys are monitored at runtime (section 3.3), in a calibration phase
    at the beginning of the execution (section 4.3), then algorithm 1 runs, and its mapping is used. The conclusion
    confirms this. The paper doesn't mention a second calibration, drift, or how long the first one lasts. Its one rule,
    that a key keeps its worker, has the reason above, and a second calibration would have to obey it, too: a key's
    earlier workers must keep searching as long as a window reaches their tuples. As a layout sees one frame alone,
    each frame would have to carry the frequencies of every calibration that its windows reach; or groups could only
    grow, until every key that was ever frequent had all workers, as in DP-OIJ. A restarted query counts again.
    """

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self._known = NO_GUIDANCE
        self._groups = Groups.of_homes(1)

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored by one worker of the key's group, evaluated by the whole group."""
        codes = keys_of(self.query, frame, stream)
        groups = self._groups_of(frame.guidance, workers)
        items = groups.items(codes)
        stored = groups.member(items, turns(codes, frame.slices[stream].first_index)) == worker
        return FrameShare(stored, groups.has(items, worker))

    def _groups_of(self, guidance: U8, workers: int) -> Groups:
        is_known = guidance is self._known or np.array_equal(guidance, self._known)
        if not is_known or self._groups.workers != workers:
            found = Frequencies.unpacked(guidance)
            self._groups = self._split(found, workers) if len(found) else Groups.of_homes(workers)
        self._known = guidance
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

    def has(self, items: I64, worker: int) -> Flags:
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
    plan = SearchPlan(query)
    piece = frame.slices[stream]
    return np.zeros(len(piece), np.int64) if plan.key_slots is None else piece.codes[plan.key_slots[stream]]


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
