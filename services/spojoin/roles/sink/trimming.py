"""Which records the sink's topics no longer need once results are out (rule P9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from spojoin.protocol.frame_evaluation import first_reached
from spojoin.protocol.machine import ResultPosition, Trim
from spojoin.protocol.retention import BatchedTuples, TrimLedger
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Frame, Part


@dataclass(slots=True)
class FrameMark:
    """The offset of an accepted frame in the log, and each stream's state after it, for trimming."""

    frame_id: int
    offset: int
    ends: tuple[int, ...]
    handovers: tuple[int, ...]
    reached: tuple[int, ...]
    batch_firsts: tuple[int, ...]


class Trimming:
    """The offsets of the records that the sink has read, until results no longer need them."""

    def __init__(self, streams: int) -> None:
        self._marks: deque[FrameMark] = deque()
        self._made = [BatchedTuples() for _ in range(streams)]
        self._matches = TrimLedger(Topic.MATCHES)
        self._batches = TrimLedger(Topic.BATCHES)
        self._frames_trimmed = -1

    def note_part(self, partition: int, offset: int, part: Part) -> None:
        """Note the offset of a part in the matches topic."""
        self._matches.note_record(partition, offset, part.frame_id)

    def note_batch(self, partition: int, offset: int, batch: Batch) -> None:
        """Note the offset of a batch in the batches topic."""
        self._batches.note_record(partition, offset, batch.end - 1)
        self._made[batch.stream].add_batch(batch.first, batch.end)

    def note_frame(self, frame: Frame, offset: int) -> None:
        """Note the offset of an accepted frame in the log."""
        self._marks.append(
            FrameMark(
                frame.frame_id,
                offset,
                tuple(piece.first_index + len(piece) for piece in frame.slices),
                tuple(piece.handover_index for piece in frame.slices),
                tuple(first_reached(frame, stream) for stream in range(len(frame.slices))),
                tuple(piece.batch_first for piece in frame.slices),
            )
        )

    def trims_behind(self, result_position: ResultPosition) -> list[Trim]:  # P9.3
        """What may be trimmed once results are out this far."""
        done = self._last_before(result_position.frame_id)
        trims = [] if done is None else self._trim_log(done)
        for part in self._matches.partitions():
            trims += self._matches.release(part, result_position.frame_id)
        for stream, reached in enumerate(done.reached if done else ()):
            trims += self._batches.release(stream, reached)
        return trims

    def _last_before(self, frame_id: int) -> FrameMark | None:
        """The last frame before `frame_id`, if the log holds it and it was read."""
        at = frame_id - 1 - self._marks[0].frame_id if self._marks else -1
        return self._marks[at] if 0 <= at < len(self._marks) else None

    def _trim_log(self, done: FrameMark) -> list[Trim]:  # P9.2
        """Keep the last frame whose results are out, and all that hold tuples from its handover indexes on (P9).

        No worker waits for the handed-over batches to finish an empty or silent frame: until these batches are in their
        topic, only the log holds their tuples.
        """
        marks = self._marks
        made = [self._made_to(stream, reached) for stream, reached in enumerate(done.reached)]
        needless = list(map(min, done.handovers, made))
        while marks[0].frame_id < done.frame_id and _lie_before(marks[0].ends, needless):
            marks.popleft()
        if marks[0].offset <= self._frames_trimmed:
            return []
        self._frames_trimmed = marks[0].offset
        return [Trim(Topic.FRAMES, 0, marks[0].offset)]

    def _made_to(self, stream: int, reached: int) -> int:  # P9.4
        """The index from which on tuples that a window reaches may be in no batch yet; batches are made as a whole."""
        end = self._made[stream].batched_to(reached)
        holder = next((mark for mark in self._marks if mark.ends[stream] > end), None)
        return end if holder is None else min(end, holder.batch_firsts[stream])


def _lie_before(ends: Sequence[int], indexes: Sequence[int]) -> bool:
    return all(end <= index for end, index in zip(ends, indexes, strict=True))
