"""How far the windows of rows reach: which blocks before and behind some of them may hold partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.model import EmitOn, Query, Window
from spojoin.spark.blocks import I64, HistoryBlocks


@dataclass(frozen=True, slots=True)
class WindowReach:
    """What rows of a query's history may find among its blocks.

    back: by number of the stream that is searched, the window over it
    ahead: the same for streams whose rows answer on close: rows that come later find them in these windows
    """

    back: dict[int, Window]
    ahead: dict[int, Window]

    @classmethod
    def of(cls, query: Query) -> WindowReach:
        """The windows of a query; a table has none, since all its rows always count."""
        streams = [number for number, stream in enumerate(query.streams) if stream.table is None]
        closes = [number for number in streams if number == 0 or query.both_ask or query.is_self]
        return cls(
            {} if query.has_table else {number: query.window_over(number) for number in streams},
            {number: query.window_over(number) for number in closes}
            if query.emit is EmitOn.CLOSE and not query.has_table
            else {},
        )

    def first(self, blocks: HistoryBlocks, begin: int) -> int:
        """The first block with rows in the windows of rows of block `begin` and later ones."""
        return int(self.firsts(blocks, np.array([begin], np.int64))[0])

    def firsts(self, blocks: HistoryBlocks, begins: I64) -> I64:
        """The same for each of some blocks, int64 (n,)."""
        found = begins.copy()
        for stream, window in self.back.items():
            if window.is_time:
                reached = np.searchsorted(blocks.last_us, blocks.first_us[begins] - window.length, "left")
            else:
                before = blocks.members_before[:, stream]
                reached = np.searchsorted(before[1:], before[begins] - window.length, "right")
            found = np.minimum(found, reached)
        return found

    def last(self, blocks: HistoryBlocks, end: int) -> int:
        """The block behind the last one with rows that find rows of blocks before `end`."""
        found = [end]
        for stream, window in self.ahead.items():
            if window.is_time:
                bound = blocks.last_us[end - 1] + window.length + window.slide
                found.append(int(np.searchsorted(blocks.first_us, bound, "right")))
            else:
                before = blocks.members_before[:, stream]
                found.append(int(np.searchsorted(before[:-1], before[end] + window.length, "right")))
        return max(found)
