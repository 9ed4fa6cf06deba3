"""Which generation a service serves, refuses or waits for, given the topic and its own query."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import Role, Topic, topic_name
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.generations import Announcing, GenerationChooser, GenerationsTopic, check_generation, goes_on
from spojoin.runtime.settings import NO_RELEASE, load_settings
from spojoin.wire.codec import encode
from spojoin.wire.records import Announcement, Rows, SourcePosition, Takeover
from tests.support.runtime_world import unread

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


def office(log: MemoryLog[bytes], query: Query, role: Role = Role.ROUTER, **given: object) -> GenerationChooser:
    settings = load_settings(query_file="q.yaml", **given)
    made = GenerationChooser(
        log,
        query,
        settings,
        announcing=Announcing(unread) if role is Role.ROUTER else None,
        judged=lambda said: said_by(made).append(said),
    )
    return made


def said_by(asked: GenerationChooser) -> list[str]:
    """All that an office said of its query; the last is what it says now."""
    return SAID.setdefault(asked, [])


SAID = WeakKeyDictionary[GenerationChooser, list[str]]()


def write(log: MemoryLog[bytes], record: Announcement | Takeover) -> None:
    log.writer().append(GENERATIONS, encode(record))


def announced(number: int, query: Query, backfill: str = "window") -> Announcement:
    return Announcement(number, fingerprint(query), query.text, backfill, ("in.trips",), NO_RELEASE)


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


def test_another_query_is_refused_with_what_changed_and_a_remedy(log):
    office(log, OLD).serving()
    with pytest.raises(ConfigurationError) as refused:
        office(log, NEW).serving()
    sentence = str(refused.value)
    for part in ("query 'q'", "generation 1", "output was count, is pairs", "spojoin up --replace", "another name"):
        assert part in sentence
    assert len(log.records(GENERATIONS)) == 1
    with pytest.raises(ConfigurationError, match="output was count, is pairs"):
        check_generation(log, NEW, replace=False)
    check_generation(log, NEW, replace=True)
    check_generation(log, OLD, replace=False)


def test_services_that_write_no_log_serve_what_is_served_whatever_their_query_is(log):
    office(log, OLD).serving()
    followers = [office(log, query, Role.SINK) for query in (NEW, TABLE)]
    assert [served(each.serving()) for each in followers] == [(1, None, fingerprint(OLD))] * 2
    office(log, NEWER, replace=True).serving()
    write(log, takeover(2, 1))
    assert [served(each.serving()) for each in followers] == [(2, None, fingerprint(NEWER))] * 2
    assert [said_by(each) for each in followers] == [["", ""]] * 2
    assert len(log.records(GENERATIONS)) == 3


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


def test_what_windows_need_is_looked_at_before_the_announcement(log):
    office(log, OLD).serving()
    log.writer().append(LogPartition("in.trips", 0), b"{}")
    announced_then: list[int] = []

    def parse(_stream: int, _partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
        announced_then.append(log.end(GENERATIONS))
        one = np.array([records[0].offset])
        return Rows(one, 0 * one, records[-1].offset + 1, (), None, pa.array([0]), one)

    before, settings = log.end(GENERATIONS), load_settings(query_file="q.yaml", replace=True)
    assert served(GenerationChooser(log, NEW, settings, announcing=Announcing(parse)).serving()) == (
        1,
        2,
        fingerprint(OLD),
    )
    assert announced_then == [before]


def test_topics_of_a_generation_are_made_before_it_is_announced(log):
    office(log, OLD).serving()
    made = []

    def prepare(topics):
        made.append((topics.generation, GenerationsTopic(log, "q").read().next_number))

    settings = load_settings(query_file="q.yaml", replace=True)
    router = GenerationChooser(log, NEW, settings, announcing=Announcing(unread, prepare))
    assert served(router.serving()) == (1, 2, fingerprint(OLD))
    assert made == [(2, 2)]
    write(log, takeover(2, 1))
    router.serving()
    assert made == [(2, 2)]


def test_an_old_service_serves_on_until_the_takeover_and_then_ends(log):
    old = office(log, OLD)
    serving = old.serving()
    assert goes_on(old, serving)
    office(log, NEW, replace=True).serving()
    assert goes_on(old, serving), "it answers until the takeover"
    assert old.awaits_takeover
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
        office(log, OLD).serving()


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
    append = second._topic.write_record

    def beaten(announcement: Announcement) -> None:
        if announcement.generation == 2:
            first.serving()
        append(announcement)

    second._topic.write_record = beaten
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


# -- services of a release go on


FIRST, SECOND = "joins/first", "joins/second"
TABLE = parse_query(
    "name: q\nstreams: {s: {schema: {a: long}}}\ntables: {t: {topic: t, schema: {b: long}}}\n"
    "sql: SELECT l.a, r.b FROM s AS l JOIN t AS r ON l.a < r.b\n"
)


@pytest.mark.parametrize(
    ("query", "given", "why"),
    [(NEW, {}, "output was count, is pairs"), (TABLE, {"replace": True}, "joins with a table")],
    ids=["changed", "irreplaceable"],
)
def test_a_release_goes_on_with_the_served_query_and_says_why(log, query, given, why):
    office(log, OLD, owner=FIRST).serving()
    rolled = office(log, query, owner=FIRST, **given)
    serving = rolled.serving()
    assert served(serving) == (1, None, fingerprint(OLD))
    assert why in said_by(rolled)[-1]
    assert goes_on(rolled, serving)
    assert len(log.records(GENERATIONS)) == 1


def test_a_release_that_was_rolled_back_past_a_replacement_goes_on_with_the_new_query(log):
    office(log, OLD, owner=FIRST).serving()
    office(log, NEW, owner=FIRST, replace=True).serving()
    back = office(log, OLD, owner=FIRST)
    assert served(back.serving()) == (1, 2, fingerprint(OLD)), "which ends its generation first"
    assert said_by(back)[-1] == "" or "generation 2" in said_by(back)[-1]
    write(log, takeover(2, 1))
    assert served(back.serving()) == (2, None, fingerprint(NEW))
    assert "generation 2: output was pairs, is count" in said_by(back)[-1]
    assert len(log.records(GENERATIONS)) == 3


def test_old_services_of_a_release_serve_the_new_query_until_they_are_ended(log):
    old = [office(log, OLD, role, owner=FIRST) for role in (Role.ROUTER, Role.SINK)]
    for each in old:
        each.serving()
    assert [said_by(each)[-1] for each in old] == ["", ""]
    office(log, NEW, owner=FIRST, replace=True).serving()
    write(log, takeover(2, 1))
    for each in old:
        assert served(each.serving()) == (2, None, fingerprint(NEW))
    assert ["generation 2" in said_by(each)[-1] for each in old] == [True, False], "the router says why"
    assert len(log.records(GENERATIONS)) == 3, "none takes its place back"


def test_a_query_that_is_not_the_given_one_keeps_the_topics_that_it_was_announced_with(log):
    log.create_topics({"rides": 1})
    office(log, OLD, owner=FIRST, input_topics={"trips": "rides"}).serving()
    renamed = parse_query(TEXT.replace("trips", "tours"))
    settings = load_settings(query_file="q.yaml", owner=FIRST, input_topics={"tours": "rides"})
    serving = GenerationChooser(log, renamed, settings, announcing=Announcing(unread)).serving()
    assert serving.topics(settings).inputs == ("rides",)


# -- names


def refused_name(log, query, role=Role.ROUTER, **given):
    """An office that is to have no part in the name; what it says."""
    asked, before = office(log, query, role, **given), len(log.records(GENERATIONS))
    assert asked.serving() is None
    assert len(log.records(GENERATIONS)) == before
    return said_by(asked)[-1]


@pytest.mark.parametrize("role", [Role.ROUTER, Role.SINK])
@pytest.mark.parametrize("query", [OLD, NEW])
def test_another_release_of_the_name_waits_writes_nothing_and_names_the_owner(log, role, query):
    office(log, OLD, owner=FIRST).serving()
    said = refused_name(log, query, role, owner=SECOND, replace=True)
    assert f"the name 'q' belongs to {FIRST} on this Kafka, and this is {SECOND}" in said
    assert f"--set query.adopt={FIRST}" in said
    with pytest.raises(ConfigurationError, match=f"belongs to {FIRST} on this Kafka, and this is {NO_RELEASE}"):
        office(log, query, replace=True).serving()
    with pytest.raises(ConfigurationError, match=f"belongs to {FIRST}"):
        check_generation(log, query, replace=True, owner=SECOND)
    assert served(office(log, OLD, owner=FIRST).serving()) == (1, None, fingerprint(OLD))


def test_a_release_does_not_take_the_name_of_spojoin_up(log):
    office(log, OLD).serving()
    assert f"belongs to {NO_RELEASE}" in refused_name(log, OLD, owner=SECOND)
    assert served(office(log, OLD).serving()) == (1, None, fingerprint(OLD)), "the next `up` of the same user"


def test_a_name_that_earlier_versions_left_is_claimed_by_the_first_router(log):
    write(log, Announcement(1, fingerprint(OLD), OLD.text, "window"))
    sink = office(log, OLD, Role.SINK, owner=FIRST)
    assert served(sink.serving()) == (1, None, fingerprint(OLD)), "which goes on meanwhile"
    assert served(office(log, OLD, owner=FIRST).serving()) == (1, None, fingerprint(OLD))
    assert FIRST in refused_name(log, OLD, Role.SINK, owner=SECOND)
    assert served(sink.serving()) == (1, None, fingerprint(OLD))


@pytest.mark.parametrize("query", [OLD, NEW])
def test_a_name_is_adopted_by_whoever_names_its_owner(log, query):
    before = office(log, OLD, owner=FIRST)
    before.serving()
    sink = office(log, query, Role.SINK, owner=SECOND, adopt=FIRST, replace=True)
    assert sink.serving() is None, "its router has not claimed the name yet"
    assert office(log, query, owner=SECOND, adopt=FIRST, replace=True).serving() is not None
    assert sink.serving() is not None
    assert GenerationsTopic(log, "q").read().owner == SECOND
    assert before.serving() is None, "whoever has lost the name has no part in it any more"
    assert SECOND in said_by(before)[-1]


def test_whoever_lost_a_name_does_not_take_it_back_by_what_it_once_adopted(log):
    office(log, OLD).serving()
    first = office(log, OLD, owner=FIRST, adopt=NO_RELEASE)
    assert first.serving() is not None
    assert office(log, OLD, adopt=FIRST).serving() is not None
    assert first.serving() is None
    assert GenerationsTopic(log, "q").read().owner == NO_RELEASE


def test_of_two_that_claim_a_name_at_once_the_first_has_it(log):
    write(log, Announcement(1, fingerprint(OLD), OLD.text, "window"))
    second = office(log, OLD, owner=SECOND)
    append = second._topic.write_record

    def beaten(announcement: Announcement) -> None:
        office(log, OLD, owner=FIRST).serving()
        append(announcement)

    second._topic.write_record = beaten
    assert second.serving() is None
    assert FIRST in said_by(second)[-1]
