"""The sink's state machine: exact part sets, order, each frame position once (rules P6 and P9).

The frame itself says which parts must report. Results go out in frame order as soon as all parts cover some positions;
the last result in the topic is the recovery point of the whole join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spojoin.measures.weigher import Weigher
from spojoin.model import Direction, Output, Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.losses import LogBegin
from spojoin.protocol.machine import Action, Emit, Machine, ResultPosition, Trim
from spojoin.protocol.made import MadeBatches
from spojoin.protocol.parts import expected_parts, first_reached, probe_range
from spojoin.protocol.succession import left_by
from spojoin.protocol.topology import FIRST_GENERATION, Topic
from spojoin.protocol.trims import TrimLedger
from spojoin.roles.sink.assembly import PartChunks, combined
from spojoin.roles.sink.closed_rows import NO_ROWS, ClosedRows, closed_rows, without_own
from spojoin.roles.sink.full_answers import FullAnswers
from spojoin.roles.sink.history import HeldRows, History
from spojoin.roles.sink.left_answers import LeftAnswers
from spojoin.roles.sink.pairs import Answers, Each, Projection, SeqPairs, in_turn
from spojoin.roles.sink.residual import Residual
from spojoin.roles.sink.restating import Restating
from spojoin.roles.sink.rows import (
    answered_only,
    bitmap_rows,
    count_rows,
    cut_probes,
    listed_pairs,
    matches,
    pair_rows,
)
from spojoin.wire.records import I64, U16, Barrier, Batch, Closing, Frame, Matches, Part, Record, Result, Takeover
from spojoin.wire.sums import Sums

#: Frames that may wait for their parts, and chunks of one part that may wait for the others.
FRAMES_MAX = 512
CHUNKS_MAX = 512
PARTNERS_MAX = 1 << 23
_NO_PLACES = np.empty(0, np.uint16)


@dataclass(slots=True)
class FrameMark:
    """Where an accepted frame stands in the log and where each stream is after it, for trimming."""

    frame_id: int
    offset: int
    ends: tuple[int, ...]
    handovers: tuple[int, ...]
    reached: tuple[int, ...]
    batch_firsts: tuple[int, ...]


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
    ) -> None:
        """each: calls functions, and returns their results in order; it may share them among threads.

        trims: whether topics are trimmed behind the results, for which each record's place is kept
        """
        self._query = query
        self._generation = generation
        self._result_position = result_position
        self._reader = LogFollower()
        self._frames: deque[Frame] = deque()
        self._position = result_position.position
        self._next_frame = result_position.frame_id
        self._parts: dict[tuple[int, int, int], PartChunks] = {}
        self._held: dict[int, list[int]] = {}
        self._expecting: tuple[Frame | None, list[int]] = None, []
        self._trims = trims
        self._histories = [History(has_keys=query.carries_keys) for _ in query.streams]
        self._holds_rows = query.carries_keys or query.has_pair_payload
        self._residual = Residual(query) if query.residuals else None
        self._projection = Projection(query, each)
        self._left = LeftAnswers(query, self._projection) if query.asks and not query.both_ask else None
        self._full = FullAnswers(query, self._projection) if query.both_ask else None
        self._weigher = Weigher(query.measures)
        self._marks: deque[FrameMark] = deque()
        self._made = [MadeBatches() for _ in query.streams]
        self._matches_trims = TrimLedger(Topic.MATCHES)
        self._batch_trims = TrimLedger(Topic.BATCHES)
        self._frames_trimmed = -1
        self._restating = Restating()
        self._begin = LogBegin() if trims else None
        self.cut_probes = 0
        self.matches = 0

    # -- input

    def wants(self, topic: Topic, partition: int) -> bool:
        """Frames and each part's chunks are taken while few wait; batches always."""
        if topic is Topic.FRAMES:
            return len(self._frames) < FRAMES_MAX
        if topic is Topic.MATCHES:
            chunks, partners = self._held.get(partition, [0, 0])
            return chunks < CHUNKS_MAX and partners < PARTNERS_MAX
        return True

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame, a part's chunk or a batch's keys, and write the results that are complete."""
        if isinstance(record, Part):
            if self._trims:
                self._matches_trims.note(partition, offset, record.frame_id)
            self._take_part(record)
        elif isinstance(record, Batch):
            if self._trims:
                self._batch_trims.note(partition, offset, record.end - 1)
                self._made[record.stream].add(record.first, record.end)
            self._take_batch(record)
        elif isinstance(record, Frame | Barrier) and self._reader.accept(record) and isinstance(record, Frame):
            self._take_frame(record, offset)
        yield from self._complete()

    def _take_frame(self, frame: Frame, offset: int) -> None:
        if self._trims:
            self._mark(frame, offset)
            self._restating.frame = frame
        if self._holds_rows:
            for stream, (history, piece) in enumerate(zip(self._histories, frame.slices, strict=True)):
                seqs = frame.first_seq + piece.positions.astype(np.int64)
                history.append(piece.first_index, HeldRows(seqs, piece.keys, self._named(stream, piece.payload)))
        if frame.frame_id >= self._result_position.frame_id:
            self._frames.append(frame)
        elif not self._frames:
            self._forget_rows(frame)

    def _mark(self, frame: Frame, offset: int) -> None:
        streams = range(len(frame.slices))
        self._marks.append(
            FrameMark(
                frame.frame_id,
                offset,
                tuple(piece.first_index + len(piece) for piece in frame.slices),
                tuple(piece.handover_index for piece in frame.slices),
                tuple(first_reached(frame, stream) for stream in streams),
                tuple(piece.batch_first for piece in frame.slices),
            )
        )
        if self._begin is not None:
            self._begin.note(frame.frame_id)

    def _take_batch(self, batch: Batch) -> None:
        if self._holds_rows:
            named = self._named(batch.stream, batch.payload)
            self._histories[batch.stream].restore(batch.first, HeldRows(batch.seqs, batch.keys, named))

    def _named(self, stream: int, payload: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """The columns that results or conditions on pairs name; an input of two streams brings those of both."""
        names = self._query.streams[stream].payload
        if payload is None or len(names) == payload.num_columns:
            return payload
        return payload.select(list(names))

    def _take_part(self, part: Part) -> None:
        if part.frame_id < self._next_frame:
            return
        key = part.epoch, part.frame_id, part.part
        if key not in self._parts:
            begin = self._result_position.position if part.frame_id == self._result_position.frame_id else 0
            self._parts[key] = PartChunks(begin)
        size = self._parts[key].add(part)
        held = self._held.setdefault(part.part, [0, 0])
        held[0] += size[0]
        held[1] += size[1]

    # -- output

    def _complete(self) -> Iterator[Action]:
        if self._begin is not None and self._begin.is_late(self._result_position):
            return
        while self._frames:
            frame = self._frames[0]
            end = self._covered(frame)
            if (end <= self._position and frame.answers) or not self._has_rows(frame):
                return
            yield Emit(Topic.RESULTS, 0, self._result(frame, end))
            self._position = end
            self._restating.said()
            if end < frame.answers:
                self._forget_chunks(frame, end)
                continue
            self._finish(frame)

    def _covered(self, frame: Frame) -> int:
        """Where the next result ends: at the first end of a chunk, however many more are here.

        So the matches topic alone determines the bounds of results, whenever it is read: the results of a sink that was
        replaced and those of its successor continue each other, and readers can resume from either.
        """
        if frame.is_silent:
            return frame.answers
        chunks = [self._parts.get((frame.epoch, frame.frame_id, part)) for part in self._expected(frame)]
        ends = [self._position if one is None else one.next_end(self._position) for one in chunks]
        return min(ends, default=0)

    def _expected(self, frame: Frame) -> list[int]:
        """The parts of the first frame that waits."""
        if self._expecting[0] is not frame:
            self._expecting = frame, expected_parts(frame, self._query.layout)
        return self._expecting[1]

    def _has_rows(self, frame: Frame) -> bool:
        """Whether all rows that this frame's results may name are held."""
        if not self._holds_rows:
            return True
        return all(history.covers(first_reached(frame, s)) for s, history in enumerate(self._histories))

    def _result(self, frame: Frame, end: int) -> Result:
        begin, before = self._position, self.matches
        answers = self._answers(frame, begin, end)
        return Result(
            frame_id=frame.frame_id,
            begin=begin,
            end=end,
            is_last=end == frame.answers,
            rows=answers.rows,
            # rows that were answered long ago have no latency
            produced_ms=frame.produced_ms[:0] if frame.is_silent else frame.produced_ms,
            produced_runs=frame.produced_runs[:0] if frame.is_silent else frame.produced_runs,
            generation=self._generation,
            matches=self.matches - before if self._query.output in (Output.BITMAP, Output.ROWS) else 0,
            probes=answers.probes,
            traces=answers.traces,
            behind=self._behind(frame, end),
        )

    def _behind(self, frame: Frame, end: int) -> Takeover | None:
        """What the result says to whoever has nothing but results and inputs: of answered rows alone."""
        return self._left_by(frame) if end == frame.answers else None

    def _left_by(self, frame: Frame) -> Takeover | None:
        if not self._trims or frame.is_silent:
            return None
        return left_by(frame, self._generation, self._query.lateness_us)

    def _answers(self, frame: Frame, begin: int, end: int) -> Answers:
        query = self._query
        if frame.closings:
            return self._closed_answers(frame, begin, end)
        if frame.is_silent:  # no part reports, and no row is written
            return self._of_directions(frame, end, end, self._directions(frame, end, end))
        directions = self._directions(frame, begin, end)
        self.matches += matches(query, directions, frame, begin, end)
        self.cut_probes += cut_probes(query, directions, frame, begin, end)
        return self._of_directions(frame, begin, end, directions)

    def _closed_answers(self, frame: Frame, begin: int, end: int) -> Answers:
        """The answers of the rows that close, at positions [begin, end)."""
        if frame.is_silent or begin == end:
            found, places = [NO_ROWS for _ in frame.closings], [_NO_PLACES for _ in frame.closings]
        else:
            asked = [self._asked(frame, *side, begin, end) for side in enumerate(self._combined(frame, begin, end))]
            found, places = [rows for rows, _ in asked], [at for _, at in asked]
        if self._full is not None:
            self.matches += self._full.matches(found)
            before = sum(closing.first for closing in frame.closings)
            return self._full.rows(found, [before + at.astype(np.int64) for at in places], self._histories)
        assert self._left is not None, "rows close where left rows ask"
        self.matches += int(found[0].counts.sum())
        return self._left.rows(found[0], self._histories)

    def _asked(self, frame: Frame, side: int, matches: Matches, begin: int, end: int) -> tuple[ClosedRows, U16]:
        """The rows of a side at positions [begin, end), with what all parts have found for them, and their places."""
        closing = frame.closings[side]
        found = closed_rows(closing, begin, end, self._found(side, closing, matches, begin, end))
        places = closing.all_places[closing.rows_at(begin, end)]
        if not len(frame.silent):
            return found, places
        kept = frame.silent[places] == 0
        return found.only(kept), places[kept]

    def _found(self, side: int, closing: Closing, matches: Matches, begin: int, end: int) -> Matches:
        """What the rows that search have found, but for what isn't a partner."""
        found = without_own(closing, begin, end, matches, self._weigh)
        if self._residual is None:
            return found
        first, last = probe_range(closing.positions, begin, end)
        probes = closing.seqs[closing.searching[first:last]]
        return self._residual.filtered(found, probes, as_left=side == 0, histories=self._histories)

    def _weigh(self, seqs: I64) -> Sums:
        """The weights of right rows by seq."""
        columns = SeqPairs(seqs, seqs, self._histories).columns(self._weigher.uses)
        return self._weigher.of(columns, len(seqs))

    def _of_directions(self, frame: Frame, begin: int, end: int, directions: list[Matches]) -> Answers:
        if self._query.output is Output.ROWS:
            return self._selected(frame, begin, end, directions)
        return Answers(answered_only(self._all_rows(frame, begin, end, directions), frame))

    def _all_rows(self, frame: Frame, begin: int, end: int, directions: list[Matches]) -> pa.RecordBatch:
        query = self._query
        if query.output is Output.PAIRS:
            return pair_rows(query, frame, begin, end, directions, self._histories)
        if query.output is Output.BITMAP:
            return bitmap_rows(query, frame, begin, end, directions)
        return count_rows(query, frame, begin, end, directions)

    def _selected(self, frame: Frame, begin: int, end: int, directions: list[Matches]) -> Answers:
        left, right = listed_pairs(self._query, frame, begin, end, directions)
        probes: I64 = np.maximum(left, right)
        if len(frame.silent):
            answered = frame.silent[probes - frame.first_seq] == 0
            probes, left, right = probes[answered], left[answered], right[answered]
        pairs = SeqPairs(left, right, self._histories)
        traces = pairs.traces(probes) if self._query.is_traced else None
        return Answers(self._projection.rows(pairs), probes, traces)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the rows that windows reach, as far as results need them."""
        return sum(history.nbytes for history in self._histories)

    def counters(self) -> dict[str, float]:
        """Pairs for which an expression of both sides had no value."""
        filtered = 0 if self._residual is None else self._residual.program.failures
        return {"pairs_without_value": self._projection.program.failures + filtered}

    def _directions(self, frame: Frame, begin: int, end: int) -> list[Matches]:
        found = self._combined(frame, begin, end)
        return found if self._residual is None else self._filtered(self._residual, frame, begin, end, found)

    def _combined(self, frame: Frame, begin: int, end: int) -> list[Matches]:
        """All parts' matches of frame positions [begin, end), by direction."""
        parts = [
            self._parts[frame.epoch, frame.frame_id, part].take(frame, self._query, begin, end)
            for part in self._expected(frame)
        ]
        if not parts:
            return [_no_matches(self._query, direction) for direction in self._query.directions]
        if self._query.layout.has_mutable_part:
            # Workers hold older tuples than the mutable part: in this order a merge of partners is mostly a copy.
            parts = [*parts[1:], parts[0]]
        limit = self._query.part_limit
        return [combined([part[number] for part in parts], limit) for number in range(len(parts[0]))]

    def _filtered(
        self, residual: Residual, frame: Frame, begin: int, end: int, directions: list[Matches]
    ) -> list[Matches]:
        """The pairs of which the residual conditions are true; where only counts are given, their number."""
        found = []
        for direction, own in zip(self._query.directions, directions, strict=True):
            positions = frame.slices[direction.probe].positions
            first, last = probe_range(positions, begin, end)
            probes = frame.first_seq + positions[first:last].astype(np.int64)
            found.append(residual.filtered(own, probes, as_left=direction.as_left, histories=self._histories))
        return found

    def _forget_chunks(self, frame: Frame, position: int) -> None:
        for part in self._expected(frame):
            self._release(part, self._parts[frame.epoch, frame.frame_id, part].drop_below(position))

    def _finish(self, frame: Frame) -> None:
        self._frames.popleft()
        self._next_frame, self._position = frame.frame_id + 1, 0
        for key in [key for key in self._parts if key[1] <= frame.frame_id]:
            self._release(key[2], self._parts.pop(key).drop_below(frame.answers + 1))
        self._forget_rows(frame)

    def _forget_rows(self, done: Frame) -> None:
        """Rows before the windows of a frame whose results are out."""
        if self._holds_rows:
            for stream, history in enumerate(self._histories):
                history.drop_below(first_reached(done, stream))

    def _release(self, part: int, size: tuple[int, int]) -> None:
        held = self._held[part]
        held[0] -= size[0]
        held[1] -= size[1]

    # -- progress

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Go on where another sink has answered what held up the next frame; say how far results are out (P9).

        Raises Stop where the log has lost what results need.
        """
        if self._begin is not None:
            self._begin.check(self._result_position, now_ms)
        yield from self._complete()
        if self._restating.is_due(now_ms) and self._restating.frame is not None:
            yield Emit(Topic.RESULTS, 0, self._restated(self._restating.frame))

    def _restated(self, frame: Frame) -> Result:
        """The result position once more, as a result without rows; any frame gives the columns."""
        nothing = [_no_matches(self._query, direction) for direction in self._query.directions]
        closed = self._closed_answers(frame, 0, 0) if frame.closings else None
        answers = closed or self._of_directions(frame, 0, 0, nothing)
        return Result(
            frame_id=self._next_frame,
            begin=self._position,
            end=self._position,
            is_last=False,
            rows=answers.rows,
            produced_ms=frame.produced_ms[:0],
            produced_runs=frame.produced_runs[:0],
            generation=self._generation,
            probes=answers.probes,
            traces=answers.traces,
            behind=self._left_by(frame) if frame.frame_id == self._next_frame - 1 else None,
        )

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Trim behind the results: matches, batches that no window reaches, and the log up to the handover."""
        self._skip_to(result_position)
        trims, done = self._trim_frames()
        for part in self._matches_trims.partitions():
            trims += self._matches_trims.release(part, result_position.frame_id)
        for stream, reached in enumerate(done.reached if done else ()):
            trims += self._batch_trims.release(stream, reached)
        return trims

    def _skip_to(self, result_position: ResultPosition) -> None:
        """Results that another sink has written need no parts: whoever made them may never say them again."""
        self._result_position = max(self._result_position, result_position)
        while self._frames and self._frames[0].frame_id < result_position.frame_id:
            self._finish(self._frames[0])
        self._next_frame, self._position = max((self._next_frame, self._position), result_position)

    def _trim_frames(self) -> tuple[list[Trim], FrameMark | None]:
        """Keep the last frame that is done, and all that hold tuples from its handover indexes on (P9).

        An empty or silent frame is done without any worker that would have waited for the batches handed over: until
        they are in their topic, only the log holds their tuples.
        """
        marks, done = self._marks, self._last_done()
        if done is None:
            return [], None
        made = tuple(self._made_to(stream, reached) for stream, reached in enumerate(done.reached))
        needless = tuple(map(min, done.handovers, made))
        while marks[0].frame_id < done.frame_id and _lies_before(marks[0].ends, needless):
            marks.popleft()
        if marks[0].offset <= self._frames_trimmed:
            return [], done
        self._frames_trimmed = marks[0].offset
        return [Trim(Topic.FRAMES, 0, marks[0].offset)], done

    def _last_done(self) -> FrameMark | None:
        """The last frame whose results are out, if the log holds it and it was read."""
        marks = self._marks
        at = self._result_position.frame_id - 1 - marks[0].frame_id if marks else -1
        return marks[at] if 0 <= at < len(marks) else None

    def _made_to(self, stream: int, reached: int) -> int:
        """From this index on, tuples that a window reaches may be in no batch yet; batches are made as a whole."""
        end = self._made[stream].end(reached)
        holder = next((mark for mark in self._marks if mark.ends[stream] > end), None)
        return end if holder is None else min(end, holder.batch_firsts[stream])

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(frame.count for frame in self._frames) + sum(len(history) for history in self._histories)


def _lies_before(ends: tuple[int, ...], indexes: tuple[int, ...]) -> bool:
    return all(end <= index for end, index in zip(ends, indexes, strict=True))


def _no_matches(query: Query, direction: Direction) -> Matches:
    nothing = np.empty(0, np.int64)
    has_partners = query.lists(direction) or query.choices
    return Matches(nothing, np.zeros(1, np.int64), nothing) if has_partners else Matches(nothing)
