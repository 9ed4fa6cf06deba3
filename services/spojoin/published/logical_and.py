"""The logical AND of the mutable part, with and without its hash table.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 4.3 and Figure 18. Each predicate's operator sends a bit array
for a tuple; hash partitioning brings a tuple's bit arrays to one worker, which AND-s them. A worker without a hash
table keeps the last bit array of each predicate: while it waits for a tuple's second, another tuple's first overwrites
what is there, and bit arrays of different tuples meet. That mode has `unsafe` in its name, and exists to show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from spojoin.published.setup import F64, in_order, served

Bits = NDArray[np.bool_]


class Meeting(StrEnum):
    """How bit arrays of one tuple find each other."""

    BY_ID = "by_id"
    OVERWRITING_UNSAFE = "overwriting_unsafe"


class LogicalAnd:
    """One worker; `predicates` bit arrays make a tuple."""

    def __init__(self, meeting: Meeting, predicates: int) -> None:
        self._meeting, self._predicates = meeting, predicates
        self._waiting: dict[int, dict[int, Bits]] = {}
        self._last: dict[int, Bits] = {}

    def take(self, tuple_id: int, predicate: int, bits: Bits) -> Bits | None:
        """The tuple's matches, as this worker sees them, where its bit arrays are complete."""
        is_hashed = self._meeting is Meeting.BY_ID
        arrays = self._waiting.setdefault(tuple_id, {}) if is_hashed else self._last
        arrays[predicate] = bits
        if len(arrays) < self._predicates:
            return None
        found: Bits = np.logical_and.reduce(list(arrays.values()))
        arrays.clear()
        self._waiting.pop(tuple_id, None)
        return found


@dataclass(frozen=True, slots=True)
class Load:
    """rate: tuples a second; service_ms: mean time of each predicate's operator a tuple; hop_ms: of a message."""

    rate: float
    service_ms: Sequence[float]
    workers: int
    hop_ms: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Correctness:
    """tuples: the share whose matches are exactly right; false_positives, false_negatives: pairs; answers: given."""

    tuples: float
    false_positives: int
    false_negatives: int
    answers: int


def correctness(meeting: Meeting, load: Load, bits: Sequence[Bits]) -> Correctness:
    """Send n tuples' bit arrays through the workers, and compare with their AND.

    bits: of each predicate bool (n, stored)
    """
    exact = np.logical_and.reduce(list(bits))
    workers = [LogicalAnd(meeting, len(bits)) for _ in range(load.workers)]
    right, positives, negatives, answers = 0, 0, 0, 0
    for tuple_id, predicate in _arrivals(load, len(exact), len(bits)):
        found = workers[tuple_id % load.workers].take(tuple_id, predicate, bits[predicate][tuple_id])
        if found is None:
            continue
        wanted, answers = exact[tuple_id], answers + 1
        right += bool(np.array_equal(found, wanted))
        positives += int(np.sum(found & ~wanted))
        negatives += int(np.sum(wanted & ~found))
    return Correctness(right / len(exact), positives, negatives, answers)


def _arrivals(load: Load, tuples: int, predicates: int) -> Iterator[tuple[int, int]]:
    """(tuple, predicate) in the order in which bit arrays reach the workers."""
    rng = np.random.default_rng(load.seed)
    times = np.stack([_sent(load, rng, tuples, load.service_ms[p]) for p in range(predicates)])
    for place in np.argsort(times, axis=None, kind="stable").tolist():
        predicate, tuple_id = divmod(place, tuples)
        yield tuple_id, predicate


def _sent(load: Load, rng: np.random.Generator, tuples: int, service_ms: float) -> F64:
    arrived = in_order(np.arange(tuples) / load.rate + rng.exponential(load.hop_ms / 1e3, tuples))
    done = served(arrived, rng.exponential(service_ms / 1e3, tuples))
    delayed = done + rng.exponential(load.hop_ms / 1e3, tuples)
    for worker in range(load.workers):
        own = slice(worker, None, load.workers)
        delayed[own] = in_order(delayed[own])
    return delayed
