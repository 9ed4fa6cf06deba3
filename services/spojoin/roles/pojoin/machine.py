"""A PO-Join worker's state machine (the SPO-Join paper, sections 4.2 and 4.4, Algorithm 4).

Worker w of N owns batch k iff k mod N = w (the paper's division of a sub-interval). A frame is evaluated once every
batch that it hands over, and that its windows reach, is here: the paper's queue. A batch that is here early waits
until the log hands it over, so that each pair is evaluated in exactly one place (P7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial

from spojoin.index.assembly import Taking
from spojoin.index.stream_index import AskedIndex, StreamIndex
from spojoin.index.work import Timer, Work, untimed
from spojoin.kernels.pieces import IN_TURN, TaskRunner
from spojoin.kernels.ratings import Ratings
from spojoin.measures.rater import Rater
from spojoin.measures.weigher import Weigher
from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import Action, Emit, ResultPosition, Rewind, Trim, WindowMachine
from spojoin.protocol.parts import Chunks, first_reached, lower_bounds, probe_range
from spojoin.protocol.sorting import sought_column
from spojoin.protocol.topology import Topic
from spojoin.wire.records import NO_GROUP, Barrier, Batch, Frame, Matches, Part, Record, StreamSlice
from spojoin.wire.sums import Sums

#: Frames that may wait for a late batch.
WAITING_MAX = 64


class PoJoinMachine(WindowMachine):
    """Evaluates frames against the immutable batches that this worker owns.

    workers: the worker count to start with where it is known; else it is the first frame's
    timer: seconds that never run backwards, to time the indexes' own work by
    runner: runs the pieces of a search
    """

    def __init__(
        self,
        query: Query,
        worker: int,
        result_position: ResultPosition,
        workers: int = 0,
        timer: Timer = untimed,
        runner: TaskRunner = IN_TURN,
    ) -> None:
        self._query = query
        self._worker = worker
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._workers = workers
        self._compared = 0
        self._work = Work(timer, runner)
        #: by stream that is searched, the numbers of the directions that search it
        self._numbers: dict[int, list[int]] = {}
        for number, direction in enumerate(query.directions):
            self._numbers.setdefault(direction.target, []).append(number)
        self._batches = self._no_batches()

    def _no_batches(self) -> dict[int, WorkerBatches]:
        return {stream: WorkerBatches(self._query, stream, self._work) for stream in self._numbers}

    def wants(self, topic: Topic, partition: int) -> bool:
        """Frames are taken while few wait; batches once a frame has given the worker count."""
        return len(self._frames) < WAITING_MAX if topic is Topic.FRAMES else self._workers > 0

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a batch, and evaluate what can be."""
        if isinstance(record, Batch):
            if record.batch_id % self._workers == self._worker and record.stream in self._batches:
                self._batches[record.stream].arrive(record)
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            if self._workers == 0:
                self._workers = record.workers
            self._frames.append(record)
        yield from self._evaluate_ready()

    def _evaluate_ready(self) -> Iterator[Action]:
        while self._frames:
            frame = self._frames[0]
            if frame.workers != self._workers and frame.frame_id >= self._result_position.frame_id:
                yield from self._change_workers(frame.workers)
            if not self._is_due(frame):
                self._pass_over(self._frames.popleft())
                continue
            if not all(self._has_all(batches, frame.slices[stream]) for stream, batches in self._batches.items()):
                return
            self._frames.popleft()
            yield from self._evaluate(frame)

    def _pass_over(self, frame: Frame) -> None:
        for stream, batches in self._batches.items():
            batches.forget(frame.slices[stream].live_batch, first_reached(frame, stream))

    def _change_workers(self, workers: int) -> Iterator[Action]:
        self._workers = workers
        self._batches = self._no_batches()
        if self._worker < workers:  # P11: a worker beyond the count holds nothing and reports nothing
            yield Rewind(Topic.BATCHES)

    def _is_due(self, frame: Frame) -> bool:
        is_asked = frame.is_answered and frame.frame_id >= self._result_position.frame_id
        return is_asked and self._worker < frame.workers

    def _has_all(self, batches: WorkerBatches, piece: StreamSlice) -> bool:
        # An expired batch may be gone from its topic, so only those that a window reaches are waited for.
        step = self._workers
        first = piece.live_batch + (self._worker - piece.live_batch) % step
        return batches.has_all(first, piece.handover_batch, step)

    def _evaluate(self, frame: Frame) -> Iterator[Action]:
        for stream, batches in self._batches.items():
            batches.hand_over(frame.slices[stream], first_reached(frame, stream))
        chunks = Chunks(frame.answers, lists_pairs=self._query.lists_pairs)
        asked = self._asked(frame)
        if len(asked) == len(self._batches):
            chunks.expect(sum(each.most for each in asked.values()))
        for begin, end in chunks:
            directions = self._matches(frame, begin, end, asked)
            chunks.note(directions)
            part = Part(frame.epoch, frame.frame_id, 1 + self._worker, begin, end, directions)
            yield Emit(Topic.MATCHES, 1 + self._worker, part)

    def _asked(self, frame: Frame) -> dict[int, AskedIndex]:
        """What a whole frame asks of the batches, by their stream, where it can be asked so."""
        asked: dict[int, AskedIndex] = {}
        for stream, batches in self._batches.items():
            probes = frame.probes(batches.index.directions[0].probe)
            one = batches.index.ask(probes.codes, probes.lower, partial(sought_column, probes))
            if one is not None:
                asked[stream] = one
        return asked

    def _matches(self, frame: Frame, begin: int, end: int, asked: Mapping[int, AskedIndex]) -> tuple[Matches, ...]:
        """The matches of the tuples at frame positions [begin, end), by the query's directions."""
        by_direction: list[Matches | None] = [None] * len(self._query.directions)
        for stream, batches in self._batches.items():
            probes = frame.probes(batches.index.directions[0].probe)
            first, last = probe_range(probes.positions, begin, end)
            self._compared += (last - first) * batches.index.tuples
            if stream in asked:
                found = asked[stream].matches(first, last)
            else:
                codes = tuple(column[first:last] for column in probes.codes)
                sort = partial(sought_column, probes) if last - first == len(probes) else None
                found = batches.index.evaluate(codes, lower_bounds(probes, first, last), sort)
            for number, matches in zip(self._numbers[stream], found, strict=True):
                by_direction[number] = matches
        return tuple([matches for matches in by_direction if matches is not None])

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Go on where the result position has passed a frame that waited for a batch: it waits for nothing any more."""
        yield from self._evaluate_ready()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Be silent for what it covers: batches of such frames may be gone. Nothing is trimmed here."""
        self._result_position = max(self._result_position, result_position)
        return []

    def counters(self) -> dict[str, float]:
        """Pairs of probe and stored tuple answered for, and what the indexes spend on themselves."""
        return {"comparisons": self._compared, **self._work.counters()}

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(batches.tuples for batches in self._batches.values())

    def state_bytes(self) -> int:
        """Bytes of all indexes held."""
        return sum(batches.index.nbytes for batches in self._batches.values())


