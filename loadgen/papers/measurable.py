"""The measurable objects: a method at its own interface, and the product's whole engine.

A method runs without router and sink, which favours it; the engine's time includes frames, order and result rows.

Seconds are CPU time, or wall-clock time for methods with threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.joins import MeasuredJoin
from loadgen.papers.methods.machine import SIDES, StreamSide, searches_of
from loadgen.papers.methods.side import Side
from spojoin.arrays import I64
from spojoin.embedded.engine import Engine
from spojoin.errors import SpoJoinError
from spojoin.evaluation.choices import method
from spojoin.model import DEFAULT_METHOD, Direction
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.windows import Window

#: The engine's largest frame; a smaller one is chosen where latency is measured.
ENGINE_FRAME_TUPLES = 8_192


@dataclass(frozen=True, slots=True)
class StoredPart:
    """The share of one of several workers: every `workers`-th block of `block` tuples of each stream; all search."""

    worker: int
    workers: int
    block: int = 1

    def mine(self, count: int) -> NDArray[np.bool_]:
        """Whether the worker stores each of a stream's first `count` tuples: (count,)."""
        owners: I64 = np.arange(count, dtype=np.int64) // self.block % self.workers
        return np.equal(owners, self.worker)

    def window(self, whole: Window) -> Window:
        """The window in the worker's own tuples; a time window is the same for all workers."""
        return whole.share(self.workers)


ALL = StoredPart(0, 1)


@dataclass(frozen=True, slots=True)
class MethodWork:
    """A method, and the measured part of its work.

    options: the method's own; chunk: tuples taken at once, 0 for as many as take a fixed time
    is_storing, is_searching: the measured work; share: the stored part of the tuples, by default all
    """

    method: str
    options: Mapping[str, str] = field(default_factory=dict)
    chunk: int = 0
    is_storing: bool = True
    is_searching: bool = True
    share: StoredPart = ALL


class Measurable(Protocol):
    """A join in progress, driven by turns; a turn is one tuple of one stream."""

    def fill(self, first: int, end: int) -> None:
        """Store tuples of turns [first, end)."""

    def take(self, first: int, end: int) -> tuple[float, int]:
        """Store and search; (seconds, matches)."""

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes."""

    def counters(self) -> dict[str, float]:
        """The method's counters."""


class Turn(NamedTuple):
    """The tuples that a side stores and searches for in a run of turns."""

    side: Side
    directions: tuple[Direction, ...]
    stored: I64
    probes: I64
    lower: I64
    upper: I64


class Sides:
    """A method at its own interface, one side for each stream."""

    def __init__(self, join: MeasuredJoin, work: MethodWork) -> None:
        self._join = join
        self._clock = _clock(work.options)
        share = work.share
        self._mine = [share.mine(codes.shape[1]) for codes in join.codes]
        self._below = [np.concatenate([np.zeros(1, np.int64), np.cumsum(mine)]) for mine in self._mine]
        self._work = work
        self._directions = [tuple(d for d in join.query.directions if d.target == s) for s in range(len(join.columns))]
        chosen = method(work.method, work.options)
        queries = [replace(join.query, method=chosen, window=share.window(window)) for window in join.windows]
        self.sides = [StreamSide(query, s, SIDES[work.method]).side for s, query in enumerate(queries)]

    def fill(self, first: int, end: int) -> None:
        """Store, with one probe for each side, which moves the windows on."""
        for s in range(len(self.sides)):
            turn = self._turn(s, first, end)
            last = slice(max(len(turn.upper) - 1, 0), None)
            _ask(turn._replace(probes=turn.probes[:, last], lower=turn.lower[last], upper=turn.upper[last]))

    def take(self, first: int, end: int) -> tuple[float, int]:
        """Store and search for turns [first, end)."""
        turns = [self._measured(self._turn(s, first, end), s) for s in range(len(self.sides))]
        began = self._clock()
        found = [_ask(turn) for turn in turns]
        return self._clock() - began, sum(found)

    @property
    def nbytes(self) -> int:
        """Bytes of all sides."""
        return sum(side.nbytes for side in self.sides)

    def counters(self) -> dict[str, float]:
        """The counters of all sides together."""
        found: dict[str, float] = {}
        for side in self.sides:
            for name, value in side.counters.as_dict().items():
                found[name] = found.get(name, 0.0) + value
        return found

    def _measured(self, turn: Turn, s: int) -> Turn:
        if not self._work.is_storing:
            # Every search runs against the windows as `fill` left them.
            full, length = int(self._join.before[s][self._join.fill]), self._join.windows[s].length
            oldest = 0 if self._join.windows[s].needs_time else max(full - length, 0)
            upper = np.full_like(turn.upper, self._below[s][full])
            lower = np.full_like(turn.lower, self._below[s][oldest])
            return turn._replace(stored=turn.stored[:, :0], lower=lower, upper=upper)
        if not self._work.is_searching:
            last = slice(max(len(turn.upper) - 1, 0), None)
            return turn._replace(probes=turn.probes[:, last], lower=turn.lower[last], upper=turn.upper[last])
        return turn

    def _turn(self, s: int, first: int, end: int) -> Turn:
        join, directions = self._join, self._directions[s]
        own, probe = join.before[s], directions[0].probe
        held = slice(int(own[first]), int(own[end]))
        stored = np.ascontiguousarray(join.codes[s][:, held][:, self._mine[s][held]])
        begin, last = int(join.before[probe][first]), int(join.before[probe][end])
        at = first + np.flatnonzero(join.stream[first:end] == probe)
        upper = own[at]
        lower, below = join.lower(s, probe, begin, last, upper), self._below[s]
        return Turn(self.sides[s], directions, stored, join.codes[probe][:, begin:last], below[lower], below[upper])


