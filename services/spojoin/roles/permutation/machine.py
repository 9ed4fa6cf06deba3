"""The permutation service's state machine (the SPO-Join paper, section 4.2, Algorithm 2).

Runs are collected by (stream, batch id). A batch that is already in the batches topic is never made again, so after a
restart the machine reads that topic as well as the runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from spojoin.arrays import U16
from spojoin.kernels.permutation import permutation
from spojoin.model import Query
from spojoin.protocol.machine import BY_REFERENCE, Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Record, Run, SortedColumn

BatchKey = tuple[int, int]


class PermutationMachine(Machine):
    """Collects the runs of a batch, computes permutations and sends the batch."""

    def __init__(self, query: Query, result_position: ResultPosition) -> None:
        self._query = query
        self._runs: dict[BatchKey, dict[int, Run]] = {}
        # By stream, the batches that were made or are in their topic. A joiner sends an empty run if the log no longer
        # holds a batch, or no window reaches it: then neither it nor an older one is needed. A later batch doesn't
        # imply that older ones were made: the topic may have lost some, and other joiners may not have sent theirs.
        self._made = [BatchNumbers() for _ in query.streams]
        self._durable = [BatchNumbers() for _ in query.streams]
        self._read: deque[tuple[int, BatchKey]] = deque()
        #: by stream, from which batch on windows reach once results are out for a frame: (frame, batch), both rising
        self._live: list[deque[tuple[int, int]]] = [deque() for _ in query.streams]
        self._pairs = [_slot_pairs(query, stream) for stream in range(len(query.streams))]

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a run, and send its batch if all runs are here; or note that a batch is in its topic."""
        if isinstance(record, Run):
            self._note_live(record)
            if offset != BY_REFERENCE:
                self._read.append((offset, (record.stream, record.batch_id)))
        if isinstance(record, Batch) or (isinstance(record, Run) and record.is_empty):
            first = record.batch_id if isinstance(record, Batch) else 0
            self._durable[record.stream].add(first, record.batch_id + 1)
            self._note_made(record.stream, first, record.batch_id + 1)
        elif isinstance(record, Run) and record.batch_id not in self._made[record.stream]:
            yield from self._take((record.stream, record.batch_id), record)

    def _note_live(self, run: Run) -> None:
        for live, batch_id in zip(self._live, run.live_batches, strict=False):  # those of older logs have none
            if batch_id > (live[-1][1] if live else 0):
                live.append((run.frame_id, batch_id))

    def _take(self, key: BatchKey, run: Run) -> Iterator[Action]:
        runs = self._runs.setdefault(key, {})
        runs[run.predicate] = run
        if len(runs) == len(self._query.predicates):
            del self._runs[key]
            self._note_made(run.stream, run.batch_id, run.batch_id + 1)
            yield Emit(Topic.BATCHES, run.stream, self._batch(runs))

    def _note_made(self, stream: int, first: int, end: int) -> None:
        """Note that batches [first, end) are made, and drop their waiting runs."""
        self._made[stream].add(first, end)
        self._runs = {key: runs for key, runs in self._runs.items() if key[0] != stream or not first <= key[1] < end}

    def _batch(self, runs: dict[int, Run]) -> Batch:  # P8.2
        carrier = runs[0]
        columns = {column.slot: column for run in runs.values() for column in run.columns}
        if carrier.seqs is None:
            raise ValueError(f"the run of predicate 0 of batch {carrier.batch_id} carries no seqs")
        return Batch(
            stream=carrier.stream,
            batch_id=carrier.batch_id,
            first=carrier.first,
            end=carrier.end,
            group=carrier.group,
            columns=tuple(columns[slot] for slot in sorted(columns)),
            permutations=_permutations(columns, self._pairs[carrier.stream]),
            seqs=carrier.seqs,
            times_us=carrier.times_us,
            keys=carrier.keys,
            payload=carrier.payload,
            places=carrier.places,
            lower=carrier.lower,
            own=carrier.own,
        )

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Trim the runs of batches that are in their topic, or that no window reaches any more."""
        for stream, live in enumerate(self._live):
            while live and live[0][0] < result_position.frame_id:  # P9.5
                _, batch_id = live.popleft()
                self._durable[stream].add(0, batch_id)
                self._note_made(stream, 0, batch_id)
        end = -1
        while self._read and self._read[0][1][1] in self._durable[self._read[0][1][0]]:
            end = self._read.popleft()[0] + 1
        return [Trim(Topic.RUNS, 0, end)] if end >= 0 else []

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(run.end - run.first for runs in self._runs.values() for run in runs.values())


class BatchNumbers:
    """Numbers of batches, kept as ranges: nearly all are in one range."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, end: int) -> None:
        apart = [each for each in self._ranges if each[1] < first or end < each[0]]
        touching = [each for each in self._ranges if each not in apart]
        whole = min([first, *(each[0] for each in touching)]), max([end, *(each[1] for each in touching)])
        self._ranges = [*apart, whole]

    def __contains__(self, number: int) -> bool:
        """Whether a number was added."""
        return any(first <= number < end for first, end in self._ranges)


def _slot_pairs(query: Query, stream: int) -> list[tuple[int, int]]:
    """The pairs of the stream's columns for which a direction with two predicates needs permutations."""
    pairs = []
    for direction in query.directions:
        if direction.target == stream and len(direction.predicates) == 2:
            a, b = (p.target_slot for p in direction.predicates)
            if a != b:
                pairs.append((min(a, b), max(a, b)))
    return sorted(set(pairs))


def _permutations(columns: dict[int, SortedColumn], pairs: list[tuple[int, int]]) -> dict[tuple[int, int], U16]:
    return {(a, b): permutation(columns[a].order, columns[b].order) for a, b in pairs}
