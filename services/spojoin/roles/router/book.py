"""What a router knows about one stream: its count, batches, handover, and where windows begin."""

from __future__ import annotations

from collections import deque

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.model import Window
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import I64, NO_GROUP, Batch, StreamSlice

_NOTHING = np.empty(0, np.int64)


class StreamBook:
    """Bounds of one stream; moved on by the frames of the log alone, whoever wrote them."""

    def __init__(self, window: Window, config: RouterConfig) -> None:
        self._window = window
        self._config = config
        self.count = 0
        self.batch_id = 0
        self.batch_first = 0
        self.handover_batch = 0
        self.handover_index = 0
        self.live_batch = 0
        self._first = 0
        self._batch_frame = -1
        self._sealed: deque[tuple[int, int, int]] = deque()
        self._ends: dict[int, int] = {}
        self._lower = 0
        self._times = Tail() if window.is_time else None
        self._restored: list[tuple[int, I64]] = []

    def begin_at(self, index: int) -> None:
        """Number the stream's first tuple `index`: earlier numbers belong to another generation (P12)."""
        self._first = self.count = self.batch_first = self.handover_index = self._lower = index
        if self._times is not None:
            self._times = Tail(index)

    # -- reading the log

    def adopt(self, piece: StreamSlice) -> None:
        """Start from the first retained frame."""
        self.count = piece.first_index
        self.batch_id, self.batch_first = piece.batch_id, piece.batch_first
        self.handover_batch, self.handover_index = piece.handover_batch, piece.handover_index
        self.live_batch = piece.live_batch
        if self._times is not None:
            self._times = Tail(piece.first_index)

    def restore(self, batch: Batch) -> None:
        """Learn of a sealed batch that the log may no longer hold."""
        self._ends[batch.batch_id] = batch.end
        if self._times is not None and batch.times_us is not None:
            self._restored.append((batch.first, batch.times_us))

    def finish_restore(self) -> None:
        """Put the times of restored batches before those of the log's tail."""
        if self._times is None:
            return
        tail, self._times = self._times, Tail(0)
        for first, times in sorted(self._restored, key=lambda piece: piece[0]):
            if first > self._times.end:  # a stray copy of an expired batch lies before the rest
                self._times = Tail(first)
            self._times.append(times[self._times.end - first :])
        self._restored.clear()
        if self._times.end < tail.first:
            self._times = tail
        else:
            self._times.append(tail.view(self._times.end, tail.end) if self._times.end < tail.end else _NOTHING)

    def apply(self, frame_id: int, piece: StreamSlice) -> None:
        """Move on by one frame of the log."""
        self.handover_batch, self.handover_index = piece.handover_batch, piece.handover_index
        self.live_batch = piece.live_batch
        self.count = piece.first_index + len(piece)
        if self._times is not None and piece.times_us is not None:
            self._times.append(piece.times_us)
        if len(piece) and self._batch_frame < 0:
            self._batch_frame = frame_id
        if piece.seals:
            self._seal(frame_id)
        while self._sealed and self._sealed[0][0] < piece.handover_batch:
            self._sealed.popleft()

    def note_lower(self, lower: int) -> None:
        """A window over this stream began at `lower`; no later one begins before it."""
        self._lower = max(self._lower, lower)

    def _seal(self, frame_id: int) -> None:
        self._sealed.append((self.batch_id, self.count, frame_id))
        self._ends[self.batch_id] = self.count
        self.batch_id += 1
        self.batch_first = self.count
        self._batch_frame = -1

    # -- cutting the next frame

    def room(self) -> int:
        """Tuples that still fit before a frame must end: to the end of the batch or of a large slide."""
        room = self._config.batch_tuples - (self.count - self.batch_first)
        if self._slide_is_large:
            room = min(room, self._window.slide - self.count % self._window.slide)
        return room

    def time_cut(self, times_us: I64) -> int:
        """How many of these next tuples belong to the current slide of time, if the batch is worth sealing there."""
        slide = self._window.slide
        if slide == 1:  # windows that move with every microsecond let no batch go as a whole
            return len(times_us)
        crossing = np.flatnonzero(times_us // slide != self._slide_of_last(times_us) // slide)
        if not len(crossing) or crossing[0] == 0:  # a frame can't end before its first tuple
            return len(times_us)
        size = self.count - self.batch_first + int(crossing[0])
        return int(crossing[0]) if 4 * size >= self._config.batch_tuples else len(times_us)

    def _slide_of_last(self, times_us: I64) -> int:
        if self._times is not None and self.count > self.batch_first and len(self._times):
            return int(self._times.view(self.count - 1, self.count)[0])
        return int(times_us[0])

    @property
    def _slide_is_large(self) -> bool:
        return not self._window.is_time and self._window.slide >= self._config.batch_tuples

    def seals_after(self, frame_id: int, added: int, *, ends_slide: bool) -> bool:
        """Whether the open batch ends with a frame that adds `added` tuples; `ends_slide`: a slide of time ends too."""
        end = self.count + added
        size = end - self.batch_first
        if size == 0:
            return False
        if size >= self._config.batch_tuples or (self._slide_is_large and end % self._window.slide == 0):
            return True
        if ends_slide and 4 * size >= self._config.batch_tuples:
            return True
        # A slow stream's batches are sealed by age, so that the log's tail stays short (P8).
        return self._batch_frame >= 0 and frame_id - self._batch_frame >= self._config.batch_frames

    def group(self, times_us: I64 | None, added: int) -> int:
        """The slide interval that the open batch, with a frame's tuples, lies in whole, or NO_GROUP."""
        slide = self._window.slide
        if self._times is not None:
            first, last = self._batch_times(_given(times_us))
        elif self._slide_is_large:
            first, last = self.batch_first, self.count + added - 1
        else:
            return NO_GROUP
        return first // slide if first // slide == last // slide else NO_GROUP

    def _batch_times(self, added_us: I64) -> tuple[int, int]:
        held = _given_tail(self._times).view(self.batch_first, self.count)
        ends = np.concatenate((held[:1], held[-1:], added_us[:1], added_us[-1:]))
        return int(ends[0]), int(ends[-1])

    def handover(self, frame_id: int) -> tuple[int, int]:
        """(batch, index) below which tuples are immutable for the frame's probes."""
        batch, index = self.handover_batch, self.handover_index
        for sealed, end, sealed_frame in self._sealed:
            if frame_id - sealed_frame >= self._config.handover_frames:
                batch, index = sealed + 1, end
        return batch, index

    def lower(self, before: I64, times_us: I64 | None, own_times: I64 | None) -> I64:
        """Lower window bounds over this stream for probes.

        before: int64 (m,), this stream's tuples before each probe; times_us: int64 (m,), the probes' event times;
        own_times: this stream's times within the frame, not yet applied. Returns int64 (1,) where all agree, else (m,).
        """
        if not len(before):
            return np.array([self._next_lower()], np.int64)
        bounds = self._count_bounds(before) if self._times is None else self._time_bounds(_given(times_us), own_times)
        return bounds[:1].copy() if bounds[0] == bounds[-1] else bounds

    def _next_lower(self) -> int:
        """Where a window would begin now: no later one begins before it, so a silent opposite stream keeps nothing."""
        if self._times is None:
            bounds = self._count_bounds(np.array([self.count], np.int64))
        elif len(self._times):
            bounds = self._time_bounds(self._times.view(self._times.end - 1, self._times.end), None)
        else:
            return self._lower
        return max(self._lower, int(bounds[0]))

    def _count_bounds(self, before: I64) -> I64:
        return np.maximum(self._round_up(before) - self._window.length, self._first)

    def _round_up(self, values: I64) -> I64:
        return -(-values // self._window.slide) * self._window.slide

    def _time_bounds(self, times_us: I64, own_times: I64 | None) -> I64:
        bounds_us = self._round_up(times_us) - self._window.length
        times = _given_tail(self._times)
        stored = times.view(times.first, times.end)
        result = times.first + np.searchsorted(stored, bounds_us, "left")
        past = result == times.end
        if own_times is not None and past.any():
            result[past] += np.searchsorted(own_times, bounds_us[past], "left")
        return result.astype(np.int64)

    def live(self, lower: int) -> int:
        """The oldest batch that a window starting at `lower` reaches; forgets what lies before it."""
        live = self.live_batch
        while live < self.batch_id and self._ends.get(live, -1) <= lower:
            self._ends.pop(live, None)
            live += 1
        if self._times is not None:
            self._times.drop_below(min(lower, self.batch_first))
        return live

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return 0 if self._times is None else len(self._times)


def _given(times_us: I64 | None) -> I64:
    if times_us is None:
        raise ValueError("a time window needs the probes' event times")
    return times_us


def _given_tail(tail: Tail | None) -> Tail:
    if tail is None:
        raise ValueError("a count window keeps no event times")
    return tail
