"""A cluster as the simulation has it: sizes, a rate, and delays drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spojoin.errors import ConfigurationError

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Setup:
    """PO-Join workers over one stream.

    window, slide, delta: in tuples; delta is a batch, the paper's merging threshold
    rate: tuples per second; hop_ms: mean of a message's delay, exponentially distributed
    merge_us: time per tuple to make a batch; interval_ms: between two writes, and two reads, of the cache
    is_queueing: a worker holds probes back until its own batches before them are here, as the paper's does
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
        return np.maximum(-(-seen // self.slide) * self.slide - self.window, 0)


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
