"""How PO-Join's workers know what has expired: SPO-Join's three state schemes, and the bound that comes with a tuple.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 4.2 and Figure 6. A worker keeps batches, and drops those that
its own idea of the window has left. That idea lags behind, or runs ahead of, the probes that reach the worker, so a
probe meets expired tuples or a batch that the mutable part has answered for (false positives), or misses tuples that
are dropped too early (false negatives). The modes that do so have `unsafe` in their names: they exist to show the
error, and nothing else runs them.

- `round_robin_unsafe`: whole slides go to the workers in turn; a batch that comes replaces the worker's oldest.
- `size_broadcast_unsafe`: slides are divided among the workers; with each batch its size goes to all others, and a
  worker takes the sum of the sizes for the number of tuples that have come.
- `distributed_cache_unsafe`: the first worker counts the tuples that it evaluates and puts the count into a cache at
  intervals; the others take the cache's word at intervals.
- `exact`: the window's lower bound and what is handed over stand in the tuple's frame, as everywhere else in this
  project; a worker waits for the batches that the frame hands over.

What the paper leaves open: a window of L tuples holds the tuples that are not merged yet as well, so that round robin
keeps L / slide - 1 batches. Channels keep the order of their messages; different ones don't wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from spojoin.errors import ConfigurationError
from spojoin.published.setup import F64, I64, Setup, in_order
from spojoin.runtime.ports import Store

#: Where the first worker's count stands.
KEY, FIELD = "published:window-state", "tuples"


class Scheme(StrEnum):
    """By what a worker knows the window."""

    EXACT = "exact"
    ROUND_ROBIN_UNSAFE = "round_robin_unsafe"
    SIZE_BROADCAST_UNSAFE = "size_broadcast_unsafe"
    DISTRIBUTED_CACHE_UNSAFE = "distributed_cache_unsafe"


@dataclass(frozen=True, slots=True)
class Trace:
    """What the workers held when they evaluated each of n probes, int64 (workers, n) each.

    lower: batches that end at or below this index were not searched; upper: nor were those that end above this one
    """

    lower: I64
    upper: I64


class Workers:
    """All workers of a run over the first `tuples` tuples, and what reaches them when."""

    def __init__(self, setup: Setup, tuples: int) -> None:
        self.setup, self.tuples = setup, tuples
        rng = np.random.default_rng(setup.seed)
        emitted = setup.emitted(tuples)
        probes = [in_order(emitted + setup.delays(rng, tuples)) for _ in range(setup.workers)]
        ends = np.arange(setup.delta, tuples, setup.delta)
        self.ends: I64 = ends
        merged = emitted[ends] + setup.delays(rng, len(ends)) + setup.delta * setup.merge_us / 1e6
        sent = in_order(merged)
        #: When worker w hears of batch k: of its own the batch itself, of others' their size.
        self.heard = [in_order(sent + setup.delays(rng, len(ends))) for _ in range(setup.workers)]
        self.evaluated = [self._evaluated(w, probes[w]) for w in range(setup.workers)]
        self._rng = rng

    def own(self, worker: int) -> I64:
        """Numbers of the worker's batches."""
        return np.arange(worker, len(self.ends), self.setup.workers)

    def _evaluated(self, worker: int, arrived: F64) -> F64:
        if not self.setup.is_queueing:
            return arrived
        own = self.own(worker)
        before = np.searchsorted(self.ends[own], np.arange(self.tuples), "right")
        ready = np.concatenate([[0.0], self.heard[worker][own]])[before]
        return in_order(np.maximum(arrived, ready))

    def trace(self, scheme: Scheme, store: Store) -> Trace:
        """What each worker held under a scheme; `store` is the cache of the distributed one, and its alone."""
        if scheme is Scheme.EXACT:
            shape = (self.setup.workers, self.tuples)
            return Trace(np.broadcast_to(self.true_lower(), shape), np.broadcast_to(np.arange(self.tuples), shape))
        if scheme is Scheme.ROUND_ROBIN_UNSAFE:
            lower = self._replaced()
        elif scheme is Scheme.SIZE_BROADCAST_UNSAFE:
            lower = self._summed()
        else:
            lower = self._cached(store)
        return Trace(np.stack(lower), np.stack([self._upper(w) for w in range(self.setup.workers)]))

    def true_lower(self) -> I64:
        """The window's lower bound of each probe, int64 (tuples,)."""
        return self._bound(np.arange(self.tuples))

    def _bound(self, seen: I64) -> I64:
        slide = self.setup.slide
        return np.maximum(-(-seen // slide) * slide - self.setup.window, 0)

    def _upper(self, worker: int) -> I64:
        """The end of the last own batch that was there."""
        own = self.own(worker)
        come = np.searchsorted(self.heard[worker][own], self.evaluated[worker], "right")
        return np.concatenate([[0], self.ends[own]])[come]

    def _replaced(self) -> list[I64]:
        setup = self.setup
        kept, left = divmod(setup.window // setup.slide - 1, setup.workers)
        if setup.delta != setup.slide or left or not kept:
            raise ConfigurationError(
                f"round robin takes whole slides, and as many a worker: delta is {setup.delta}, the "
                f"slide {setup.slide}, "
                f"and {setup.window // setup.slide - 1} slides are shared by {setup.workers} workers"
            )
        found = []
        for worker in range(setup.workers):
            own = self.own(worker)
            come = np.searchsorted(self.heard[worker][own], self.evaluated[worker], "right")
            oldest = np.maximum(come - kept, 0) * setup.workers + worker
            found.append(oldest * setup.delta)
        return found

    def _summed(self) -> list[I64]:
        counts = [np.searchsorted(self.heard[w], self.evaluated[w], "right") for w in range(self.setup.workers)]
        return [self._bound(count * self.setup.delta) for count in counts]

    def _cached(self, store: Store) -> list[I64]:
        read = self._read(store)
        found = [self.true_lower()]
        for worker in range(1, self.setup.workers):
            times, counts = read[worker]
            latest = np.searchsorted(times, self.evaluated[worker], "right")
            found.append(self._bound(np.concatenate([[0], counts])[latest]))
        return found

    def _read(self, store: Store) -> Mapping[int, tuple[F64, I64]]:
        """Per worker when it read the cache, and what stood there; writes and reads pass through the store itself."""
        times: dict[int, list[float]] = {w: [] for w in range(1, self.setup.workers)}
        counts: dict[int, list[int]] = {w: [] for w in range(1, self.setup.workers)}
        store.remove(KEY)
        for time, worker in sorted(self._turns()):
            if worker == 0:
                seen = int(np.searchsorted(self.evaluated[0], time, "right"))
                store.put({KEY: {FIELD: seen}})
            else:
                times[worker].append(time)
                counts[worker].append(int(store.get(KEY).get(FIELD, 0)))
        return {w: (np.array(times[w]), np.array(counts[w], np.int64)) for w in times}

    def _turns(self) -> Iterator[tuple[float, int]]:
        """(time, worker) of each write (worker 0) and read; every worker starts at a moment of its own."""
        step, last = self.setup.interval_ms / 1e3, max(float(times[-1]) for times in self.evaluated)
        for worker in range(self.setup.workers):
            first = float(self._rng.random()) * step
            yield from ((first + n * step, worker) for n in range(int((last - first) / step) + 1))
