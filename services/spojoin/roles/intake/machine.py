"""The intake's state machine: rows of some partitions of the inputs in, blocks out (rule P23 of the protocol page).

It keeps nothing that it couldn't read again: it begins where the router has taken rows, and if a block comes twice, the
router takes each of its rows once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from spojoin.protocol.blocks import blocks_of
from spojoin.protocol.machine import Action, Emit, InputMachine, TableRows
from spojoin.protocol.services import Rotation
from spojoin.protocol.topology import Topic
from spojoin.wire.records import (
    NEVER,
    InputEnd,
    Place,
    Positions,
    Record,
    Rows,
    SourcePosition,
    SourceState,
    resume_position,
)

#: How many rows of an input may be in blocks that the router hasn't taken.
AHEAD_ROWS_MAX = 1 << 18


class IntakeMachine(InputMachine):
    """Writes the rows of its share of the inputs into its partition of the blocks; see the module."""

    def __init__(self, share: Rotation) -> None:
        self.active = False
        self._share = share
        self._inputs: dict[tuple[int, int], InputAhead] = {}
        self._taken: SourceState | None = None
        self._starts: SourceState = {}
        self._is_chosen = False

    # -- the router's positions

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Note how far the router has come."""
        if isinstance(record, Positions):
            self._taken = record.source
            for key, ahead in self._inputs.items():
                ahead.forget_taken(resume_position(self._taken, key).place)
            self._begin_if_ready()
        yield from ()

    def on_chosen(self) -> Iterator[Action]:
        """Begin, as soon as the router has written its positions."""
        self._is_chosen = True
        self._begin_if_ready()
        yield from ()

    def _begin_if_ready(self) -> None:  # P23.3
        if self._is_chosen and self._taken is not None and not self.active:
            self._starts = self._taken
            self.active = True

    # -- the inputs

    @property
    def is_lingering(self) -> bool:
        """Never: blocks go out at once."""
        return False

    def sources(self) -> SourceState:
        """Where to go on reading each input: where its blocks end, or where they begin; valid once active."""
        return self._starts | {key: SourcePosition(*ahead.end, NEVER) for key, ahead in self._inputs.items()}

    def reads_input(self, stream: int, partition: int) -> bool:
        """Whether this intake reads the input, and not another one."""
        return self._share.has(stream + partition)  # P23.2

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Inputs are begun when their first rows come."""

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Whether the router isn't too far behind to read on."""
        return self._ahead(stream, partition).rows < AHEAD_ROWS_MAX

    def _ahead(self, stream: int, partition: int) -> InputAhead:
        key = stream, partition
        if key not in self._inputs:
            taken = resume_position(self._taken or {}, key).place
            self._inputs[key] = InputAhead(resume_position(self._starts, key).place, taken)
        return self._inputs[key]

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Write the rows in blocks, which continue the input where the last block ended."""
        ahead = self._ahead(stream, partition)
        for block in blocks_of(stream, partition, ahead.end, rows):
            ahead.add_block(block.end, len(block))
            yield Emit(Topic.BLOCKS, self._share.at, block)

    def on_position(self, stream: int, partition: int, offset: int) -> Iterator[Action]:  # P23.6
        """Say once that the input was read up to `offset` and holds no more for now."""
        ahead = self._ahead(stream, partition)
        if ahead.ended_at != offset:
            ahead.ended_at = offset
            yield Emit(Topic.BLOCKS, self._share.at, InputEnd(stream, partition, offset))

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        """The router judges which inputs are at their ends."""

    def doubts_end(self, stream: int, partition: int) -> bool:
        """Never: the router asks."""
        return False

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """The router reads tables."""
        yield from ()


class BlockAhead(NamedTuple):
    """Where a block ends, and how many rows it has."""

    end: Place
    rows: int


class InputAhead:
    """The blocks of an input that the router hasn't taken; end: the place after the last one; rows: their number.

    ended_at: the last offset at which the input was said to hold no more
    """

    def __init__(self, start: Place, taken: Place) -> None:
        self.end: Place = (start[0], 0)  # its message is read from its first row on
        self.rows = 0
        self._taken = taken
        self.ended_at: int | None = None
        self._blocks: deque[BlockAhead] = deque()

    def add_block(self, end: Place, rows: int) -> None:
        """Note a block that was written; one that comes again may have been taken."""
        self._blocks.append(BlockAhead(end, rows))
        self.end = end
        self.rows += rows
        self.forget_taken(self._taken)

    def forget_taken(self, taken: Place) -> None:  # P23.5
        """Note up to where the router has taken rows."""
        self._taken = max(self._taken, taken)
        while self._blocks and self._blocks[0].end <= self._taken:
            self.rows -= self._blocks.popleft().rows
