"""One predicate in a mutable joiner (the SPO-Join paper, section 4.1, with rank intervals for its bit arrays).

It keeps the codes of every tuple that its predicate compares. For each direction of a frame, it sends the rank of each
stored tuple and each probe's interval of ranks: 2 (n + 2 m) bytes, while a bit array would take m n / 8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.kernels.bounds import BEGINS, BELOW, ENDS, UPTO, bounds
from spojoin.kernels.intervals16 import found_intervals
from spojoin.kernels.permutation import sort_column
from spojoin.kernels.ranks import sought
from spojoin.kernels.segments import one_each
from spojoin.kernels.sorted_tail import SortedTail, empty_tail
from spojoin.kernels.tail import Tail
from spojoin.model import Direction, Op, Query, RolePredicate
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.frame_evaluation import sorted_column, sought_column
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.services import ALL, JoinerTurn
from spojoin.protocol.topology import Topic
from spojoin.wire.columns import concat_keys
from spojoin.wire.records import NO_OWN, Barrier, DirectionRanks, Frame, Partial, Record, Run, SortedColumn, StreamSlice

#: The machine of this predicate sends seqs, times and keys with its runs.
CARRIER = 0

#: The first index to keep of each stream, given the newest frame.
KeptFrom = Callable[[Frame], Sequence[int]]

#: In place of a side: the predicate's interval begins with the first stored code, or ends with the last.
_NO_SIDE = -1


def handed_over(frame: Frame) -> list[int]:
    """The first index of each stream that no batch holds for the frame."""
    return [piece.handover_index for piece in frame.slices]


class MutableMachine(Machine):
    """Evaluates predicate number `predicate` over the mutable part and sorts sealed batches.

    turn: the frames that it evaluates, and the batches that it sorts; it stores the tuples of all
    kept_from: the first index to keep of each stream, given the newest frame
    """

    def __init__(
        self,
        query: Query,
        predicate: int,
        result_position: ResultPosition,
        turn: JoinerTurn = ALL,
        kept_from: KeptFrom = handed_over,
    ) -> None:
        self._query = query
        self._predicate = predicate
        self._turn = turn
        self._kept_from = kept_from
        self._result_position = result_position
        self._out_to = result_position.frame_id
        self._reader = LogFollower()
        self._stores = [StreamStore(query, stream, predicate) for stream in range(len(query.streams))]
        self._unsent: deque[Run] = deque()

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame of the log: store it, evaluate it, sort the batches that it seals."""
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record) or isinstance(record, Barrier):
            return
        for store, piece, first in zip(self._stores, record.slices, self._kept_from(record), strict=True):
            store.store_tuples(record, piece, first)
        is_due = record.frame_id >= self._result_position.frame_id and record.is_answered
        if is_due and self._turn.has_frame(record):  # P22.2
            yield self.answer(record)
        for store, piece in zip(self._stores, record.slices, strict=True):
            self._unsent.extend(store.sealed_runs(piece, is_ours=self._turn.has_batch(record, piece.batch_id)))
        yield from self._send_runs(record)

    def answer(self, frame: Frame) -> Emit:
        """The partial of the newest frame, or of an earlier one whose tuples are kept."""
        return Emit(Topic.PARTIALS, self._predicate, self._evaluate_frame(frame))

    def run_of(self, piece: StreamSlice, stream: int, newest: Frame) -> Emit:
        """The run of the batch that ends with a slice of an earlier frame, and whose tuples are kept."""
        run = self._stores[stream].run(piece)
        run.frame_id, run.live_batches = newest.frame_id, tuple(each.live_batch for each in newest.slices)
        return Emit(Topic.RUNS, 0, run)

    def forget_below(self, first: Sequence[int]) -> None:
        """Forget the tuples of each stream with indexes below these."""
        for store, index in zip(self._stores, first, strict=True):
            store.drop_below(index)

    def holds_from(self, stream: int) -> int:
        """The index of the stream at which this machine began."""
        return self._stores[stream].began

    def _send_runs(self, frame: Frame) -> Iterator[Action]:
        """Send runs; empty ones for batches that no window reaches where results end: others may not send theirs."""
        live = tuple(piece.live_batch for piece in frame.slices)
        if frame.frame_id < self._out_to:
            self._unsent = deque(
                run if run.batch_id >= live[run.stream] else _empty_run(run.stream, run.batch_id, run.predicate)
                for run in self._unsent
            )
        if frame.frame_id >= self._out_to - 1:
            while self._unsent:
                run = self._unsent.popleft()
                run.frame_id, run.live_batches = frame.frame_id, live
                yield Emit(Topic.RUNS, 0, run)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Remember which frames no longer need anything; this machine trims nothing."""
        self._out_to = max(self._out_to, result_position.frame_id)
        return []

    def _evaluate_frame(self, frame: Frame) -> Partial:
        ranked = _FrameRanks(frame, self._stores)
        directions = [
            ranked.direction_ranks(direction.predicates[self._predicate], direction)
            for direction in self._query.directions
        ]
        return Partial(frame.epoch, frame.frame_id, self._predicate, tuple(directions))

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(store.tuples for store in self._stores)


class _FrameRanks:
    """Stored tuples and probes of a frame by rank; each column is searched once, even if several directions use it."""

    def __init__(self, frame: Frame, stores: list[StreamStore]) -> None:
        self._frame = frame
        self._stores = stores
        #: keys: the stream and slot of the probes, and of the stored tuples
        self._found: dict[tuple[int, int, int, int], tuple[I64, I64]] = {}

    def direction_ranks(self, predicate: RolePredicate, direction: Direction) -> DirectionRanks:
        """The ranks of the stored tuples, and the interval of ranks that each probe's predicate admits."""
        piece = self._frame.slices[direction.target]
        stored = self._stores[direction.target].sorted_from(piece.handover_index, predicate.target_slot, piece)
        op, n = predicate.op, len(stored.ranks)
        if op.is_band:
            ends = self._codes_in_band(predicate, direction, stored)
            return DirectionRanks(stored.ranks, *found_intervals(ends, BELOW, UPTO, n, False))
        sides = BEGINS.get(op, _NO_SIDE), ENDS.get(op, _NO_SIDE)
        found = self._equal_codes(predicate, direction, stored)
        return DirectionRanks(stored.ranks, *found_intervals(found, *sides, n, op is Op.NE))

    def _equal_codes(self, predicate: RolePredicate, direction: Direction, stored: SortedTail) -> tuple[I64, I64]:
        """The begin and end of the stored codes that equal each probe's code."""
        key = direction.probe, predicate.probe_slot, direction.target, predicate.target_slot
        found = self._found.get(key)
        if found is None:
            probes = self._frame.probes(direction.probe)
            self._found[key] = found = stored.found(sought_column(probes, predicate.probe_slot))
        return found

    def _codes_in_band(self, predicate: RolePredicate, direction: Direction, stored: SortedTail) -> tuple[I64, I64]:
        """The begin and end of the stored codes in each probe's band."""
        probes, slot = self._frame.probes(direction.probe), predicate.probe_slot
        own = sought_column(probes, slot)
        lower, upper = (
            sought(codes, own) for codes in bounds(predicate.op, predicate.domain, predicate.width, probes.codes[slot])
        )
        return stored.found(lower)[BELOW], stored.found(upper)[UPTO]


