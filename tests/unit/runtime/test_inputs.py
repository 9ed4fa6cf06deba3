"""The users' inputs on their way into a machine."""

from __future__ import annotations

import pytest

from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.runtime import read_ahead
from spojoin.runtime.feeds import ASK_MS, DISCOVERY_MS
from spojoin.wire.records import SourcePosition
from tests.support.feeding import Feeding


def test_inputs_are_declared_at_once_but_read_only_when_the_machine_is_active():
    test = Feeding(a=2, b=1)
    test.put("a", 0)
    test.turn()
    assert test.machine.declared == [[(0, 0), (0, 1), (1, 0)]]
    assert test.machine.rows == []
    test.machine.active = True
    test.turn()
    assert test.machine.rows == [(0, 0, [0])]


def test_reading_resumes_where_the_log_says_or_else_at_the_earliest():
    test = Feeding(a=2, b=1)
    test.put("a", 0, 5)
    test.put("a", 1, 5)
    test.log.trim(LogPartition("a", 1), 2)
    test.machine.positions = {(0, 0): SourcePosition(3, 0, 0)}
    test.machine.active = True
    test.turn()
    assert sorted(test.machine.rows) == [(0, 0, [3, 4]), (0, 1, [2, 3, 4])]


def test_the_end_of_an_input_is_reported_after_all_its_records():
    test = Feeding(a=1, b=1)
    test.machine.active = True
    test.put("a", 0)
    test.turn()
    assert test.machine.ends == [(1, 0)]
    test.turn()
    assert (0, 0) in test.machine.ends


def test_the_log_is_asked_for_the_end_of_an_input_that_would_be_idle():
    test = Feeding(a=1, b=1)
    test.machine.active = True
    test.machine.doubted = {(1, 0)}
    test.turn()
    assert (1, 0) in test.machine.ends
    test.machine.ends.clear()
    test.put("b", 0)
    list(test.feed.give_rows())
    assert (1, 0) not in test.machine.ends, "the log was asked a moment ago"
    test.clock.now_ms += ASK_MS
    list(test.feed.give_rows())
    assert (1, 0) not in test.machine.ends, "the client has not seen the record, and the log has it"
    test.turn()
    test.clock.now_ms += ASK_MS
    test.turn()
    assert (test.machine.rows, test.machine.ends[-1]) == ([(1, 0, [0])], (1, 0))


def test_an_input_that_is_not_wanted_keeps_its_records():
    test = Feeding(a=1, b=1)
    test.machine.active = True
    test.machine.full = {(0, 0)}
    test.put("a", 0, 3)
    test.put("b", 0, 1)
    test.turn()
    assert test.machine.rows == [(1, 0, [0])]
    assert (0, 0) not in test.machine.ends
    assert not test.feed.has_work()
    test.machine.full = set()
    assert test.feed.has_work()
    test.turn()
    assert test.machine.rows[-1] == (0, 0, [0, 1, 2])


def test_topics_and_partitions_that_come_later_are_found():
    test = Feeding(a=1)
    test.machine.active = True
    test.turn()
    assert test.feed.missing == ["b"]
    test.log.create_topics({"a": 2, "b": 1})
    test.turn()
    assert test.machine.declared == [[(0, 0)]]
    test.clock.sleep(DISCOVERY_MS / 1000)
    test.turn()
    assert test.machine.declared[-1] == [(0, 0), (0, 1), (1, 0)]
    assert test.feed.missing == []
    test.put("a", 1)
    test.turn()
    assert test.machine.rows == [(0, 1, [0])]


def test_a_full_queue_stops_one_input_and_not_the_other(monkeypatch):
    monkeypatch.setattr(read_ahead, "WAITING_RECORDS_MAX", 10)
    test = Feeding(a=1, b=1)
    test.machine.active = True
    test.machine.full = {(0, 0)}
    test.put("a", 0, 100)
    for _ in range(5):
        test.put("b", 0)
        test.turn()
    waiting = test.feed.ahead.waiting[LogPartition("a", 0)]
    assert len(test.machine.rows) == 5
    assert waiting.is_paused
    test.machine.full = set()
    for _ in range(5):
        test.turn()
    offsets = [offset for stream, _, taken in test.machine.rows if stream == 0 for offset in taken]
    assert offsets == list(range(100))


def test_when_all_queues_are_full_nothing_is_read(monkeypatch):
    monkeypatch.setattr(read_ahead, "WAITING_RECORDS_MAX", 10)
    monkeypatch.setattr(read_ahead, "POLL_RECORDS_MAX", 10)
    test = Feeding(a=1)
    test.machine.active = True
    test.machine.full = {(0, 0)}
    test.put("a", 0, 100)
    for _ in range(5):
        test.turn()
    waiting = test.feed.ahead.waiting[LogPartition("a", 0)]
    assert len(waiting.records) == 10
    assert not waiting.is_paused


@pytest.mark.parametrize(
    ("sizes", "records_max", "bytes_max", "taken"),
    [
        ([1, 1, 1], 9, 9, 3),
        ([1, 1, 1], 2, 9, 2),
        ([4, 5, 1], 9, 9, 2),
        ([4, 6, 1], 9, 9, 2),
        ([4, 4, 1, 1], 9, 9, 3),
        ([99, 1], 9, 9, 1),
        ([0, 0, 9, 0], 9, 9, 3),
        ([], 9, 9, 0),
    ],
)
def test_a_piece_ends_with_the_record_that_fills_it(sizes, records_max, bytes_max, taken):
    waiting = read_ahead.WaitingRecords()
    records = [LogRecord(LogPartition("a", 0), at, 0, b"x" * size, ()) for at, size in enumerate(sizes)]
    waiting.add_records(records)
    assert waiting.bytes == sum(sizes)
    assert waiting.take_records(records_max, bytes_max) == (records[:taken], sum(sizes[:taken]))
    assert list(waiting.records) == records[taken:]
    assert waiting.bytes == sum(sizes[taken:])


def test_each_chunk_says_when_its_first_and_last_record_were_produced():
    test = Feeding(a=1, b=0)
    told: list[tuple[int, int]] = []
    test.feed.on_taken = lambda oldest_ms, newest_ms: told.append((oldest_ms, newest_ms))
    test.machine.active = True
    began_ms = test.clock.wall_ms()
    for _ in range(3):
        test.put("a", 0)
        test.clock.sleep(0.010)
    test.turn()
    assert told == [(began_ms, began_ms + 20)]
