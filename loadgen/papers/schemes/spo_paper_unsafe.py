"""SPO-Join with its published ways to keep state across workers: their answers, and the errors in them.

Aslam, Beedkar, Simonini, "SPO-Join: Efficient Stream Inequality Join" (EDBT 2025), section 4.2 (state schemes) and
section 4.3 (the logical AND, with and without a hash table). `state` tells what each worker held when it evaluated a
probe, and `logical_and` which bit arrays met. This module applies both to the exact search:

- Immutable part. The search goes back as far as the worker that lags most. A pair counts if the worker that has the
  partner's batch held it at that time, whether the window had left it or not.
- Mutable part. Without a hash table a probe's bit arrays can belong to other tuples: then it is answered with their
  bounds, over the tuples that all of them found in the trees; a probe whose bit arrays were overwritten gets no answer.

The answers are compared with the window's definition pair by pair. Errors that a worker makes with tuples that come
after the probe don't show here, since these aren't stored yet; `state.count` counts them too.

The delays are simulated, drawn from a seed. The counters of comparisons belong to one worker that has all batches.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from loadgen.papers.methods.catalog import METHODS
from loadgen.papers.methods.side import Check, Found, Searches, Side, SideSpec
from loadgen.papers.methods.spo_paper import SpoPaper
from loadgen.papers.schemes.logical_and import NONE, LogicalAnd, Meeting, OperatorLoad
from loadgen.papers.schemes.state import KEY, HeldTrace, Scheme, Setup, SimulatedWorkers
from spojoin.arrays import I64, Flags
from spojoin.errors import ConfigurationError
from spojoin.evaluation.options import ChoiceOption, complete
from spojoin.model import Method
from spojoin.ports.interfaces import Store
from spojoin.ports.memory import MemoryStore

#: The option's value for no server.
MEMORY = "memory"
TIMEOUT_S = 5.0


def open_cache(where: str) -> Store:
    """A Redis by its URL, or a store that only this process uses."""
    if where == MEMORY:
        return MemoryStore()
    # The client is imported only if a server is named.
    from spojoin.ports.redis_store import RedisStore  # noqa: PLC0415

    return RedisStore(where, timeout_s=TIMEOUT_S)


_NAME: Final = "spo_paper"
_STATES = tuple(scheme.value for scheme in Scheme)
_MEETINGS = tuple(meeting.value for meeting in Meeting)
OPTIONS = (
    *METHODS[_NAME].options,
    ChoiceOption("state", Scheme.EXACT.value, "how workers know what has expired", choices=_STATES),
    ChoiceOption("logical_and", Meeting.BY_ID.value, "whether the AND has a hash table", choices=_MEETINGS),
    ChoiceOption("workers", 4, "simulated workers", 1, 1_024),
    ChoiceOption("rate", 10_000.0, "tuples per second", 1, 1e9),
    ChoiceOption("hop_ms", 1.0, "mean delay of a message", 1e-9, 1e6),
    ChoiceOption("service_ms", 0.05, "of logical_and: mean time of a predicate's operator per tuple", 1e-9, 1e6),
    ChoiceOption("interval_ms", 10.0, "of the distributed cache: between two writes, and reads", 1e-3, 1e6),
    ChoiceOption("cache", MEMORY, "of the distributed cache: the URL of a Redis, or memory"),
)


def simulated(given: Mapping[str, str]) -> Method:
    """SPO-Join with these options, given as text; omitted ones get defaults. Raises QueryError."""
    return Method(_NAME, complete("the simulation of SPO-Join", OPTIONS, given))


#: Probes compared with all tuples of the trees at once.
PROBES = 256
#: Rows of a tuple's request to a predicate: bounds, and the tuples before it.
LO: Final = 0
HI: Final = 1
UPPER: Final = 2


def side_of(spec: SideSpec) -> Side:
    """SPO-Join as published, by its options (`options.OPTIONS`). Raises ConfigurationError."""
    if is_exact(spec):
        return SpoPaper(spec)
    return SpoPaperUnsafe(spec)


def is_exact(spec: SideSpec) -> bool:
    """Whether the bound comes with the tuple, and bit arrays meet by tuple."""
    return spec.options["state"] == Scheme.EXACT and spec.options["logical_and"] == Meeting.BY_ID


class _Asked(NamedTuple):
    """m probes: lower, upper int64 (m,), their windows; trace: the workers' state when they evaluated the probes."""

    lower: I64
    upper: I64
    trace: HeldTrace

    @property
    def reached(self) -> I64:
        """The farthest that any worker went back, int64 (m,)."""
        back: I64 = np.minimum(self.lower, self.trace.lower.min(axis=0))
        return back

    def were_held(self, setup: Setup, probes: I64, partners: I64) -> Flags:
        """Whether the worker of each partner's batch held it when it evaluated the probe."""
        batches = partners // setup.delta
        workers, ends = batches % setup.workers, (batches + 1) * setup.delta
        held: Flags = (self.trace.lower[workers, probes] < ends) & (ends <= self.trace.upper[workers, probes])
        return held


