"""Divides a history among tasks: each answers a share, and also reads the rows before and after it in its windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I64
from spojoin.errors import ConfigurationError
from spojoin.model import EmitOn, Query
from spojoin.spark.answer_order import ClosedHere, answer_order
from spojoin.spark.blocks import HistoryBlocks
from spojoin.windows import Window

#: A task reads at most one row that another task answers for so many of its own.
TWICE_ONE_IN = 5

#: Shares per core: enough that cores end together, and few enough that windows are seldom filled.
SHARES_PER_CORE = 4

#: The least rows of a share for which it pays to start a task.
LEAST_ROWS = 250_000


@dataclass(frozen=True, slots=True)
class WindowReach:
    """How far the windows of a query's rows reach among the blocks of its history.

    back: the window over each searched stream, by the stream's number
    ahead: the same for streams whose rows are answered on close: later rows find them in these windows
    """

    back: dict[int, Window]
    ahead: dict[int, Window]

    @classmethod
    def of(cls, query: Query) -> WindowReach:
        """The windows of a query; a table has none, since all its rows are always in the window."""
        streams = [number for number, stream in enumerate(query.streams) if stream.table is None]
        closes = [number for number in streams if number == 0 or query.both_ask or query.is_self]
        return cls(
            {} if query.has_table else {number: query.window_over(number) for number in streams},
            {number: query.window_over(number) for number in closes}
            if query.answers.emit is EmitOn.CLOSE and not query.has_table
            else {},
        )

    def first(self, blocks: HistoryBlocks, begin: int) -> int:
        """The first block with rows in the windows of rows of block `begin` and later ones."""
        return int(self.firsts(blocks, np.array([begin], np.int64))[0])

    def firsts(self, blocks: HistoryBlocks, begins: I64) -> I64:
        """The result of `first` for each of n blocks, int64 (n,)."""
        found = begins.copy()
        for stream, window in self.back.items():
            first, last = blocks.bounds(stream, window)
            found = np.minimum(found, np.searchsorted(last, first[begins] - window.length, "left"))
        return found

    def last(self, blocks: HistoryBlocks, end: int) -> int:
        """The block after the last one with rows that find rows of blocks before `end`."""
        found = [end]
        for stream, window in self.ahead.items():
            first, last = blocks.bounds(stream, window)
            found.append(int(np.searchsorted(first, window.read_ahead(last[end - 1]), "right")))
        return max(found)


@dataclass(frozen=True, slots=True)
class HistoryShare:
    """Blocks [begin, end) that a task answers; it reads blocks [first, last).

    closed: the rows of these blocks that it answers; None for all
    """

    first: int
    begin: int
    end: int
    last: int
    closed: ClosedHere | None = None


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How large shares may be.

    rows: how many rows each should have at least; grows: whether it gets more if many rows would be read twice
    memory_bytes: the memory that a task may take; state_bytes: how much of it full windows take
    """

    rows: int
    grows: bool
    memory_bytes: int
    state_bytes: int

    @classmethod
    def of(cls, rows: int, cores: int, shares: int | None, memory_bytes: int, state_bytes: int) -> ShareLimits:
        """The limits for a number of rows on a number of cores, or in the number of shares that the user asks for."""
        each = max(rows // (SHARES_PER_CORE * cores), LEAST_ROWS) if shares is None else -(-rows // shares)
        return cls(max(each, 1), shares is None, memory_bytes, state_bytes)


class Division:
    """Divides the blocks of a history, in the order of its answers."""

    def __init__(self, query: Query, blocks: HistoryBlocks, limits: ShareLimits) -> None:
        self._reach = WindowReach.of(query)
        self._order = answer_order(query, blocks)
        self._blocks = blocks
        self._limits = limits
        self.is_short_of_memory = False

    @property
    def is_asked(self) -> bool:
        """Whether the user asked for this number of shares."""
        return not self._limits.grows

    def shares(self) -> list[HistoryShare]:
        """The shares, in order. Raises ConfigurationError if a window takes more memory than a task has."""
        found: list[HistoryShare] = []
        begin = 0
        while begin < self._order.steps:
            rows = (
                max(self._limits.rows, TWICE_ONE_IN * self._twice(begin)) if self._limits.grows else self._limits.rows
            )
            end = self._fitting(begin, self._end(begin, rows))
            found.append(self._share(begin, end))
            begin = end
        return found

    def _share(self, begin: int, end: int) -> HistoryShare:
        """The share of the rows that are answered between two places of the order, with the blocks that it reads."""
        low, high = self._order.low(begin), self._order.high(end)
        first, last = self._reach.first(self._blocks, low), self._reach.last(self._blocks, high)
        return HistoryShare(first, min(low, high), high, last, self._order.closed(begin, end))

    def _twice(self, begin: int) -> int:
        """The number of rows that a share reads in addition to its own, if it begins at a place of the order."""
        first = self._reach.first(self._blocks, self._order.low(begin))
        high = self._order.high(begin)
        return self._blocks.rows_of(first, self._reach.last(self._blocks, high) if high else first)

    def memory_of(self, first: int, last: int) -> int:
        """The bytes that a task takes: for the rows that it reads, as received and as used, and for full windows."""
        return self._limits.state_bytes + 2 * self._blocks.bytes_of(first, last)

    def _end(self, begin: int, rows: int) -> int:
        """The end of a share with at least `rows` rows; it takes a small rest too."""
        before, last = self._order.rows_before, self._order.steps
        end = min(max(int(np.searchsorted(before, before[begin] + rows)), begin + 1), last)
        return last if before[last] - before[end] < max(rows // 2, 1) else end

    def _fitting(self, begin: int, end: int) -> int:
        """The end, or an earlier one with which the task's rows fit into its memory."""
        while (share := self._share(begin, end)) and self._memory(share) > self._limits.memory_bytes:
            if end - begin <= 1:
                self._refuse(share)
            self.is_short_of_memory = True
            end = begin + (end - begin) // 2
        return end

    def _memory(self, share: HistoryShare) -> int:
        return self.memory_of(share.first, share.last)

    def _refuse(self, share: HistoryShare) -> None:
        needed, given = (size / 2**20 for size in (self._memory(share), self._limits.memory_bytes))
        raise ConfigurationError(
            f"a window of rows and a task's own take {needed:,.0f} MiB "
            f"({self._blocks.rows_of(share.first, share.last):,} rows), and a task may take {given:,.0f} MiB: raise "
            "spark.spojoin.memory, or shorten the window"
        )
