"""The sink's state machine: exact sets of parts, in order, each frame position once (rules P6 and P9).

The frame determines which parts must answer. Results go out in frame order as soon as all parts cover some positions;
the last results in the topic's partitions are the recovery point of the whole join. Each of several sinks answers some
frames, or of all frames the rows with some keys, into its own partition (rule P20).

`SinkMachine.on_record` takes a row's last steps: it assigns each part to its frame, finds the next positions that are
complete, projects their matches to the rows of the output, and emits these as one result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from spojoin.model import Output, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.generations import takeover_behind
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.retention import LogBegin
from spojoin.protocol.topic_config import RESTATED_MS
from spojoin.protocol.topology import FIRST_GENERATION, Topic
from spojoin.roles.sink.answers import Answering
from spojoin.roles.sink.assembly import FrameSpan, WaitingParts
from spojoin.roles.sink.history import StreamHistories
from spojoin.roles.sink.key_share import own_rows
from spojoin.roles.sink.pairs import Answers, Each, in_turn
from spojoin.roles.sink.trimming import Trimming
from spojoin.wire.records import Barrier, Batch, Frame, Part, Record, Result, Takeover

#: How many frames may wait for their parts.
FRAMES_MAX = 512


class SinkMachine(Machine):
    """Completes frames and puts their results in order."""

    def __init__(
        self,
        query: Query,
        result_position: ResultPosition,
        generation: int = FIRST_GENERATION,
        each: Each = in_turn,
        *,
        trims: bool = True,
        share: ResultPartition = WHOLE,
    ) -> None:
        """each: calls functions and returns their results in order, possibly on several threads.

        trims: whether topics are trimmed behind the results, for which each record's offset is kept
        share: the partition of the results that this sink writes
        """
        self._query = query
        self._generation = generation
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._share = share
        self._key = query.results.key if share.by_key else None
        self._next_frame, self._position = share.next_owed(result_position)
        self._parts = WaitingParts(query)
        self._histories = StreamHistories(query)
        self._answering = Answering(query, self._histories.streams, each)
        self._is_kept = trims
        self._trimming = Trimming(len(query.streams)) if trims and share.trims else None
        self._begin = LogBegin() if trims else None
        self._restating = Restating()

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether few frames, or few chunks of the partition, wait; always for batches."""
        if topic is Topic.FRAMES:
            return len(self._frames) < FRAMES_MAX
        return topic is not Topic.MATCHES or self._parts.has_room(partition)

    # -- the path of a row

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a record; project and emit the positions that are now complete."""
        if isinstance(record, Part):
            if self._trimming is not None:
                self._trimming.note_part(partition, offset, record)
            if self._share.has(record.frame_id):  # P20.2
                self._parts.accept_chunk(record, partition, self._next_frame, self._result_position)
        elif isinstance(record, Batch):
            if self._trimming is not None:
                self._trimming.note_batch(partition, offset, record)
            self._histories.accept_batch(record)
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            self._accept_frame(record, offset)
        yield from self._answer_complete()

    def _answer_complete(self) -> Iterator[Action]:
        """Emit the results of all spans that are complete."""
        while (span := self._complete_span()) is not None:
            answers = self._own(span.frame.frame_id, self._answering.answer_span(span, self._parts.matches_in(span)))
            yield Emit(Topic.RESULTS, self._share.number, self._result(span, answers))
            self._move_past(span)

    def _own(self, frame_id: int, answers: Answers) -> Answers:  # P20.7
        return answers if self._key is None else own_rows(answers, self._key, self._share, frame_id)

    def _accept_frame(self, frame: Frame, offset: int) -> None:
        if self._trimming is not None:
            self._trimming.note_frame(frame, offset)
        if self._begin is not None:
            self._begin.note_frame(frame.frame_id)
            self._restating.frame = frame
        self._histories.accept_frame(frame)
        if frame.frame_id >= self._next_frame and self._share.has(frame.frame_id):
            self._frames.append(frame)
        elif not self._frames:
            self._histories.drop_before(frame)

    def _complete_span(self) -> FrameSpan | None:
        """The next positions of the first frame for which all parts have answered, if all rows they need are held.

        A silent frame needs no answer, and so no position of it does.
        """
        if not self._frames or (self._begin is not None and self._begin.is_late(self._result_position)):
            return None
        frame = self._frames[0]
        end = frame.answers if frame.is_silent else self._parts.covered_to(frame, self._position)
        if (end <= self._position and frame.answers) or not self._histories.cover(frame):
            return None
        return FrameSpan(frame, end if frame.is_silent else self._position, end)

    def _result(self, span: FrameSpan, answers: Answers) -> Result:
        frame, end = span.frame, span.end
        return Result(
            frame_id=frame.frame_id,
            begin=self._position,
            end=end,
            is_last=end == frame.answers,
            rows=answers.rows,
            # latency is meaningless for rows that were answered long ago
            produced_ms=frame.produced_ms[:0] if frame.is_silent else frame.produced_ms,
            produced_runs=frame.produced_runs[:0] if frame.is_silent else frame.produced_runs,
            generation=self._generation,
            sinks=self._share.count,
            matches=answers.matches if self._has_matches(frame) else 0,
            probes=answers.probes,
            traces=answers.traces,
            behind=self._left_by(frame) if end == frame.answers else None,
            numbers=answers.numbers,
        )

    def _has_matches(self, frame: Frame) -> bool:
        """Whether a frame's results must hold the number of its matches."""
        return self._query.results.output in (Output.BITMAP, Output.ROWS) and self._share.counts(frame.frame_id)

    def _left_by(self, frame: Frame) -> Takeover | None:  # P9.7
        """The takeover that would follow a frame, so that results and inputs alone show which rows were answered."""
        if not self._is_kept or frame.is_silent:
            return None
        return takeover_behind(frame, self._generation, self._query.order.lateness_us)

    def _move_past(self, span: FrameSpan) -> None:
        self._position = span.end
        self._restating.note_result()
        if span.end < span.frame.answers:
            self._parts.drop_chunks(span.frame, span.end)
        else:
            self._finish_frame(span.frame)

    def _finish_frame(self, frame: Frame) -> None:
        self._frames.popleft()
        self._next_frame, self._position = frame.frame_id + self._share.step, 0
        self._parts.drop_frame(frame)
        self._histories.drop_before(frame)

    # -- progress

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Continue if another sink has answered what held up the next frame; repeat the result position (P9).

        Raises Stop if the log has lost what results need.
        """
        if self._begin is not None:
            self._begin.check_reaches_back(self._result_position, now_ms)
        yield from self._answer_complete()
        if self._restating.is_due(now_ms) and self._restating.frame is not None:
            yield Emit(Topic.RESULTS, self._share.number, self._restated(self._restating.frame))

    def _restated(self, frame: Frame) -> Result:  # P9.8
        """The result position again, as a result without rows; any frame determines its columns."""
        answers = self._answering.answer_span(FrameSpan(frame, 0, 0), self._parts.no_matches())
        answers = self._own(frame.frame_id, answers)
        return Result(
            frame_id=self._next_frame,
            begin=self._position,
            end=self._position,
            is_last=False,
            rows=answers.rows,
            produced_ms=frame.produced_ms[:0],
            produced_runs=frame.produced_runs[:0],
            generation=self._generation,
            sinks=self._share.count,
            probes=answers.probes,
            traces=answers.traces,
            behind=self._left_by(frame) if frame.frame_id == self._next_frame - self._share.step else None,
            numbers=answers.numbers,
        )

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Trim behind the results: matches, batches that no window reaches, and the log up to the handover."""
        self._skip_to(result_position)
        return [] if self._trimming is None else self._trimming.trims_behind(self._result_position)

    def _skip_to(self, result_position: ResultPosition) -> None:
        """Skip positions whose results another sink has written: their parts may never come again."""
        self._result_position = max(self._result_position, result_position)
        while self._frames and self._frames[0].frame_id < result_position.frame_id:
            self._finish_frame(self._frames[0])
        self._next_frame, self._position = max(
            (self._next_frame, self._position), self._share.next_owed(result_position)
        )

    # -- state and counters

    @property
    def matches(self) -> int:
        """How many partners all answered probes have, listed or not."""
        return self._answering.matches

    @property
    def cut_probes(self) -> int:
        """How many probes have more partners than the limit lists."""
        return self._answering.cut_probes

    @property
    def payload_bytes(self) -> int:
        """Bytes of the held rows: those that windows reach, if results need them."""
        return self._histories.nbytes

    def counters(self) -> dict[str, float]:
        """How many pairs had no value for an expression of both sides."""
        return {"pairs_without_value": self._answering.failures}

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(frame.count for frame in self._frames) + len(self._histories)


class Restating:
    """When the sink repeats its position: results may be deleted by time, and the last holds the position (P9).

    frame: the log's latest frame, for the results' columns
    """

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self._is_said = True
        self._said_ms = 0

    def note_result(self) -> None:
        self._is_said = True

    def is_due(self, now_ms: int) -> bool:
        """Whether to repeat the position now."""
        if self._is_said:
            self._is_said, self._said_ms = False, now_ms
        is_due = now_ms - self._said_ms >= RESTATED_MS and self.frame is not None
        if is_due:
            self._said_ms = now_ms
        return is_due
