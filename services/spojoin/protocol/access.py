"""What each user of Kafka may do there; the ACLs of code, chart and tests derive from it.

Names are literal, except for the topics of a query's later generations: their prefix is unique to the query, so no
right covers a topic of another query. In Kafka, Read, Write and Delete imply Describe.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spojoin.model import GENERATION_PART
from spojoin.protocol.packing import with_standbys
from spojoin.protocol.topology import (
    KEPT,
    MACHINE_ROLES,
    ROLES,
    SHARED,
    Edge,
    Role,
    Topic,
    dead_letter_topic,
    later_generations,
    role_entry,
    topic_name,
)

#: Kafka's client requires a group name of every reader and looks up its coordinator; no reader joins this group.
UNUSED_GROUP = "spojoin-unused"


class Person(enum.StrEnum):
    """The users that are not services.

    TOPICS creates and configures topics, and deletes internal ones. FEED sends rows, RESULTS reads results, PAGE shows
    the flow. CHECK also sends rows, compares the results with them, and backfills.
    """

    TOPICS = "topics"
    FEED = "feed"
    RESULTS = "results"
    PAGE = "page"
    CHECK = "check"


Principal = Role | Person


class ResourceKind(enum.StrEnum):
    """The kinds of resources, as Strimzi's KafkaUser names them."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactionalId"


class Operation(enum.StrEnum):
    """The operations, as Kafka and Strimzi name them.

    DELETE on a topic allows trims (of records before an offset). The router also deletes topics of generations that are
    over, and the user who creates topics deletes those of a query that has ended.
    """

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    ALTER = "Alter"
    DELETE = "Delete"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on the resource of this name, or if `is_prefix`, on all whose names begin with it."""

    kind: ResourceKind
    name: str
    operation: Operation
    is_prefix: bool = False


def rights(principal: Principal, query: str, inputs: Sequence[str]) -> tuple[Right, ...]:
    """All rights of `principal` for a query with these input topics: each once, in a fixed order."""
    found = _of_role(principal, query, inputs) if isinstance(principal, Role) else _of_person(principal, query, inputs)
    return tuple(sorted(set(found)))


def group_rights(roles: Iterable[Role], query: str, inputs: Sequence[str]) -> tuple[Right, ...]:
    """All rights of a process in which these roles run together."""
    return tuple(sorted({right for role in roles for right in rights(role, query, inputs)}))


def transactional_id(query: str, service: str) -> str:
    """The transactional id of a service that writes in transactions."""
    role, _, number = service.rpartition("-")
    return f"{_ids_of_sinks(query)}{number}" if role == Role.SINK else f"spojoin.{query}.{service}"


def _ids_of_sinks(query: str) -> str:
    """The prefix of the ids of several sinks, which no other query's id has: its name would have a reserved part."""
    return f"spojoin.{query}.{GENERATION_PART}.{Role.SINK}."


def consumer_group(query: str, service: str) -> str:
    """The consumer group of a service that joins one."""
    return f"spojoin.{query}.{service}"


def names(topic: Topic, query: str, inputs: Sequence[str]) -> tuple[str, ...]:
    """Kafka's names of a topic of the table: one, or one for each stream."""
    if topic is Topic.INPUT:
        return tuple(inputs)
    if topic is Topic.DEAD:
        return tuple(dead_letter_topic(each) for each in inputs)
    return (topic_name(query, topic),)


def seen_by(role: Role) -> frozenset[Topic]:
    """The topics that a role uses; it can't see any other."""
    edge = _edge(role)
    # By the id of this topic, every role distinguishes the log from an earlier one with the same name.
    return frozenset({*edge.reads, *edge.writes, *edge.trims, Topic.FRAMES, *_presence(role)})


#: The roles that may write in transactions, and what.
TRANSACTIONAL = {entry.role: entry.transactional for entry in reversed(ROLES) if entry.transactional is not None}
#: Topics that share such a role's writer. The results' topic comes first, so that it is settled before frames are.
SHARING = {entry.role: entry.shared_writer for entry in reversed(ROLES) if entry.shared_writer}


