"""The logical AND's state machine (the SPO-Join paper, sections 4.1 and 4.3).

The paper keys partial results by tuple in a hash table; here a frame is the key, (epoch, frame id), so that a late or
repeated partial can never meet another frame's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from spojoin.kernels.chosen import order_of
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.measures.rater import Rater, RatingTail
from spojoin.measures.tail import WeightTail
from spojoin.measures.weigher import Weigher
from spojoin.model import Direction, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.parts import MUTABLE_PART, Chunks, SeqTrail, mutable_bounds, probe_range
from spojoin.protocol.topology import Topic
from spojoin.protocol.trims import TrimLedger
from spojoin.roles.logical_and.asked import Asked, chosen, counted, summed, worthwhile
from spojoin.wire.records import I64, Barrier, DirectionRanks, Frame, Matches, Part, Partial, Record, StreamSlice
from spojoin.wire.sums import Sums

Rated = TypeVar("Rated")

#: Frames, and partials of one predicate, that may wait for their counterparts.
WAITING_MAX = 64

FrameKey = tuple[int, int]


class LogicalAndMachine(Machine):
    """Combines all predicates' rank intervals of a frame into the mutable part's matches.

    runner: runs the pieces of a frame
    """

    def __init__(self, query: Query, result_position: ResultPosition, runner: TaskRunner = IN_TURN) -> None:
        self._query = query
        self._runner = runner
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._partials: list[dict[FrameKey, Partial]] = [{} for _ in query.predicates]
        self._next_frame = result_position.frame_id
        self._trails = [SeqTrail(query) for _ in query.streams]
        self._trims = TrimLedger(Topic.PARTIALS)
        #: of the right stream, where its partners are summed
        self._weigher = Weigher(query.measures) if query.measures else None
        self._weights = WeightTail()
        #: of the right stream, where its partners are chosen
        self._rater = Rater(query.choices) if query.choices else None
        self._ratings = RatingTail(len(query.choices))

    def wants(self, topic: Topic, partition: int) -> bool:
        """Frames and partials are taken while few wait."""
        waiting = self._frames if topic is Topic.FRAMES else self._partials[partition]
        # Partials may run ahead of the frames by a full queue, hence twice.
        return len(waiting) < (WAITING_MAX if topic is Topic.FRAMES else 2 * WAITING_MAX)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a partial, and evaluate the frames that are complete."""
        if isinstance(record, Partial):
            self._trims.note(partition, offset, record.frame_id)
            if record.frame_id >= self._next_frame:
                self._partials[record.predicate][record.epoch, record.frame_id] = record
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            self._take(record)
        yield from self._evaluate_whole()

    def _take(self, frame: Frame) -> None:
        for trail, piece in zip(self._trails, frame.slices, strict=True):
            trail.append(frame, piece)
        if self._weigher is not None:
            self._weights.append(*_rated(self._weigher.of_rows, frame, frame.slices[-1]))
        if self._rater is not None:
            self._ratings.append(*_rated(self._rater.of_rows, frame, frame.slices[-1]))
        if frame.is_answered and frame.frame_id >= self._result_position.frame_id:
            self._frames.append(frame)
        elif not self._frames:
            self._drop_handed_over(frame)

    def _drop_handed_over(self, frame: Frame) -> None:
        for trail, piece in zip(self._trails, frame.slices, strict=True):
            trail.drop_below(piece.handover_index)
        self._weights.drop_below(frame.slices[-1].handover_index)
        self._ratings.drop_below(frame.slices[-1].handover_index)

    def _evaluate_whole(self) -> Iterator[Action]:
        while self._frames:
            if self._frames[0].frame_id < self._result_position.frame_id:
                self._drop_handed_over(self._frames.popleft())
                continue
            key = self._frames[0].epoch, self._frames[0].frame_id
            if not all(key in waiting for waiting in self._partials):
                return
            frame = self._frames.popleft()
            partials = [waiting.pop(key) for waiting in self._partials]
            self._forget_before(frame.frame_id + 1)
            yield from self._evaluate(frame, partials)
            self._drop_handed_over(frame)

    def _forget_before(self, frame_id: int) -> None:
        self._next_frame = max(self._next_frame, frame_id)
        for waiting in self._partials:
            for key in [k for k in waiting if k[1] < frame_id]:
                del waiting[key]

    def _evaluate(self, frame: Frame, partials: list[Partial]) -> Iterator[Action]:
        chunks = Chunks(frame.answers, lists_pairs=self._query.lists_pairs)
        asked = self._asked(frame, partials)
        counts = counted(asked, self._runner) if self._query.lists_pairs else None
        if counts is not None:
            chunks.expect(sum(_most_listed(each, self._query.part_limit) for each in counts))
        for begin, end in chunks:
            directions = self._matches(frame, asked, counts, begin, end)
            chunks.note(directions)
            part = Part(frame.epoch, frame.frame_id, MUTABLE_PART, begin, end, directions)
            yield Emit(Topic.MATCHES, MUTABLE_PART, part)

    def _asked(self, frame: Frame, partials: list[Partial]) -> list[Asked]:
        """What is asked of a frame, by direction; both of a self join have the same bounds."""
        asked: list[Asked] = []
        for number, direction in enumerate(self._query.directions):
            lower, upper = (
                (asked[0].lower, asked[0].upper) if asked and self._query.is_self else mutable_bounds(frame, direction)
            )
            ranks: list[DirectionRanks] = [partial.directions[number] for partial in partials]
            asked.append(
                Asked([r.positions for r in ranks], [r.start for r in ranks], [r.length for r in ranks], lower, upper)
            )
        return asked

    def _matches(
        self, frame: Frame, asked: list[Asked], counts: list[I64] | None, begin: int, end: int
    ) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end); counts: by direction, where they are listed."""
        if counts is not None:
            return self._listed(frame, asked, counts, begin, end)
        return self._answered(frame, asked)

    def _answered(self, frame: Frame, asked: list[Asked]) -> tuple[Matches, ...]:
        """The matches of a frame whose partners aren't listed."""
        if self._weigher is None and self._rater is None:
            return tuple(map(Matches, counted(asked, self._runner)))
        counts, sums = self._summed(frame, asked[0])
        offsets, partners = (None, None) if self._rater is None else self._chosen(frame, asked[0], counts)
        return (Matches(counts, offsets, partners, sums),)

    def _listed(self, frame: Frame, asked: list[Asked], counts: list[I64], begin: int, end: int) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end), which have been counted."""
        directions, limit = self._query.directions, self._query.part_limit
        ranges = [probe_range(frame.probes(each.probe).positions, begin, end) for each in directions]
        some = [one[first:last] for one, (first, last) in zip(asked, ranges, strict=True)]
        of_some = [each[first:last] for each, (first, last) in zip(counts, ranges, strict=True)]
        wanted = [k for k, direction in enumerate(directions) if self._query.lists(direction)]
        runner = worthwhile(some, self._runner)
        collected = runner.each([partial(some[k].collect, of_some[k], limit) for k in wanted])
        found = [Matches(each) for each in of_some]
        for k, (offsets, places) in zip(wanted, collected, strict=True):
            found[k] = Matches(of_some[k], offsets, self._seqs(frame, directions[k], places))
        return tuple(found)

    def _summed(self, frame: Frame, asked: Asked) -> tuple[I64, Sums | None]:
        """Counts int64 (m,), and sums where there are measures."""
        if self._weigher is None:
            return counted([asked], self._runner)[0], None
        weights = self._weights.since(frame.slices[-1].handover_index)
        stored = weights.rows[:, : len(asked.positions[0])]
        counts, sums = summed(asked, stored, self._runner)
        return counts, Sums(weights.keys, sums)

    def _chosen(self, frame: Frame, asked: Asked, counts: I64) -> tuple[I64, I64]:
        """Offsets and partners; counts: int64 (m,), how many each probe has."""
        first, n = frame.slices[-1].handover_index, len(asked.positions[0])
        ratings, seqs = self._ratings.since(first, n), self._trails[-1].seqs(np.arange(first, first + n))
        latest = [choice.is_latest for choice in self._query.choices]
        orders = [order_of(*ratings.of(k), seqs, is_latest=is_latest) for k, is_latest in enumerate(latest)]
        return chosen(asked, counts, orders, (self._query.chosen_count, latest), self._runner)

    def _seqs(self, frame: Frame, direction: Direction, places: I64) -> I64:
        return self._trails[direction.target].seqs(frame.slices[direction.target].handover_index + places)

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Go on where the result position has passed a frame that waited for partials."""
        yield from self._evaluate_whole()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Partials of frames whose results are out are needed no more, and may never come."""
        self._result_position = max(self._result_position, result_position)
        self._forget_before(result_position.frame_id)
        return [trim for p in self._trims.partitions() for trim in self._trims.release(p, result_position.frame_id)]

    def state_tuples(self) -> int:
        """Tuples held in memory, by the seqs of the mutable part."""
        return sum(len(trail) for trail in self._trails)


def _most_listed(counts: I64, limit: int | None) -> int:
    """How many partners are listed of probes with these counts."""
    return int(counts.sum() if limit is None else np.minimum(counts, limit).sum())


def _rated(
    of_rows: Callable[[pa.RecordBatch | None, I64], Rated], frame: Frame, piece: StreamSlice
) -> tuple[int, Rated]:
    """The first index of a frame's rows, and what `of_rows` says of them."""
    return piece.first_index, of_rows(piece.payload, frame.first_seq + piece.positions.astype(np.int64))
