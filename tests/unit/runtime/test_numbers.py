"""Numbers continue over generations: rows that are read again take the last numbers of each stream that takes them."""

from __future__ import annotations

import orjson
import pytest

from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.reading.parse import parse_messages
from spojoin.runtime import backfill
from spojoin.runtime.generations import beginning_after
from spojoin.runtime.topics import Topics
from spojoin.wire.records import SourcePosition, Takeover
from tests.support.messages import InputMessage

QUERY = """
name: q
streams: {a: {schema: {x: double, y: double}}}
sql: SELECT * FROM a AS l JOIN a AS r ON CONDITION WINDOW AS (SLIDE INTERVAL '1' ON '3')
"""
ONE = parse_query(QUERY.replace("CONDITION", "l.x < r.x"))
TWO = parse_query(QUERY.replace("CONDITION", "l.x < r.y"))
FILTERED = parse_query(QUERY.replace("CONDITION", "l.x < r.y AND l.x > 2 AND r.y > 5"))
#: x counts up to 9 again and again, y counts down; some x are NULL, so that a row's condition is NULL as the left side.
ROWS = [{"x": n % 10 if n % 7 else None, "y": 9 - n % 10} for n in range(60)]
CUT = 40


def filled(query, how=Backfill.WINDOW):
    log = MemoryLog()
    log.create_topics({"in.a": 1})
    writer = log.writer()
    for row in ROWS:
        writer.append(LogPartition("in.a", 0), orjson.dumps(row), timestamp_ms=0)

    def read(number, partition, records):
        messages = [InputMessage(r.offset, r.timestamp_ms, r.value, r.headers) for r in records]
        return parse_messages(query.inputs[number], query.needs_time, number, partition, messages)

    begun = Beginning(2, 7, {(0, 0): (CUT, 0)}, counts=(100, 90), numbered=110)
    return backfill.fill(backfill.InputHistory(log, ["in.a"], read), query, begun, how)


def sides(row):
    left = row["x"] is not None and row["x"] > 2
    return left, row["y"] > 5


@pytest.mark.parametrize("looked", [1, 5])
def test_a_row_that_is_read_again_counts_in_the_streams_whose_filters_it_passes(looked, monkeypatch):
    monkeypatch.setattr(backfill, "LOOK_RECORDS", looked)
    beginning = filled(FILTERED)
    again = [sides(row) for row in ROWS[beginning.starts[0, 0].offset : CUT]]
    lefts, rights = (sum(own) for own in zip(*again, strict=True))
    assert beginning.first_indexes == (100 - lefts, 90 - rights)
    assert beginning.first_seq == 110 - sum(map(any, again))
    assert min(lefts, rights) >= FILTERED.window.length + FILTERED.window.slide, "each stream's window is full"
    assert len(again) < CUT, "and no more was read than that needs"


def test_rows_with_null_have_numbers_too():
    beginning = filled(TWO)
    again = CUT - beginning.starts[0, 0].offset
    assert beginning.first_indexes == (100 - again, 90 - again)
    assert beginning.first_seq == 110 - again


def test_with_everything_read_again_numbers_begin_at_0():
    beginning = filled(FILTERED, Backfill.EARLIEST)
    assert (beginning.first_indexes, beginning.first_seq) == ((0, 0), 0)


@pytest.mark.parametrize(
    ("before", "counts", "numbered", "now", "expected"),
    [
        (ONE, (50,), 50, TWO, ((50, 50), 50)),
        (ONE, (50,), 0, TWO, ((50, 50), 50)),  # a takeover of an earlier version
        (FILTERED, (30, 20), 40, ONE, ((40,), 0)),
        (FILTERED, (30, 20), 40, TWO, ((30, 20), 40)),
        (ONE, (50,), 50, ONE, ((50,), 0)),
    ],
)
def test_a_query_takes_over_the_counts_of_the_streams_before(before, counts, numbered, now, expected):
    takeover = Takeover(2, 1, {(0, 0): SourcePosition(CUT, 0, 0)}, counts, {}, numbered=numbered)
    begun = beginning_after(Beginning(2), takeover, before, now, {0: 0})
    assert (begun.counts, begun.numbered) == expected
    assert begun.cut == {(0, 0): (CUT, 0)}


def test_a_self_join_of_two_streams_reads_one_topic_and_has_two_of_batches():
    topics = Topics.for_query(FILTERED, 2, {})
    assert topics.inputs == ("in.a",)
    assert len(topics.inputs_of(Topic.BATCHES)) == 2
    assert topics.kept() == {"q.results": 1, "in.a.dlq": 1}
