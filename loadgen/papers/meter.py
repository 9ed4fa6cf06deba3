"""What tuples cost on full windows: stored, and searched for in every direction.

Methods are measured at their own interface, without router and sink, which favours them; the product's own is measured
as a whole engine, frames, order and result rows included. Seconds are CPU time, but for methods with threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.joins import MeasuredJoin
from spojoin.embedded.engine import UNLIMITED, Engine
from spojoin.errors import SpoJoinError
from spojoin.model import DEFAULT_METHOD, Direction, Window
from spojoin.published.methods.catalog import method
from spojoin.published.methods.machine import StreamSide, searches_of
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import I64, Searches, Side
from spojoin.roles.router.config import RouterConfig

#: Tuples stored at once while a window is filled.
FILL_TUPLES = 8_192
#: Tuples of the first measured chunk; later ones take about CHUNK_S each.
FIRST_TUPLES, CHUNK_S, CHUNK_TUPLES_MAX = 16, 0.05, 8_192
#: The engine is as small as the latency asks for, or as large as pays.
FRAME_TUPLES = 8_192


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured. seconds, sizes: of each chunk, float64 (c,) and int64 (c,); error: why nothing was."""

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
        """Microseconds a tuple."""
        return 1e6 * float(self.seconds.sum()) / max(self.tuples, 1)

    @property
    def rate(self) -> float:
        """Tuples a second."""
        return 1e6 / self.us if self.us else 0.0

    @property
    def rates(self) -> NDArray[np.float64]:
        """Tuples a second of each chunk."""
        return self.sizes / np.maximum(self.seconds, 1e-9)

    def latency_us(self, percent: float) -> float:
        """This percentile of the time a chunk took, from its first tuple's arrival to its last one's result."""
        return 1e6 * float(np.percentile(self.seconds, percent)) if len(self.seconds) else 0.0


