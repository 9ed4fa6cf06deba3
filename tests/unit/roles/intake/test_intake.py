"""An intake's blocks, and how a router takes the rows of blocks: each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import Retryable
from spojoin.protocol import blocks
from spojoin.protocol.blocks import blocks_of, rows_of
from spojoin.protocol.machine import Action, Emit, InputMachine, ResultPosition, TableRows, Trim
from spojoin.protocol.services import ALL, Rotation
from spojoin.protocol.topology import Topic
from spojoin.roles.intake import machine as intake_module
from spojoin.roles.intake.machine import IntakeMachine
from spojoin.roles.router.block_rows import POSITIONS_MS, BlockRows
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import (
    Block,
    Came,
    DeadLetter,
    InputEnd,
    Positions,
    Rows,
    SourcePosition,
    SourceState,
)
from tests.support.frames import make_frame

START = SourcePosition(0, 0, 0)


def rows(*places: tuple[int, int], end: int, dead: Iterable[tuple[int, int]] = (), **more: object) -> Rows:
    offsets, numbers = (np.array([place[at] for place in places], np.int64) for at in (0, 1))
    return Rows(
        offsets,
        numbers,
        end,
        (offsets * 10 + numbers,),
        None,
        pa.array([f"{offset}:{row}" for offset, row in places], pa.string()),
        offsets + 100,
        dead=[DeadLetter(0, 1, *place, "type", "why", b"row", b"key", (("name", None),), 7) for place in dead],
        **more,
    )


def said(actions: Iterable[Action]) -> list[object]:
    found = list(actions)
    assert all(isinstance(action, Emit) for action in found)
    return [action.record for action in found if isinstance(action, Emit)]


def begun(share: Rotation = ALL, **source: SourcePosition) -> IntakeMachine:
    intake = IntakeMachine(share)
    positions = {(0, int(name[1:])): at for name, at in source.items()}
    assert said(intake.on_record(Topic.POSITIONS, 0, 0, Positions(positions))) == []
    assert said(intake.on_chosen()) == []
    assert intake.active
    return intake


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_a_block_has_all_that_rows_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS_MAX", 2)
    given = rows((3, 0), (3, 1), (3, 4), (5, 0), end=7, dead=[(3, 2), (4, 0), (6, 0)], heartbeat_us=9, latest_ms=8)
    sent = [decode(encode(block)) for block in blocks_of(0, 1, (2, 0), given)]
    assert [(block.first, block.end) for block in sent] == [((2, 0), (3, 4)), ((3, 4), (7, 0))]
    found = [rows_of(block, None) for block in sent]
    assert [letter for each in found for letter in each.dead] == given.dead
    assert [each.keys.to_pylist() for each in found] == [["3:0", "3:1"], ["3:4", "5:0"]]
    assert [each.end for each in found] == [(3, 4), (7, 0)]
    assert [(each.heartbeat_us, each.latest_ms) for each in found] == [(None, None), (9, 8)]
    assert np.concatenate([each.codes[0] for each in found]).tolist() == [30, 31, 34, 50]


def test_rows_without_any_fill_one_block() -> None:
    (block,) = blocks_of(0, 1, (2, 0), rows(end=4, dead=[(3, 0)]))
    assert (len(block), block.first, block.end) == (0, (2, 0), (4, 0))
    assert len(rows_of(block, None).dead) == 1


def test_wide_rows_fill_more_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES_MAX", 100)
    texts = pa.record_batch({"text": pa.array(["x" * 80] * 3)})
    found = list(blocks_of(0, 0, (0, 0), rows((0, 0), (0, 1), (0, 2), end=1, payload=texts)))
    assert [len(block) for block in found] == [1, 1, 1]


def test_a_row_as_it_came_is_read_again_when_asked_for() -> None:
    asked = []

    def originals(*given: int):
        asked.append(given)
        return lambda offset, row: Came(f"{offset}/{row}".encode(), None, (), 5)

    block = next(blocks_of(0, 1, (2, 0), rows((3, 0), end=5)))
    found = rows_of(block, originals)
    assert asked == []
    assert found.as_it_came(3, 0).value == b"3/0"
    assert found.as_it_came(3, 0).timestamp_ms == 5
    assert asked == [(0, 1, 2, 5)]


# --- an intake --------------------------------------------------------------------------------------------------------


def test_an_intake_begins_once_it_is_chosen_and_knows_the_positions() -> None:
    intake = IntakeMachine(Rotation())
    assert said(intake.on_chosen()) == []
    assert not intake.active
    list(intake.on_record(Topic.POSITIONS, 0, 0, Positions({(0, 1): SourcePosition(5, 2, 0)})))
    assert intake.active
    assert intake.sources()[0, 1].offset == 5


def test_the_inputs_are_shared() -> None:
    shares = [[IntakeMachine(Rotation(at, 3)).reads_input(s, p) for s in range(2) for p in range(4)] for at in range(3)]
    assert np.array(shares).sum(axis=0).tolist() == [1] * 8


def test_each_block_begins_where_the_last_one_ended() -> None:
    intake = begun(Rotation(1, 2), p1=SourcePosition(5, 2, 0))
    found = said(intake.on_rows(0, 1, rows((5, 0), (5, 1), (6, 0), end=7)))
    found += said(intake.on_rows(0, 1, rows((9, 0), end=10)))
    assert [(block.first, block.end) for block in found] == [((5, 0), (7, 0)), ((7, 0), (10, 0))]
    assert {action.partition for action in intake.on_rows(0, 1, rows((12, 0), end=13))} == {1}
    assert intake.sources()[0, 1].offset == 13


def test_an_intake_waits_for_a_router_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "AHEAD_ROWS_MAX", 2)
    intake = begun()
    assert intake.wants_rows(0, 0)
    said(intake.on_rows(0, 0, rows((0, 0), (1, 0), end=2)))
    assert not intake.wants_rows(0, 0)
    assert intake.wants_rows(0, 1), "another input isn't held up"
    list(intake.on_record(Topic.POSITIONS, 0, 1, Positions({(0, 0): SourcePosition(2, 0, 0)})))
    assert intake.wants_rows(0, 0)


def test_a_block_that_was_taken_before_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "AHEAD_ROWS_MAX", 1)
    intake = begun(p0=START)
    list(intake.on_record(Topic.POSITIONS, 0, 1, Positions({(0, 0): SourcePosition(9, 0, 0)})))
    said(intake.on_rows(0, 0, rows((0, 0), (1, 0), end=2)))
    assert intake.wants_rows(0, 0)


def test_the_end_of_an_input_is_said_once() -> None:
    intake = begun()
    assert said(intake.on_position(0, 0, 4)) == [InputEnd(0, 0, 4)]
    assert said(intake.on_position(0, 0, 4)) == []
    assert said(intake.on_position(0, 0, 6)) == [InputEnd(0, 0, 6)]


# --- a router's rows of blocks ----------------------------------------------------------------------------------------


class RouterOfRows(InputMachine):
    """Takes rows while it wants them; `wants`: by input, by default all."""

    def __init__(self) -> None:
        self.active = False
        self.state: SourceState = {}
        self.taken: list[str] = []
        self.unwanted: set[tuple[int, int]] = set()

    is_lingering = False

    def sources(self) -> SourceState:
        return self.state

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        self.inputs = inputs

    def wants_rows(self, stream: int, partition: int) -> bool:
        return (stream, partition) not in self.unwanted

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        self.taken += rows.keys.to_pylist()
        yield from ()

    def on_table(self, version: TableRows) -> Iterator[Action]:
        yield from ()

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None: ...

    def doubts_end(self, stream: int, partition: int) -> bool:
        return False

    def on_record(self, topic: Topic, partition: int, offset: int, record: object) -> Iterator[Action]:
        if record == "activate":
            self.active = True
        elif record is not None:
            yield Emit(Topic.FRAMES, 0, record)


class Blocks:
    """A router's rows of blocks; offsets of the blocks' partition 0 count up."""

    def __init__(self, state: SourceState | None = None) -> None:
        self.router = RouterOfRows()
        self.router.state = state or {}
        self.rows = BlockRows(self.router, lambda *_: lambda *_: Came(b"", None, (), None))
        self.rows.on_inputs([(0, 0), (0, 1)])
        self.offset = 0

    def activate(self) -> None:
        said(self.rows.on_record(Topic.FRAMES, 0, 0, "activate"))

    def block(self, partition: int, first: tuple[int, int], *places: tuple[int, int], end: int) -> None:
        for block in blocks_of(0, partition, first, rows(*places, end=end)):
            self.give(block)

    def give(self, record: Block | InputEnd) -> None:
        said(self.rows.on_record(Topic.BLOCKS, 0, self.offset, record))
        self.offset += 1

    def trims(self, frame_id: int) -> list[Trim]:
        return self.rows.on_result_position(ResultPosition(frame_id, 0))


def test_rows_wait_until_the_router_is_active() -> None:
    there = Blocks({(0, 0): SourcePosition(1, 0, 0)})
    there.block(0, (0, 0), (0, 0), (1, 0), end=2)
    assert there.router.taken == []
    there.activate()
    assert there.router.taken == ["1:0"]


def test_a_row_is_taken_once_whatever_comes_twice() -> None:
    there = Blocks()
    there.activate()
    there.block(0, (0, 0), (0, 0), (1, 0), end=2)
    there.block(0, (0, 0), (0, 0), (1, 0), end=2)
    there.block(0, (1, 0), (1, 0), (2, 0), (2, 1), end=3)
    there.block(0, (3, 0), (3, 0), end=4)
    assert there.router.taken == ["0:0", "1:0", "2:0", "2:1", "3:0"]


def test_a_block_that_leaves_rows_out_ends_the_life() -> None:
    there = Blocks()
    there.activate()
    with pytest.raises(Retryable, match=r"begins at \(2, 0\), and rows from \(0, 0\) on are missing"):
        there.block(0, (2, 0), (2, 0), end=3)


def test_an_input_that_is_not_wanted_holds_up_no_other() -> None:
    there = Blocks()
    there.activate()
    there.router.unwanted = {(0, 0)}
    there.block(0, (0, 0), (0, 0), end=1)
    there.block(1, (0, 0), (0, 0), end=1)
    assert there.router.taken == ["0:0"]
    assert not there.rows.is_lingering
    there.router.unwanted = set()
    assert there.rows.is_lingering
    said(there.rows.on_time(0))
    assert there.router.taken == ["0:0", "0:0"]


def test_an_input_that_is_not_declared_yet_waits() -> None:
    there = Blocks()
    there.activate()
    there.block(7, (0, 0), (0, 0), end=1)
    assert there.router.taken == []
    there.rows.on_inputs([(0, 7)])
    said(there.rows.on_time(0))
    assert there.router.taken == ["0:0"]


def test_an_input_is_read_to_its_end_once_its_blocks_are_taken() -> None:
    there = Blocks()
    there.activate()
    there.router.unwanted = {(0, 0)}
    there.block(0, (0, 0), (0, 0), end=1)
    there.give(InputEnd(0, 0, 3))
    assert there.rows.taken_to(0, 0) == 0
    there.router.unwanted = set()
    said(there.rows.on_time(0))
    assert there.rows.taken_to(0, 0) == 3, "a gap at the end, such as a transaction's mark, counts as read"


def test_positions_are_written_from_the_claim_on() -> None:
    at = SourcePosition(1, 0, 5)
    there = Blocks({(0, 0): at})
    assert said(there.rows.on_time(0)) == []
    there.activate()
    assert said(there.rows.on_time(0)) == [Positions({(0, 0): at})]
    there.block(0, (1, 0), (1, 0), end=2)
    assert said(there.rows.on_time(POSITIONS_MS - 1)) == []
    (positions,) = said(there.rows.on_time(POSITIONS_MS))
    assert (positions.source[0, 0].offset, positions.source[0, 0].row) == (2, 0)
    assert said(there.rows.on_time(10 * POSITIONS_MS)) == [], "nothing has changed"


def test_blocks_are_trimmed_behind_frames_with_results() -> None:
    there = Blocks()
    there.activate()
    there.block(0, (0, 0), (0, 0), end=1)
    there.give(InputEnd(0, 0, 1))
    there.block(0, (1, 0), (1, 0), end=2)
    there.router.state = {(0, 0): SourcePosition(1, 0, 0)}
    said(there.rows.on_record(Topic.FRAMES, 0, 0, make_frame(frame_id=0, source={(0, 0): SourcePosition(1, 0, 0)})))
    assert there.trims(0) == []
    assert there.trims(1) == [Trim(Topic.BLOCKS, 0, 2)], "the frame may be lost before it has results"


def test_a_router_that_follows_another_forgets_what_is_in_the_log() -> None:
    there = Blocks()
    there.block(0, (0, 0), (0, 0), end=1)
    there.block(0, (1, 0), (1, 0), end=2)
    assert there.rows.state_tuples() == 2
    there.router.state = {(0, 0): SourcePosition(1, 0, 0)}
    assert there.trims(0) == [Trim(Topic.BLOCKS, 0, 1)]
    assert there.rows.state_tuples() == 1


def test_what_waits_is_as_old_as_its_first_row_in_no_frame() -> None:
    there = Blocks()
    there.block(0, (0, 0), (0, 0), end=1)
    there.block(0, (1, 0), (1, 0), end=2)
    assert there.rows.waits_since_ms() == 100
    there.router.state = {(0, 0): SourcePosition(1, 0, 0)}
    assert there.rows.waits_since_ms() == 101
    there.router.state = {(0, 0): SourcePosition(2, 0, 0)}
    assert there.rows.waits_since_ms() is None
