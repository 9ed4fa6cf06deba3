"""Worker counts in their topic: the newest is valid, and the topic stays small."""

from __future__ import annotations

import pytest

from spojoin.errors import WireError
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition
from spojoin.ports.memory import Fate, ManualClock, MemoryLog
from spojoin.roles.controller.control_topic import ControlTopic
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Barrier, WorkerCount

SOURCE = LogPartition("q.control", 0)


@pytest.fixture
def log():
    made = MemoryLog()
    made.create_topics({SOURCE.topic: 1})
    return made


def control(log):
    return ControlTopic(log, SOURCE, ManualClock())


def held(log):
    return [decode(record.value) for record in log.records(SOURCE)]


def test_before_any_request_there_is_no_count(log):
    assert control(log).refresh() is None


def test_every_reader_sees_a_request(log):
    one, other = control(log), control(log)
    one.request(3)
    assert one.refresh() == other.refresh() == WorkerCount(1, 3)
    other.request(2)
    assert one.refresh() == WorkerCount(2, 2)
    assert control(log).refresh() == WorkerCount(2, 2)


def test_of_equal_versions_the_first_counts(log):
    one, other = control(log), control(log)
    one.request(3)
    other.request(4)
    assert one.refresh() == other.refresh() == WorkerCount(1, 3)


def test_the_topic_keeps_the_last_two(log):
    one = control(log)
    for workers in range(1, 9):
        one.request(workers)
        one.refresh()
    assert held(log) == [WorkerCount(7, 7), WorkerCount(8, 8)]
    assert control(log).refresh() == WorkerCount(8, 8)


def test_a_request_that_was_not_acknowledged_is_an_error(log):
    one = control(log)
    log.fate_of = lambda _: Fate.LOST
    with pytest.raises(AmbiguousAppend):
        one.request(2)


def test_a_record_of_another_kind_is_reported_with_its_offset(log):
    log.writer().append(SOURCE, encode(Barrier(1, "x")))
    with pytest.raises(WireError, match=r"q\.control offset 0 holds a Barrier"):
        control(log).refresh()
