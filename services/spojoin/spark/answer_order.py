"""The order in which rows of a history answer, and where it may be cut into shares: by number, or as rows close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spojoin.spark.blocks import I64, HistoryBlocks
from spojoin.spark.closed_here import ClosedHere


class AnswerOrder(Protocol):
    """Places at which shares may begin and end, from 0 to `steps`, in the order of the answers."""

    @property
    def steps(self) -> int:
        """The last place: everything is before it."""

    @property
    def rows_before(self) -> I64:
        """int64 (steps + 1,), ascending: about how many rows answer before each place."""

    def low(self, begin: int) -> int:
        """The first block with rows that answer from a place on."""

    def high(self, end: int) -> int:
        """The block behind the last one with rows that answer before a place."""

    def closed(self, begin: int, end: int) -> ClosedHere | None:
        """Which of the rows of these blocks answer between two places; None where all do."""


@dataclass(frozen=True, slots=True)
class ByNumber:
    """Rows answer in the order of their numbers: places are those before each block."""

    blocks: HistoryBlocks

    @property
    def steps(self) -> int:
        """The blocks with rows that answer."""
        return self.blocks.answering

    @property
    def rows_before(self) -> I64:
        """Rows before each block."""
        return self.blocks.total_before[: self.steps + 1]

    def low(self, begin: int) -> int:
        """The block itself."""
        return begin

    def high(self, end: int) -> int:
        """The block itself."""
        return end

    def closed(self, begin: int, end: int) -> None:
        """All rows of the blocks answer."""