class StreamStore:
    """One stream's mutable tuples: the codes of one predicate and, in the carrier, what identifies a tuple."""

    def __init__(self, query: Query, stream: int, predicate: int) -> None:
        self._query = query
        self._stream = stream
        self._predicate = predicate
        self._codes: dict[int, Tail] = {slot: Tail() for slot in _slots(query, stream, predicate)}
        self._sorted = {slot: empty_tail(0) for slot in self._codes}
        self._carries = predicate == CARRIER
        self._seqs = Tail()
        self._times = Tail()
        self._places = Tail()
        #: for rows that ask
        self._lower = Tail()
        self._own = Tail()
        self._asks = query.streams[stream].asks
        self._keys: list[tuple[int, pa.Array]] = []
        self._payloads: list[tuple[int, pa.RecordBatch]] = []
        self._has_gaps = False
        self._started = False
        self._began = 0
        self._newest_before = -1
        self._first = 0

    @property
    def tuples(self) -> int:
        return len(next(iter(self._codes.values())))

    @property
    def began(self) -> int:
        """The index of the first tuple that was stored."""
        return self._began

    def sealed_runs(self, piece: StreamSlice, *, is_ours: bool) -> Iterator[Run]:  # P9.5
        """The run of the batch that ends with this slice, if one does and this machine sorts it.

        If the log was trimmed, batches that began before it were made long ago, or have expired. An empty run reports
        this: once for the batches before the first slice, and once for the batch that contains it.
        """
        if self._newest_before >= 0:
            yield _empty_run(self._stream, self._newest_before, self._predicate)
            self._newest_before = -1
        if piece.seals and is_ours:  # P22.3
            yield (
                self.run(piece)
                if self._began <= piece.batch_first
                else _empty_run(self._stream, piece.batch_id, self._predicate)
            )

    def store_tuples(self, frame: Frame, piece: StreamSlice, kept_from: int) -> None:
        """Store a frame's tuples and drop those with indexes below `kept_from`."""
        if not self._started:
            self._start(piece.first_index, piece.batch_id)
        for slot, tail in self._codes.items():
            tail.append(piece.codes[slot])
        if self._carries:
            self._carry(frame, piece)
        self.drop_below(kept_from)

    def _start(self, first_index: int, batch_id: int) -> None:
        self._started = True
        self._newest_before = batch_id - 1
        self._began = first_index
        self._codes = {slot: Tail(first_index) for slot in self._codes}
        self._sorted = {slot: empty_tail(first_index) for slot in self._codes}
        self._seqs, self._times, self._places = Tail(first_index), Tail(first_index), Tail(first_index)
        self._lower, self._own = Tail(first_index), Tail(first_index)

    def _carry(self, frame: Frame, piece: StreamSlice) -> None:
        self._seqs.append(frame.first_seq + piece.positions.astype(np.int64))
        if piece.times_us is not None:
            self._times.append(piece.times_us)
        if not self._query.window.needs_time:
            self._has_gaps |= piece.passed > 0 or piece.void > 0
            self._places.append(piece.all_places)
        if self._asks:
            self._lower.append(one_each(piece.lower, len(piece)))
            self._own.append(np.full(len(piece), NO_OWN) if piece.own is None else piece.own)
        if len(piece) and self._query.carries_keys:
            self._keys.append((piece.first_index, piece.keys))
        if len(piece) and piece.payload is not None:
            self._payloads.append((piece.first_index, piece.payload))

    def drop_below(self, index: int) -> None:
        """Forget the tuples with indexes below `index`."""
        if index <= self._first:
            return
        self._first = index
        for tail in (*self._codes.values(), self._seqs, self._times, self._places, self._lower, self._own):
            tail.drop_below(index)
        for pieces in (self._keys, self._payloads):
            while pieces and pieces[0][0] + len(pieces[0][1]) <= index:
                pieces.pop(0)

    def sorted_from(self, first: int, slot: int, piece: StreamSlice) -> SortedTail:
        """The codes from an index on that are held, up to the end of a slice."""
        tail, end = self._sorted[slot], piece.first_index + len(piece)
        first = max(first, self._codes[slot].first)
        if tail.end > end or tail.first > first:  # the slice is an earlier one
            return empty_tail(first).advanced(first, sort_column(self._codes[slot].view(first, end)))
        if tail.end < end or tail.first < first:
            begin = max(tail.end, first)
            tail = tail if tail.end == begin else empty_tail(begin)
            added = sorted_column(piece, slot)
            if begin != piece.first_index:  # earlier tuples weren't needed so far, or this slice is in the tail
                added = sort_column(self._codes[slot].view(begin, end))
            self._sorted[slot] = tail = tail.advanced(first, added)
        return tail

    def _sorted_column(self, first: int, slot: int, piece: StreamSlice) -> SortedColumn:
        if first == piece.first_index:
            return SortedColumn(slot, *sorted_column(piece, slot))
        return SortedColumn(slot, *self.sorted_from(piece.handover_index, slot, piece).since(first))

    def run(self, piece: StreamSlice) -> Run:
        """The batch that ends with this slice, sorted (rule P7)."""
        first, end = piece.batch_first, piece.first_index + len(piece)
        return Run(
            stream=self._stream,
            batch_id=piece.batch_id,
            first=first,
            end=end,
            group=piece.group,
            predicate=self._predicate,
            columns=tuple(self._sorted_column(first, slot, piece) for slot in self._codes),
            seqs=self._seqs.view(first, end).copy() if self._carries else None,
            times_us=self._times.view(first, end).copy() if self._carries and self._query.needs_time else None,
            keys=concat_keys(_between(self._keys, first, end)) if self._carries and self._query.carries_keys else None,
            payload=pa.concat_batches(_between(self._payloads, first, end)) if self._payloads else None,
            places=self._places.view(first, end).copy() if self._has_gaps else None,
            lower=self._lower.view(first, end).copy() if self._carries and self._asks else None,
            own=self._own_between(first, end),
        )

    def _own_between(self, first: int, end: int) -> I64 | None:
        if not (self._carries and self._asks):
            return None
        own = self._own.view(first, end)
        return own.copy() if (own != NO_OWN).any() else None


