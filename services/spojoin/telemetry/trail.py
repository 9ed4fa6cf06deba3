"""The frames whose results are due, by what the log says: totals that outlive a process, and how long rows wait."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import START, ResultPosition
from spojoin.telemetry.open_rows import OpenRowsTrail
from spojoin.wire.records import Barrier, Frame


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
    """Follows the log; keeps the frames without results, and the last one that has them."""

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

    def saw(self, record: Frame | Barrier) -> None:
        """Take what was read of the log; what the log does not count (P3) does not count here."""
        if self._reader.accept(record) and isinstance(record, Frame):
            oldest_ms = int(record.produced_ms.min()) if record.is_answered and record.count else None
            self.open.saw(record)
            after = record.first_seq + record.count - (self.open.rows or 0)
            before = after - _answered_with(record)
            self._steps.append(_Step(record.frame_id, oldest_ms, not record.closings, before, after))
            self._refused = sum(record.rejected.values())

    def answered(self, result_position: ResultPosition) -> int | None:
        """Tuples whose results are out, and those that ask nothing; None where the log wasn't read that far.

        Where rows close with a frame, they count once all of its results are out.
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
        """When the oldest tuple of a frame without all its results was produced, ms since 1970; None without any."""
        self._drop_before(result_position.frame_id - 1)
        waiting = [step.oldest_ms for step in self._steps if step.frame_id >= result_position.frame_id]
        return min((at for at in waiting if at is not None), default=None)

    def _drop_before(self, frame_id: int) -> None:
        while self._steps and self._steps[0].frame_id < frame_id:
            self._steps.popleft()


def _answered_with(frame: Frame) -> int:
    """Tuples that count as answered with a frame: those that close, and those that come and ask nothing."""
    asking = sum(len(piece) for _, piece in zip(frame.closings, frame.slices, strict=False))
    return frame.count - asking + sum(len(closing.seqs) for closing in frame.closings)
