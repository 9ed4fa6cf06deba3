"""The joiner of an answerer: it evaluates all predicates of its frames, and stands in for answerers that seem gone.

Every answerer stores the tuples of all frames, so the partials of a frame and the runs of a batch are the same
whichever answerer makes them (rule P22).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.answerer import AnswererTurn
from spojoin.protocol.machine import Action, ResultPosition, Trim
from spojoin.protocol.stand_in import StandIn
from spojoin.protocol.topology import Topic
from spojoin.roles.mutable.machine import Joiner
from spojoin.wire.records import Barrier, Batch, Frame, Record, StreamSlice

#: What it reads: batches tell it which runs are still missing.
READS = frozenset({Topic.FRAMES, Topic.BATCHES})


@dataclass(frozen=True, slots=True, eq=False)
class UnmadeBatch:
    """A sealed batch that another answerer sorts and that isn't in its topic yet; `piece` ends it."""

    sorter: int
    behind: int  # how many places this answerer is behind that one
    stream: int
    piece: StreamSlice


class AnsweringJoiner(Joiner):
    """Evaluates the mutable part of the frames that answerer number `worker` takes."""

    def __init__(self, query: Query, worker: int, result_position: ResultPosition) -> None:
        self._turn = AnswererTurn(worker)
        super().__init__(query, range(len(query.predicates)), result_position, self._turn, self._first_kept)
        self._result_position = result_position
        self._reader = LogFollower()
        self._stand_in = StandIn(self._turn)
        self._newest: Frame | None = None
        self._live: list[int] = []
        self._made: list[set[int]] = [set() for _ in query.streams]
        self._unmade: list[UnmadeBatch] = []

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame of the log, or note that a batch is in its topic."""
        if isinstance(record, Batch):
            self._note_made(record)
            return
        is_accepted = isinstance(record, Frame | Barrier) and self._reader.accept(record)
        frame = record if is_accepted and isinstance(record, Frame) else None
        stands_in = frame is not None and self._keep(frame)
        yield from super().on_record(topic, partition, offset, record)
        if frame is None:
            return
        self._note_sealed(frame)
        if stands_in:
            yield from self._answer([frame])
        yield from self._send(batch for batch in self._unmade if self._stand_in.stands_in_for(batch.sorter))

    def _keep(self, frame: Frame) -> bool:
        """Keep a frame that another answerer may have to answer; returns whether this one does so at once."""
        self._newest = frame
        self._forget_unreached(frame)
        if not frame.is_answered or frame.frame_id < self._result_position.frame_id:
            return False
        self._stand_in.keep_frame(frame)
        return self._stand_in.covers(frame) and not self._turn.has_frame(frame)

    def _note_made(self, batch: Batch) -> None:
        self._made[batch.stream].add(batch.batch_id)
        self._unmade = [
            each for each in self._unmade if (each.stream, each.piece.batch_id) != (batch.stream, batch.batch_id)
        ]

    def _forget_unreached(self, newest: Frame) -> None:
        """Forget the batches that no window under way reaches."""
        live = [piece.live_batch for piece in (self._stand_in.oldest or newest).slices]
        if live == self._live:
            return
        self._live = live
        self._made = [
            {number for number in made if number >= first} for made, first in zip(self._made, live, strict=True)
        ]
        self._unmade = [batch for batch in self._unmade if batch.piece.batch_id >= live[batch.stream]]

    def _note_sealed(self, frame: Frame) -> None:
        """Note the batches that a frame seals for others."""
        for stream, piece in enumerate(frame.slices):
            if self._is_of_another(frame, stream, piece):
                sorter = self._turn.sorter(frame, piece.batch_id)
                behind = self._turn.places_behind(sorter, frame)
                self._unmade.append(UnmadeBatch(sorter, behind, stream, piece))

    def _is_of_another(self, frame: Frame, stream: int, piece: StreamSlice) -> bool:
        """Whether a slice ends a batch that another answerer sorts, isn't made, and is held here as a whole."""
        is_whole = piece.seals and piece.batch_first >= self._machines[0].holds_from(stream)
        is_others = is_whole and not self._turn.has_batch(frame, piece.batch_id)
        return is_others and piece.batch_id not in self._made[stream]

    def _first_kept(self, frame: Frame) -> list[int]:  # P22.9
        """The first index of each stream that a frame under way, or a batch still to be made, needs."""
        first = [piece.handover_index for piece in (self._stand_in.oldest or frame).slices]
        for batch in self._unmade:
            first[batch.stream] = min(first[batch.stream], batch.piece.batch_first)
        return first

    def _answer(self, frames: Iterable[Frame]) -> Iterator[Action]:  # P22.9
        for frame in frames:
            for machine in self._machines:
                yield machine.answer(frame)

    def _send(self, batches: Iterable[UnmadeBatch]) -> Iterator[Action]:  # P22.10
        """Send the runs of batches in place of their answerers."""
        newest = self._newest
        if newest is None:
            return
        sent = list(batches)
        self._unmade = [batch for batch in self._unmade if batch not in sent]
        for batch in sent:
            for machine in self._machines:
                yield machine.run_of(batch.piece, batch.stream, newest)

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Answer in place of an answerer that seems to be gone, and sort what it should have sorted."""
        yield from self._answer(self._stand_in.due_frames(now_ms))
        yield from self._send(
            batch
            for batch in self._unmade
            if self._stand_in.stands_in_for(batch.sorter) or self._is_missed(batch, now_ms)
        )

    def _is_missed(self, batch: UnmadeBatch, now_ms: int) -> bool:
        """Whether a frame searches a batch, and results have stood still long enough for it to be this one's turn."""
        is_searched = (
            self._newest is not None and batch.piece.batch_id < self._newest.slices[batch.stream].handover_batch
        )
        return is_searched and self._stand_in.is_due(batch.behind, now_ms)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Forget the frames that results cover."""
        if result_position > self._result_position:
            self._result_position = result_position
            self._stand_in.note_progress(result_position.frame_id)
            if self._newest is not None:
                self._forget_unreached(self._newest)
                for machine in self._machines:
                    machine.forget_below(self._first_kept(self._newest))
        return super().on_result_position(result_position)
