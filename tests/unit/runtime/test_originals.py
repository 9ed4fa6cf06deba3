"""Rows as they came of messages that are read again, and the ends of inputs whose rows come in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.runtime.feeds import ASK_MS, InputEnds
from spojoin.runtime.originals import OriginalMessages
from spojoin.wire.records import Came, Rows, nothing_came

SOURCE = LogPartition("in.trips", 0)


@pytest.fixture
def log() -> MemoryLog[bytes]:
    made = MemoryLog[bytes]()
    made.create_topics({SOURCE.topic: 1})
    writer = made.writer()
    for number in range(5):
        writer.append(SOURCE, f"row {number}".encode())
    return made


def parse(stream: int, partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
    none = np.empty(0, np.int64)
    values = {record.offset: record.value for record in records}
    return Rows(
        none, none, 0, (), None, pa.array([]), none, as_it_came=lambda offset, _: Came(values[offset], None, (), None)
    )


def test_messages_are_read_again_by_their_offsets(log: MemoryLog[bytes]) -> None:
    originals = OriginalMessages(parse)
    originals.open(log, [SOURCE.topic])
    assert originals(0, 0, 1, 3)(2, 0).value == b"row 2"
    assert originals(0, 0, 0, 1)(0, 0).value == b"row 0"
    originals.close()


def test_messages_that_are_gone_have_nothing(log: MemoryLog[bytes]) -> None:
    log.trim(SOURCE, 3)
    originals = OriginalMessages(parse)
    originals.open(log, [SOURCE.topic])
    assert originals(0, 0, 0, 2)(1, 0) == nothing_came(1, 0)
    found = originals(0, 0, 2, 4)
    assert found(2, 0) == nothing_came(2, 0)
    assert found(3, 0).value == b"row 3"


@dataclass
class Machine:
    """Notes what is said of its input's end."""

    taken: int | None = 0
    doubts: bool = False
    active: bool = True
    ended: list[bool] = field(default_factory=list)

    def on_inputs(self, inputs: list[tuple[int, int]]) -> None:
        self.inputs = inputs

    def taken_to(self, stream: int, partition: int) -> int | None:
        return self.taken

    def doubts_end(self, stream: int, partition: int) -> bool:
        return self.doubts

    def on_input_end(self, stream: int, partition: int, *, ended: bool = True) -> None:
        self.ended.append(ended)


def test_an_input_is_at_its_end_once_all_up_to_it_is_taken(log: MemoryLog[bytes]) -> None:
    machine, clock = Machine(), ManualClock()
    ends = InputEnds(log, machine, [SOURCE.topic], clock)
    ends.refresh()
    assert machine.inputs == [(0, 0)]
    list(ends.give_rows())
    machine.taken = 5
    list(ends.give_rows())
    assert machine.ended == [False, True]
    assert not ends.has_work()


def test_an_end_is_looked_up_again_before_the_input_counts_as_idle(log: MemoryLog[bytes]) -> None:
    machine, clock = Machine(taken=5), ManualClock()
    ends = InputEnds(log, machine, [SOURCE.topic], clock)
    ends.refresh()
    list(ends.give_rows())
    log.writer().append(SOURCE, b"one more")
    machine.doubts = True
    list(ends.give_rows())
    assert machine.ended == [True], "it was looked up a moment ago"
    clock.sleep(ASK_MS / 1_000)
    list(ends.give_rows())
    assert machine.ended == [True, False]
