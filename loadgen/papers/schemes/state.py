"""PO-Join workers' knowledge of expiry: SPO-Join's three state schemes, and the bound that comes with a tuple.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 4.2 and Figure 6. A worker keeps batches, and drops a batch once
its own idea of the window has left it. That idea lags behind, or runs ahead of, the probes that reach the worker, so a
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

The paper leaves this open: a window of L tuples includes the tuples that are not merged yet, so round robin keeps
L / slide - 1 batches. Channels keep the order of their messages; different ones don't wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from loadgen.window import window_begin
from spojoin.arrays import F64, I64
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Store


@dataclass(frozen=True, slots=True)
class Setup:
    """PO-Join workers over one stream.

    window, slide, delta: in tuples; delta is a batch, the paper's merging threshold
    rate: tuples per second; hop_ms: mean of a message's delay, exponentially distributed
    merge_us: time per tuple to make a batch; interval_ms: between two writes, and two reads, of the cache
    is_queueing: whether a worker holds probes back until its own earlier batches have come, as in the paper
    """

    window: int
    slide: int
    delta: int
    workers: int
    rate: float
    hop_ms: float = 1.0
    merge_us: float = 1.0
    interval_ms: float = 10.0
    is_queueing: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, of, per in (("window", self.window, self.slide), ("slide", self.slide, self.delta)):
            if per < 1 or of % per:
                raise ConfigurationError(
                    f"{name} is {of}; it must be a multiple of {per}: choose another delta or slide"
                )
        if self.workers < 1:
            raise ConfigurationError(f"workers is {self.workers}; there must be at least one")

    def emitted(self, tuples: I64) -> F64:
        """When the router sends each tuple, by its index: seconds, float64 (n,) from int64 (n,)."""
        return tuples / self.rate

    def lower(self, seen: I64) -> I64:
        """The window's lower bound for probes after these numbers of tuples: int64 (n,) from int64 (n,)."""
        return np.maximum(window_begin(seen, self.window, self.slide), 0)


class Channel:
    """Messages from one process to another: each is delayed, and none overtakes the one before it.

    Each channel has its own generator, so draws from one, however many at a time, change no other.
    """

    def __init__(self, rng: np.random.Generator, mean_s: float) -> None:
        self._rng, self._mean_s, self._last = rng, mean_s, 0.0

    def carry(self, sent: F64) -> F64:
        """When messages sent at these times arrive, float64 (n,); calls follow one another in time."""
        delayed = sent + self._rng.exponential(self._mean_s, len(sent))
        arrived = np.maximum(in_order(delayed), self._last)
        self._last = float(arrived[-1]) if len(arrived) else self._last
        return arrived


def in_order(times: F64) -> F64:
    """Arrivals on one channel, which keeps messages in the order in which they were sent."""
    return np.maximum.accumulate(times) if len(times) else times


def served(arrivals: F64, service: F64) -> F64:
    """When each message is done, one after the other: float64 (n,), from arrivals in order and service times."""
    work = np.cumsum(service)
    return work + np.maximum.accumulate(arrivals - work + service) if len(service) else work


#: The cache's key for the first worker's count.
KEY, FIELD = "published:window-state", "tuples"
#: A count that is no longer written expires.
TTL_S = 3_600
#: Batches whose delays are drawn at once.
AHEAD = 64


class Scheme(StrEnum):
    """How a worker determines the window."""

    EXACT = "exact"
    ROUND_ROBIN_UNSAFE = "round_robin_unsafe"
    SIZE_BROADCAST_UNSAFE = "size_broadcast_unsafe"
    DISTRIBUTED_CACHE_UNSAFE = "distributed_cache_unsafe"


@dataclass(frozen=True, slots=True)
class HeldTrace:
    """The workers' state when they evaluated each of n probes, int64 (workers, n) each.

    lower: batches that end at or below this index were not searched; upper: batches that end above it weren't either
    """

    lower: I64
    upper: I64


class SimulatedWorkers:
    """All workers of a run under one scheme, with the arrivals at each; probe i comes right before tuple i.

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
        #: When worker w learns of batch k: its own batches arrive, but only the size of others'.
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
        """Each worker's state when it evaluated the next `tuples` tuples, at least one."""
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
        """The end of the worker's last own batch that had arrived."""
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
        # Every worker starts at a different time.
        self._first = rng.random(setup.workers) * self._step
        self._turns = np.zeros(setup.workers, np.int64)
        #: Each worker's last read value.
        self._read = np.zeros(setup.workers, np.int64)
        store.remove(key)

    def seen(self, evaluated: F64, first: int, beyond: F64) -> Iterator[I64]:
        """For each worker but the first, the count that it knew when it evaluated tuples from number `first` on.

        evaluated: float64 (workers, n); beyond: when the first worker evaluates the following tuples
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


#: (probes int64 (m,), stored int64 (k,)) -> which of them match, bool (m, k).
Matches = Callable[[I64, I64], NDArray[np.bool_]]
#: Probes compared with a run of stored tuples at once.
PROBES = 512


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of all workers together.

    extra: the mean number, per probe, of tuples met in batches that were expired or not handed over yet; probes: the
        share of probes that met any
    false_positives, false_negatives: matching pairs of a probe and a stored tuple in such batches, and in missed ones
    """

    extra: float
    probes: float
    false_positives: int
    false_negatives: int


def count(workers: SimulatedWorkers, trace: HeldTrace, matches: Matches) -> Errors:
    """Compare workers' state with the window: held batches that it has left, and missing batches that it includes.

    trace: of the tuples from the first on
    """
    tuples = np.arange(trace.lower.shape[1])
    true, delta = workers.setup.lower(tuples), workers.setup.delta
    batches = (len(tuples) - 1) // delta
    stale, positives, negatives = np.zeros(len(tuples), np.int64), 0, 0
    for worker in range(workers.setup.workers):
        lower, upper = trace.lower[worker], trace.upper[worker]
        for end in ((workers.own(worker, batches) + 1) * delta).tolist():
            stored = np.arange(end - delta, end)
            held = (end > lower) & (end <= upper)
            wanted = (end > true) & (end <= tuples)
            stale[held & ~wanted] += delta
            positives += _pairs(np.flatnonzero(held & ~wanted), stored, matches)
            negatives += _pairs(np.flatnonzero(wanted & ~held), stored, matches)
    return Errors(float(stale.mean()), float((stale > 0).mean()), positives, negatives)


def _pairs(probes: I64, stored: I64, matches: Matches) -> int:
    return sum(int(matches(probes[i : i + PROBES], stored).sum()) for i in range(0, len(probes), PROBES))
