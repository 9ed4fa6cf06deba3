"""What a process appends: each role's records by a writer of its own, the next while the last are being settled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spojoin.errors import Fenced
from spojoin.ports.interfaces import Headers, LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.protocol.machine import Emit, ResultPosition
from spojoin.protocol.packing import edge_of
from spojoin.protocol.topology import PACKABLE, Topic
from spojoin.runtime.outbox import BEHIND_MAX, SETTLE_MS_MAX, Outboxes, WriteMode
from spojoin.runtime.service import create_topics
from spojoin.telemetry.metrics import Metrics
from tests.support.runtime_world import FRAMES, RESULTS, TOPICS, barrier, result

IDS = {Topic.RESULTS: "sink"}


class SlowWriter:
    """A memory log's writer whose flushes end when the test says so."""

    def __init__(self, writer, is_done: Callable[[], bool]) -> None:
        self._writer = writer
        self._is_done = is_done
        self._is_begun = False

    def append(self, target: LogPartition, value: bytes, headers: Headers = (), key: bytes | None = None) -> None:
        assert not self._is_begun, "appended during a flush"
        self._writer.append(target, value, headers, key=key)

    def serve(self) -> None:
        self._writer.serve()

    def begin_flush(self, timeout_s: float) -> None:
        self._is_begun = True

    def is_flushed(self) -> bool:
        if self._is_begun and self._is_done():
            self._is_begun = False
            self._writer.flush(1.0)
        return not self._is_begun

    def flush(self, timeout_s: float) -> None:
        assert not self._is_begun
        self._writer.flush(timeout_s)

    def close(self) -> None:
        self._writer.close()


class Desk:
    """Departures of a process with all roles, over a log whose flushes the test ends."""

    def __init__(self, ids: dict[Topic, str] = IDS) -> None:
        self.clock = ManualClock(1_000.0)
        self.log: MemoryLog[bytes] = MemoryLog(self.clock)
        create_topics(self.log, TOPICS)
        self.is_done = False
        writer = self.log.writer
        self.opened: list[str | None] = []

        def open_writer(transactional_id: str | None = None) -> SlowWriter:
            self.opened.append(transactional_id)
            return SlowWriter(writer(transactional_id), lambda: self.is_done)

        self.log.writer = open_writer  # type: ignore[method-assign]
        place = TOPICS, Metrics(), self.clock
        self.departures = Outboxes(self.log, edge_of(PACKABLE), ids, place, WriteMode())

    def results(self) -> int:
        return len(self.log.records(RESULTS))


@pytest.mark.parametrize("is_settling", [False, True])
def test_an_instance_that_speaks_again_loses_nothing_that_it_said_before(is_settling):
    desk = Desk()
    desk.departures.open()
    for frame in range(2):
        desk.departures.emit(Emit(Topic.RESULTS, 0, result(frame, 0, 1)))
        if is_settling:  # and the second waits behind the first
            desk.departures.serve(is_idle=True)
    assert desk.results() == 0
    desk.is_done = True
    desk.departures.open()
    assert desk.results() == 2
    assert desk.opened == [None, "sink", "sink"]


def test_an_instance_that_speaks_again_after_another_starts_over():
    desk = Desk()
    desk.is_done = True
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 1)))
    desk.log.writer("sink")
    with pytest.raises(Fenced):
        desk.departures.open()
    assert desk.results() == 0


def test_writers_that_one_instance_has_alone_open_when_it_speaks():
    desk = Desk()
    assert desk.opened == [None]
    desk.departures.open()
    assert desk.opened == [None, "sink"]


def test_frames_are_in_the_log_while_results_wait_for_their_commit():
    desk = Desk()
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 4)))
    desk.departures.emit(Emit(Topic.FRAMES, 0, barrier(0)))
    assert len(desk.log.records(FRAMES)) == 1
    assert desk.results() == 0


def test_results_that_come_during_a_commit_go_out_with_the_next():
    desk = Desk()
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 4)))
    assert desk.departures.serve(is_idle=True) is None
    assert desk.departures.is_settling()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(1, 0, 4)))
    desk.is_done = True
    assert desk.departures.serve(is_idle=False) == ResultPosition(1, 0)
    assert desk.results() == 1
    desk.clock.sleep(SETTLE_MS_MAX / 1000)
    assert desk.departures.serve(is_idle=False) == ResultPosition(2, 0)
    assert desk.results() == 2


def test_a_busy_machine_settles_after_a_while():
    desk = Desk()
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 4)))
    desk.departures.serve(is_idle=False)
    assert not desk.departures.is_settling()
    desk.clock.sleep(SETTLE_MS_MAX / 1000)
    desk.departures.serve(is_idle=False)
    assert desk.departures.is_settling()


def test_a_machine_waits_where_too_much_is_behind_a_commit():
    desk = Desk()
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 1)))
    desk.departures.serve(is_idle=True)
    for number in range(BEHIND_MAX):
        assert not desk.departures.is_full()
        desk.departures.emit(Emit(Topic.RESULTS, 0, result(1 + number, 0, 1)))
    assert desk.departures.is_full()


@pytest.mark.parametrize("ids", [IDS, {}])
def test_the_end_of_a_process_settles_everything(ids):
    desk = Desk(ids)
    desk.departures.open()
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(0, 0, 4)))
    desk.departures.serve(is_idle=True)
    desk.departures.emit(Emit(Topic.RESULTS, 0, result(1, 0, 4)))
    desk.is_done = True
    assert desk.departures.settle() == ResultPosition(2, 0)
    assert desk.results() == 2
