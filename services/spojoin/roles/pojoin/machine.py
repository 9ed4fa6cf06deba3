"""A PO-Join worker's state machine (the SPO-Join paper, sections 4.2 and 4.4, Algorithm 4).

Workers stand in a grid (P19): a worker answers the frames of its row, each from the batches of its column, and those of
another row if the worker there seems to be gone. Column c of
n owns batch k iff k mod n = c (the paper's division of a sub-interval). A frame is evaluated once all handed-over
batches that its windows reach are here: the paper's queue. A batch that arrives early waits until the log hands it
over, so that each pair is evaluated in exactly one place (P7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from spojoin.index.assembly import Taking
from spojoin.index.stream_index import AskedIndex, StreamIndex
from spojoin.index.work import Timer, Work, untimed
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.kernels.ratings import Ratings
from spojoin.measures.ratings import Rater
from spojoin.measures.weights import Weigher
from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.frame_evaluation import Chunks, first_reached, lower_bounds, probe_range, sought_column
from spojoin.protocol.grid import Grid, Share, grid_of
from spojoin.protocol.machine import Action, Emit, ResultPosition, Rewind, Trim, WindowMachine
from spojoin.protocol.stand_in import ColumnPlace, StandIn
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin.selection import AskedProbes, Selection, selections_of
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import NO_GROUP, Barrier, Batch, Frame, Matches, Part, Record, SpreadKey, StreamSlice
from spojoin.wire.sums import Sums

#: How many frames may wait for a late batch.
WAITING_MAX = 64


class PoJoinMachine(WindowMachine):
    """Evaluates the frames of this worker's row against the immutable batches of its column.

    grid: the initial grid if it is known; otherwise the first frame's is taken
    timer: a monotonic clock in seconds, which times the indexes' own work
    runner: runs the pieces of a search
    """

    def __init__(
        self,
        query: Query,
        worker: int,
        result_position: ResultPosition,
        grid: Grid | None = None,
        timer: Timer = untimed,
        runner: TaskRunner = IN_TURN,
    ) -> None:
        self._query = query
        self._plan = SearchPlan(query)
        self._worker = worker
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._grid = grid
        self._stand_in = StandIn(ColumnPlace(worker))
        #: the last frame behind kept ones: once results cover these, what only they reach can go
        self._last: Frame | None = None
        self._compared = self._stood_in = self._probes = self._hot_probes = 0
        self._work = Work(timer, runner)
        #: by searched stream, the numbers of the directions that search it
        self._numbers: dict[int, list[int]] = {}
        for number, direction in enumerate(query.directions):
            self._numbers.setdefault(direction.target, []).append(number)
        self._batches = self._no_batches()

    def _no_batches(self) -> dict[int, WorkerBatches]:
        selections = selections_of(self._query, self._share)
        return {s: WorkerBatches(self._query, s, self._work, selections[s]) for s in self._numbers}

    def wants(self, topic: Topic, partition: int) -> bool:
        """For frames, whether few wait; for batches, whether a frame has given the grid."""
        return len(self._frames) < WAITING_MAX if topic is Topic.FRAMES else self._grid is not None

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a batch, and evaluate the frames that are ready."""
        if isinstance(record, Batch):
            share = self._share
            if share is not None and share.has(record.batch_id) and record.stream in self._batches:
                self._batches[record.stream].accept_batch(record)
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            if self._grid is None:
                self._grid = grid_of(record)
                self._batches = self._no_batches()
            self._frames.append(record)
        yield from self._evaluate_ready_frames()

    def _evaluate_ready_frames(self) -> Iterator[Action]:
        while self._frames:
            frame = self._frames[0]
            grid = grid_of(frame)
            if grid != self._grid and frame.frame_id >= self._result_position.frame_id:
                yield from self._change_grid(grid)
            if not self._is_due(frame, grid):
                self._note_last(self._frames.popleft(), grid)
                self._pass_over(frame)
                continue
            if not all(self._has_all(batches, frame.slices[stream]) for stream, batches in self._batches.items()):
                return
            self._note_last(self._frames.popleft(), grid)
            if grid.rows > 1:
                self._stand_in.keep_frame(frame)
                if not self._stand_in.covers(frame):
                    self._pass_over(frame)
                    continue
            yield from self._evaluate_frame(frame)

    def _note_last(self, frame: Frame, grid: Grid) -> None:
        if grid.rows > 1 or self._stand_in.oldest is not None:
            self._last = frame

    def _pass_over(self, frame: Frame) -> None:
        for stream, batches in self._batches.items():
            batches.forget_unreached(*self._reached(frame, stream))

    def _reached(self, frame: Frame, stream: int) -> tuple[int, int]:  # P19.6
        """The first batch and the first index that a window of this frame, or of an earlier one under way, reaches."""
        oldest = self._stand_in.oldest or frame
        return oldest.slices[stream].live_batch, first_reached(oldest, stream)

    def _change_grid(self, grid: Grid) -> Iterator[Action]:  # P11.4
        before, self._grid = self._share, grid
        if self._share != before:  # P19.4
            self._batches = self._no_batches()
            self._stand_in.change_column()
            if self._share is not None:  # a worker beyond the grid holds nothing and answers nothing
                yield Rewind(Topic.BATCHES)

    @property
    def _share(self) -> Share | None:
        """The batches that this worker holds; None if there are none, or before the grid is known."""
        return None if self._grid is None else self._grid.share_of(self._worker)

    def _is_due(self, frame: Frame, grid: Grid) -> bool:  # P9.1
        is_asked = frame.is_answered and frame.frame_id >= self._result_position.frame_id
        return is_asked and self._worker < grid.workers

    def _has_all(self, batches: WorkerBatches, piece: StreamSlice) -> bool:  # P7.2
        # An expired batch may be gone from its topic, so wait only for batches that a window reaches.
        share = self._share
        assert share is not None, "only a worker in the grid is asked"
        return batches.has_all(share.first_from(piece.live_batch), piece.handover_batch, share.step)

    def _evaluate_frame(self, frame: Frame) -> Iterator[Action]:
        share = self._share
        assert share is not None, "only a worker in the grid is asked"
        grid = grid_of(frame)
        asked = grid.asked(frame.frame_id, share.column)
        self._stood_in += asked != self._worker
        for stream, batches in self._batches.items():
            batches.index.searched_one_in = grid.rows
            end = frame.slices[stream].handover_batch
            batches.hand_over(end, *self._reached(frame, stream), frame.spread)
        chunks = Chunks(frame.answers, lists_pairs=self._plan.lists_pairs)
        probes = {stream: batches.asked(frame) for stream, batches in self._batches.items()}
        self._probes += sum(len(each.searched) for each in probes.values())
        self._hot_probes += sum(each.hot for each in probes.values())
        searches = self._searches(probes)
        if len(searches) == len(self._batches):
            chunks.expect_matches(sum(each.most for each in searches.values()))
        for begin, end in chunks:
            directions = self._matches(probes, begin, end, searches)
            chunks.learn_from(directions)
            part = Part(frame.epoch, frame.frame_id, 1 + share.column, begin, end, directions)
            yield Emit(Topic.MATCHES, 1 + asked, part)  # P19.8

    def _answer_late(self, frame: Frame) -> Iterator[Action]:  # P19.10
        """Answer a frame in place of another worker, from the tuples handed over to it: later frames got more."""
        with ExitStack() as stack:
            for stream, batches in self._batches.items():
                stack.enter_context(batches.below(frame.slices[stream].handover_index))
            yield from self._evaluate_frame(frame)

    def _searches(self, asked_of: Mapping[int, AskedProbes]) -> dict[int, AskedIndex]:
        """The searches of a whole frame, by the batches' stream, if it can be searched as a whole."""
        asked: dict[int, AskedIndex] = {}
        for stream, batches in self._batches.items():
            probes = asked_of[stream].searched
            one = batches.index.ask(probes.codes, probes.lower, partial(sought_column, probes))
            if one is not None:
                asked[stream] = one
        return asked

    def _matches(
        self, asked_of: Mapping[int, AskedProbes], begin: int, end: int, asked: Mapping[int, AskedIndex]
    ) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end), by the query's directions."""
        by_direction: list[Matches | None] = [None] * len(self._query.directions)
        for stream, batches in self._batches.items():
            probes = asked_of[stream].searched
            first, last = probe_range(probes.positions, begin, end)
            self._compared += (last - first) * batches.index.tuples
            if stream in asked:
                found = asked[stream].matches(first, last)
            else:
                codes = tuple(column[first:last] for column in probes.codes)
                sort = partial(sought_column, probes) if last - first == len(probes) else None
                found = batches.index.evaluate(codes, lower_bounds(probes, first, last), sort)
            for number, matches in zip(self._numbers[stream], found, strict=True):
                by_direction[number] = asked_of[stream].completed(matches, begin, end)
        return tuple([matches for matches in by_direction if matches is not None])

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Answer in place of a worker that seems to be gone; continue if results have passed a frame that waited."""
        for frame in self._stand_in.due_frames(now_ms):
            yield from self._answer_late(frame)
        yield from self._evaluate_ready_frames()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Emit nothing for covered frames, whose batches may be gone; this machine trims nothing."""
        if result_position > self._result_position:
            self._result_position = result_position
            self._stand_in.note_progress(result_position.frame_id)
            if self._last is not None:
                self._pass_over(self._last)
        return []

    def counters(self) -> dict[str, float]:
        """How many pairs of a probe and a stored tuple, probes and others' frames were answered; the indexes' work."""
        own = {"comparisons": self._compared, "stand_in_frames": self._stood_in}
        return {**own, "probes": self._probes, "hot_probes": self._hot_probes, **self._work.counters()}

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(batches.tuples for batches in self._batches.values())

    def state_bytes(self) -> int:
        """Bytes of all held indexes."""
        return sum(batches.index.nbytes for batches in self._batches.values())


