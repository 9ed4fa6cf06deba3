"""The permutation service's state machine (the SPO-Join paper, section 4.2, Algorithm 2).

Runs meet by (stream, batch id). A batch that is already in the batches topic is never made again, so a restart
reads that topic beside the runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from spojoin.kernels.permutation import permutation
from spojoin.model import Query
from spojoin.protocol.machine import BY_REFERENCE, Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.topology import Topic
from spojoin.wire.records import U16, Batch, Record, Run, SortedColumn

NONE_YET = -1

BatchKey = tuple[int, int]


class PermutationMachine(Machine):
    """Collects the runs of a batch, computes permutations and ships the batch."""

    def __init__(self, query: Query, result_position: ResultPosition) -> None:
        self._query = query
        self._runs: dict[BatchKey, dict[int, Run]] = {}
        # Of each stream, the newest batch that was made and the newest in its topic. Joiners send runs in order, and
        # skip a batch only if the log no longer holds it: then no window reaches it, or it was made long ago. An empty
        # run says so where no other batch of the stream follows.
        self._made = [NONE_YET for _ in query.streams]
        self._durable = [NONE_YET for _ in query.streams]
        self._read: deque[tuple[int, BatchKey]] = deque()
        self._pairs = [_slot_pairs(query, stream) for stream in range(len(query.streams))]

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a run and ship its batch if it is the last one, or learn that a batch is in its topic."""
        if isinstance(record, Run) and offset != BY_REFERENCE:
            self._read.append((offset, (record.stream, record.batch_id)))
        if isinstance(record, Batch) or (isinstance(record, Run) and record.is_empty):
            self._durable[record.stream] = max(self._durable[record.stream], record.batch_id)
            self._note_made(record.stream, record.batch_id)
        elif isinstance(record, Run) and record.batch_id > self._made[record.stream]:
            yield from self._take((record.stream, record.batch_id), record)

    def _take(self, key: BatchKey, run: Run) -> Iterator[Action]:
        runs = self._runs.setdefault(key, {})
        runs[run.predicate] = run
        if len(runs) == len(self._query.predicates):
            del self._runs[key]
            self._note_made(run.stream, run.batch_id)
            yield Emit(Topic.BATCHES, run.stream, self._batch(runs))

    def _note_made(self, stream: int, batch_id: int) -> None:
        """Runs of this batch, and of older ones that a joiner skipped, no longer wait."""
        self._made[stream] = max(self._made[stream], batch_id)
        self._runs = {key: runs for key, runs in self._runs.items() if key[0] != stream or key[1] > batch_id}

    def _batch(self, runs: dict[int, Run]) -> Batch:
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
        """Runs of batches that are in their topic are no longer needed."""
        end = -1
        while self._read and self._read[0][1][1] <= self._durable[self._read[0][1][0]]:
            end = self._read.popleft()[0] + 1
        return [Trim(Topic.RUNS, 0, end)] if end >= 0 else []

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(run.end - run.first for runs in self._runs.values() for run in runs.values())


def _slot_pairs(query: Query, stream: int) -> list[tuple[int, int]]:
    """Which columns of the stream a two-predicate direction maps onto each other."""
    pairs = []
    for direction in query.directions:
        if direction.target == stream and len(direction.predicates) == 2:
            a, b = (p.target_slot for p in direction.predicates)
            if a != b:
                pairs.append((min(a, b), max(a, b)))
    return sorted(set(pairs))


def _permutations(columns: dict[int, SortedColumn], pairs: list[tuple[int, int]]) -> dict[tuple[int, int], U16]:
    return {(a, b): permutation(columns[a].order, columns[b].order) for a, b in pairs}
