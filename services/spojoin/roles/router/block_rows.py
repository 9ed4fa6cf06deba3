"""How rows that intakes have read reach a router: each row once, whatever blocks come twice (rule P23).

An intake begins at a place up to which a router has taken rows, so the rows before it are in earlier blocks, or in the
log. It continues each block where the last one ended, and blocks are kept until their rows are in the log for good. So
a router finds every row from where it resumes on, and takes of each block what it has not taken yet.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spojoin.errors import Retryable
from spojoin.protocol.blocks import Originals, rows_of
from spojoin.protocol.machine import Action, Emit, InputMachine, InputThrough, ResultPosition, TableRows, Trim
from spojoin.protocol.topology import Topic
from spojoin.roles.router.physical_input import rows_behind
from spojoin.wire.records import (
    NEVER,
    Block,
    Frame,
    InputEnd,
    Place,
    Positions,
    Record,
    Rows,
    SourcePosition,
    SourceState,
    resume_position,
)

#: How often the router writes how far it has come.
POSITIONS_MS = 50

#: Stream and partition of an input.
Key = tuple[int, int]


class WrittenBlock(NamedTuple):
    """Where a block is in its partition, its input, where it ends, and when its first row was produced."""

    offset: int
    key: Key
    end: Place
    produced_ms: int | None = None


#: The end of a record that nobody needs again.
_NEEDLESS: Place = (-1, 0)


class Settlement:
    """Which blocks no router needs any more. settled: up to where rows are in the log for good, by input."""

    def __init__(self) -> None:
        self.settled: SourceState = {}
        #: frames without results: their numbers, and where a router resumes behind them
        self._frames: deque[tuple[int, SourceState]] = deque()
        self._blocks: defaultdict[int, deque[WrittenBlock]] = defaultdict(deque)

    def note_record(self, partition: int, offset: int, record: Block | InputEnd) -> None:
        """Note a record of a partition of the blocks."""
        key, end, produced_ms = (record.stream, record.partition), _NEEDLESS, None
        if isinstance(record, Block):
            end, produced_ms = record.end, int(record.produced_ms[0]) if len(record) else None
        self._blocks[partition].append(WrittenBlock(offset, key, end, produced_ms))

    def note_frame(self, frame: Frame) -> None:
        """Note a frame that the router writes."""
        self._frames.append((frame.frame_id, frame.source))

    def note_results(self, frame_id: int) -> None:
        """Note that results are out for all frames before `frame_id`: these frames are in the log."""
        while self._frames and self._frames[0][0] < frame_id:
            _, self.settled = self._frames.popleft()

    def oldest_ms(self, sources: SourceState) -> int | None:
        """When the oldest row was produced that lies behind its input's position."""
        behind = (block for blocks in self._blocks.values() for block in blocks)
        times = (
            b.produced_ms for b in behind if b.produced_ms is not None and b.end > resume_position(sources, b.key).place
        )
        return min(times, default=None)

    def trims(self) -> Iterator[Trim]:
        """What is no longer needed of each partition of the blocks."""
        for partition, blocks in self._blocks.items():
            last = None
            while blocks and blocks[0].end <= resume_position(self.settled, blocks[0].key).place:
                last = blocks.popleft()
            if last is not None:
                yield Trim(Topic.BLOCKS, partition, last.offset + 1)


