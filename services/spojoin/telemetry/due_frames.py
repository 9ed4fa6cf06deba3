"""Finds in the log the frames whose results are due, totals that outlive a process, and the rows that are open."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import START, ResultPosition
from spojoin.wire.records import Barrier, Closing, Frame, StreamSlice


class OpenRowsTrail:
    """Counts the open rows of the log's accepted frames; the times of rows before the first frame are unknown."""

    def __init__(self) -> None:
        self._sides: list[_OpenSide] = []

    def follow(self, frame: Frame) -> None:
        """Take the log's next accepted frame."""
        while len(self._sides) < len(frame.closings):
            self._sides.append(_OpenSide())
        for side, closing, piece in zip(self._sides, frame.closings, frame.slices, strict=False):
            side.follow(frame, closing, piece)

    @property
    def rows(self) -> int | None:
        """How many rows are open; None if no rows ask."""
        return sum(side.rows for side in self._sides) if self._sides else None

    @property
    def since_ms(self) -> int | None:
        """When the oldest open row was produced, ms since 1970; None if none is open or the time is unknown."""
        return min((side.came[0][1] for side in self._sides if side.came), default=None)


class _OpenSide:
    """The open rows of one stream."""

    def __init__(self) -> None:
        #: the end of each frame's rows, and when the oldest row of the frame was produced
        self.came: deque[tuple[int, int]] = deque()
        self.rows = 0

    def follow(self, frame: Frame, closing: Closing, piece: StreamSlice) -> None:
        end = piece.first_index + len(piece)
        self.rows = end - closing.end
        if len(piece):
            self.came.append((end, int(frame.produced_ms.min())))
        while self.came and self.came[0][0] <= closing.end:
            self.came.popleft()


class _Step(NamedTuple):
    """An accepted frame: its id, and when the oldest of its tuples was produced (None: none).

    answers_its_own: whether its positions are its own tuples, and not rows that close with it
    answered_before, answered_after: tuples answered without its results, and with all of them; open rows aren't
    """

    frame_id: int
    oldest_ms: int | None
    answers_its_own: bool
    answered_before: int
    answered_after: int


class FrameTrail:
    """Follows the log, and keeps the frames whose results are due and the last frame before them."""

    def __init__(self) -> None:
        self._reader = LogFollower()
        self._steps: deque[_Step] = deque()
        self._refused = 0
        self.open = OpenRowsTrail()

    @property
    def rows(self) -> int:
        """Tuples numbered since the log began."""
        return self._reader.next_seq

    @property
    def refused(self) -> int:
        """Rows refused since the log began."""
        return self._refused

    def follow(self, record: Frame | Barrier) -> None:
        """Take the log's next record; a record that isn't accepted (P3) doesn't count."""
        if self._reader.accept(record) and isinstance(record, Frame):
            oldest_ms = int(record.produced_ms.min()) if record.is_answered and record.count else None
            self.open.follow(record)
            after = record.first_seq + record.count - (self.open.rows or 0)
            before = after - _answered_by(record)
            self._steps.append(_Step(record.frame_id, oldest_ms, not record.closings, before, after))
            self._refused = sum(record.rejected.values())

    def answered(self, result_position: ResultPosition) -> int | None:
        """The number of tuples with published results or without a question; None if the log wasn't read that far.

        Rows that close with a frame count once all of the frame's results are out.
        """
        self._drop_before(result_position.frame_id - 1)
        for step in self._steps:
            if step.frame_id == result_position.frame_id:
                own = result_position.position if step.answers_its_own else 0
                return min(step.answered_before + own, step.answered_after)
        if self._steps and self._steps[-1].frame_id == result_position.frame_id - 1 and not result_position.position:
            return self._steps[-1].answered_after
        return 0 if result_position == START else None

    def oldest_ms(self, result_position: ResultPosition) -> int | None:
        """When the oldest tuple in frames with missing results was produced, ms since 1970; None if there is none."""
        self._drop_before(result_position.frame_id - 1)
        waiting = [step.oldest_ms for step in self._steps if step.frame_id >= result_position.frame_id]
        return min((at for at in waiting if at is not None), default=None)

    def _drop_before(self, frame_id: int) -> None:
        while self._steps and self._steps[0].frame_id < frame_id:
            self._steps.popleft()


def _answered_by(frame: Frame) -> int:
    """The number of tuples that a frame answers: those that close, and those that come and don't ask."""
    asking = sum(len(piece) for _, piece in zip(frame.closings, frame.slices, strict=False))
    return frame.count - asking + sum(len(closing.seqs) for closing in frame.closings)
