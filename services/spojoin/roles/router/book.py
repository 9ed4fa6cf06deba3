"""What a router knows about one stream: its count, batches, handover, and where windows begin.

Windows by count reach back over all rows of a stream, of which those whose index condition is NULL have no index: a
row's *place* counts them too. Places and indexes are the same until the first such row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.model import WHOLE_TABLE, Window
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import I64, NO_GROUP, Batch, StreamSlice

_NOTHING = np.empty(0, np.int64)
_NO_BOUND = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """n rows as windows measure them: event times int64 (n,) or None, and places int64 (n,).

    has_gaps: whether the places skip rows that join nothing
    """

    times_us: I64 | None
    places: I64
    has_gaps: bool


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
        #: rows before the next one that have no index
        self.passed = 0
        #: of a table, the first tuple of the version that is written, or was written last
        self.version_first = 0
        self._ends_version = False
        # By index what windows are measured in: event times, or places where they aren't the indexes.
        self._times = Tail() if window.is_time else None
        self._places: Tail | None = None
        self._restored: list[tuple[int, I64]] = []
        self.is_restored = False

    def begin_at(self, index: int) -> None:
        """Number the stream's first tuple `index`: earlier numbers belong to another generation (P12)."""
        self._first = self.count = self.batch_first = self.handover_index = self._lower = index
        if self._times is not None:
            self._times = Tail(index)

    @property
    def place(self) -> int:
        """The place of the stream's next row."""
        return self.count + self.passed

    # -- versions of a table

    def begin_version(self) -> None:
        """The next tuple is the first of a version of the table."""
        self.version_first = self.count

    def end_version(self) -> None:
        """The frame in the making ends a version: from it on windows begin with that, and its last batch is sealed."""
        self._lower = max(self._lower, self.version_first)
        self._ends_version = True

    # -- reading the log

    def adopt(self, piece: StreamSlice) -> None:
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

    def restore(self, batch: Batch) -> None:
        """Learn of a sealed batch that the log may no longer hold."""
        self._ends[batch.batch_id] = batch.end
        if self._times is not None and batch.times_us is not None:
            self._restored.append((batch.first, batch.times_us))
        elif not self._window.is_time:
            self._restored.append((batch.first, _places_of(batch)))

    def finish_restore(self) -> None:
        """Put the times, or places, of restored batches before those of the log's tail."""
        if self._times is not None:
            self._times = continued(self._restored, self._times)
        elif self._places is not None:
            self._places = continued(self._restored, self._places)
        self._restored.clear()
        self.is_restored = True
        self._forget_before(self._lower)

    def apply(self, frame_id: int, piece: StreamSlice) -> None:
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
        """Keep places from the first row without an index on; before it, indexes are places."""
        if self._window.is_time:
            return
        if self._places is None and piece.void:
            begin = min(self._lower, self.count)
            self._places = Tail(begin)
            self._places.append(np.arange(begin, self.count, dtype=np.int64))
        if self._places is not None:
            self._places.append(piece.all_places)

    def note_lower(self, lower: int) -> None:
        """A window over this stream began at `lower`; no later one begins before it."""
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

    def room(self) -> int:
        """Tuples that still fit before a frame must end with the batch."""
        return self._config.batch_tuples - (self.count - self.batch_first)

    def slide_room(self) -> int:
        """Rows, joining or not, that still fit before a frame must end with a large slide."""
        slide = self._window.slide
        return slide - self.place % slide if self._slide_is_large else _NO_BOUND

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

    def seals_after(self, frame_id: int, added: int, void: int, *, ends_slide: bool) -> bool:
        """Whether the open batch ends with a frame that adds `added` tuples, and `void` rows without an index.

        ends_slide: whether a slide of time ends with the frame
        """
        size = self.count + added - self.batch_first
        if size == 0:
            return False
        end_place = self.place + added + void
        if size >= self._config.batch_tuples or (self._slide_is_large and end_place % self._window.slide == 0):
            return True
        if self._ends_version or (ends_slide and 4 * size >= self._config.batch_tuples):
            return True
        # A slow stream's batches are sealed by age, so that the log's tail stays short (P8).
        return self._batch_frame >= 0 and frame_id - self._batch_frame >= self._config.batch_frames

    def group(self, times_us: I64 | None, places: I64) -> int:
        """The slide interval that the open batch, with a frame's tuples, lies in whole, or NO_GROUP.

        Of a table it is the version. times_us, places: int64 (n,), of the frame's tuples
        """
        slide = self._window.slide
        if self._window == WHOLE_TABLE:
            return self.version_first
        if self._times is not None:
            first, last = self._batch_ends(self._times, _given(times_us))
        elif self._slide_is_large:
            first = self.batch_first if self._places is None else self._batch_ends(self._places, places)[0]
            last = int(places[-1]) if len(places) else self._last_place()
        else:
            return NO_GROUP
        return first // slide if first // slide == last // slide else NO_GROUP

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

    def lower(self, probes: Reach, own: Reach) -> I64:
        """Lower window bounds over this stream for probes: the index of the first tuple in each probe's window.

        probes: of each probe its event time, and this stream's place at it; own: of this stream's tuples within the
        frame, not yet applied. Returns int64 (1,) where all agree, else (m,).
        """
        if not len(probes.places):
            return np.array([self.next_lower()], np.int64)
        # After a restart the log may not say where the generation began: no window begins before an earlier one.
        bounds = np.maximum(self.bounds(probes, own), self._lower)
        return bounds[:1].copy() if bounds[0] == bounds[-1] else bounds

    def bounds(self, probes: Reach, own: Reach) -> I64:
        """Where the windows of probes begin, as in `lower`, int64 (m,)."""
        if self._times is not None:
            return self._searched(self._times, self.windows_from(_given(probes.times_us)), _given(own.times_us))
        begins = self.windows_from(probes.places)
        if self._places is not None:
            return np.maximum(self._searched(self._places, begins, own.places), self._first)
        if not own.has_gaps:
            return np.maximum(begins, self._first)
        within = self.count + np.searchsorted(own.places, begins, "left")
        return np.where(begins > self.count, within, np.maximum(begins, self._first))

    def next_lower(self) -> int:
        """Where a window would begin now: no later one begins before it, so a silent opposite stream keeps nothing."""
        now = np.array([self.place], np.int64)
        if self._times is not None and len(self._times):
            bounds = self._searched(self._times, self.windows_from(self._times.held[-1:]), _NOTHING)
        elif self._times is not None:
            return self._lower
        else:
            bounds = self.bounds(Reach(None, now, False), Reach(None, _NOTHING, False))
        return max(self._lower, int(bounds[0]))

    def windows_from(self, values: I64) -> I64:
        """Where the windows of probes begin, in event time or places."""
        return -(-values // self._window.slide) * self._window.slide - self._window.length

    def _searched(self, tail: Tail, begins: I64, own: I64) -> I64:
        """The index of the first tuple from each of `begins` on, among those held and the frame's `own`."""
        result = tail.first + np.searchsorted(tail.held, begins, "left")
        past = result == tail.end
        if len(own) and past.any():
            result[past] += np.searchsorted(own, begins[past], "left")
        return result.astype(np.int64)

    def live(self, lower: int) -> int:
        """The oldest batch that a window starting at `lower` reaches; forgets what lies before it."""
        live = self.live_batch
        while live < self.batch_id and self._ends.get(live, -1) <= lower:
            self._ends.pop(live, None)
            live += 1
        self._forget_before(lower)
        return live

    def _forget_before(self, lower: int) -> None:
        """No window begins before an index any more."""
        while self._ends and (oldest := next(iter(self._ends))) < self.live_batch:
            del self._ends[oldest]
        for tail in (self._times, self._places):
            if tail is not None:
                tail.drop_below(min(lower, self.batch_first))

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(len(tail) for tail in (self._times, self._places) if tail is not None)


def continued(restored: list[tuple[int, I64]], tail: Tail, empty: Callable[[int], Tail] = Tail) -> Tail:
    """What batches hold, each from its first index on, before the log's tail; `empty` makes a tail of that kind.

    A batch may have been read before the frames that hold its tuples: those frames are still to come.
    """
    whole = empty(0)
    for first, values in sorted(restored, key=lambda piece: piece[0]):
        if first >= tail.end:
            break
        if first > whole.end:  # a stray copy of an expired batch lies before the rest
            whole = empty(first)
        whole.append(values[..., whole.end - first : tail.end - first])
    if whole.end < tail.first:
        return tail
    if whole.end < tail.end:
        whole.append(tail.view(whole.end, tail.end))
    return whole


def _places_of(batch: Batch) -> I64:
    return np.arange(batch.first, batch.end, dtype=np.int64) if batch.places is None else np.array(batch.places)


def _given(times_us: I64 | None) -> I64:
    if times_us is None:
        raise ValueError("a time window needs the probes' event times")
    return times_us
