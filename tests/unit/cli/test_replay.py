"""Dead letters are sent again as they came, each once, whatever commands run, and however they end."""

from __future__ import annotations

from collections import Counter

import pytest

from spojoin.cli.replay import LetterChoice, Replay, sentences, would_be_sent
from spojoin.errors import Fenced
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.access import transactional_id
from spojoin.query.load import parse_query
from spojoin.runtime.topics import Topics

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}}, t: {schema: {a: long}}}
sql: SELECT l.a, r.a AS other FROM s AS l JOIN t AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '5' ON '10')
""")
TOPICS = Topics.for_query(QUERY, 1, {})
OWN = (("content-type", b"text/csv"), ("region", b"\xff"), ("empty", None))


class World:
    def __init__(self):
        self.log = MemoryLog()
        self.log.create_topics({"in.s": 2, "in.t": 1, "in.s.dlq": 1, "in.t.dlq": 1})

    def letter(self, topic, value, reason="late", partition=0, **more):
        """A letter of the row `value`, which is its offset as well."""
        said = {"reason": reason, "detail": "why", "source-topic": topic, "source-partition": partition}
        said |= {"source-offset": int(value), "source-row": 1, "source-timestamp-ms": 12, **more}
        headers = (*OWN, *((f"spojoin-{name}", str(each).encode()) for name, each in said.items()))
        writer = self.log.writer()
        writer.append(LogPartition(f"{topic}.dlq", 0), value, headers, 1_000, key=b"k")

    def replay(self, *reasons, **choice):
        return Replay(self.log, TOPICS, LetterChoice(frozenset(reasons), **choice))

    def rows(self, topic="in.s", partition=0):
        return self.log.records(LogPartition(topic, partition))


def quiet(_text):
    pass


def test_a_row_goes_where_it_came_from_as_it_came():
    world = World()
    world.letter("in.s", b"1", partition=1)
    world.letter("in.t", b"2")
    sent = world.replay().run(quiet)
    (row,) = world.rows(partition=1)
    assert (row.value, row.key, row.timestamp_ms) == (b"1", b"k", 12)
    assert row.headers == (*OWN, ("spojoin-replays", b"1"))
    assert [each.value for each in world.rows("in.t")] == [b"2"]
    first, second = sentences(sent, "q.yaml")
    assert first == "2 rows sent again: 2 late"
    assert "no service runs this query" in second


def test_a_second_call_sends_nothing_and_a_third_what_came_since():
    world = World()
    world.letter("in.s", b"1")
    world.replay().run(quiet)
    again = world.replay().run(quiet)
    assert (again.found.chosen, again.found.sent_before) == ([], Counter(late=1))
    assert [*sentences(again, "q")] == ["0 rows sent again", "1 were sent before: 1 late"]
    world.letter("in.s", b"2")
    world.replay().run(quiet)
    assert [each.value for each in world.rows()] == [b"1", b"2"]


def test_reasons_and_time_choose_and_a_dry_run_sends_nothing():
    world = World()
    world.letter("in.s", b"1")
    world.letter("in.s", b"2", "type")
    assert would_be_sent(world.replay("type").found()) == "1 rows would be sent again: 1 type"
    assert world.replay(since_ms=1_001).found().chosen == []
    assert world.rows() == []
    sent = world.replay("type").run(quiet)
    assert [each.value for each in world.rows()] == [b"2"]
    assert sent.found.left == Counter(late=1)


def test_a_row_that_was_refused_again_is_sent_once_more_only_if_asked_to_be():
    world = World()
    world.letter("in.s", b"1", replays=1)
    assert world.replay().found().chosen == []
    world.replay(again=True).run(quiet)
    (row,) = world.rows()
    assert dict(row.headers)["spojoin-replays"] == b"2"


def test_a_row_with_several_letters_is_sent_once():
    world = World()
    for reason in ("late", "type", "type"):
        world.letter("in.s", b"1", reason)
    assert would_be_sent(world.replay().found()) == "1 rows would be sent again: 1 type"
    world.replay("late").run(quiet)
    world.letter("in.s", b"1", "type")
    assert [*sentences(world.replay().run(quiet), "q")] == ["0 rows sent again", "1 were sent before: 1 type"]
    assert [each.value for each in world.rows()] == [b"1"]


def test_rows_at_other_places_are_other_rows():
    world = World()
    world.letter("in.s", b"1")
    world.letter("in.s", b"1", partition=1)
    world.letter("in.s", b"1", **{"source-row": 2})
    world.letter("in.t", b"1")
    assert len(world.replay().found().chosen) == 4


def test_a_command_that_another_one_overtakes_sends_nothing_more():
    world = World()
    world.letter("in.s", b"1")
    writer = world.log.writer(transactional_id("q", "replay"))
    writer.append(LogPartition("in.s", 0), b"1")
    world.replay().run(quiet)
    with pytest.raises(Fenced):
        writer.flush(1)
    assert [each.value for each in world.rows()] == [b"1"]
