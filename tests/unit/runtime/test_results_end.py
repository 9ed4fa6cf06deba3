"""Finding how far results are out, while another sink writes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spojoin.errors import Stop
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import ManualClock, MemoryLog, MemoryReader
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.result_partitions import partitions_of
from spojoin.runtime.result_position import ResultsEnds
from spojoin.wire.records import Result
from spojoin.wire.results import result_to_message
from tests.support.runtime_world import result

RESULTS = LogPartition("q.results", 0)
TIMEOUT_S = 1.0


class Growing(MemoryReader[bytes]):
    """Each record that is read is followed by another one, so that no end is ever seen."""

    def __init__(self, log: MemoryLog[bytes], clock: ManualClock) -> None:
        super().__init__(log)
        self._clock = clock

    def poll(self, records_max: int, timeout_s: float) -> Sequence[LogRecord[bytes]]:
        self._clock.sleep(timeout_s)
        found = super().poll(1, timeout_s)
        write(self._log, self._log.end(RESULTS))
        return found


def write(log: MemoryLog[bytes], frame_id: int) -> None:
    append(log, result(frame_id, 0, 4), 0)


def append(log: MemoryLog[bytes], record: Result, partition: int) -> None:
    message = result_to_message(record)
    log.writer().append(LogPartition(RESULTS.topic, partition), message.value, tuple(message.headers.items()))


def test_the_end_is_found_while_results_go_on():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 1})
    for frame_id in range(10):
        write(log, frame_id)
    tails = ResultsEnds(log, Growing(log, clock), RESULTS.topic)
    tails.find(TIMEOUT_S, clock)
    assert not tails.is_reading
    assert min(tails.owed) >= ResultPosition(10, 0)


def test_results_are_out_as_far_as_in_the_partition_that_lacks_the_earliest():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 3})
    for frame_id in (0, 3, 6, 2):
        append(log, replace(result(frame_id, 0, 4), sinks=3), frame_id % 3)
    tails = ResultsEnds(log, log.reader(), RESULTS.topic, shares=partitions_of(3))
    tails.find(TIMEOUT_S, clock)
    assert tails.owed == [ResultPosition(9, 0), ResultPosition(1, 0), ResultPosition(5, 0)]


def test_another_number_of_partitions_than_the_announced_one_is_refused():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 2})
    append(log, replace(result(0, 0, 4), sinks=2), 0)
    with pytest.raises(Stop, match="have 2 partitions, but those announced have 1 partition:"):
        ResultsEnds(log, log.reader(), RESULTS.topic).find(TIMEOUT_S, clock)


def by_key(frame_id: int, end: int = 4, *, is_last: bool = True) -> Result:
    """A result of one of two partitions that have rows by key."""
    made = result(frame_id, 0, end, is_last=is_last)
    return replace(made, sinks=2, numbers=np.zeros(made.rows.num_rows, np.int64))


def test_every_frame_is_owed_by_each_partition_that_has_rows_by_key():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 2})
    for frame_id in range(3):
        append(log, by_key(frame_id), 0)
    tails = ResultsEnds(log, log.reader(), RESULTS.topic, shares=partitions_of(2, by_key=True))
    tails.find(TIMEOUT_S, clock)
    assert tails.owed == [ResultPosition(3, 0), ResultPosition(0, 0)]
    append(log, by_key(0, 2, is_last=False), 1)
    tails.find(TIMEOUT_S, clock)
    assert tails.owed == [ResultPosition(3, 0), ResultPosition(0, 2)]


def test_rows_by_key_are_refused_where_frames_are_announced():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 2})
    append(log, by_key(0), 0)
    with pytest.raises(Stop, match="have 2 partitions by key, but those announced have 2 partitions:"):
        ResultsEnds(log, log.reader(), RESULTS.topic, shares=partitions_of(2)).find(TIMEOUT_S, clock)