def _empty_run(stream: int, batch_id: int, predicate: int) -> Run:
    return Run(stream, batch_id, 0, 0, 0, predicate, (), None, None, None)


_Piece = TypeVar("_Piece", pa.Array, pa.RecordBatch)


def _between(pieces: list[tuple[int, _Piece]], first: int, end: int) -> list[_Piece]:
    """The part of indexes [first, end) in pieces, which come with their first index."""
    return [
        piece.slice(max(first - at, 0), min(end - at, len(piece)) - max(first - at, 0))
        for at, piece in pieces
        if at < end and at + len(piece) > first
    ]


def _slots(query: Query, stream: int, predicate: int) -> list[int]:
    one = query.predicates[predicate]
    if query.is_self:
        return sorted({one.left_slot, one.right_slot})
    return [one.left_slot if stream == 0 else one.right_slot]


class Joiner(Machine):
    """Evaluates some of the query's predicates in turn, each with its own partition of partials and its own runs."""

    def __init__(
        self,
        query: Query,
        predicates: Iterable[int],
        result_position: ResultPosition,
        turn: JoinerTurn = ALL,
        kept_from: KeptFrom = handed_over,
    ) -> None:
        self._machines = [
            MutableMachine(query, predicate, result_position, turn, kept_from) for predicate in predicates
        ]

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a frame of the log to the machine of each predicate."""
        for machine in self._machines:
            yield from machine.on_record(topic, partition, offset, record)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Give every machine the result position."""
        return [trim for machine in self._machines for trim in machine.on_result_position(result_position)]

    def state_tuples(self) -> int:
        """Tuples held in memory, once for each predicate."""
        return sum(machine.state_tuples() for machine in self._machines)
