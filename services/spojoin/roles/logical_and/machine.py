"""The logical AND's state machine (the SPO-Join paper, sections 4.1 and 4.3).

The paper keeps partial results by tuple in a hash table; here the key is a frame, (epoch, frame id), so that a late or
repeated partial can never be combined with another frame's. Threads can share a frame's search, piece by piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64, U16
from spojoin.kernels.chosen import Chosen, ValueOrder, listed, order_of
from spojoin.kernels.intervals16 import and_counts, collect_counted
from spojoin.kernels.masked import masked_sums
from spojoin.kernels.pieces import IN_TURN, TaskRunner, shares
from spojoin.kernels.segments import before
from spojoin.measures.ratings import Rater, RatingTail
from spojoin.measures.weights import Weigher, WeightTail
from spojoin.model import Direction, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.frame_evaluation import MUTABLE_PART, Chunks, SeqTrail, mutable_bounds, probe_range
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.retention import TrimLedger
from spojoin.protocol.services import ALL, Rotation
from spojoin.protocol.topology import Topic
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Barrier, DirectionRanks, Frame, Matches, Part, Partial, Record, StreamSlice
from spojoin.wire.sums import Sums

#: How many frames, and partials of one predicate, may wait for their counterparts.
WAITING_MAX = 64

FrameKey = tuple[int, int]

Rated = TypeVar("Rated")


class LogicalAndMachine(Machine):
    """Combines all predicates' rank intervals of a frame into the mutable part's matches.

    turn: the frames that it evaluates; it keeps what later ones need of all
    partition: of `matches`, which only it writes
    runner: runs the pieces of a frame
    """

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        turn: Rotation = ALL,
        partition: int = MUTABLE_PART,
        runner: TaskRunner = IN_TURN,
    ) -> None:
        self._query = query
        self._plan = SearchPlan(query)
        self._turn = turn
        self._partition = partition
        self._runner = runner
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._partials: list[dict[FrameKey, Partial]] = [{} for _ in query.predicates]
        self._next_frame = result_position.frame_id
        self._trails = [SeqTrail(query) for _ in query.streams]
        self._trims = TrimLedger(Topic.PARTIALS)
        #: for the right stream, if its partners are summed
        self._weigher = Weigher(self._plan.measures) if self._plan.measures else None
        self._weights = WeightTail()
        #: for the right stream, if its partners are chosen
        self._rater = Rater(self._plan.choices) if self._plan.choices else None
        self._ratings = RatingTail(len(self._plan.choices))

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether few frames, or few partials of the predicate, wait, or the next frame needs one.

        The partials of several joiners share a partition: the next one may come behind those of all frames under way.
        """
        if topic is Topic.FRAMES:
            return len(self._frames) < WAITING_MAX
        waiting = self._partials[partition]  # P22.5
        # Partials may run ahead of the frames by a full queue, hence twice.
        return len(waiting) < 2 * WAITING_MAX or (bool(self._frames) and _key(self._frames[0]) not in waiting)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a partial, and evaluate the frames that are complete."""
        if isinstance(record, Partial):
            self._trims.note_record(partition, offset, record.frame_id)
            if record.frame_id >= self._next_frame and self._turn.has(record.frame_id):
                self._partials[record.predicate][record.epoch, record.frame_id] = record
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            self._accept_frame(record)
        yield from self._evaluate_complete_frames()

    def _accept_frame(self, frame: Frame) -> None:
        self._store_tuples(frame)
        if self._is_due(frame) and self._turn.has(frame.frame_id):  # P22.2
            self._frames.append(frame)
        elif not self._frames:
            self._drop_handed_over(frame)

    def _is_due(self, frame: Frame) -> bool:
        return frame.is_answered and frame.frame_id >= self._result_position.frame_id

    def _store_tuples(self, frame: Frame) -> None:
        for trail, piece in zip(self._trails, frame.slices, strict=True):
            trail.append_tuples(frame, piece)
        if self._weigher is not None:
            self._weights.append(*_rated(self._weigher.of_rows, frame, frame.slices[-1]))
        if self._rater is not None:
            self._ratings.append(*_rated(self._rater.of_rows, frame, frame.slices[-1]))

    def _drop_handed_over(self, frame: Frame) -> None:
        for trail, piece in zip(self._trails, frame.slices, strict=True):
            trail.drop_below(piece.handover_index)
        self._weights.drop_below(frame.slices[-1].handover_index)
        self._ratings.drop_below(frame.slices[-1].handover_index)

    def _evaluate_complete_frames(self) -> Iterator[Action]:
        while self._frames:
            if self._frames[0].frame_id < self._result_position.frame_id:
                self._drop_handed_over(self._frames.popleft())
                continue
            key = _key(self._frames[0])
            if not all(key in waiting for waiting in self._partials):
                return
            frame = self._frames.popleft()
            partials = [waiting.pop(key) for waiting in self._partials]
            self._forget_before(frame.frame_id + 1)
            yield from self._evaluate_frame(frame, partials)
            self._drop_handed_over(frame)

    def _forget_before(self, frame_id: int) -> None:
        self._next_frame = max(self._next_frame, frame_id)
        for waiting in self._partials:
            for key in [k for k in waiting if k[1] < frame_id]:
                del waiting[key]

    def _evaluate_frame(self, frame: Frame, partials: list[Partial]) -> Iterator[Action]:
        chunks = Chunks(frame.answers, lists_pairs=self._plan.lists_pairs)
        asked = self._searches(frame, partials)
        counts = count_matches(asked, self._runner) if self._plan.lists_pairs else None
        if counts is not None:
            chunks.expect_matches(sum(_most_listed(each, self._plan.part_limit) for each in counts))
        for begin, end in chunks:
            directions = self._matches(frame, asked, counts, begin, end)
            chunks.learn_from(directions)
            part = Part(frame.epoch, frame.frame_id, MUTABLE_PART, begin, end, directions)
            yield Emit(Topic.MATCHES, self._partition, part)

    def _searches(self, frame: Frame, partials: list[Partial]) -> list[IntervalSearch]:
        """The searches of a frame, by direction; in a self join both directions have the same bounds."""
        asked: list[IntervalSearch] = []
        for number, direction in enumerate(self._query.directions):
            lower, upper = (
                (asked[0].lower, asked[0].upper) if asked and self._query.is_self else mutable_bounds(frame, direction)
            )
            ranks: list[DirectionRanks] = [partial.directions[number] for partial in partials]
            asked.append(
                IntervalSearch(
                    [r.positions for r in ranks], [r.start for r in ranks], [r.length for r in ranks], lower, upper
                )
            )
        return asked

    def _matches(
        self, frame: Frame, asked: list[IntervalSearch], counts: list[I64] | None, begin: int, end: int
    ) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end); counts: by direction, if partners are listed."""
        if counts is not None:
            return self._listed_matches(frame, asked, counts, begin, end)
        return self._unlisted_matches(frame, asked)

    def _unlisted_matches(self, frame: Frame, asked: list[IntervalSearch]) -> tuple[Matches, ...]:
        """The matches of a frame whose partners aren't listed."""
        if self._weigher is None and self._rater is None:
            return tuple(map(Matches, count_matches(asked, self._runner)))
        counts, sums = self._summed_weights(frame, asked[0])
        offsets, partners = (None, None) if self._rater is None else self._chosen_partners(frame, asked[0], counts)
        return (Matches(counts, offsets, partners, sums),)

    def _listed_matches(
        self, frame: Frame, asked: list[IntervalSearch], counts: list[I64], begin: int, end: int
    ) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end), which have been counted."""
        directions, limit = self._query.directions, self._plan.part_limit
        ranges = [probe_range(frame.probes(each.probe).positions, begin, end) for each in directions]
        some = [one[first:last] for one, (first, last) in zip(asked, ranges, strict=True)]
        of_some = [each[first:last] for each, (first, last) in zip(counts, ranges, strict=True)]
        wanted = [k for k, direction in enumerate(directions) if self._plan.lists_matches(direction)]
        runner = runner_if_worthwhile(some, self._runner)
        collected = runner.each([partial(some[k].collect, of_some[k], limit) for k in wanted])
        found = [Matches(each) for each in of_some]
        for k, (offsets, places) in zip(wanted, collected, strict=True):
            found[k] = Matches(of_some[k], offsets, self._seqs(frame, directions[k], places))
        return tuple(found)

    def _summed_weights(self, frame: Frame, asked: IntervalSearch) -> tuple[I64, Sums | None]:
        """Counts int64 (m,), and sums if there are measures."""
        if self._weigher is None:
            return count_matches([asked], self._runner)[0], None
        weights = self._weights.since(frame.slices[-1].handover_index)
        stored = weights.rows[:, : len(asked.positions[0])]
        counts, sums = sum_weights(asked, stored, self._runner)
        return counts, Sums(weights.keys, sums)

    def _chosen_partners(self, frame: Frame, asked: IntervalSearch, counts: I64) -> tuple[I64, I64]:
        """Offsets and chosen partners; counts: int64 (m,), how many partners each probe has."""
        first, n = frame.slices[-1].handover_index, len(asked.positions[0])
        ratings, seqs = self._ratings.since(first, n), self._trails[-1].seqs(np.arange(first, first + n))
        latest = [choice.is_latest for choice in self._plan.choices]
        orders = [order_of(*ratings.of(k), seqs, is_latest=is_latest) for k, is_latest in enumerate(latest)]
        return choose_partners(asked, counts, orders, (self._plan.chosen_count, latest), self._runner)

    def _seqs(self, frame: Frame, direction: Direction, places: I64) -> I64:
        return self._trails[direction.target].seqs(frame.slices[direction.target].handover_index + places)

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Continue if the result position has passed a frame that waited for partials."""
        yield from self._evaluate_complete_frames()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Trim the partials of frames whose results are out: they are no longer needed, and may never come."""
        self._result_position = max(self._result_position, result_position)
        self._forget_before(result_position.frame_id)
        return [trim for p in self._trims.partitions() for trim in self._trims.release(p, result_position.frame_id)]

    def state_tuples(self) -> int:
        """Tuples held in memory: those of the mutable part."""
        return sum(len(trail) for trail in self._trails)


def _key(frame: Frame) -> FrameKey:
    return frame.epoch, frame.frame_id


def _most_listed(counts: I64, limit: int | None) -> int:
    """How many partners are listed for probes with these counts."""
    return int(counts.sum() if limit is None else np.minimum(counts, limit).sum())


def _rated(
    of_rows: Callable[[pa.RecordBatch | None, I64], Rated], frame: Frame, piece: StreamSlice
) -> tuple[int, Rated]:
    """The first index of a frame's rows, and what `of_rows` returns for them."""
    return piece.first_index, of_rows(piece.payload, frame.first_seq + piece.positions.astype(np.int64))


