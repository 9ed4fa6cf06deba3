"""How PO-Join's workers know what has expired: SPO-Join's three state schemes, and the bound that comes with a tuple.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 4.2 and Figure 6. A worker keeps batches, and drops those that
its own idea of the window has left. That idea lags behind, or runs ahead of, the probes that reach the worker, so a
probe meets expired tuples or a batch for which the mutable part has answered (false positives), or misses tuples that
were dropped too early (false negatives). The modes that do so have `unsafe` in their names: they exist to show the
error, and are never a default.

- `round_robin_unsafe`: whole slides go to the workers in turn; a batch that comes replaces the worker's oldest.
- `size_broadcast_unsafe`: slides are divided among the workers; with each batch its size goes to all others, and a
  worker takes the sum of the sizes as the number of tuples so far.
- `distributed_cache_unsafe`: the first worker counts the tuples that it evaluates and puts the count into a cache at
  intervals; the others read it at intervals.
- `exact`: the window's lower bound and the handover are in the tuple's frame, as everywhere else in this project; a
  worker waits for the batches that the frame hands over.

What the paper leaves open: a window of L tuples includes the tuples that are not merged yet, so round robin keeps
L / slide - 1 batches. Channels keep the order of their messages; different ones don't wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from loadgen.papers.schemes.setup import F64, I64, Channel, Setup, in_order
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Store

#: The cache's key for the first worker's count.
KEY, FIELD = "published:window-state", "tuples"
#: A count that is no longer written expires.
TTL_S = 3_600
#: Batches whose delays are drawn at once.
AHEAD = 64


class Scheme(StrEnum):
    """How a worker knows the window."""

    EXACT = "exact"
    ROUND_ROBIN_UNSAFE = "round_robin_unsafe"
    SIZE_BROADCAST_UNSAFE = "size_broadcast_unsafe"
    DISTRIBUTED_CACHE_UNSAFE = "distributed_cache_unsafe"


@dataclass(frozen=True, slots=True)
class HeldTrace:
    """What the workers held when they evaluated each of n probes, int64 (workers, n) each.

    lower: batches that end at or below this index were not searched; upper: neither were those that end above it
    """

    lower: I64
    upper: I64


class SimulatedWorkers:
    """All workers of a run under one scheme, and what reaches them when; probe i comes right before tuple i.

    store: the cache of the distributed scheme; key: this run's own key in it
    """

    def __init__(self, setup: Setup, scheme: Scheme, store: Store, key: str = KEY) -> None:
        self.setup, self._scheme = setup, scheme
        seeds = iter(np.random.default_rng(setup.seed).spawn(2 * setup.workers + 2))
        hop_s, everyone = setup.hop_ms / 1e3, range(setup.workers)
        self._probes = [Channel(next(seeds), hop_s) for _ in everyone]
        self._sizes = [Channel(next(seeds), hop_s) for _ in everyone]
        self._merges = Channel(next(seeds), hop_s)
        self._sent = np.empty(0)
        #: When worker w hears of batch k: its own batches arrive, of others' only the size.
        self._heard = [np.empty(0) for _ in everyone]
        self._taken = 0
        #: When each worker evaluates tuples from number `_taken` on.
        self._evaluated = np.empty((setup.workers, 0))
        self._cache = _Cache(setup, store, key, next(seeds)) if scheme is Scheme.DISTRIBUTED_CACHE_UNSAFE else None
        if scheme is Scheme.ROUND_ROBIN_UNSAFE:
            _check_round_robin(setup)

    def own(self, worker: int, batches: int) -> I64:
        """Which of the first `batches` batches are the worker's."""
        return np.arange(worker, batches, self.setup.workers)

    def take(self, tuples: int) -> HeldTrace:
        """What each worker held when it evaluated the next `tuples` tuples, at least one."""
        self._look_ahead(tuples)
        first, self._taken = self._taken, self._taken + tuples
        evaluated, self._evaluated = np.split(self._evaluated, [tuples], axis=1)
        self._hear(float(evaluated[:, -1].max()))
        indexes = np.arange(first, first + tuples)
        if self._scheme is Scheme.EXACT:
            shape = (self.setup.workers, tuples)
            return HeldTrace(np.broadcast_to(self.setup.lower(indexes), shape), np.broadcast_to(indexes, shape))
        upper = [self._upper(worker, evaluated[worker]) for worker in range(self.setup.workers)]
        return HeldTrace(np.stack(list(self._lower(evaluated, indexes))), np.stack(upper))

    def _look_ahead(self, tuples: int) -> None:
        """Until the first worker, which writes the cache, has come as far in time as the last has with these tuples."""
        ends = self._evaluated
        while ends.shape[1] < tuples or ends[0, -1] < ends[:, tuples - 1].max():
            first = self._taken + ends.shape[1]
            ends = np.concatenate([ends, self._evaluate(first, max(tuples, self.setup.delta))], axis=1)
        self._evaluated = ends

    def _evaluate(self, first: int, tuples: int) -> F64:
        indexes = np.arange(first, first + tuples)
        self._send((first + tuples) // self.setup.delta)
        emitted = self.setup.emitted(indexes)
        arrived = [channel.carry(emitted) for channel in self._probes]
        if not self.setup.is_queueing:
            return np.stack(arrived)
        return np.stack([in_order(np.maximum(at, self._ready(w, indexes))) for w, at in enumerate(arrived)])

    def _ready(self, worker: int, indexes: I64) -> F64:
        """When the worker has all of its batches that precede each tuple."""
        before = -(-(indexes // self.setup.delta - worker) // self.setup.workers)
        own = self._heard[worker][worker :: self.setup.workers]
        return np.concatenate([[0.0], own])[np.maximum(before, 0)]

    def _send(self, batches: int) -> None:
        """Make at least this many batches, and let all workers hear of them."""
        have = len(self._sent)
        if batches <= have:
            return
        ends = np.arange(have + 1, max(batches, have + AHEAD) + 1) * self.setup.delta
        sent = self._merges.carry(self.setup.emitted(ends)) + self.setup.delta * self.setup.merge_us / 1e6
        self._sent = np.concatenate([self._sent, sent])
        self._heard = [np.concatenate([h, c.carry(sent)]) for h, c in zip(self._heard, self._sizes, strict=True)]

    def _hear(self, until: float) -> None:
        """Everything that may be heard up to this time."""
        while not len(self._sent) or self._sent[-1] <= until:
            self._send(len(self._sent) + AHEAD)

    def _upper(self, worker: int, evaluated: F64) -> I64:
        """The end of the last of its own batches that had arrived."""
        own = self.own(worker, len(self._sent))
        come = np.searchsorted(self._heard[worker][own], evaluated, "right")
        return np.concatenate([[0], (own + 1) * self.setup.delta])[come]

    def _lower(self, evaluated: F64, indexes: I64) -> Iterator[I64]:
        for worker in range(self.setup.workers):
            if self._scheme is Scheme.ROUND_ROBIN_UNSAFE:
                yield self._replaced(worker, evaluated[worker])
            elif self._scheme is Scheme.SIZE_BROADCAST_UNSAFE:
                heard = np.searchsorted(self._heard[worker], evaluated[worker], "right")
                yield self.setup.lower(heard * self.setup.delta)
        if self._cache:
            yield self.setup.lower(indexes)
            seen = self._cache.seen(evaluated, indexes[0], self._evaluated[0])
            yield from (self.setup.lower(each) for each in seen)

    def _replaced(self, worker: int, evaluated: F64) -> I64:
        kept = (self.setup.window // self.setup.slide - 1) // self.setup.workers
        own = self.own(worker, len(self._sent))
        come = np.searchsorted(self._heard[worker][own], evaluated, "right")
        return (np.maximum(come - kept, 0) * self.setup.workers + worker) * self.setup.delta


def _check_round_robin(setup: Setup) -> None:
    kept, left = divmod(setup.window // setup.slide - 1, setup.workers)
    if setup.delta != setup.slide or left or not kept:
        raise ConfigurationError(
            f"round robin takes whole slides, equally many per worker: delta is {setup.delta}, slide {setup.slide}, "
            f"and {setup.window // setup.slide - 1} slides are shared by {setup.workers} workers"
        )


class _Cache:
    """The first worker writes how many tuples it has evaluated, and the others read that, all at intervals."""

    def __init__(self, setup: Setup, store: Store, key: str, rng: np.random.Generator) -> None:
        self._setup, self._store, self._key = setup, store, key
        self._step = setup.interval_ms / 1e3
        # Every worker starts at a moment of its own.
        self._first = rng.random(setup.workers) * self._step
        self._turns = np.zeros(setup.workers, np.int64)
        #: What each worker has read last.
        self._read = np.zeros(setup.workers, np.int64)
        store.remove(key)

    def seen(self, evaluated: F64, first: int, beyond: F64) -> Iterator[I64]:
        """For each worker but the first, the count that it knew when it evaluated tuples from number `first` on.

        evaluated: float64 (workers, n); beyond: when the first worker evaluates those that follow
        """
        mine = np.concatenate([evaluated[0], beyond])
        times: list[list[float]] = [[0.0] for _ in self._read]
        counts = [[count] for count in self._read.tolist()]
        for time, worker in sorted(self._until(float(evaluated[:, -1].max()))):
            if worker == 0:
                count = first + int(np.searchsorted(mine, time, "right"))
                self._store.put({self._key: {FIELD: count}}, TTL_S)
            else:
                times[worker].append(time)
                counts[worker].append(int(self._store.get(self._key).get(FIELD, 0)))
        self._read = np.array([each[-1] for each in counts])
        for worker in range(1, self._setup.workers):
            latest = np.searchsorted(times[worker], evaluated[worker], "right") - 1
            yield np.array(counts[worker])[latest]

    def _until(self, end: float) -> Iterator[tuple[float, int]]:
        """(time, worker) of each turn up to `end`."""
        for worker, (begin, done) in enumerate(zip(self._first.tolist(), self._turns.tolist(), strict=True)):
            turns = max(int((end - begin) // self._step) + 1, done)
            self._turns[worker] = turns
            yield from ((begin + turn * self._step, worker) for turn in range(done, turns))