@dataclass(frozen=True, slots=True)
class StoredPart:
    """What one of several workers stores: every `workers`-th block of so many tuples of each stream; all search."""

    worker: int
    workers: int
    block: int = 1

    def mine(self, count: int) -> NDArray[np.bool_]:
        """Which of a stream's first tuples: (count,)."""
        return np.arange(count) // self.block % self.workers == self.worker

    def window(self, whole: Window) -> Window:
        """A window of as many of the worker's own tuples."""
        if whole.is_time:
            return whole
        return Window(False, max(whole.length // self.workers, 1), max(whole.slide // self.workers, 1))


ALL = StoredPart(0, 1)


class Joined(Protocol):
    """A join that goes on by turns."""

    def fill(self, first: int, end: int) -> None:
        """Store tuples of turns [first, end)."""

    def take(self, first: int, end: int) -> tuple[float, int]:
        """Store and search; (seconds, matches)."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that is held."""

    def counters(self) -> dict[str, float]:
        """The method's counters."""


class Turn(NamedTuple):
    """What a side is asked for a run of turns."""

    side: Side
    directions: tuple[Direction, ...]
    stored: I64
    probes: I64
    lower: I64
    upper: I64


class Sides:
    """A method at its own interface, one side a stream. is_storing, is_searching: what is measured."""

    def __init__(
        self,
        join: MeasuredJoin,
        name: str,
        options: Mapping[str, str],
        *,
        is_storing: bool = True,
        is_searching: bool = True,
        share: StoredPart = ALL,
    ) -> None:
        self._join = join
        self._clock = _clock(options)
        self._mine = [share.mine(codes.shape[1]) for codes in join.codes]
        self._below = [np.concatenate([np.zeros(1, np.int64), np.cumsum(mine)]) for mine in self._mine]
        self._storing, self._searching = is_storing, is_searching
        self._directions = [tuple(r for r in join.query.directions if r.target == s) for s in range(len(join.columns))]
        chosen = method(name, options)
        queries = [replace(join.query, method=chosen, window=share.window(window)) for window in join.windows]
        self.sides = [StreamSide(query, s, SIDES[name]).side for s, query in enumerate(queries)]

    def fill(self, first: int, end: int) -> None:
        """Store, with one probe a side, which lets windows move on."""
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
        """Of all sides together."""
        found: dict[str, float] = {}
        for side in self.sides:
            for name, value in side.counters.as_dict().items():
                found[name] = found.get(name, 0.0) + value
        return found

    def _measured(self, turn: Turn, s: int) -> Turn:
        if not self._storing:
            # All searched in the state that the windows were filled to.
            full, length = int(self._join.before[s][self._join.fill]), self._join.windows[s].length
            oldest = 0 if self._join.windows[s].is_time else max(full - length, 0)
            upper = np.full_like(turn.upper, self._below[s][full])
            lower = np.full_like(turn.lower, self._below[s][oldest])
            return turn._replace(stored=turn.stored[:, :0], lower=lower, upper=upper)
        if not self._searching:
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
    """CPU time, so that what else runs on the machine doesn't count; the wall's where a method has threads."""
    has_threads = options.get("threads", "1") != "1" or options.get("merge") == "non_blocking"
    return time.perf_counter if has_threads else time.thread_time


def _ask(turn: Turn) -> int:
    searches = [_searches(direction, turn.probes) for direction in turn.directions]
    found = turn.side.take(turn.stored, searches, turn.lower, turn.upper)
    return sum(int(each.counts.sum()) for each in found)


def _searches(direction: Direction, probes: I64) -> Searches:
    return searches_of(direction, list(probes))


class Whole:
    """The product's own engine."""

    def __init__(self, join: MeasuredJoin, frame_tuples: int, workers: int = 1, batch_tuples: int = 0) -> None:
        self._join = join
        sizes = {"frame_tuples": frame_tuples, "batch_tuples": batch_tuples or FRAME_TUPLES, "handover_frames": 1}
        self.engine = Engine(join.query, RouterConfig("figures", workers, **sizes, credits_frames=UNLIMITED))

    def fill(self, first: int, end: int) -> None:
        """As they would come."""
        self.take(first, end)

    def take(self, first: int, end: int) -> tuple[float, int]:
        """The streams in turn: within a chunk, all of the first come before the second's."""
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
        """The engine's."""
        return self.engine.counters()


def measure(
    join: MeasuredJoin,
    name: str,
    seconds: float,
    options: Mapping[str, str] | None = None,
    *,
    chunk: int = 0,
    is_storing: bool = True,
    is_searching: bool = True,
    share: StoredPart = ALL,
) -> Point:
    """One method on one join for so long; a method that refuses the query says why.

    chunk: tuples taken at once, by default as many as take CHUNK_S; is_storing, is_searching: what is measured
    share: whose work it is, by default all of it
    """
    made: Joined
    try:
        if name == DEFAULT_METHOD:
            made = Whole(join, chunk or FRAME_TUPLES)
        else:
            made = Sides(join, name, options or {}, is_storing=is_storing, is_searching=is_searching, share=share)
        return measured(made, join, seconds, chunk)
    except SpoJoinError as error:
        return Point(error=str(error))


def measured(joined: Joined, join: MeasuredJoin, seconds: float, chunk: int = 0) -> Point:
    """Fill the windows, then measure chunk by chunk until the time is over or the feed is."""
    for first in range(0, join.fill, FILL_TUPLES):
        joined.fill(first, min(first + FILL_TUPLES, join.fill))
    at = join.fill
    size = chunk or FIRST_TUPLES
    joined.take(at, at + size)  # compiles what the first probe needs
    before = joined.counters()
    taken, matches = [], 0
    for first, end in _chunks(at + size, join.turns, chunk, taken, seconds):
        took, found = joined.take(first, end)
        taken.append((took, end - first))
        matches += found
    after = joined.counters()
    spent, sizes = np.array([t for t, _ in taken]), np.array([n for _, n in taken], np.int64)
    return Point(spent, sizes, matches, joined.nbytes, {k: v - before.get(k, 0.0) for k, v in after.items()})


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
