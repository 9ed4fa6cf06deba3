"""Whose frames a worker answers besides its own: those of workers in other rows that seem to be gone (rule P19).

Every row holds the same batches, so a frame's part is the same whichever row makes it. A worker therefore keeps the
frames of all rows until results cover them. If results stand still at a frame, the next row answers in place of the
frame's row after one patience, the row behind it after two, and so on. Nothing tells a lost worker from one that is
slow, or from another service that holds up results: then two workers say the same, and the sink takes each chunk once.
Answerers do so with the mutable part, each in its own place behind the others (rule P22).

The router's credits bound the kept frames, and they keep alive only tuples that a frame under way reaches.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from spojoin.protocol.grid import grid_of
from spojoin.wire.records import Frame

#: If results stand still this long, the worker at whose frame they stand is taken to be gone. In this time results
#: usually move many times, and a worker hears of them several times.
PATIENCE_MS = 250
#: How long a worker then answers another's frames at once. Nothing reports that the other one is back, so the stint
#: ends; if results soon stand still again, the next one is twice as long. So a short pause costs little work done
#: twice, and a worker that stays away costs ever fewer pauses.
STINT_MS = 1_000
STINT_MS_MAX = 32_000


class Stint(NamedTuple):
    """A time in which a worker answers for another."""

    end_ms: int
    length_ms: int


class StandInPlace(Protocol):
    """The place of a worker among those that give the same answer to a frame."""

    @property
    def worker(self) -> int:
        """The worker."""

    def asked(self, frame: Frame) -> int:
        """The worker that should answer a frame."""

    def behind(self, frame: Frame) -> int:
        """How many places behind that one this worker's place is; 0 if it doesn't stand in."""


class ColumnPlace(NamedTuple):
    """The place of a worker in its column, whose workers hold the same tuples: a row for each."""

    worker: int

    def asked(self, frame: Frame) -> int:
        """The worker of the frame's row."""
        grid = grid_of(frame)
        return grid.asked(frame.frame_id, self.worker % grid.columns)

    def behind(self, frame: Frame) -> int:
        """How many rows behind the frame's row this worker's row is."""
        return grid_of(frame).rows_between(frame.frame_id, self.worker)


class StandIn:
    """The frames under way, and the workers in place of which the one at `place` answers."""

    def __init__(self, place: StandInPlace) -> None:
        self._place = place
        self._frames: deque[Frame] = deque()
        self._still_since_ms: int | None = None
        self._stints: dict[int, Stint] = {}
        self._active: set[int] = set()
        #: by worker, the frame up to which this one has answered in its place
        self._answered: dict[int, int] = {}

    @property
    def oldest(self) -> Frame | None:
        """The oldest frame under way."""
        return self._frames[0] if self._frames else None

    def keep_frame(self, frame: Frame) -> None:  # P19.6
        """Keep a frame, of whichever row, until results cover it."""
        if not self._frames:
            self._still_since_ms = None
        self._frames.append(frame)

    def covers(self, frame: Frame) -> bool:  # P19.9
        """Whether this worker answers a frame at once, as its own or in place of another; its answer is noted."""
        asked = self._place.asked(frame)
        if asked in self._active:
            self._answered[asked] = frame.frame_id
        return asked == self._place.worker or asked in self._active

    def stands_in_for(self, worker: int) -> bool:
        """Whether a stint for a worker is under way."""
        return worker in self._active

    def is_due(self, behind: int, now_ms: int) -> bool:
        """Whether results have stood still so long that it is this place's turn to do what is missing.

        behind: how many places it is behind the worker whose answer or run seems to be missing
        """
        since_ms = self._still_since_ms
        return since_ms is not None and behind > 0 and behind * PATIENCE_MS <= now_ms - since_ms

    def due_frames(self, now_ms: int) -> list[Frame]:  # P19.7
        """The frames to answer now in place of another worker, in their order."""
        self._active = {number for number in self._active if now_ms < self._stints[number].end_ms}
        if self._still_since_ms is None:
            self._still_since_ms = now_ms
        if not self._frames:
            return []
        held_up = self._frames[0]
        number = self._place.asked(held_up)
        is_ours = self.is_due(self._place.behind(held_up), now_ms)
        if not is_ours or held_up.frame_id <= self._answered.get(number, -1):
            return []
        self._begin_stint(number, now_ms)
        return self._unanswered(number)

    def _begin_stint(self, number: int, now_ms: int) -> None:
        last = self._stints.get(number)
        is_soon = last is not None and now_ms - last.end_ms <= last.length_ms
        length_ms = min(2 * last.length_ms, STINT_MS_MAX) if last is not None and is_soon else STINT_MS
        self._stints[number] = Stint(now_ms + length_ms, length_ms)
        self._active.add(number)

    def _unanswered(self, number: int) -> list[Frame]:
        answered = self._answered.get(number, -1)
        due = [frame for frame in self._frames if frame.frame_id > answered and self._place.asked(frame) == number]
        self._answered[number] = due[-1].frame_id
        return due

    def note_progress(self, frame_id: int) -> None:
        """Note that results have moved, and now cover all frames before this one."""
        self._still_since_ms = None
        while self._frames and self._frames[0].frame_id < frame_id:
            self._frames.popleft()

    def change_column(self) -> None:
        """Forget all frames: this worker no longer holds the batches with which it could answer them."""
        self._frames.clear()
        self._active.clear()
