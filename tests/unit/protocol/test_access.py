"""Rights follow from the topology, and no principal has more than it needs."""

from __future__ import annotations

import pytest

from spojoin.errors import QueryError
from spojoin.model import GENERATION_PART
from spojoin.protocol.access import (
    UNUSED_GROUP,
    Operation,
    Person,
    ResourceKind,
    Right,
    names,
    rights,
    seen_by,
    transactional_id,
)
from spojoin.protocol.packing import with_standbys
from spojoin.protocol.topology import (
    KEPT,
    MACHINE_ROLES,
    SHARED,
    TOPOLOGY,
    Edge,
    Role,
    Topic,
    later_generations,
    topic_name,
)
from spojoin.query.load import parse_query

QUERY = """
name: NAME
streams: {a: {schema: {x: double}}}
sql: SELECT * FROM a AS l JOIN a AS r ON l.x > r.x WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
INPUTS = ("in.a", "in.b")
EVERYBODY = [*Role, *Person]
#: topics of a generation: the router deletes them when the generation ends
OWN = tuple(topic for topic in Topic if topic not in SHARED)


def on_topics(principal: Role | Person, operation: Operation, *, later: bool = False) -> set[str]:
    """The topics' names; for later generations, the prefixes of their names."""
    found = [right for right in rights(principal, "q", INPUTS) if right.is_prefix == later]
    return {right.name for right in found if right.kind is ResourceKind.TOPIC and right.operation is operation}


def named(topics: tuple[Topic, ...]) -> set[str]:
    return {name for topic in topics for name in names(topic, "q", INPUTS)}


@pytest.mark.parametrize("edge", TOPOLOGY, ids=lambda edge: edge.role.value)
def test_a_roles_rights_equal_its_row_of_the_table(edge: Edge) -> None:
    beats = (Topic.PRESENCE,) if edge.role in MACHINE_ROLES else ()
    removed = OWN if edge.role is Role.ROUTER else edge.trims
    assert on_topics(edge.role, Operation.READ) == named((*with_standbys(edge).reads, *beats))
    assert on_topics(edge.role, Operation.WRITE) == named((*edge.writes, *beats))
    assert on_topics(edge.role, Operation.DELETE) == named((*removed, *beats))
    assert on_topics(edge.role, Operation.CREATE) == on_topics(edge.role, Operation.ALTER) == set()
    seen = {name for operation in Operation for name in on_topics(edge.role, operation)}
    removed = OWN if edge.role is Role.ROUTER else ()
    assert seen == named((*seen_by(edge.role), *removed))


@pytest.mark.parametrize("principal", EVERYBODY)
@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE])
def test_rights_are_the_same_in_each_generation(principal: Role | Person, operation: Operation) -> None:
    first = on_topics(principal, operation)
    own = {later_generations("q", topic) for topic in OWN if named((topic,)) <= first}
    assert on_topics(principal, operation, later=True) == own


@pytest.mark.parametrize("role", list(Role))
def test_a_role_makes_the_topics_of_later_generations_that_it_sees(role: Role) -> None:
    wanted = {later_generations("q", topic) for topic in seen_by(role) if topic in OWN}
    assert on_topics(role, Operation.CREATE, later=True) == on_topics(role, Operation.ALTER, later=True) == wanted


@pytest.mark.parametrize("principal", EVERYBODY)
def test_a_prefix_covers_one_query(principal: Role | Person) -> None:
    prefixes = {right.name for right in rights(principal, "q", INPUTS) if right.is_prefix}
    assert prefixes <= {*(f"q.generation.{topic.value}." for topic in OWN), "spojoin.q.generation.sink."}


def test_the_prefix_of_a_sinks_rights_covers_the_ids_of_several_sinks() -> None:
    ids = {right.name for right in rights(Role.SINK, "q", INPUTS) if right.kind is ResourceKind.TRANSACTIONAL_ID}
    assert ids == {transactional_id("q", "sink"), transactional_id("q", "sink-12").removesuffix("12")}


@pytest.mark.parametrize("principal", EVERYBODY)
def test_nothing_of_another_query_is_named(principal: Role | Person) -> None:
    for right in rights(principal, "q", INPUTS):
        assert right.name.startswith(("q.", "in.a", "in.b", "spojoin.q.")) or right.name == UNUSED_GROUP


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE])
@pytest.mark.parametrize("edge", TOPOLOGY, ids=lambda edge: edge.role.value)
def test_a_roles_rights_in_the_first_generation_hold_in_the_others(edge: Edge, operation: Operation) -> None:
    found = [right for right in rights(edge.role, "q", INPUTS) if right.operation is operation]
    for topic in OWN:
        may = any(right.name == topic_name("q", topic) for right in found)
        for generation in (2, 11):
            name = topic_name("q", topic, generation)
            assert any(right.is_prefix and name.startswith(right.name) for right in found) == may


def test_no_query_name_reaches_into_anothers_generations() -> None:
    names_of_later = [topic_name("q", topic, 2) for topic in OWN]
    assert not any(name.startswith(f"q.{GENERATION_PART}s") for name in names_of_later)
    for name in ("q.generation", "q.generation.frames", "generation.q"):
        with pytest.raises(QueryError, match="expected another name"):
            parse_query(QUERY.replace("NAME", name))
    assert parse_query(QUERY.replace("NAME", "q.generations")).name == "q.generations"


@pytest.mark.parametrize("principal", EVERYBODY)
def test_rights_are_sorted_and_unique(principal: Role | Person) -> None:
    found = rights(principal, "q", INPUTS)
    assert list(found) == sorted(set(found))


def test_only_router_and_sink_write_in_transactions_and_only_the_predictor_joins_a_group() -> None:
    found = {
        (who, right) for who in EVERYBODY for right in rights(who, "q", INPUTS) if right.kind is not ResourceKind.TOPIC
    }
    joined = {each for each in found if each[1].name != UNUSED_GROUP}
    assert joined == {
        (Role.ROUTER, Right(ResourceKind.TRANSACTIONAL_ID, "spojoin.q.router", Operation.WRITE)),
        (Role.SINK, Right(ResourceKind.TRANSACTIONAL_ID, "spojoin.q.sink", Operation.WRITE)),
        (
            Role.SINK,
            Right(ResourceKind.TRANSACTIONAL_ID, "spojoin.q.generation.sink.", Operation.WRITE, is_prefix=True),
        ),
        (Role.PREDICTOR, Right(ResourceKind.GROUP, "spojoin.q.predictor", Operation.READ)),
    }
    assert {right.operation for _, right in found - joined} == {Operation.DESCRIBE}


def test_people() -> None:
    assert on_topics(Person.FEED, Operation.WRITE) == set(INPUTS)
    assert on_topics(Person.RESULTS, Operation.READ) == {"q.results", "in.a.dlq", "in.b.dlq"}
    made = on_topics(Person.TOPICS, Operation.CREATE)
    assert made == named(tuple(topic for topic in Topic if topic is not Topic.INPUT))
    assert on_topics(Person.TOPICS, Operation.READ) == {"q.generations"}
    deleted = on_topics(Person.TOPICS, Operation.DELETE)
    assert deleted == {f"q.{topic}" for topic in Topic if topic not in (Topic.INPUT, *KEPT)}
    writers = {who for who in Person if on_topics(who, Operation.WRITE)}
    assert writers == {Person.FEED, Person.CHECK}
    assert on_topics(Person.CHECK, Operation.WRITE) == set(INPUTS)
    read = on_topics(Person.RESULTS, Operation.READ) | set(INPUTS) | {"q.frames", "q.generations"}
    assert on_topics(Person.CHECK, Operation.READ) == read
