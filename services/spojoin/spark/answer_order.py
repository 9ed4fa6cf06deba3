"""The order in which a history's rows are answered, by number or as they close, and where it may be cut into shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from spojoin.arrays import I64
from spojoin.model import EmitOn, Query
from spojoin.spark.blocks import NO_TIME, HistoryBlocks
from spojoin.windows import Window
from spojoin.wire.records import Frame, Record, StreamSlice

#: An index that no row has.
ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class SidePlace:
    """A place among a side's rows: before the row with an index, or before the first row with an event time."""

    index: int = 0
    time_us: int | None = None


#: A place in the order of closing: for each side, left first, the place before which its rows have closed.
ClosingPlace = tuple[SidePlace, SidePlace]
START: ClosingPlace = (SidePlace(), SidePlace())
END: ClosingPlace = (SidePlace(ALL), SidePlace(ALL))


@dataclass(frozen=True, slots=True)
class ClosedHere:
    """The rows that close between two places."""

    begin: ClosingPlace
    end: ClosingPlace

    def watched(self) -> OwnClosings:
        """A filter of an engine's frames that leaves only the answers of these rows."""
        return OwnClosings(self)


class OwnClosings:
    """Removes the answers of all other rows from the passing frames, which begin with the first row that is read."""

    def __init__(self, here: ClosedHere) -> None:
        self._begin = [_Index(place) for place in here.begin]
        self._end = [_Index(place) for place in here.end]

    def __call__(self, record: Record) -> Record:
        """The record that readers get."""
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
    """The index of a place; that of an event time is known once such a row has come: all rows until then are before."""

    def __init__(self, place: SidePlace) -> None:
        self._time_us = place.time_us
        self.index = place.index if place.time_us is None else ALL

    def note(self, piece: StreamSlice) -> None:
        """Take note of the next rows of the side."""
        if self._time_us is None or piece.times_us is None:
            return
        before = int(np.searchsorted(piece.times_us, self._time_us, "left"))
        if before < len(piece):
            self.index, self._time_us = piece.first_index + before, None


class AnswerOrder(Protocol):
    """Places at which shares may begin and end, from 0 to `steps`, in the order of the answers."""

    @property
    def steps(self) -> int:
        """The last place; all rows are before it."""

    @property
    def rows_before(self) -> I64:
        """int64 (steps + 1,), ascending: about how many rows are answered before each place."""

    def low(self, begin: int) -> int:
        """The first block with rows that are answered from a place on."""

    def high(self, end: int) -> int:
        """The block after the last one with rows that are answered before a place."""

    def closed(self, begin: int, end: int) -> ClosedHere | None:
        """The rows of these blocks that are answered between two places; None if all are."""


@dataclass(frozen=True, slots=True)
class ByNumber:
    """Rows are answered in the order of their numbers; there is a place before each block."""

    blocks: HistoryBlocks

    @property
    def steps(self) -> int:
        """The number of blocks with rows that are answered."""
        return self.blocks.answering

    @property
    def rows_before(self) -> I64:
        """Rows before each block."""
        return self.blocks.total_before[: self.steps + 1]

    def low(self, begin: int) -> int:
        return begin

    def high(self, end: int) -> int:
        return end

    def closed(self, begin: int, end: int) -> None:
        """None: all rows of the blocks are answered."""


def answer_order(query: Query, blocks: HistoryBlocks) -> AnswerOrder:
    """The order of a query's answers over a history."""
    if not (query.both_ask and query.answers.emit is EmitOn.CLOSE and blocks.answering):
        return ByNumber(blocks)
    windows = [query.window_over(side) for side in range(2)]
    places = _by_time(windows, blocks) if windows[0].needs_time else _by_count(windows, blocks)
    return ByClosing(blocks, [START, *places, END])


