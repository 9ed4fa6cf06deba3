"""A range of offsets gives the same results each time, and ranges that follow each other give each result once."""

from __future__ import annotations

import itertools
from itertools import chain

import pytest

from spojoin.errors import BadData, ConfigurationError
from spojoin.ports.memory import MemoryLog
from spojoin.spark.source_range import RangeReading, results_of
from spojoin.wire.results import result_messages_json
from tests.support.result_records import messages, result

SOURCE = results_of("q")
#: Written without transactions: what a crash repeats, frames in pieces and without rows, a late record of an old sink.
FRAMES = [
    result(0, [1]),
    result(1, []),
    result(2, [2, 3], end=2, is_last=False),
    result(2, [4], begin=2),
    result(1, []),
    result(2, [2, 3], end=2, is_last=False),
    result(2, [4], begin=2),
    result(3, [5, 6]),
    result(2, [4], begin=2),
    result(4, [7]),
    result(0, [8], generation=2),
    result(5, [9]),
    result(0, [8], generation=2),
    result(1, [10], generation=2),
]
WANTED = [[1], [2, 3], [4], [5, 6], [7], [8], [10]]


def log_of(results):
    log = MemoryLog()
    log.create_topics({SOURCE.topic: 1})
    append(log, messages(results))
    return log


def append(log, records):
    writer = log.writer()
    for record in records:
        writer.append(SOURCE, record.value, tuple(record.headers.items()))
    writer.flush(1)


def values(log, begin, end):
    found = [answer.rows.column("x").to_pylist() for answer in RangeReading(log, SOURCE, begin, end).answers()]
    return [each for each in found if each]


def test_all_that_there_is():
    assert values(log_of(FRAMES), 0, len(FRAMES)) == WANTED


@pytest.mark.parametrize("cuts", list(itertools.combinations(range(len(FRAMES) + 1), 2)))
def test_ranges_that_follow_each_other_give_each_result_once(cuts):
    log, bounds = log_of(FRAMES), [0, *cuts, len(FRAMES)]
    for _ in range(2):
        found = [values(log, begin, end) for begin, end in itertools.pairwise(bounds)]
        assert list(chain(*found)) == WANTED


def test_a_range_far_behind_the_beginning():
    count = 1_000
    log = log_of([result(frame, [frame]) for frame in range(count)])
    found = [values(log, begin, begin + 100) for begin in range(0, count, 100)]
    assert list(chain(*found)) == [[frame] for frame in range(count)]


def test_more_repetition_than_can_be_told_is_an_error_and_not_a_wrong_result():
    log = log_of([result(frame, [frame]) for frame in (*range(100), *range(50), *range(50, 110))])
    assert list(chain(*values(log, 0, 210))) == list(range(110))
    with pytest.raises(BadData, match=r"q.results repeats more results before offset 150 .* with transactions"):
        values(log, 0, 150)


def test_results_that_are_missing():
    log = log_of([result(0, [1]), result(1, [2], end=2, is_last=False), result(2, [3])])
    with pytest.raises(BadData, match=r"before offset 2 .* expected frame 1 from position 2 .* found frame 2 from 0"):
        values(log, 0, 3)
    with pytest.raises(BadData, match="results are missing before offset 2"):
        values(log, 2, 3)


def test_results_that_were_deleted():
    log = log_of(FRAMES)
    log.trim(SOURCE, 5)
    with pytest.raises(BadData, match=r"from offset 3 to 5 were deleted before they were read"):
        values(log, 3, 7)
    assert values(log, 7, len(FRAMES)) == [[5, 6], [7], [8], [10]]


def test_results_that_are_deleted_while_a_reading_begins():
    class Trimmed(MemoryLog):
        asked = 0

        def bounds(self, source):
            found = super().bounds(source)
            self.asked += 1
            if self.asked == 2:
                self.trim(source, 7)
            return found

    log = Trimmed()
    log.create_topics({SOURCE.topic: 1})
    append(log, messages(FRAMES))
    with pytest.raises(BadData, match=r"from offset 3 to 7 were deleted"):
        values(log, 3, 9)


def test_a_topic_that_is_shorter_than_the_range():
    with pytest.raises(BadData, match="was made anew"):
        values(log_of(FRAMES[:3]), 5, 6)


def test_another_form_is_refused():
    log = MemoryLog()
    log.create_topics({SOURCE.topic: 1})
    append(log, result_messages_json(result(0, [])))
    with pytest.raises(ConfigurationError, match=r"are application/json: .* results_format frames"):
        values(log, 0, 1)
