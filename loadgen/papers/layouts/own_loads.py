"""The cost of the product's own layout, or of a method in its place, as the `WorkDone` that other layouts count.

Almost all of it follows from the log. Only a machine knows its bytes and its comparisons, so the machines, which
services also run, count only these. Counting here takes a few array operations per frame.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from loadgen.papers.layouts.costs import Loads, WorkDone, batch_bytes, tuple_bytes
from spojoin.arrays import I64
from spojoin.kernels.tail import Tail
from spojoin.model import Query
from spojoin.wire.records import Batch, Frame, Record, StreamSlice


class Searching(Protocol):
    """The machine that searches the window for one worker."""

    def counters(self) -> dict[str, float]:
        """The work that it did."""
        ...

    def state_bytes(self) -> int: ...


class LogLoads(Loads):
    """The loads of workers that don't count their own; `machines`: one for each worker."""

    def __init__(self, query: Query, machines: Sequence[Searching]) -> None:
        self._query = query
        self._machines = machines
        self._loads = [WorkDone() for _ in machines]
        #: tuples in frames, by stream: each worker reads all of them, and is asked about all
        self._tuples = [0 for _ in query.streams]

    def note(self, record: Record) -> None:
        """Count a record that all machines have read."""
        if not isinstance(record, Frame):
            return
        for load, machine in zip(self._loads, self._machines, strict=True):
            load.bytes_max = max(load.bytes_max, machine.state_bytes())
        for stream, piece in enumerate(record.slices):
            self._tuples[stream] += len(piece)
            self._compare(record, stream)

    def _compare(self, frame: Frame, target: int) -> None:
        """Count the frame's pairs of a probe and a tuple in its window over the stream `target`.

        No window begins after its probe, so the number of pairs is the difference of two sums.
        """
        own, probes = frame.slices[target], frame.slices[target if self._query.is_self else 1 - target]
        begins = int(probes.lower.sum()) if len(probes.lower) == len(probes) else len(probes) * int(probes.lower[0])
        self._compared(target, own, probes, self._preceding(own, probes) - begins)

    def _preceding(self, own: StreamSlice, probes: StreamSlice) -> int:
        """The number of the stream's tuples before each probe, summed over all probes."""
        m = len(probes)
        if self._query.is_self:
            return m * own.first_index + m * (m - 1) // 2
        return m * own.first_index + int(np.searchsorted(own.positions, probes.positions).sum())

    @abstractmethod
    def _compared(self, target: int, own: StreamSlice, probes: StreamSlice, pairs: int) -> None:
        """Count this many pairs of the probes and their windows over the stream `target`; own: its slice."""

    def loads(self) -> list[WorkDone]:
        """The cost of each worker; `examined` is the count of comparisons that its machine reports."""
        asked = sum(self._tuples)
        taken = sum(tuples * tuple_bytes(self._query, stream) for stream, tuples in enumerate(self._tuples))
        return [
            replace(
                load,
                asked=asked,
                messages=load.messages + asked,
                bytes=load.bytes + taken,
                log_messages=load.log_messages + asked,
                log_bytes=load.log_bytes + taken,
                examined=int(machine.counters().get("comparisons", 0)),
            )
            for load, machine in zip(self._loads, self._machines, strict=True)
        ]


