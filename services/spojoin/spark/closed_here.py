"""Which rows of both sides of a FULL JOIN that answers on close a task answers: those between two of its places.

Rows answer in the order in which they close, where a left row stands beside right ones of other numbers. So a task's
rows are no range of numbers, but a range of each side's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spojoin.wire.records import Frame, Record, StreamSlice

#: An index that no row has.
ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class SidePlace:
    """A place among a side's rows: before the row of an index, or before the first one that has some event time."""

    index: int = 0
    time_us: int | None = None


#: A place in the order of closing: by side, left first, the rows that closed before it.
ClosingPlace = tuple[SidePlace, SidePlace]
START: ClosingPlace = (SidePlace(), SidePlace())
END: ClosingPlace = (SidePlace(ALL), SidePlace(ALL))


@dataclass(frozen=True, slots=True)
class ClosedHere:
    """The rows that close between two places."""

    begin: ClosingPlace
    end: ClosingPlace

    def watched(self) -> OwnClosings:
        """What makes frames of an engine answer these rows alone."""
        return OwnClosings(self)


class OwnClosings:
    """Silences the answers of all other rows in the frames that pass, which begin with the first row that is read."""

    def __init__(self, here: ClosedHere) -> None:
        self._begin = [_Index(place) for place in here.begin]
        self._end = [_Index(place) for place in here.end]

    def __call__(self, record: Record) -> Record:
        """A record as readers get it."""
        if not isinstance(record, Frame):
            return record
        for side, piece in enumerate(record.slices):
            self._begin[side].note(piece)
            self._end[side].note(piece)
        return self._silenced(record) if record.closings else record

    def _silenced(self, frame: Frame) -> Frame:
        silent = frame.silent.copy() if len(frame.silent) else np.zeros(frame.answers, np.uint8)
        for begin, end, closing in zip(self._begin, self._end, frame.closings, strict=True):
            indexes = np.arange(closing.first, closing.end, dtype=np.int64)
            silent[closing.all_places] |= (indexes < begin.index) | (indexes >= end.index)
        return replace(frame, silent=silent) if silent.any() else frame


class _Index:
    """The index that a place is; one of an event time is known once a row of it has come: until then all are before."""

    def __init__(self, place: SidePlace) -> None:
        self._time_us = place.time_us
        self.index = place.index if place.time_us is None else ALL

    def note(self, piece: StreamSlice) -> None:
        """See the next rows of the side."""
        if self._time_us is None or piece.times_us is None:
            return
        before = int(np.searchsorted(piece.times_us, self._time_us, "left"))
        if before < len(piece):
            self.index, self._time_us = piece.first_index + before, None
