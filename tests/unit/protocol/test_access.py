"""Rights follow from the topology, and no principal has more than it needs."""

from __future__ import annotations

import pytest

from spojoin.protocol.access import UNUSED_GROUP, Kind, Operation, Person, Right, names, rights, seen_by
from spojoin.protocol.topology import TOPOLOGY, Edge, Role, Topic

INPUTS = ("in.a", "in.b")
EVERYBODY = [*Role, *Person]


def on_topics(principal: Role | Person, operation: Operation) -> set[str]:
    found = rights(principal, "q", INPUTS)
    return {right.name for right in found if right.kind is Kind.TOPIC and right.operation is operation}


def named(topics: tuple[Topic, ...]) -> set[str]:
    return {name for topic in topics for name in names(topic, "q", INPUTS)}


@pytest.mark.parametrize("edge", TOPOLOGY, ids=lambda edge: edge.role.value)
def test_a_roles_rights_are_its_row_of_the_table(edge: Edge) -> None:
    assert on_topics(edge.role, Operation.READ) == named(edge.reads)
    assert on_topics(edge.role, Operation.WRITE) == named(edge.writes)
    assert on_topics(edge.role, Operation.DELETE) == named(edge.trims)
    assert on_topics(edge.role, Operation.CREATE) == on_topics(edge.role, Operation.ALTER) == set()
    seen = {right.name for right in rights(edge.role, "q", INPUTS) if right.kind is Kind.TOPIC}
    assert seen == named(tuple(seen_by(edge.role)))


@pytest.mark.parametrize("principal", EVERYBODY)
def test_nothing_of_another_query_is_named(principal: Role | Person) -> None:
    for right in rights(principal, "q", INPUTS):
        assert right.name.startswith(("q.", "in.a", "in.b", "spojoin.q.")) or right.name == UNUSED_GROUP


@pytest.mark.parametrize("principal", EVERYBODY)
def test_rights_are_in_order_and_each_once(principal: Role | Person) -> None:
    found = rights(principal, "q", INPUTS)
    assert list(found) == sorted(set(found))


def test_only_router_and_sink_write_in_transactions_and_only_the_predictor_joins_a_group() -> None:
    found = {(who, right) for who in EVERYBODY for right in rights(who, "q", INPUTS) if right.kind is not Kind.TOPIC}
    joined = {each for each in found if each[1].name != UNUSED_GROUP}
    assert joined == {
        (Role.ROUTER, Right(Kind.TRANSACTIONAL_ID, "spojoin.q.router", Operation.WRITE)),
        (Role.SINK, Right(Kind.TRANSACTIONAL_ID, "spojoin.q.sink", Operation.WRITE)),
        (Role.PREDICTOR, Right(Kind.GROUP, "spojoin.q.predictor", Operation.READ)),
    }
    assert {right.operation for _, right in found - joined} == {Operation.DESCRIBE}


def test_people() -> None:
    assert on_topics(Person.FEED, Operation.WRITE) == set(INPUTS)
    assert on_topics(Person.RESULTS, Operation.READ) == {"q.results", "in.a.dlq", "in.b.dlq"}
    made = on_topics(Person.TOPICS, Operation.CREATE)
    assert made == named(tuple(topic for topic in Topic if topic is not Topic.INPUT))
    writers = {who for who in Person if on_topics(who, Operation.WRITE) or on_topics(who, Operation.DELETE)}
    assert writers == {Person.FEED, Person.CHECK}
    assert on_topics(Person.CHECK, Operation.WRITE) == set(INPUTS)
    assert on_topics(Person.CHECK, Operation.READ) == on_topics(Person.RESULTS, Operation.READ) | set(INPUTS)