#: From this many comparisons of a probe with a stored tuple on, threads pay; fewer take less time than waking one.
TOGETHER_MIN = 1 << 22


@dataclass(frozen=True, slots=True)
class IntervalSearch:
    """m probes of one direction and its n stored tuples, as rank intervals by predicate.

    positions: uint16 (n,) each; starts, lengths: uint16 (m,) each; lower, upper: int64 (m,), offsets in [0, n]
    """

    positions: Sequence[U16]
    starts: Sequence[U16]
    lengths: Sequence[U16]
    lower: I64
    upper: I64

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, share: slice) -> IntervalSearch:
        starts, lengths = [one[share] for one in self.starts], [one[share] for one in self.lengths]
        return IntervalSearch(self.positions, starts, lengths, self.lower[share], self.upper[share])

    @property
    def comparisons(self) -> int:
        """The number of pairs of a probe and a stored tuple."""
        return len(self) * len(self.positions[0])

    def counts(self) -> I64:
        """How many stored tuples satisfy all predicates, int64 (m,)."""
        return and_counts(self.positions, self.starts, self.lengths, self.lower, self.upper)

    def sums(self, weights: I64) -> tuple[I64, I64]:
        """The counts, and the sums of these tuples' weights, int64 (k, m); weights: int64 (k, n)."""
        return masked_sums(self.positions, self.starts, self.lengths, self.lower, self.upper, weights)

    def choose(self, counts: I64, orders: Sequence[ValueOrder], count: int) -> list[Chosen]:
        """The first `count` matching tuples in each order; counts: how many match."""
        kept = [Chosen(len(self), count) for _ in orders]
        for one, order in zip(kept, orders, strict=True):
            one.add_masked(order, self.positions, (self.starts, self.lengths), (self.lower, self.upper), counts)
        return kept

    def collect(self, counts: I64, limit: int | None) -> tuple[I64, I64]:
        """Offsets int64 (m + 1,), and each probe's first `limit` matching tuples; counts: how many match."""
        return collect_counted(self.positions, self.starts, self.lengths, self.lower, self.upper, counts, limit)