class BatchLoads(LogLoads):
    """PO-Join workers: worker w of n stores batch k iff k mod n = w, and searches for every tuple.

    So a tuple reaches all workers in a frame, and once more, sorted in a batch, the one that stores it; all read the
    topic of batches, which counts as part of the log. A worker answers for pairs with its batches from their handover
    on; all other pairs belong to the mutable part, which is not a worker of the layout. bytes_max: bytes of indexes,
    without batches that wait for their handover.
    """

    def __init__(self, query: Query, machines: Sequence[Searching]) -> None:
        super().__init__(query, machines)
        self._mutable = {"comparisons": 0, "tuples_max": 0, "bytes_max": 0}
        self._mutable_tuple_bytes = mutable_tuple_bytes(query)
        # The begin of each batch, by batch id.
        self._firsts = [Tail() for _ in query.streams]

    def note(self, record: Record) -> None:
        """Count a frame that all machines have read, or a batch that was made."""
        super().note(record)
        if isinstance(record, Frame):
            self._note_mutable(record)
        elif isinstance(record, Batch):
            self._note_batch(record)

    def _note_mutable(self, frame: Frame) -> None:
        held = sum([piece.first_index + len(piece) - piece.handover_index for piece in frame.slices])
        self._mutable["tuples_max"] = max(self._mutable["tuples_max"], held)
        self._mutable["bytes_max"] = self._mutable["tuples_max"] * self._mutable_tuple_bytes

    def _note_batch(self, batch: Batch) -> None:
        tuples, taken = batch.end - batch.first, batch_bytes(batch)
        for load in self._loads:
            load.log_messages += tuples
            load.log_bytes += taken
        owner = self._loads[batch.batch_id % len(self._loads)]
        owner.stored += tuples
        owner.messages += tuples
        owner.bytes += taken

    def _compared(self, target: int, own: StreamSlice, probes: StreamSlice, pairs: int) -> None:
        first_batch = min(own.live_batch, own.handover_batch)
        edges, workers = self._edges(target, own, first_batch), len(self._loads)
        if workers == 1:
            edges = edges[[0, -1]]
        in_batches = pairs_between(edges, probes.lower, len(probes))
        for worker, load in enumerate(self._loads):
            load.comparisons += int(in_batches[(worker - first_batch) % workers :: workers].sum())
        self._mutable["comparisons"] += pairs - int(in_batches.sum())

    def _edges(self, target: int, own: StreamSlice, first_batch: int) -> I64:
        """The begins of batches, from `first_batch` to the oldest one not yet handed over: int64 (batches + 1,)."""
        firsts = self._firsts[target]
        if own.batch_id == firsts.end:
            firsts.append(np.array([own.batch_first], np.int64))
        firsts.drop_below(first_batch)
        return firsts.view(first_batch, own.handover_batch + 1)

    def mutable_part(self) -> dict[str, int]:
        """Its pairs of a tuple and one in its window, and the most tuples and bytes that it held."""
        return dict(self._mutable)


class MethodLoads(LogLoads):
    """A method in place of all machines that search: one worker, which stores and searches for every tuple."""

    def _compared(self, target: int, own: StreamSlice, probes: StreamSlice, pairs: int) -> None:
        self._loads[0].stored += len(own)
        self._loads[0].comparisons += pairs


def mutable_tuple_bytes(query: Query) -> int:
    """The mutable joiners' bytes of a tuple: each holds its predicate's codes, the first also seqs and event times."""
    codes = sum(len({p.left_slot, p.right_slot}) if query.is_self else 1 for p in query.predicates)
    return 8 * (codes + 1 + query.needs_time)


def pairs_between(edges: I64, lower: I64, probes: int) -> I64:
    """The number of pairs of the probes with the tuples between consecutive edges: int64 (k,).

    edges: int64 (k + 1,), indexes, ascending
    lower: where windows begin, int64 (1,) if all agree, otherwise (probes,), nondecreasing
    """
    between: I64 = np.diff(_pairs_below(edges, lower, probes))
    return between


def _pairs_below(edges: I64, lower: I64, probes: int) -> I64:
    """The number of pairs of the probes with the tuples below each edge: int64 (k + 1,)."""
    below: I64
    if len(lower) != probes:
        below = probes * np.maximum(edges - lower, 0)
        return below
    # Below an edge e a probe reaches e - lower tuples, or none: only the first probes, whose windows begin before it.
    reaching = np.searchsorted(lower, edges)
    begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(lower)))
    below = reaching * edges - begins[reaching]
    return below