def _clock(options: Mapping[str, str]) -> Callable[[], float]:
    """CPU time, which excludes other work on the machine; wall-clock time if a method has threads."""
    has_threads = options.get("threads", "1") != "1" or options.get("merge") == "non_blocking"
    return time.perf_counter if has_threads else time.thread_time


def _ask(turn: Turn) -> int:
    searches = [searches_of(direction, list(turn.probes)) for direction in turn.directions]
    found = turn.side.take(turn.stored, searches, turn.lower, turn.upper)
    return sum(int(each.counts.sum()) for each in found)


class Whole:
    """The product's own engine, as a whole."""

    def __init__(self, join: MeasuredJoin, frame_tuples: int, workers: int = 1, batch_tuples: int = 0) -> None:
        self._join = join
        sizes: dict[str, Any] = {
            "frame_tuples": frame_tuples,
            "batch_tuples": batch_tuples or ENGINE_FRAME_TUPLES,
            "handover_frames": 1,
        }
        self.engine = Engine(join.query, RouterConfig("figures", workers, **sizes, credits_frames=UNLIMITED))

    def fill(self, first: int, end: int) -> None:
        """Feed the tuples as they would arrive."""
        self.take(first, end)

    def take(self, first: int, end: int) -> tuple[float, int]:
        """Feed the streams one after the other: within a chunk, all tuples of the first precede the second's."""
        before = self._join.before[:, [first, end]]
        batches = [self._join.batch(s, int(before[s, 0]), int(before[s, 1])) for s in range(len(before))]
        matches = self.engine.matches
        began = time.thread_time()
        for s, batch in enumerate(batches):
            for _ in self.engine.feed(s, batch):
                pass
        for _ in self.engine.flush():
            pass
        return time.thread_time() - began, self.engine.matches - matches

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes."""
        return self.engine.index_bytes

    def counters(self) -> dict[str, float]:
        """The engine's counters."""
        return self.engine.counters()


def measurable(join: MeasuredJoin, work: MethodWork) -> Measurable:
    """The engine for the product's own method, the method alone for any other. Raises SpoJoinError if it refuses."""
    if work.method == DEFAULT_METHOD:
        return Whole(join, work.chunk or ENGINE_FRAME_TUPLES)
    return Sides(join, work)


#: Tuples stored at once while a window is filled.
FILL_TUPLES = 8_192
#: Tuples of the first measured chunk; each later one takes about CHUNK_S.
FIRST_TUPLES, CHUNK_S, CHUNK_TUPLES_MAX = 16, 0.05, 8_192


@dataclass(frozen=True, slots=True)
class Point:
    """A measurement: seconds float64 (c,) and sizes int64 (c,) of each chunk; error: the reason for none."""

    seconds: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    sizes: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    matches: int = 0
    nbytes: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def tuples(self) -> int:
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
    made.take(at, at + size)  # compiles the code of the first probe
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
