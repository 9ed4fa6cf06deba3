"""Planted bugs in the way of rows through intakes (rule P23); seeds must find each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from unittest.mock import patch
from weakref import WeakKeyDictionary

from loadgen.simulate.mutants import Mutant, Patches, planted
from spojoin.protocol import blocks
from spojoin.protocol.blocks import Originals, rows_of
from spojoin.protocol.machine import Action
from spojoin.protocol.topology import Topic
from spojoin.roles.intake.machine import InputAhead, IntakeMachine
from spojoin.roles.router import block_rows
from spojoin.roles.router.block_rows import BlockRows, Settlement
from spojoin.roles.router.physical_input import rows_where
from spojoin.wire.records import Block, Frame, Place, Rows

BLOCK_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, BLOCK_MUTANTS)


@_mutant("block-taken-twice", "a router takes the whole of a block of which it has taken rows before")
def _block_taken_twice() -> Patches:
    return [patch.object(block_rows, "rows_behind", lambda rows, _: rows)]


@_mutant("input-of-no-intake", "of several intakes none reads some of the inputs")
def _input_of_no_intake() -> Patches:
    def reads(self: IntakeMachine, stream: int, partition: int) -> bool:
        return self._share.at == stream + partition

    return [patch.object(IntakeMachine, "reads_input", reads)]


@_mutant("intake-begins-behind", "an intake begins with the message behind those that the router has taken")
def _intake_begins_behind() -> Patches:
    begin = IntakeMachine._begin_if_ready

    def behind(self: IntakeMachine) -> None:
        begin(self)
        if not self._inputs:
            self._starts = {key: replace(at, offset=at.offset + 1) for key, at in (self._taken or {}).items()}

    return [patch.object(IntakeMachine, "_begin_if_ready", behind)]


@_mutant(
    "blocks-trimmed-behind-frames", "blocks are trimmed once their rows are in frames, which the log may never hold"
)
def _blocks_trimmed_behind_frames() -> Patches:
    def at_once(self: Settlement, frame: Frame) -> None:
        self.settled = frame.source

    return [patch.object(Settlement, "note_frame", at_once)]


@_mutant("intake-behind-its-block", "an intake continues each block one message behind its end")
def _intake_behind_its_block() -> Patches:
    add = InputAhead.add_block

    def behind(self: InputAhead, end: Place, rows: int) -> None:
        add(self, (end[0] + 1, 0), rows)

    return [patch.object(InputAhead, "add_block", behind)]


@_mutant("rows-late-by-an-intake", "an intake leaves out rows that are earlier than others that it has read")
def _rows_late_by_an_intake() -> Patches:
    on_rows, high = IntakeMachine.on_rows, WeakKeyDictionary[IntakeMachine, int]()

    def strict(self: IntakeMachine, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        if rows.times_us is not None and len(rows):
            latest = high.get(self, int(rows.times_us[0]))
            high[self] = max(latest, int(rows.times_us.max()))
            rows = rows_where(rows, rows.times_us >= latest - 1_000_000)
        return on_rows(self, stream, partition, rows)

    return [patch.object(IntakeMachine, "on_rows", strict)]


@_mutant("part-of-a-message-ends-it", "a block that ends within a message counts as ending behind it")
def _part_of_a_message_ends_it() -> Patches:
    def whole(block: Block, originals: Originals) -> Rows:
        rows = rows_of(block, originals)
        return replace(rows, next_offset=rows.next_offset + (rows.next_row > 0), next_row=0)

    return [patch.object(block_rows, "rows_of", whole)]


@_mutant("part-of-a-message-begins-it", "a block that ends within a message counts as ending before it")
def _part_of_a_message_begins_it() -> Patches:
    return [
        patch.object(block_rows, "rows_of", lambda block, originals: replace(rows_of(block, originals), next_row=0))
    ]


@_mutant("promise-before-its-rows", "each part of what was read at once has the promise that holds behind all of it")
def _promise_before_its_rows() -> Patches:
    make = blocks._block

    def promising(stream: int, partition: int, first: Place, behind: Place, rows: Rows, part: slice) -> Block:
        made = make(stream, partition, first, behind, rows, part)
        return made if rows.heartbeat_us is None else replace(made, heartbeat_us=rows.heartbeat_us)

    return [patch.object(blocks, "_block", promising)]


@_mutant("left-out-rows-counted", "rows of a block count up also where rows between them were left out")
def _left_out_rows_counted() -> Patches:
    return [patch.object(blocks, "_first_if_counted", lambda rows, _offsets: rows[:1])]


@_mutant("refused-left-out", "dead letters of blocks are left out")
def _refused_left_out() -> Patches:
    return [patch.object(block_rows, "rows_of", lambda block, originals: replace(rows_of(block, originals), dead=[]))]


@_mutant("input-holds-up-another", "blocks of one input wait until the router wants those of another before them")
def _input_holds_up_another() -> Patches:
    def wants(self: BlockRows, topic: Topic, partition: int) -> bool:
        if topic is Topic.BLOCKS:
            return self.active and not any(self._held.values())
        return topic is Topic.POSITIONS or self._inputs.wants(topic, partition)

    return [patch.object(BlockRows, "wants", wants)]
