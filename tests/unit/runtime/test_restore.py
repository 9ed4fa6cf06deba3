"""Where a query goes on after topics were lost: from its results, over memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.runtime import restore
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.restore import ALIKE, Restoration, place_in_copy, results_so_far
from spojoin.wire.records import SourcePosition, Takeover
from spojoin.wire.results import result_to_message
from tests.support.runtime_world import FRAMES, GENERATIONS, QUERY, RESULTS, result

INPUT = LogPartition("in.trips", 0)


@pytest.fixture(autouse=True)
def no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "HANDOVER_S", 0.0)


def takeover(frame_id: int, generation: int = 1) -> Takeover:
    """What stands behind a frame of ten rows, as all are here."""
    end = 10 * (frame_id + 1)
    source = {(0, 0): SourcePosition(end, 0, 0)}
    return Takeover(generation + 1, generation, source, (end,), {}, lateness_us=0, numbered=end)


def log_with(*frames: int, rows: int = 100, generation: int = 1, position: int | None = None) -> MemoryLog[bytes]:
    """An input, results of some frames, and of a further one up to a position."""
    log: MemoryLog[bytes] = MemoryLog(ManualClock())
    log.create_topics({topic.topic: 1 for topic in (INPUT, RESULTS, FRAMES)})
    for number in range(rows):
        log.writer().append(INPUT, b"%d" % number)
    made = [replace(result(each, 0, 10), behind=takeover(each, generation), generation=generation) for each in frames]
    if position is not None:
        made.append(replace(result(frames[-1] + 1, 0, position, is_last=False), generation=generation))
    for each in made:
        message = result_to_message(each)
        log.writer().append(RESULTS, message.value, tuple(message.headers.items()))
    return log


def test_the_last_result_says_where_the_next_generation_begins():
    log = log_with(0, 1, 2)
    begun = Restoration(log, QUERY, {}).begin()
    assert (begun.generation, begun.source, begun.again, begun.emptied) == (2, {"in.trips/0": "30"}, 0, ())
    found = GenerationsTopic(log, "q").read()
    assert (found.current_number, found.takeover) == (2, takeover(2))


def test_generations_that_are_forgotten_are_announced_again():
    log = log_with(4, generation=3)
    assert Restoration(log, QUERY, {}).begin().generation == 4
    found = GenerationsTopic(log, "q").read()
    assert (found.current_number, found.next_number, found.takeover) == (4, 5, takeover(4, 3))


def test_answers_that_would_come_again_are_refused_until_they_are_accepted():
    log = log_with(0, 1, position=7)
    with pytest.raises(ConfigurationError, match=r"up to 7 answers would come twice.*--answers-again"):
        Restoration(log, QUERY, {}).begin()
    assert not log.partitions(GENERATIONS.topic)
    assert Restoration(log, QUERY, {}).begin(accepts_again=True).again == 7


def test_an_input_that_ends_before_its_place_is_taken_from_its_beginning():
    begun = Restoration(log_with(0, 1, 2, rows=29), QUERY, {}).begin()
    assert (begun.source, begun.emptied) == ({}, ("in.trips/0",))


def test_results_that_still_move_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    log = log_with(0, 1)
    ends = iter([results_so_far(log, QUERY), results_so_far(log_with(0, 1, 2), QUERY)])
    monkeypatch.setattr(restore, "results_so_far", lambda _log, _query: next(ends))
    with pytest.raises(ConfigurationError, match="still move"):
        Restoration(log, QUERY, {}).begin()
    assert GenerationsTopic(log, "q").read().current_number == 1


def test_the_end_is_found_behind_many_messages_that_say_nothing():
    log = log_with(0, *[])
    for _ in range(restore.LOOK_RECORDS * 20):
        message = result_to_message(replace(result(1, 0, 1, is_last=False)))
        log.writer().append(RESULTS, message.value, tuple(message.headers.items()))
    ended = results_so_far(log, QUERY)
    assert ended.takeover == takeover(0)
    assert ended.last is not None
    assert (ended.last.frame_id, ended.last.position) == (1, 1)


def copy_of(*parts: range) -> MemoryLog[bytes]:
    log: MemoryLog[bytes] = MemoryLog(ManualClock())
    log.create_topics({INPUT.topic: 1})
    for number in (number for part in parts for number in part):
        log.writer().append(INPUT, b"%d" % number, timestamp_ms=number)
    return log


@pytest.mark.parametrize(
    ("first", "end", "place", "found"), [(0, 900, 500, 500), (200, 900, 500, 300), (400, 500, 500, 100)]
)
def test_a_message_is_found_in_a_copy_by_those_before_it(first: int, end: int, place: int, found: int):
    old = copy_of(range(900))
    old.trim(INPUT, max(first, place - ALIKE))
    assert place_in_copy(old, copy_of(range(first, end)), INPUT, place) == found


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([range(499)], "doesn't hold"),
        ([range(300), range(310, 900)], "doesn't hold"),
        ([range(500), range(100, 500)], "2 times"),
    ],
)
def test_a_copy_that_lacks_them_or_has_them_twice_is_refused(parts: list[range], sentence: str):
    with pytest.raises(ConfigurationError, match=sentence):
        place_in_copy(copy_of(range(900)), copy_of(*parts), INPUT, 500)


def log_by_key(*ends: tuple[int, int, bool]) -> MemoryLog[bytes]:
    """An input, and two partitions with rows by key: of each, the last frame, how far it has it, and if that is all."""
    log: MemoryLog[bytes] = MemoryLog(ManualClock())
    log.create_topics({INPUT.topic: 1, RESULTS.topic: 2, FRAMES.topic: 1})
    for number in range(200):
        log.writer().append(INPUT, b"%d" % number)
    for partition, (last, end, is_last) in enumerate(ends):
        made = [replace(result(each, 0, 10), behind=takeover(each)) for each in range(last)]
        made.append(replace(result(last, 0, end, is_last=is_last), behind=takeover(last) if is_last else None))
        for each in made:
            message = result_to_message(replace(each, sinks=2, numbers=np.zeros(each.rows.num_rows, np.int64)))
            log.writer().append(LogPartition(RESULTS.topic, partition), message.value, tuple(message.headers.items()))
    return log


def test_partitions_by_key_begin_behind_the_frame_that_all_have():
    assert Restoration(log_by_key((2, 10, True), (2, 10, True)), QUERY, {}).begin().source == {"in.trips/0": "30"}
    log = log_by_key((3, 6, False), (2, 4, False))
    with pytest.raises(ConfigurationError, match="up to 16 answers would come twice"):
        Restoration(log, QUERY, {}).begin()
    assert Restoration(log, QUERY, {}).begin(accepts_again=True).source == {"in.trips/0": "20"}


def log_of_sinks(*frames: int) -> MemoryLog[bytes]:
    """An input, and results of some frames in two partitions."""
    log: MemoryLog[bytes] = MemoryLog(ManualClock())
    log.create_topics({INPUT.topic: 1, RESULTS.topic: 2, FRAMES.topic: 1})
    for number in range(200):
        log.writer().append(INPUT, b"%d" % number)
    for each in frames:
        message = result_to_message(replace(result(each, 0, 10), behind=takeover(each), sinks=2))
        target = LogPartition(RESULTS.topic, each % 2)
        log.writer().append(target, message.value, tuple(message.headers.items()))
    return log


def test_of_several_partitions_the_next_generation_begins_behind_the_last_frame_before_which_all_are_out():
    log = log_of_sinks(0, 1, 3, 2)
    assert Restoration(log, QUERY, {}).begin().source == {"in.trips/0": "40"}
    found = GenerationsTopic(log, "q").read()
    assert (found.takeover, found.announced(2).sinks) == (takeover(3), 2)


def test_answers_of_a_partition_that_is_ahead_would_come_again():
    log = log_of_sinks(0, 1, 3, 5)
    with pytest.raises(ConfigurationError, match="up to 20 answers would come twice"):
        Restoration(log, QUERY, {}).begin()
    begun = Restoration(log, QUERY, {}).begin(accepts_again=True)
    assert (begun.source, begun.again) == ({"in.trips/0": "20"}, 20)