class WorkerBatches:
    """This worker's batches of one stream: those handed over in an index, those that wait for it beside."""

    def __init__(self, query: Query, stream: int, work: Work) -> None:
        directions = [direction for direction in query.directions if direction.target == stream]
        sums = bool(query.measures)
        taking = Taking(sums, tuple(each.is_latest for each in query.choices), query.chosen_count, query.enough)
        output = query.searched_for(directions[0])
        self.index = StreamIndex(directions, output, query.part_limit, query.is_self, work, taking=taking)
        self._weigher = Weigher(query.measures) if sums else None
        self._rater = Rater(query.choices) if query.choices else None
        self._window = query.window_over(stream)
        self._waiting: dict[int, Batch] = {}
        self._handed_over: set[int] = set()
        self._live = 0
        self._complete = 0

    @property
    def tuples(self) -> int:
        """Tuples held."""
        return self.index.tuples + sum(batch.end - batch.first for batch in self._waiting.values())

    def arrive(self, batch: Batch) -> None:
        """Take a batch from its topic; one that is known or expired changes nothing."""
        if batch.batch_id >= self._live and batch.batch_id not in self._handed_over:
            self._waiting.setdefault(batch.batch_id, batch)

    def has_all(self, first: int, end: int, step: int) -> bool:
        """Whether every batch `first`, `first` + step and so on below `end` is here."""
        at = max(first, self._complete)  # what was here is so until no window reaches it
        while at < end and (at in self._handed_over or at in self._waiting):
            at += step
        self._complete = at
        return at >= end

    def hand_over(self, piece: StreamSlice, lower: int) -> None:
        """Drop what no window reaches any more, and index what this frame's probes must search.

        piece: the frame's slice of this stream; lower: the first index that a window of the frame reaches
        """
        self._forget_batches(piece.live_batch)
        for number in sorted(n for n in self._waiting if n < piece.handover_batch):
            batch = self._waiting.pop(number)
            self._handed_over.add(number)
            self.index.add(batch, self._weights(batch), self._ratings(batch))
            if self._ends_group(batch):
                self.index.end_group(batch.group)
        self.index.expire(lower)

    def _ends_group(self, batch: Batch) -> bool:
        """Whether a slide of a count window ends with a batch; that of times ends with a later one."""
        end = batch.end if batch.places is None else int(batch.places[-1]) + 1
        return batch.group != NO_GROUP and not self._window.is_time and end % self._window.slide == 0

    def _weights(self, batch: Batch) -> Sums | None:
        return None if self._weigher is None else self._weigher.of_rows(batch.payload, batch.seqs)

    def _ratings(self, batch: Batch) -> Ratings | None:
        return None if self._rater is None else self._rater.of_rows(batch.payload, batch.seqs)

    def forget(self, live_batch: int, lower: int) -> None:
        """No window reaches batches before this one, or indexes before `lower`, any more."""
        self._forget_batches(live_batch)
        self.index.expire(lower)

    def _forget_batches(self, live_batch: int) -> None:
        if live_batch > self._live:
            self._live = live_batch
            self._waiting = {number: batch for number, batch in self._waiting.items() if number >= live_batch}
            self._handed_over = {number for number in self._handed_over if number >= live_batch}
