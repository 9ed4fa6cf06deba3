"""What a tuple costs on full windows: to store it, and to search for it in each direction of the join.

Seconds are CPU time, except for methods with threads, whose time is the wall clock's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.joins import MeasuredJoin
from loadgen.papers.measurable import Measurable, MethodWork, measurable
from spojoin.errors import SpoJoinError
from spojoin.published.methods.side import I64

#: Tuples stored at once while a window is filled.
FILL_TUPLES = 8_192
#: Tuples of the first measured chunk; each later one takes about CHUNK_S.
FIRST_TUPLES, CHUNK_S, CHUNK_TUPLES_MAX = 16, 0.05, 8_192


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured: seconds float64 (c,) and sizes int64 (c,) of each chunk; error: why nothing was."""

    seconds: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    sizes: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    matches: int = 0
    nbytes: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def tuples(self) -> int:
        """All tuples measured."""
        return int(self.sizes.sum())

    @property
    def us(self) -> float:
        """Microseconds per tuple."""
        return 1e6 * float(self.seconds.sum()) / max(self.tuples, 1)

    @property
    def rate(self) -> float:
        """Tuples per second."""
        return 1e6 / self.us if self.us else 0.0

    @property
    def rates(self) -> NDArray[np.float64]:
        """Tuples per second of each chunk: float64 (c,)."""
        return self.sizes / np.maximum(self.seconds, 1e-9)

    def latency_us(self, percent: float) -> float:
        """A percentile of the time that chunks took, from the first tuple's arrival to the last one's result."""
        return 1e6 * float(np.percentile(self.seconds, percent)) if len(self.seconds) else 0.0


def measure(join: MeasuredJoin, work: MethodWork, seconds: float) -> Point:
    """Measure one method on one join for this long; a method that refuses the query gives the reason as `error`."""
    try:
        return measured(measurable(join, work), join, seconds, work.chunk)
    except SpoJoinError as error:
        return Point(error=str(error))


def measured(made: Measurable, join: MeasuredJoin, seconds: float, chunk: int = 0) -> Point:
    """Fill the windows, then measure chunk by chunk until the time is over or the tuples are used up."""
    for first in range(0, join.fill, FILL_TUPLES):
        made.fill(first, min(first + FILL_TUPLES, join.fill))
    at = join.fill
    size = chunk or FIRST_TUPLES
    made.take(at, at + size)  # compiles what the first probe needs
    before = made.counters()
    taken: list[tuple[float, int]] = []
    matches = 0
    for first, end in _chunks(at + size, join.turns, chunk, taken, seconds):
        took, found = made.take(first, end)
        taken.append((took, end - first))
        matches += found
    after = made.counters()
    spent, sizes = np.array([t for t, _ in taken]), np.array([n for _, n in taken], np.int64)
    return Point(spent, sizes, matches, made.nbytes, {k: v - before.get(k, 0.0) for k, v in after.items()})


def _chunks(
    at: int, turns: int, chunk: int, taken: list[tuple[float, int]], seconds: float
) -> Iterator[tuple[int, int]]:
    size, spent = chunk or FIRST_TUPLES, 0.0
    while spent < seconds and at + size <= turns:
        yield at, at + size
        at += size
        spent += taken[-1][0]
        if not chunk:
            size = int(np.clip(size * CHUNK_S / max(taken[-1][0], 1e-6), FIRST_TUPLES, CHUNK_TUPLES_MAX))
