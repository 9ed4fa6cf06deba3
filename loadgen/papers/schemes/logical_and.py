"""The logical AND of the mutable part, with and without its hash table.

SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 4.3 and Figure 18. Each predicate's operator sends a bit array
per tuple; hash partitioning brings a tuple's bit arrays to one worker, which ANDs them. A worker without a hash
table keeps the last bit array of each predicate: while it waits for a tuple's second, another tuple's first overwrites
it, and bit arrays of different tuples meet. This mode has `unsafe` in its name, and exists to show the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.schemes.state import Channel, in_order, served
from spojoin.arrays import I64
from spojoin.kernels.compile import kernel

Bits = NDArray[np.bool_]

#: No tuple's bit array.
NONE: Final = -1


class Meeting(StrEnum):
    """The way in which bit arrays of one tuple find each other."""

    BY_ID = "by_id"
    OVERWRITING_UNSAFE = "overwriting_unsafe"


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """rate: tuples per second; service_ms: mean time per tuple of each predicate's operator; hop_ms: of a message."""

    rate: float
    service_ms: Sequence[float]
    workers: int
    hop_ms: float = 1.0
    seed: int = 0


class LogicalAnd:
    """The workers of an AND, which takes one bit array of each predicate per tuple."""

    def __init__(self, meeting: Meeting, load: OperatorLoad) -> None:
        self._is_hashed, self._load = meeting is Meeting.BY_ID, load
        self._rngs = np.random.default_rng(load.seed).spawn(3 * len(load.service_ms))
        #: The bit array that each worker keeps of each predicate; with a hash table none waits for another tuple's.
        self.last = np.full((load.workers, len(load.service_ms)), NONE)

    def meet(self, first: int, tuples: int) -> I64:
        """For each of the next tuples, the source of its bit array of each predicate: int64 (predicates, tuples).

        first: the number of the first tuple; NONE in a column whose tuple gets no answer. All that was sent has arrived
        when this returns, so bit arrays meet out of turn within a call, or with leftovers of the call before.
        """
        ids = np.arange(first, first + tuples)
        if self._is_hashed:
            return np.tile(ids, (len(self._load.service_ms), 1))
        arrived = np.stack([self._arrived(ids, predicate) for predicate in range(len(self._load.service_ms))])
        return overwrite(
            np.argsort(arrived, axis=None, kind="stable"), first, self.last, np.full_like(arrived, NONE, np.int64)
        )

    def _arrived(self, ids: I64, predicate: int) -> NDArray[np.float64]:
        """When the predicate's bit arrays of these tuples reach the AND, float64 (n,)."""
        load, (before, serving, after) = self._load, self._rngs[3 * predicate : 3 * predicate + 3]
        hop_s, service_s = load.hop_ms / 1e3, load.service_ms[predicate] / 1e3
        arrived = Channel(before, hop_s).carry((ids - ids[0]) / load.rate)
        delayed = served(arrived, serving.exponential(service_s, len(ids))) + after.exponential(hop_s, len(ids))
        for worker in range(load.workers):
            own = slice((worker - ids[0]) % load.workers, None, load.workers)
            delayed[own] = in_order(delayed[own])
        return delayed


@kernel
def overwrite(order: I64, first: int, last: I64, sources: I64) -> I64:
    """Take bit arrays in order of arrival; a worker's newest of each predicate answer for the one that completes them.

    order: int64 (predicates * tuples,), numbers of bit arrays by predicate and tuple; last: int64 (workers, predicates)
    Returns sources, filled.
    """
    tuples, workers = sources.shape[1], len(last)
    for number in order:
        predicate, at = number // tuples, number % tuples
        worker = (first + at) % workers
        last[worker, predicate] = first + at
        if np.all(last[worker] != NONE):
            sources[:, at] = last[worker]
            last[worker] = NONE
    return sources


@dataclass(frozen=True, slots=True)
class Correctness:
    """tuples: the share with exactly right matches; false_positives, false_negatives: pairs; answers: their number."""

    tuples: float
    false_positives: int
    false_negatives: int
    answers: int


def correctness(meeting: Meeting, load: OperatorLoad, bits: Sequence[Bits]) -> Correctness:
    """Send n tuples' bit arrays through the workers, and compare with their AND.

    bits: for each predicate bool (n, stored)
    """
    wanted: Bits = np.logical_and.reduce(list(bits))
    sources = LogicalAnd(meeting, load).meet(0, len(wanted))
    answered = sources[0] != NONE
    both = zip(bits, sources[:, answered], strict=True)
    found: Bits = np.logical_and.reduce([array[source] for array, source in both])
    wanted = wanted[answered]
    right = int(np.sum(np.all(found == wanted, axis=1)))
    return Correctness(
        right / len(answered), int(np.sum(found & ~wanted)), int(np.sum(wanted & ~found)), int(np.sum(answered))
    )