def _of_role(role: Role, query: str, inputs: Sequence[str]) -> Iterator[Right]:
    edge = _edge(role)
    yield from _on_topics(edge, query, inputs)
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE):
        yield from _each(operation, _presence(role), query, inputs)
    if role is Role.ROUTER:  # it deletes the topics of past generations (P12)
        yield from _each(Operation.DELETE, [topic for topic in Topic if topic not in SHARED], query, inputs)
    yield from _making(role, query)
    yield from _each(Operation.DESCRIBE, seen_by(role).difference(edge.reads, edge.writes, edge.trims), query, inputs)
    yield Right(ResourceKind.GROUP, UNUSED_GROUP, Operation.DESCRIBE)
    if role in TRANSACTIONAL:
        yield Right(ResourceKind.TRANSACTIONAL_ID, transactional_id(query, role), Operation.WRITE)
    if role is Role.SINK:
        yield Right(ResourceKind.TRANSACTIONAL_ID, _ids_of_sinks(query), Operation.WRITE, is_prefix=True)
    if role_entry(role).joins_group:
        yield Right(ResourceKind.GROUP, consumer_group(query, role), Operation.READ)


def _making(role: Role, query: str) -> Iterator[Right]:
    """Services create the topics of later generations, since only they know when, and how many there were."""
    for topic in seen_by(role).difference(SHARED):
        for operation in (Operation.CREATE, Operation.ALTER):
            yield Right(ResourceKind.TOPIC, later_generations(query, topic), operation, is_prefix=True)


def _presence(role: Role) -> tuple[Topic, ...]:
    """The topic in which the instances of a service report which of them speaks."""
    return (Topic.PRESENCE,) if role in MACHINE_ROLES else ()


def _edge(role: Role) -> Edge:
    return with_standbys(role_entry(role).edge)


def _on_topics(edge: Edge, query: str, inputs: Sequence[str]) -> Iterator[Right]:
    parts = ((edge.reads, Operation.READ), (edge.writes, Operation.WRITE), (edge.trims, Operation.DELETE))
    for topics, operation in parts:
        yield from _each(operation, topics, query, inputs)


def _each(operation: Operation, topics: Iterable[Topic], query: str, inputs: Sequence[str]) -> Iterator[Right]:
    for topic in topics:
        yield from (Right(ResourceKind.TOPIC, name, operation) for name in names(topic, query, inputs))
        if topic not in SHARED:
            yield Right(ResourceKind.TOPIC, later_generations(query, topic), operation, is_prefix=True)


_MAKES = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


def _of_person(person: Person, query: str, inputs: Sequence[str]) -> Iterator[Right]:
    if person is Person.TOPICS:
        own = [topic for topic in Topic if topic is not Topic.INPUT]
        for operation in _MAKES:
            yield from _each(operation, own, query, inputs)
        yield from _each(Operation.DELETE, [topic for topic in own if topic not in KEPT], query, inputs)
        yield from _each(Operation.READ, (Topic.GENERATIONS,), query, inputs)  # it shows which topics are still needed
        yield Right(ResourceKind.GROUP, UNUSED_GROUP, Operation.DESCRIBE)
        return
    if person in (Person.FEED, Person.CHECK):
        yield from _each(Operation.WRITE, (Topic.INPUT,), query, inputs)
    if person is not Person.FEED:
        # The page also shows the requested worker count. A check needs the inputs, and the log, which names versions of
        # a table; a backfill needs to know where a generation began.
        checked = (Topic.INPUT, Topic.FRAMES, Topic.GENERATIONS)
        more = {Person.PAGE: (Topic.CONTROL,), Person.CHECK: checked}.get(person, ())
        yield from _each(Operation.READ, (Topic.RESULTS, Topic.DEAD, *more), query, inputs)
        yield Right(ResourceKind.GROUP, UNUSED_GROUP, Operation.DESCRIBE)