class BlockRows(InputThrough):
    """Gives a router the rows of blocks, and writes how far it has come; see the module.

    originals: reads messages again, for rows that are refused as late
    """

    def __init__(self, router: InputMachine, originals: Originals) -> None:
        self._inputs = router
        self._originals = originals
        self._declared: list[Key] = []
        self._held: defaultdict[Key, deque[Block]] = defaultdict(deque)
        self._taken: dict[Key, Place] = {}
        self._ends: dict[Key, int] = {}
        self._settlement = Settlement()
        self._has_begun = False
        self._written: Positions | None = None
        self._write_at_ms = 0
        self._positions_at = 0  # of the newest record, unless older ones were trimmed

    # -- blocks

    def wants(self, topic: Topic, partition: int) -> bool:
        """Always for blocks: intakes stop when the router is far behind, and an input must not hold up another."""
        return topic in (Topic.BLOCKS, Topic.POSITIONS) or self._inputs.wants(topic, partition)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Hold a block until the router wants its rows; pass on everything else."""
        if isinstance(record, Block | InputEnd):
            self._settlement.note_record(partition, offset, record)
        if isinstance(record, Block):
            if record.end > self._reached(record.source):
                self._held[record.source].append(record)
        elif isinstance(record, InputEnd):
            self._ends[record.stream, record.partition] = record.offset
        elif isinstance(record, Positions):
            self._positions_at = offset
        else:
            yield from self._noted(self._inputs.on_record(topic, partition, offset, record))
        yield from self._give_rows()

    def _give_rows(self) -> Iterator[Action]:
        """Give the router blocks of each input in turn, while it wants them."""
        if not self.active:
            return
        if not self._has_begun:  # what was in the log at the claim is in it for good
            self._has_begun, self._settlement.settled = True, self.sources()
        while wanted := self._wanted():
            for key in wanted:
                if self._inputs.wants_rows(*key):
                    yield from self._take(key, self._held[key].popleft())

    def _wanted(self) -> list[Key]:
        return [key for key in self._declared if self._held[key] and self._inputs.wants_rows(*key)]

    def _take(self, key: Key, block: Block) -> Iterator[Action]:  # P23.4
        """Give the router what it has not taken of a block."""
        taken = self._reached(key)
        if block.end <= taken:
            return
        if block.first > taken:
            raise Retryable(
                f"a block of input {key[0]}, partition {key[1]}, begins at {block.first}, and rows from {taken} on are "
                "missing: the blocks are read again"
            )
        self._taken[key] = block.end
        rows = rows_of(block, self._originals)
        yield from self._noted(self._inputs.on_rows(*key, rows_behind(rows, taken) if block.first < taken else rows))

    def _reached(self, key: Key) -> Place:
        """The place up to which rows were taken; until the router is active, from where it would take them."""
        if self.active and key in self._taken:
            return self._taken[key]
        return resume_position(self.sources(), key).place

    def taken_to(self, stream: int, partition: int) -> int | None:
        """The offset up to which an input was read, and all its rows taken."""
        key = stream, partition
        reached = self._reached(key)[0]
        return reached if self._held[key] else max(reached, self._ends.get(key, 0))

    # -- what reaches the router besides

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        """Declare the physical inputs."""
        self._declared = list(inputs)
        self._inputs.on_inputs(inputs)

    def wants_rows(self, stream: int, partition: int) -> bool:
        """Never: rows come in blocks."""
        return False

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Rows come in blocks."""
        raise AssertionError(f"rows of input {stream}, partition {partition}, come in blocks")

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Pass on a version of the query's table."""
        yield from self._noted(self._inputs.on_table(version))
        yield from self._give_rows()

    def on_caught_up(self) -> Iterator[Action]:
        """Pass on that the log was read."""
        yield from self._inputs.on_caught_up()

    def on_chosen(self) -> Iterator[Action]:
        """Pass on that this instance speaks."""
        yield from self._inputs.on_chosen()

    @property
    def is_lingering(self) -> bool:
        """Whether rows wait for a frame, or to be given to the router, which wants them by now."""
        return self._inputs.is_lingering or (self.active and bool(self._wanted()))

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Pass on the time, give rows that the router wants by now, and write how far it has come."""
        yield from self._noted(self._inputs.on_time(now_ms))
        yield from self._give_rows()
        if self.active and now_ms >= self._write_at_ms:
            self._write_at_ms = now_ms + POSITIONS_MS
            taken = {key: SourcePosition(*place, NEVER) for key, place in self._taken.items()}
            positions = Positions(self._settlement.settled | taken)
            if positions != self._written:
                self._written = positions
                yield Emit(Topic.POSITIONS, 0, positions)

    # -- how far it has come

    def _noted(self, actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            yield action
            if isinstance(action, Emit) and isinstance(action.record, Frame):
                self._settlement.note_frame(action.record)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:  # P23.7
        """Forget blocks whose rows are in frames that have results: a successor resumes behind them."""
        trims = self._inputs.on_result_position(result_position)
        if self._has_begun:
            self._settlement.note_results(result_position.frame_id)
        else:
            self._forget_settled()
        positions_at, self._positions_at = self._positions_at, 0
        positions = [Trim(Topic.POSITIONS, 0, positions_at)] if positions_at else []
        return [*trims, *self._settlement.trims(), *positions]

    def _forget_settled(self) -> None:
        """Follow another router: what is in the log now is in it for good."""
        self._settlement.settled = self.sources()
        for key, held in self._held.items():
            while held and held[0].end <= self._reached(key):
                held.popleft()

    def waits_since_ms(self) -> int | None:
        """When the oldest row was produced that no frame has passed."""
        return self._settlement.oldest_ms(self.sources())

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return self._inputs.state_tuples() + sum(len(block) for held in self._held.values() for block in held)