def count_matches(asked: Sequence[IntervalSearch], runner: TaskRunner) -> list[I64]:
    """The counts of each direction, with its probes divided among threads."""
    runner = runner_if_worthwhile(asked, runner)
    if runner.threads == 1:
        return [one.counts() for one in asked]
    counts = runner.each([one[share].counts for one in asked for share in shares(len(one), runner.threads)])
    return np.split(np.concatenate(counts), np.cumsum([len(one) for one in asked])[:-1])


def sum_weights(asked: IntervalSearch, weights: I64, runner: TaskRunner) -> tuple[I64, I64]:
    """Counts, int64 (m,), and sums, int64 (k, m), of one direction, with its probes divided among threads.

    weights: int64 (k, n)
    """
    runner = runner_if_worthwhile([asked], runner)
    found = runner.each([partial(asked[share].sums, weights) for share in shares(len(asked), runner.threads)])
    return np.concatenate([counts for counts, _ in found]), np.concatenate([sums for _, sums in found], axis=1)


def choose_partners(
    asked: IntervalSearch,
    counts: I64,
    orders: Sequence[ValueOrder],
    wanted: tuple[int, Sequence[bool]],
    runner: TaskRunner,
) -> tuple[I64, I64]:
    """The first partners of one direction in each order: offsets int64 (m + 1,), and seqs.

    The probes are divided among threads.
    wanted: how many partners of each order, and by order whether the latest of equal ones comes first
    """
    runner, (count, latest) = runner_if_worthwhile([asked], runner), wanted
    pieces = [
        partial(asked[share].choose, counts[share], orders, count) for share in shares(len(asked), runner.threads)
    ]
    found = [listed([*zip(kept, latest, strict=True)]) for kept in runner.each(pieces)]
    lengths = [np.diff(offsets) for offsets, _ in found]
    return before(np.concatenate(lengths)), np.concatenate([partners for _, partners in found])


def runner_if_worthwhile(asked: Sequence[IntervalSearch], runner: TaskRunner) -> TaskRunner:
    """`runner` if there is enough work for threads, otherwise IN_TURN."""
    return runner if sum(one.comparisons for one in asked) >= TOGETHER_MIN * runner.reluctance else IN_TURN
