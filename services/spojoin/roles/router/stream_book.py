"""What a router knows about one stream: its count, batches, handover, and where windows begin.

Windows by count reach back over all rows of a stream. Void rows have no index, but a row's *place* counts them too.
Places and indexes are equal until the first void row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64
from spojoin.kernels.segments import one_if_equal
from spojoin.kernels.tail import Tail
from spojoin.roles.router.config import RouterConfig
from spojoin.windows import Window
from spojoin.wire.records import NO_GROUP, Batch, StreamSlice

_NOTHING = np.empty(0, np.int64)
_NO_BOUND = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """What windows measure of n rows: event times int64 (n,) or None, and places int64 (n,).

    has_gaps: whether the places skip void rows
    """

    times_us: I64 | None
    places: I64
    has_gaps: bool


class StreamBook:
    """The bounds of one stream; only frames of the log move them on, regardless of which router wrote the frames."""

    def __init__(self, window: Window, config: RouterConfig) -> None:
        self._window = window
        self._config = config
        self._batch_tuples = window.batch_tuples(config.batch_tuples)
        self._slide_is_large = window.has_slides_of(config.batch_tuples)
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
        #: void rows before the next row
        self.passed = 0
        #: the first tuple of the table's version that is being written, or was written last
        self.version_first = 0
        self._ends_version = False
        # What windows measure, by index: event times, or places if they differ from indexes.
        self._times = Tail() if window.needs_time else None
        self._places: Tail | None = None
        self._restored: list[tuple[int, I64]] = []
        self.is_restored = False

    def begin_at(self, index: int) -> None:  # P12.14
        """Give the stream's first tuple index `index`: earlier ones belong to another generation (P12)."""
        self._first = self.count = self.batch_first = self.handover_index = self._lower = index
        if self._times is not None:
            self._times = Tail(index)

    @property
    def next_place(self) -> int:
        """The place of the stream's next row."""
        return self.count + self.passed

    # -- versions of a table

    def begin_version(self) -> None:
        """Begin a version of the table with the next tuple."""
        self.version_first = self.count

    def end_version(self) -> None:  # P17.4
        """End a version with the next frame: it seals the last batch, and windows then begin with the version."""
        self._lower = max(self._lower, self.version_first)
        self._ends_version = True

    # -- reading the log

    def start_at(self, piece: StreamSlice) -> None:
        """Start from the first retained frame."""
        self.count = piece.first_index
        self.batch_id, self.batch_first = piece.batch_id, piece.batch_first
        self.handover_batch, self.handover_index = piece.handover_batch, piece.handover_index
        self.live_batch = piece.live_batch
        self.passed = piece.passed
        if self._times is not None:
            self._times = Tail(piece.first_index)
        elif self.passed:
            self._places = Tail(piece.first_index)

    def restore_batch(self, batch: Batch) -> None:
        """Note a sealed batch that the log may no longer hold."""
        self._ends[batch.batch_id] = batch.end
        if self._times is not None and batch.times_us is not None:
            self._restored.append((batch.first, batch.times_us))
        elif not self._window.needs_time:
            self._restored.append((batch.first, _places_of(batch)))

    def finish_restore(self) -> None:
        """Put the times or places of restored batches before those of the log's tail."""
        if self._times is not None:
            self._times = batches_then_tail(self._restored, self._times)
        elif self._places is not None:
            self._places = batches_then_tail(self._restored, self._places)
        self._restored.clear()
        self.is_restored = True
        self._forget_before(self._lower)

    def apply_slice(self, frame_id: int, piece: StreamSlice) -> None:
        """Move on by one frame of the log."""
        self.handover_batch, self.handover_index = piece.handover_batch, piece.handover_index
        self.live_batch = piece.live_batch
        self._note_places(piece)
        self.count = piece.first_index + len(piece)
        self.passed = piece.passed + piece.void
        if self._times is not None and piece.times_us is not None:
            self._times.append(piece.times_us)
        if len(piece) and self._batch_frame < 0:
            self._batch_frame = frame_id
        if piece.seals:
            self._seal(frame_id)
        self._ends_version = False
        while self._sealed and self._sealed[0][0] < piece.handover_batch:
            self._sealed.popleft()

    def _note_places(self, piece: StreamSlice) -> None:
        """Keep places from the first void row on; before it, places equal indexes."""
        if self._window.needs_time:
            return
        if self._places is None and piece.void:
            begin = min(self._lower, self.count)
            self._places = Tail(begin)
            self._places.append(np.arange(begin, self.count, dtype=np.int64))
        if self._places is not None:
            self._places.append(piece.all_places)

    def note_lower(self, lower: int) -> None:
        """Note that a window over this stream began at `lower`: no later one begins before it."""
        self._lower = max(self._lower, lower)
        if self.is_restored:
            self._forget_before(self._lower)

    def _seal(self, frame_id: int) -> None:
        self._sealed.append((self.batch_id, self.count, frame_id))
        self._ends[self.batch_id] = self.count
        self.batch_id += 1
        self.batch_first = self.count
        self._batch_frame = -1

    # -- cutting the next frame

    def batch_room(self) -> int:
        """How many more tuples fit into the batch; the frame must end with it.

        At least one: batches may have become smaller, and one that has too many tuples ends with the next frame.
        """
        return max(self._batch_tuples - (self.count - self.batch_first), 1)

    def slide_room(self) -> int:
        """How many more rows, void ones included, fit into a large slide; the frame must end with it."""
        slide = self._window.slide
        return slide - self.next_place % slide if self._slide_is_large else _NO_BOUND

    def time_cut(self, times_us: I64) -> int:
        """How many of the next tuples belong to the current slide of time, if the batch is worth sealing there."""
        if self._window.slide == 1:  # windows that move every microsecond never drop a whole batch at once
            return len(times_us)
        crossing = np.flatnonzero(self._window.slide_of(times_us) != self._window.slide_of(self._last_of(times_us)))
        if not len(crossing) or crossing[0] == 0:  # a frame can't end before its first tuple
            return len(times_us)
        size = self.count - self.batch_first + int(crossing[0])
        return int(crossing[0]) if 4 * size >= self._batch_tuples else len(times_us)

    def _last_of(self, times_us: I64) -> int:
        if self._times is not None and self.count > self.batch_first and len(self._times):
            return int(self._times.view(self.count - 1, self.count)[0])
        return int(times_us[0])

    def seals_after(self, frame_id: int, added: int, void: int, *, ends_slide: bool) -> bool:  # P8.1
        """Whether the open batch ends with a frame that adds `added` tuples and `void` void rows.

        ends_slide: whether a slide of time ends with the frame
        """
        size = self.count + added - self.batch_first
        if size == 0:
            return False
        end_place = self.next_place + added + void
        if size >= self._batch_tuples or (self._slide_is_large and self._window.ends_slide(end_place)):
            return True
        if self._ends_version or (ends_slide and 4 * size >= self._batch_tuples):
            return True
        # A slow stream's batches are sealed by age, so that the log's tail stays short (P8).
        return self._batch_frame >= 0 and frame_id - self._batch_frame >= self._config.batch_frames

    def batch_group(self, times_us: I64 | None, places: I64) -> int:
        """The slide that contains the whole open batch and a frame's tuples, or NO_GROUP; for a table, its version.

        times_us, places: int64 (n,), of the frame's tuples
        """
        if self._window.has_versions:
            return self.version_first
        if self._times is not None:
            first, last = self._batch_ends(self._times, _given(times_us))
        elif self._slide_is_large:
            first = self.batch_first if self._places is None else self._batch_ends(self._places, places)[0]
            last = int(places[-1]) if len(places) else self._last_place()
        else:
            return NO_GROUP
        slide = self._window.slide_of(first)
        return slide if slide == self._window.slide_of(last) else NO_GROUP

    def _last_place(self) -> int:
        return self.count - 1 if self._places is None else int(self._places.view(self.count - 1, self.count)[0])

    def _batch_ends(self, tail: Tail, added: I64) -> tuple[int, int]:
        held = tail.view(self.batch_first, self.count)
        ends = np.concatenate((held[:1], held[-1:], added[:1], added[-1:]))
        return int(ends[0]), int(ends[-1])

    def handover(self, frame_id: int) -> tuple[int, int]:
        """(batch, index) below which tuples are immutable for the frame's probes."""
        batch, index = self.handover_batch, self.handover_index
        for sealed, end, sealed_frame in self._sealed:
            if frame_id - sealed_frame >= self._config.handover_frames:
                batch, index = sealed + 1, end
        return batch, index

    def lower_bounds(self, probes: Reach, own: Reach) -> I64:
        """The index of this stream's first tuple in each probe's window: int64 (1,) if all are equal, otherwise (m,).

        probes: each probe's event time, and this stream's place at that probe
        own: the reach of this stream's tuples in the frame, which is not yet applied
        """
        if not len(probes.places):
            return np.array([self.next_lower()], np.int64)
        # After a restart the log may not show where the generation began: no window begins before an earlier one.
        return one_if_equal(np.maximum(self.window_begins(probes, own), self._lower))  # P5.2

    def window_begins(self, probes: Reach, own: Reach) -> I64:
        """Where the windows of probes begin, int64 (m,); arguments as in `lower_bounds`."""
        if self._times is not None:
            return self._searched(self._times, self._window.begins(_given(probes.times_us)), _given(own.times_us))
        begins = self._window.begins(probes.places)
        if self._places is not None:
            return np.maximum(self._searched(self._places, begins, own.places), self._first)
        if not own.has_gaps:
            return np.maximum(begins, self._first)
        within = self.count + np.searchsorted(own.places, begins, "left")
        return np.where(begins > self.count, within, np.maximum(begins, self._first))

    def next_lower(self) -> int:
        """Where a window would begin now. No later one begins earlier, so tuples expire even if no probes come."""
        now = np.array([self.next_place], np.int64)
        if self._times is not None and len(self._times):
            bounds = self._searched(self._times, self._window.begins(self._times.held[-1:]), _NOTHING)
        elif self._times is not None:
            return self._lower
        else:
            bounds = self.window_begins(Reach(None, now, False), Reach(None, _NOTHING, False))
        return max(self._lower, int(bounds[0]))

    def _searched(self, tail: Tail, begins: I64, own: I64) -> I64:
        """The index of the first tuple at or after each of `begins`, among held tuples and the frame's `own`."""
        result = tail.first + np.searchsorted(tail.held, begins, "left")
        past = result == tail.end
        if len(own) and past.any():
            result[past] += np.searchsorted(own, begins[past], "left")
        return result.astype(np.int64)

    def first_live_batch(self, lower: int) -> int:
        """The oldest batch that a window from `lower` on reaches; forgets all before it."""
        live = self.live_batch
        while live < self.batch_id and self._ends.get(live, -1) <= lower:
            self._ends.pop(live, None)
            live += 1
        self._forget_before(lower)
        return live

    def _forget_before(self, lower: int) -> None:
        """Forget tuples before `lower`: no window begins before it any more."""
        while self._ends and (oldest := next(iter(self._ends))) < self.live_batch:
            del self._ends[oldest]
        for tail in (self._times, self._places):
            if tail is not None:
                tail.drop_below(min(lower, self.batch_first))

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(len(tail) for tail in (self._times, self._places) if tail is not None)


def batches_then_tail(restored: list[tuple[int, I64]], tail: Tail, empty: Callable[[int], Tail] = Tail) -> Tail:
    """The values of batches before the log's tail, and then the tail; `empty` makes an empty tail.

    Batches come in any order, and one may be missing, as long as the tail has its tuples.
    """
    whole = empty(0)
    for first, values in sorted(restored, key=lambda piece: piece[0]):
        if first >= tail.first:
            break
        if first > whole.end:  # a stray copy of an expired batch lies before the rest
            whole = empty(first)
        whole.append(values[..., whole.end - first : tail.first - first])
    if whole.end < tail.first:
        return tail
    whole.append(tail.view(tail.first, tail.end))
    return whole


def _places_of(batch: Batch) -> I64:
    return np.arange(batch.first, batch.end, dtype=np.int64) if batch.places is None else np.array(batch.places)


def _given(times_us: I64 | None) -> I64:
    if times_us is None:
        raise ValueError("a time window needs the probes' event times")
    return times_us