class ByClosing:
    """Rows are answered as they close; places: ascending, the first before all rows, the last after them."""

    def __init__(self, blocks: HistoryBlocks, places: Sequence[ClosingPlace]) -> None:
        self._blocks = blocks
        self._places = [here for here, following in pairwise(places) if here != following] + [places[-1]]
        self._low = np.array(
            [min(self._block(side, each) for side, each in enumerate(place)) for place in self._places], np.int64
        )
        self.rows_before = self._counted()

    @property
    def steps(self) -> int:
        """The last place."""
        return len(self._places) - 1

    def low(self, begin: int) -> int:
        """The block of the first row of either side."""
        return min(int(self._low[begin]), self._blocks.answering - 1)

    def high(self, end: int) -> int:
        """The block after the last row of either side."""
        found = max(self._block_behind(side, place) for side, place in enumerate(self._places[end]))
        return min(found, self._blocks.answering)

    def closed(self, begin: int, end: int) -> ClosedHere:
        """The rows between two places."""
        return ClosedHere(self._places[begin], self._places[end])

    def _block(self, side: int, place: SidePlace) -> int:
        """The block of the first row of a side from a place on, or one before it."""
        if place.time_us is not None:
            return int(np.searchsorted(self._blocks.last_us, place.time_us, "left"))
        return int(np.searchsorted(self._blocks.members_before[1:, side], place.index, "right"))

    def _block_behind(self, side: int, place: SidePlace) -> int:
        if place.time_us is not None:
            return int(np.searchsorted(self._blocks.first_us, place.time_us, "left"))
        return int(np.searchsorted(self._blocks.members_before[:-1, side], place.index, "left"))

    def _counted(self) -> I64:
        """How many of all rows that are answered come before each place; the places within a block count alike."""
        blocks = self._blocks
        last = blocks.answering
        of = np.array([[self._block(side, each) for side, each in enumerate(place)] for place in self._places])
        members = sum(blocks.members_before[np.minimum(of[:, side], last), side] for side in range(2))
        total = max(int(blocks.members_before[last].sum()), 1)
        found: I64 = np.maximum.accumulate(members) * blocks.rows_of(0, last) // total
        return found


def _by_time(windows: Sequence[Window], blocks: HistoryBlocks) -> list[ClosingPlace]:
    """Places before the first row of each side in each block, even between rows of the same moment."""
    found: list[tuple[int, int, int]] = []
    for block in np.flatnonzero(blocks.first_us[: blocks.answering] != NO_TIME).tolist():
        time_us = int(blocks.first_us[block])
        found += [(window.closes(time_us), side, block) for side, window in enumerate(windows)]
    return [_place(windows, blocks, *each) for each in sorted(found)]


def _place(windows: Sequence[Window], blocks: HistoryBlocks, moment: int, side: int, block: int) -> ClosingPlace:
    """The place before a side's first row in a block: given by the row's index, and for the other side by its moment.

    Rows of the other side at the same moment are before the place if the other side is the left one.
    """
    own = SidePlace(int(blocks.members_before[block, side]))
    other = SidePlace(time_us=windows[1 - side].begins(moment + side))
    return (other, own) if side else (own, other)


def _by_count(windows: Sequence[Window], blocks: HistoryBlocks) -> list[ClosingPlace]:
    """Places after the rows that are closed by all rows before each block, and then among each side's other rows."""
    before = blocks.members_before
    begins = [np.maximum(window.begins(before[:, side]), 0) for side, window in enumerate(windows)]
    closed = [
        (SidePlace(left), SidePlace(right)) for left, right in zip(*(each.tolist() for each in begins), strict=True)
    ]
    rest = [_from(before[:, side], int(each[-1])) for side, each in enumerate(begins)]
    right = closed[-1][1]
    return [
        *closed,
        *((SidePlace(index), right) for index in rest[0]),
        *((SidePlace(ALL), SidePlace(index)) for index in rest[1]),
    ]


def _from(indexes: I64, first: int) -> Iterator[int]:
    yield from indexes[indexes > first].tolist()
