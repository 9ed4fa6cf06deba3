"""Which generation a service serves, refuses or waits for, given the topic and its own query."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.query.load import parse_query
from spojoin.query.meaning import fingerprint
from spojoin.runtime.generations import GenerationsTopic, Office, check_generation, goes_on
from spojoin.runtime.settings import load_settings
from spojoin.wire.codec import encode
from spojoin.wire.records import Announcement, SourcePosition, Takeover

TEXT = """
name: q
streams: {trips: {schema: {distance: double, air_time: double}}}
sql: |
  SELECT * FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
output: count
"""
OLD = parse_query(TEXT)
NEW = parse_query(TEXT.replace("output: count", "output: pairs"))
NEWER = parse_query(TEXT.replace("output: count", "output: bitmap"))
GENERATIONS = LogPartition(topic_name("q", Topic.GENERATIONS), 0)


@pytest.fixture
def log() -> MemoryLog[bytes]:
    made = MemoryLog[bytes]()
    made.create_topics({GENERATIONS.topic: 1, "in.trips": 1})
    return made


def office(log: MemoryLog[bytes], query: Query, role: Role = Role.ROUTER, **given: object) -> Office:
    return Office(log, query, load_settings(query_file="q.yaml", **given), writes_log=role is Role.ROUTER)


def write(log: MemoryLog[bytes], record: Announcement | Takeover) -> None:
    log.writer().append(GENERATIONS, encode(record))


def announced(number: int, query: Query, backfill: str = "window") -> Announcement:
    return Announcement(number, fingerprint(query), query.text, backfill)


def takeover(number: int, before: int, offset: int = 0) -> Takeover:
    return Takeover(number, before, {(0, 0): SourcePosition(offset, 0, 0)}, (offset,), {"late": 2})


def served(found: object) -> tuple[int, int | None, int]:
    successor = None if found.successor is None else found.generation + 1
    return found.generation, successor, fingerprint(found.query)


def test_the_router_announces_the_first_and_the_others_wait_for_it(log):
    others = office(log, OLD, Role.SINK)
    assert others.serving() is None
    assert served(office(log, OLD).serving()) == (1, None, fingerprint(OLD))
    assert served(others.serving()) == (1, None, fingerprint(OLD))
    assert len(log.records(GENERATIONS)) == 1


def test_a_query_of_the_same_meaning_is_served_as_given(log):
    office(log, OLD).serving()
    other = parse_query(TEXT.replace("output: count", "method: pim_tree  # output is count"))
    assert office(log, other).serving().query is other
    assert len(log.records(GENERATIONS)) == 1


@pytest.mark.parametrize("role", [Role.ROUTER, Role.SINK])
def test_another_query_is_refused_with_what_changed_and_a_remedy(log, role):
    office(log, OLD).serving()
    with pytest.raises(ConfigurationError) as refused:
        office(log, NEW, role).serving()
    sentence = str(refused.value)
    for part in ("query 'q'", "generation 1", "output was count, is pairs", "spojoin up --replace", "another name"):
        assert part in sentence
    assert len(log.records(GENERATIONS)) == 1
    with pytest.raises(ConfigurationError, match="output was count, is pairs"):
        check_generation(log, NEW, replace=False)
    check_generation(log, NEW, replace=True)
    check_generation(log, OLD, replace=False)


def test_a_query_with_a_table_is_not_replaced_nor_replaces(log):
    table = parse_query(
        "name: q\nstreams: {s: {schema: {a: long}}}\ntables: {t: {topic: t, schema: {b: long}}}\n"
        "sql: SELECT l.a, r.b FROM s AS l JOIN t AS r ON l.a < r.b\n"
    )
    office(log, OLD).serving()
    with pytest.raises(ConfigurationError, match="can't be replaced: one of both joins with a table"):
        check_generation(log, table, replace=True)
    with pytest.raises(ConfigurationError, match="can't be replaced: one of both joins with a table"):
        office(log, table, replace=True).serving()
    assert len(log.records(GENERATIONS)) == 1


def test_a_router_that_may_replace_announces_and_ends_the_old_generation_first(log):
    office(log, OLD).serving()
    sink = office(log, NEW, Role.SINK, replace=True)
    assert served(sink.serving()) == (1, None, fingerprint(OLD)), "it serves what is there until the router spoke"
    router = office(log, NEW, replace=True, backfill="none")
    assert served(router.serving()) == (1, 2, fingerprint(OLD))
    assert served(sink.serving()) == (1, 2, fingerprint(OLD))
    assert GenerationsTopic(log, "q").read().wanted == announced(2, NEW, "none")
    write(log, takeover(2, 1))
    assert served(router.serving()) == served(sink.serving()) == (2, None, fingerprint(NEW))
    assert len(log.records(GENERATIONS)) == 3


def test_an_old_service_serves_on_until_the_takeover_and_then_ends(log):
    for role in (Role.ROUTER, Role.MUTABLE):
        office(log, OLD, role).serving()
    old = office(log, OLD, Role.SINK)
    serving = old.serving()
    assert goes_on(old, serving)
    office(log, NEW, replace=True).serving()
    assert not goes_on(old, serving), "it ends what it has begun as the generation before another"
    closing = old.serving()
    assert served(closing) == (1, 2, fingerprint(OLD))
    assert goes_on(old, closing)
    write(log, takeover(2, 1))
    with pytest.raises(ConfigurationError, match="generation 2: output was pairs, is count"):
        goes_on(old, closing)


def test_an_old_service_that_restarts_after_another_announcement_is_refused(log):
    office(log, OLD).serving()
    office(log, NEW, replace=True).serving()
    with pytest.raises(ConfigurationError, match="generation 2"):
        office(log, OLD, Role.SINK).serving()


def test_an_old_service_that_may_replace_does_not_take_its_place_back(log):
    old = office(log, OLD, replace=True)
    old.serving()
    office(log, NEW, replace=True).serving()
    write(log, takeover(2, 1))
    with pytest.raises(ConfigurationError, match="generation 2"):
        old.serving()
    assert GenerationsTopic(log, "q").read().next_number == 3


def test_of_two_simultaneous_announcers_the_second_retries(log):
    office(log, OLD).serving()
    first, second = office(log, NEW, replace=True), office(log, NEWER, replace=True)
    append = second._topic.append

    def beaten(announcement: Announcement) -> None:
        if announcement.generation == 2:
            first.serving()
        append(announcement)

    second._topic.append = beaten
    assert served(second.serving()) == (1, 2, fingerprint(OLD))
    found = GenerationsTopic(log, "q").read()
    assert (found.announced(2), found.announced(3)) == (announced(2, NEW), announced(3, NEWER))
    with pytest.raises(ConfigurationError, match="generation 3"):
        first.serving()


def test_going_back_to_the_previous_query_is_a_new_generation(log):
    office(log, OLD).serving()
    office(log, NEW, replace=True).serving()
    write(log, takeover(2, 1))
    assert served(office(log, OLD, replace=True).serving()) == (2, 3, fingerprint(NEW))
    write(log, takeover(3, 2))
    assert served(office(log, OLD).serving()) == (3, None, fingerprint(OLD))


def test_a_later_generation_begins_where_the_one_before_it_stopped(log):
    writer = log.writer()
    for _ in range(30):
        writer.append(LogPartition("in.trips", 0), b'{"distance": 1, "air_time": 2}')
    office(log, OLD).serving()
    office(log, NEW, replace=True, backfill="none").serving()
    write(log, takeover(2, 1, offset=20))
    serving = office(log, NEW).serving()
    begun = serving.begin(START, None)
    assert (begun.generation, begun.fingerprint) == (2, fingerprint(NEW))
    assert (dict(begun.cut), begun.first_indexes, begun.rejected) == ({(0, 0): (20, 0)}, (20,), {"late": 2})
    assert (begun.starts[0, 0].offset, begun.starts[0, 0].row) == (20, 0)
    later = serving.begin(ResultPosition(3, 0), None)
    assert (dict(later.cut), later.starts) == ({(0, 0): (20, 0)}, {})


def test_records_of_other_types_are_refused(log):
    log.writer().append(GENERATIONS, b"?")
    with pytest.raises(ConfigurationError, match=r"q.generations offset 0: .*"):
        office(log, OLD).serving()