class WorkerBatches:
    """This worker's batches of one stream: the handed-over ones in an index, and the waiting ones separately.

    selection: which of their tuples the index holds, and how it numbers them
    """

    def __init__(self, query: Query, stream: int, work: Work, selection: Selection) -> None:
        plan = SearchPlan(query)
        directions = [direction for direction in query.directions if direction.target == stream]
        sums = bool(plan.measures)
        latest = tuple(each.is_latest for each in plan.choices)
        taking = Taking(sums, latest, plan.chosen_count, plan.enough_partners)
        output = plan.output_of_parts(directions[0])
        self.index = StreamIndex(directions, output, plan.part_limit, query.is_self, work, taking=taking)
        self._selection = selection
        self._weigher = Weigher(plan.measures) if sums else None
        self._rater = Rater(plan.choices) if plan.choices else None
        self._window = query.window_over(stream)
        self._waiting: dict[int, Batch] = {}
        self._handed_over: set[int] = set()
        self._live = 0
        self._complete = 0

    @property
    def tuples(self) -> int:
        return self.index.tuples + sum(batch.end - batch.first for batch in self._waiting.values())

    def accept_batch(self, batch: Batch) -> None:  # P7.3
        """Take a batch from its topic, unless it is known or expired."""
        if batch.batch_id >= self._live and batch.batch_id not in self._handed_over:
            self._waiting.setdefault(batch.batch_id, batch)

    def has_all(self, first: int, end: int, step: int) -> bool:
        """Whether every batch `first`, `first` + step and so on below `end` is here."""
        at = max(first, self._complete)  # batches that were here stay until no window reaches them
        while at < end and (at in self._handed_over or at in self._waiting):
            at += step
        self._complete = at
        return at >= end

    def asked(self, frame: Frame) -> AskedProbes:
        """The probes of a frame for which the index is searched."""
        return self._selection.asked(frame.probes(self.index.directions[0].probe), frame.spread)

    def below(self, index: int) -> AbstractContextManager[None]:
        """Within the context, only tuples with indexes below `index` are found."""
        return self.index.below(self._selection.number_from(index))

    def hand_over(self, end: int, live_batch: int, lower: int, spread: Sequence[SpreadKey] = ()) -> None:  # P7.1
        """Index the batches before `end`, those that a frame's probes must search; forget as `forget_unreached`.

        spread: the frame's spread keys
        """
        self._forget_batches(live_batch)
        for number in sorted(n for n in self._waiting if n < end):
            batch = self._waiting.pop(number)
            self._handed_over.add(number)
            held = self._selection.held(batch, spread)
            self.index.add(held, self._weights(held), self._ratings(held))
            if self._ends_group(batch):
                self.index.end_group(batch.group)
        self._expire(lower)

    def _ends_group(self, batch: Batch) -> bool:
        """Whether a slide of a count window ends with a batch; slides of time end with a later batch."""
        end = batch.end if batch.places is None else int(batch.places[-1]) + 1
        return batch.group != NO_GROUP and self._window.ends_slide(end)

    def _weights(self, batch: Batch) -> Sums | None:
        return None if self._weigher is None else self._weigher.of_rows(batch.payload, batch.seqs)

    def _ratings(self, batch: Batch) -> Ratings | None:
        return None if self._rater is None else self._rater.of_rows(batch.payload, batch.seqs)

    def forget_unreached(self, live_batch: int, lower: int) -> None:
        """Drop batches before `live_batch` and indexes before `lower`, which no window reaches any more."""
        self._forget_batches(live_batch)
        self._expire(lower)

    def _expire(self, lower: int) -> None:
        self.index.expire(self._selection.forget_below(lower))

    def _forget_batches(self, live_batch: int) -> None:
        if live_batch > self._live:
            self._live = live_batch
            self._waiting = {number: batch for number, batch in self._waiting.items() if number >= live_batch}
            self._handed_over = {number for number in self._handed_over if number >= live_batch}
