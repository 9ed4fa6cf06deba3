"""Planted bugs in the partitions of the results (rule P20); seeds must find each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from loadgen.simulate import world
from loadgen.simulate.mutants import Mutant, Patches, planted
from loadgen.simulate.world import World
from spojoin.arrays import I64
from spojoin.protocol.machine import Action, Emit, ResultPosition, Trim
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.topology import Topic
from spojoin.roles.sink import key_share
from spojoin.roles.sink.machine import SinkMachine
from spojoin.roles.sink.pairs import Answers
from spojoin.wire.records import Record
from spojoin.wire.result_merge import ResultMerge
from spojoin.wire.results import ResultProgress

SINK_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, SINK_MUTANTS)
#: Planted bugs where keys divide the rows of statements.
KEYED_RESULTS_MUTANTS: dict[str, Mutant] = {}
_keyed_mutant = partial(planted, KEYED_RESULTS_MUTANTS)
#: Planted bugs where a generation changes the number of partitions.
CHANGED_SINKS_MUTANTS: dict[str, Mutant] = {}
_changed_mutant = partial(planted, CHANGED_SINKS_MUTANTS)


@_mutant("frame-of-two-sinks", "every fifth frame is answered by a second sink")
def _frame_of_two_sinks() -> Patches:
    has = ResultPartition.has

    def also(self: ResultPartition, frame_id: int) -> bool:
        return has(self, frame_id) or (frame_id % 5 == 4 and has(self, frame_id + 1))

    return [patch.object(ResultPartition, "has", also)]


@_mutant("frame-of-no-sink", "of several sinks none answers every fifth frame")
def _frame_of_no_sink() -> Patches:
    has = ResultPartition.has
    return [
        patch.object(
            ResultPartition, "has", lambda self, frame: has(self, frame) and (self.count == 1 or frame % 5 < 4)
        )
    ]


@_mutant("sink-writes-into-the-first", "all sinks write into the first partition")
def _sink_writes_into_the_first() -> Patches:
    on_record = SinkMachine.on_record

    def first(self: SinkMachine, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        for action in on_record(self, topic, partition, offset, record):
            yield action._replace(partition=0) if isinstance(action, Emit) else action

    return [patch.object(SinkMachine, "on_record", first)]


@_mutant("positions-mixed-up", "a sink takes the end of the next one's partition for that of its own")
def _positions_mixed_up() -> Patches:
    def other(self: World, sink: int) -> ResultPosition:
        return self.results.owed[(sink + 1) % len(self.results.owed)]

    return [patch.object(World, "_out_in", other)]


@_mutant("position-of-one-partition", "everyone takes how far the first partition is for how far the results are out")
def _position_of_one_partition() -> Patches:
    return [patch.object(world, "out_everywhere", lambda owed: owed[0])]


@_mutant("position-of-the-fastest", "everyone goes on from, and trims behind, the partition that is ahead")
def _position_of_the_fastest() -> Patches:
    return [patch.object(world, "out_everywhere", max)]


@_mutant("sink-trims-behind-itself", "the sink that trims looks at its own results alone")
def _sink_trims_behind_itself() -> Patches:
    def trims(self: SinkMachine, result_position: ResultPosition) -> list[Trim]:
        self._skip_to(result_position)
        own = ResultPosition(self._next_frame, self._position)
        return [] if self._trimming is None else self._trimming.trims_behind(own)

    return [patch.object(SinkMachine, "on_result_position", trims)]


@_mutant("reader-takes-what-is-there", "a reader of several partitions waits for none of them")
def _reader_takes_what_is_there() -> Patches:
    take = ResultMerge.take

    def hasty(self: ResultMerge[Any], partition: int, progress: ResultProgress, item: Any) -> None:  # noqa: ANN401
        take(self, partition, progress, item)
        self._generation, self._frame, self._sinks = progress.generation, progress.frame_id, progress.sinks

    return [patch.object(ResultMerge, "take", hasty)]


@_keyed_mutant("frame-of-all-keys", "every third frame has all rows in each partition")
def _frame_of_all_keys() -> Patches:
    own = SinkMachine._own

    def all_rows(self: SinkMachine, frame_id: int, answers: Answers) -> Answers:
        if self._key is None or frame_id % 3 < 2 or answers.probes is None:
            return own(self, frame_id, answers)
        return replace(answers, numbers=key_share._numbers(answers.probes))

    return [patch.object(SinkMachine, "_own", all_rows)]


@_keyed_mutant("row-without-a-key-lost", "a row without a key is in no partition")
def _row_without_a_key_lost() -> Patches:
    chosen = key_share.partitions_of_keys

    def of_keys(keys: Sequence[bytes | None], count: int, frame_id: int) -> I64:
        return np.where([key is None for key in keys], -1, chosen(keys, count, frame_id))

    return [patch.object(key_share, "partitions_of_keys", of_keys)]


@_keyed_mutant("key-moves", "a key's rows are in another partition from the fifth frame on")
def _key_moves() -> Patches:
    chosen = key_share.partitions_of_keys

    def of_keys(keys: Sequence[bytes | None], count: int, frame_id: int) -> I64:
        return (chosen(keys, count, frame_id) + (frame_id >= 5)) % count

    return [patch.object(key_share, "partitions_of_keys", of_keys)]


@_keyed_mutant("rows-numbered-by-partition", "each partition numbers its own rows of an answer")
def _rows_numbered_by_partition() -> Patches:
    own = SinkMachine._own

    def numbered(self: SinkMachine, frame_id: int, answers: Answers) -> Answers:
        found = own(self, frame_id, answers)
        if self._key is None or found.probes is None:
            return found
        return replace(found, numbers=key_share._numbers(found.probes))

    return [patch.object(SinkMachine, "_own", numbered)]


@_keyed_mutant("reader-takes-some-rows", "a reader takes what is there of a frame whose rows are divided")
def _reader_takes_some_rows() -> Patches:
    return [patch.object(ResultMerge, "_is_past", lambda *_: True)]


@_changed_mutant("sinks-of-the-first-generation", "a sink shares the frames as the first generation's sinks did")
def _sinks_of_the_first_generation() -> Patches:
    make, counts = SinkMachine.__init__, []

    def as_before(self: SinkMachine, *given: Any, share: ResultPartition = WHOLE, **named: Any) -> None:  # noqa: ANN401
        counts.append(share.count)
        make(self, *given, share=replace(share, count=max(counts[0], share.number + 1)), **named)

    return [patch.object(SinkMachine, "__init__", as_before)]


@_changed_mutant("generation-ends-by-one-partition", "a generation hands over once the results of one sink are out")
def _generation_ends_by_one_partition() -> Patches:
    return [patch.object(world, "out_everywhere", max)]


@_changed_mutant("reader-keeps-the-number", "a reader takes each generation's results for those of as many partitions")
def _reader_keeps_the_number() -> Patches:
    go = ResultMerge._go_to_first

    def kept(self: ResultMerge[Any]) -> bool:
        before = self._sinks
        found = go(self)
        self._sinks = before or self._sinks
        return found

    return [patch.object(ResultMerge, "_go_to_first", kept)]
