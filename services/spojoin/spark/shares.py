"""Divides a history among tasks: each answers a share, and reads as far before and behind it as windows reach.

Shares are chosen by number, or as rows close, from what counting the rows has shown: neither skewed times nor equal
values make one too large. A share is at least so long that at most a fifth of its rows are read twice, unless memory
forbids it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.closed_here import ClosedHere
from spojoin.spark.closing_order import answer_order
from spojoin.spark.reach import WindowReach

#: Rows that others answer, of those that a task reads: at most one to so many of its own.
TWICE_ONE_IN = 5
#: Shares for each core: enough that cores end together, and few enough that windows are seldom filled.
SHARES_PER_CORE = 4
#: Rows of a share for which starting a task pays.
LEAST_ROWS = 250_000


@dataclass(frozen=True, slots=True)
class HistoryShare:
    """Blocks [begin, end) that a task answers; it reads blocks [first, last).

    closed: which of the rows of these blocks it answers; None for all
    """

    first: int
    begin: int
    end: int
    last: int
    closed: ClosedHere | None = None


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How large shares may be.

    rows: that each is to have at least; grows: whether it has more where much would be read twice
    memory_bytes: that a task may take; state_bytes: what full windows take of it
    """

    rows: int
    grows: bool
    memory_bytes: int
    state_bytes: int

    @classmethod
    def of(cls, rows: int, cores: int, shares: int | None, memory_bytes: int, state_bytes: int) -> ShareLimits:
        """Limits for a history of so many rows, on so many cores or in the number of shares that somebody asks for."""
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
        """Whether somebody asked for this number of shares."""
        return not self._limits.grows

    def shares(self) -> list[HistoryShare]:
        """The shares, in order. Raises ConfigurationError where a window takes more memory than a task has."""
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
        """What answers between two places of the order, and what it reads."""
        low, high = self._order.low(begin), self._order.high(end)
        first, last = self._reach.first(self._blocks, low), self._reach.last(self._blocks, high)
        return HistoryShare(first, min(low, high), high, last, self._order.closed(begin, end))

    def _twice(self, begin: int) -> int:
        """Rows that a share reads besides those that it answers, if it begins at a place of the order."""
        first = self._reach.first(self._blocks, self._order.low(begin))
        high = self._order.high(begin)
        return self._blocks.rows_of(first, self._reach.last(self._blocks, high) if high else first)

    def memory_of(self, first: int, last: int) -> int:
        """Bytes that a task takes: the rows that it reads, as they come and as they are used, and full windows."""
        return self._limits.state_bytes + 2 * self._blocks.bytes_of(first, last)

    def _end(self, begin: int, rows: int) -> int:
        """Where a share of so many rows ends; it takes what would be left as a small rest."""
        before, last = self._order.rows_before, self._order.steps
        end = min(max(int(np.searchsorted(before, before[begin] + rows)), begin + 1), last)
        return last if before[last] - before[end] < max(rows // 2, 1) else end

    def _fitting(self, begin: int, end: int) -> int:
        """An end so early that the task's rows fit into its memory."""
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
