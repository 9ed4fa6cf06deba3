"""Finding how far results are out, while another sink writes on."""

from __future__ import annotations

from collections.abc import Sequence

from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import ManualClock, MemoryLog, MemoryReader
from spojoin.protocol.machine import ResultPosition
from spojoin.runtime.result_position import ResultsEnd, position_of_results
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
    message = result_to_message(result(frame_id, 0, 4))
    log.writer().append(RESULTS, message.value, message.headers)


def test_the_end_is_found_while_results_go_on():
    log, clock = MemoryLog[bytes](), ManualClock()
    log.create_topics({RESULTS.topic: 1})
    for frame_id in range(10):
        write(log, frame_id)
    tail = ResultsEnd(log, Growing(log, clock), RESULTS)
    tail.find(TIMEOUT_S, clock)
    assert not tail.is_reading
    assert position_of_results(tail.furthest) >= ResultPosition(10, 0)