class SpoPaperUnsafe(Side):
    """Gives wrong answers on purpose, and counts them."""

    def __init__(self, spec: SideSpec) -> None:
        super().__init__(spec)
        _check(spec)
        setup = setup_of(spec)
        self._setup = setup
        self._search = SpoPaper(replace(spec, lists=True, options={"delta": setup.delta}))
        self.counters = self._search.counters
        self.counters.more |= {"false_positives": 0, "false_negatives": 0, "unanswered": 0}
        self._views = _Views(spec, setup)
        is_hashed = spec.options["logical_and"] == Meeting.BY_ID
        self._meetings = [None if is_hashed else _Meetings(direction, spec, setup) for direction in spec.directions]

    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Search as far back as the worker that lags most, and keep the workers' answers."""
        asked = _Asked(lower, upper, self._views.of(upper))
        exact = self._search.take(stored, directions, asked.reached, upper)
        pairs = map(_pairs, exact)
        return [Found(self._answered(asked, found, self._mutable(asked, found, stored, searches, meetings)))
                for searches, found, meetings in zip(directions, pairs, self._meetings, strict=True)]  # fmt: skip

    def _mutable(
        self, asked: _Asked, exact: tuple[I64, I64], stored: I64, searches: Searches, meetings: _Meetings | None
    ) -> tuple[Flags | I64, I64]:
        """Which exact pairs the mutable part gives, and the probes of the wrong pairs that it gives."""
        if meetings is not None:
            given = meetings.pairs(stored, searches, asked.upper)
            self.counters.more["unanswered"] += meetings.take_unanswered()
            return _within(exact, given)
        probes, partners = exact
        merged = asked.upper // self._setup.delta * self._setup.delta
        return partners >= np.maximum(merged, asked.lower)[probes], np.empty(0, np.int64)

    def _answered(self, asked: _Asked, exact: tuple[I64, I64], mutable: tuple[Flags | I64, I64]) -> I64:
        """Each probe's count, int64 (m,); a pair counts once for each part that gives it. Counts the errors, too."""
        probes, partners = exact
        is_due = partners >= asked.lower[probes]
        times = asked.were_held(self._setup, probes, partners).astype(np.int8)
        found, strangers = mutable
        times[found] += 1
        m = len(asked.upper)
        counts = np.bincount(probes, times, m).astype(np.int64) + np.bincount(strangers, minlength=m)
        right = int(np.count_nonzero(is_due & (times > 0)))
        self.counters.more["false_positives"] += int(counts.sum()) - right
        self.counters.more["false_negatives"] += int(np.count_nonzero(is_due)) - right
        return counts

    @property
    def nbytes(self) -> int:
        """Bytes of the search."""
        return self._search.nbytes

    @property
    def tuples(self) -> int:
        """Tuples of the search."""
        return self._search.tuples


def _pairs(found: Found) -> tuple[I64, I64]:
    """Probes and partners, by probe and partner."""
    assert found.partners is not None, "a search for partners lists them"
    return np.repeat(np.arange(len(found.counts)), found.counts), found.partners


def _within(pairs: tuple[I64, I64], found: tuple[I64, I64]) -> tuple[I64, I64]:
    """The places of the pairs found among `pairs`, both in order; and the probes of missing pairs."""
    span = 1 + max((int(partners.max()) for _, partners in (pairs, found) if len(partners)), default=0)
    known, sought = (probes * span + partners for probes, partners in (pairs, found))
    places = np.searchsorted(known, sought)
    is_known = np.append(known, -1)[places] == sought
    return places[is_known], found[0][~is_known]


def _check(spec: SideSpec) -> None:
    if spec.window.rows is None or spec.lists:
        raise ConfigurationError(
            "method spo_paper: its state schemes count tuples, and wrong pairs have no place in a list: "
            "with state or logical_and other than the default, the query needs a count window and output: count"
        )


