"""The order in which rows of a FULL JOIN close, and places in it that the counts of blocks tell.

A row closes at a moment: the last event time that reaches it, or in windows by count the row that moves the window past
it. Of rows with one moment those of the left side come first, then by number; what the end of the history closes by
count comes last, the left side first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from spojoin.model import EmitOn, Query, Window
from spojoin.spark.answer_order import AnswerOrder, ByNumber
from spojoin.spark.blocks import I64, NO_TIME, HistoryBlocks
from spojoin.spark.closed_here import ALL, END, START, ClosedHere, ClosingPlace, SidePlace


def answer_order(query: Query, blocks: HistoryBlocks) -> AnswerOrder:
    """The order of a query's answers over a history."""
    if not (query.both_ask and query.emit is EmitOn.CLOSE and blocks.answering):
        return ByNumber(blocks)
    windows = [query.window_over(side) for side in range(2)]
    places = _by_time(windows, blocks) if windows[0].is_time else _by_count(windows, blocks)
    return ByClosing(blocks, [START, *places, END])


class ByClosing:
    """Rows answer as they close; places: ascending, the first before all rows, the last behind them."""

    def __init__(self, blocks: HistoryBlocks, places: Sequence[ClosingPlace]) -> None:
        self._blocks = blocks
        self._places = [here for here, following in pairwise(places) if here != following] + [places[-1]]
        self._low = np.array([self._first_block(place) for place in self._places], np.int64)
        self.rows_before = self._counted()

    @property
    def steps(self) -> int:
        """The last place."""
        return len(self._places) - 1

    def low(self, begin: int) -> int:
        """The block of the first row of either side."""
        return min(int(self._low[begin]), self._blocks.answering - 1)

    def high(self, end: int) -> int:
        """The block behind the last row of either side."""
        found = max(self._block_behind(side, place) for side, place in enumerate(self._places[end]))
        return min(found, self._blocks.answering)

    def closed(self, begin: int, end: int) -> ClosedHere:
        """The rows between two places."""
        return ClosedHere(self._places[begin], self._places[end])

    def _first_block(self, place: ClosingPlace) -> int:
        return min(self._block(side, each) for side, each in enumerate(place))

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
        """Of all rows that answer, as many as before each place of the sides' rows; rows of one block count as one."""
        blocks = self._blocks
        last = blocks.answering
        of = np.array([[self._block(side, each) for side, each in enumerate(place)] for place in self._places])
        members = sum(blocks.members_before[np.minimum(of[:, side], last), side] for side in range(2))
        total = max(int(blocks.members_before[last].sum()), 1)
        found: I64 = np.maximum.accumulate(members) * blocks.rows_of(0, last) // total
        return found


def _by_time(windows: Sequence[Window], blocks: HistoryBlocks) -> list[ClosingPlace]:
    """Places before the first row of each side in each block, among rows of the same moment as well."""
    found: list[tuple[int, int, int]] = []
    for block in np.flatnonzero(blocks.first_us[: blocks.answering] != NO_TIME).tolist():
        time_us = int(blocks.first_us[block])
        found += [(_moment(window, time_us), side, block) for side, window in enumerate(windows)]
    return [_place(windows, blocks, *each) for each in sorted(found)]


def _moment(window: Window, time_us: int) -> int:
    """The last event time that reaches a row."""
    return (time_us + window.length) // window.slide * window.slide


def _place(windows: Sequence[Window], blocks: HistoryBlocks, moment: int, side: int, block: int) -> ClosingPlace:
    """Before the first row that a side has in a block: by its index there, and the other side by its moment.

    Of the other side, rows of the same moment come before if they are left ones.
    """
    own = SidePlace(int(blocks.members_before[block, side]))
    window = windows[1 - side]
    steps = moment // window.slide + 1 if side else -(-moment // window.slide)
    other = SidePlace(time_us=steps * window.slide - window.length)
    return (other, own) if side else (own, other)


def _by_count(windows: Sequence[Window], blocks: HistoryBlocks) -> list[ClosingPlace]:
    """Places behind the rows that the rows before each block close; behind the last block those of each side."""
    before = blocks.members_before
    begins = [np.maximum(_begin(window, before[:, side]), 0) for side, window in enumerate(windows)]
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


def _begin(window: Window, places: I64) -> I64:
    """Where the window of a row begins that comes next at each of these places."""
    found: I64 = -(-places // window.slide) * window.slide - window.length
    return found


def _from(indexes: I64, first: int) -> Iterator[int]:
    yield from indexes[indexes > first].tolist()