def setup_of(spec: SideSpec) -> Setup:
    """The simulated cluster that a query's options describe. Raises ConfigurationError."""
    options, workers = spec.options, int(spec.options["workers"])
    slide, is_whole = spec.window.slide, options["state"] == Scheme.ROUND_ROBIN_UNSAFE
    delta = int(options["delta"]) or (slide if is_whole else max(slide // workers, 1))
    rate, hop_ms, interval_ms = (float(options[name]) for name in ("rate", "hop_ms", "interval_ms"))
    return Setup(spec.window.length, slide, delta, workers, rate, hop_ms, interval_ms=interval_ms)


class _Views:
    """The workers' state, by the number of tuples before a probe."""

    def __init__(self, spec: SideSpec, setup: Setup) -> None:
        scheme = Scheme(str(spec.options["state"]))
        is_cached = scheme is Scheme.DISTRIBUTED_CACHE_UNSAFE
        cache = open_cache(str(spec.options["cache"]) if is_cached else MEMORY)
        self._workers = SimulatedWorkers(setup, scheme, cache, f"{KEY}:{secrets.token_hex(8)}")
        #: The trace at the last tuple requested.
        self._kept = HeldTrace(*(np.zeros((setup.workers, 0), np.int64) for _ in range(2)))
        self._known = 0

    def of(self, upper: I64) -> HeldTrace:
        """The trace of probes after these numbers of tuples, int64 (m,) nondecreasing."""
        more = int(upper[-1]) + 1 - self._known if len(upper) else 0
        parts = [self._kept] if more <= 0 else [self._kept, self._workers.take(more)]
        lower, above = (np.concatenate(rows, axis=1) for rows in zip(*((p.lower, p.upper) for p in parts), strict=True))
        self._known += max(more, 0)
        self._kept = HeldTrace(lower[:, -1:], above[:, -1:])
        at = upper - (self._known - lower.shape[1])
        return HeldTrace(lower[:, at], above[:, at])


class _Meetings:
    """A direction's probes in the mutable part, where bit arrays of different tuples meet."""

    def __init__(self, checks: Sequence[Check], spec: SideSpec, setup: Setup) -> None:
        self._checks, self._delta = checks, setup.delta
        service_ms = [float(spec.options["service_ms"])] * len(checks)
        self._and = LogicalAnd(
            Meeting.OVERWRITING_UNSAFE, OperatorLoad(setup.rate, service_ms, setup.workers, setup.hop_ms)
        )
        #: The requests of tuples whose bit arrays wait at a worker.
        self._waiting = np.zeros((3, len(checks), setup.workers), np.int64)
        self._codes, self._base, self._probes, self._unanswered = np.zeros((spec.columns, 0), np.int64), 0, 0, 0

    def take_unanswered(self) -> int:
        """Probes without an answer since the last call."""
        taken, self._unanswered = self._unanswered, 0
        return taken

    def pairs(self, stored: I64, searches: Searches, upper: I64) -> tuple[I64, I64]:
        """Probes and partners that the AND answers, of the next probes and of tuples stored."""
        self._codes = np.concatenate([self._codes, stored], axis=1)
        asked = np.stack([searches.lo, searches.hi, np.broadcast_to(upper, searches.lo.shape)])
        met = self._meet(asked)
        starts = [0, *range(PROBES, len(upper), PROBES)]
        found = [self._search(met[:, :, first : first + PROBES]) for first in starts]
        self._forget(int(upper[-1]) if len(upper) else self._base)
        probes = np.concatenate([first + each for first, (each, _) in zip(starts, found, strict=True)])
        return probes, np.concatenate([partners for _, partners in found])

    def _meet(self, asked: I64) -> I64:
        """The requests that each probe's answer is for, by predicate: int64 (3, checks, m); empty without answer."""
        first, (_, checks, count) = self._probes, asked.shape
        if not count:
            return asked
        self._probes += count
        sources = self._and.meet(first, count)
        workers, rows = (first + np.arange(count)) % self._waiting.shape[2], np.arange(checks)[:, None]
        own = sources - first
        met: I64 = np.where(own < 0, self._waiting[:, :, workers], asked[:, rows, np.maximum(own, 0)])
        met[UPPER, :, sources[0] == NONE] = 0
        self._unanswered += int(np.sum(sources[0] == NONE))
        last = self._and.last.T - first
        self._waiting = np.where(last < 0, self._waiting, asked[:, rows, np.maximum(last, 0)])
        return met

    def _search(self, met: I64) -> tuple[I64, I64]:
        """Compare with every tuple that was in the trees for all of a probe's bit arrays."""
        begins, ends = (met[UPPER] // self._delta * self._delta).max(axis=0), met[UPPER].min(axis=0)
        indexes = np.arange(self._base, self._base + self._codes.shape[1])
        meets = (indexes >= begins[:, None]) & (indexes < ends[:, None])
        for number, check in enumerate(self._checks):
            codes, lo, hi = self._codes[check.column], met[LO, number][:, None], met[HI, number][:, None]
            meets &= ((codes >= lo) & (codes <= hi)) ^ check.negated
        probes, places = np.nonzero(meets)
        return probes, places + self._base

    def _forget(self, upper: int) -> None:
        """Drop tuples that no next or waiting probe had in its trees."""
        waiting = self._waiting[UPPER].T[self._and.last != NONE]
        base = min([upper, *waiting.tolist()]) // self._delta * self._delta
        self._codes, self._base = self._codes[:, max(base - self._base, 0) :], max(base, self._base)
