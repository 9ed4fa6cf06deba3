"""What the picture shows, derived from the topology: roles and topics as nodes in rows, the data's flow as links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spojoin.protocol.topology import TOPOLOGY, Edge, Role, Topic

#: The topics that leave the system. All roles read the results too, but only to know where to resume.
OUTLETS = (Topic.RESULTS, Topic.DEAD)
#: The topics that all roles read to agree on what is served, which isn't a flow of data either.
AGREEMENTS = (Topic.GENERATIONS,)


class Link(NamedTuple):
    """An arrow between the nodes of a role and a topic; `source` is the writer, or the topic that is read."""

    source: str
    target: str
    topic: Topic
    role: Role


class Flow(NamedTuple):
    """Nodes from the top to the bottom, the roles in odd rows and the topics in even ones; and the links."""

    rows: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...]

    def row_of(self, node: str) -> int:
        """The row that holds a node."""
        return next(number for number, row in enumerate(self.rows) if node in row)


def role_node(role: Role) -> str:
    """The id of a role's node."""
    return f"role-{role.value}"


def topic_node(topic: Topic) -> str:
    """The id of a topic's node."""
    return f"topic-{topic.value}"


def flow_of(topology: Sequence[Edge] = TOPOLOGY) -> Flow:
    """A picture of a topology: each role is below those whose records it reads, except for feedback, which rises."""
    ranks = _ranks(topology)
    last = max(ranks.values())
    rows: list[list[str]] = [[] for _ in range(2 * last + 3)]
    for edge in topology:
        rows[2 * ranks[edge.role] + 1].append(role_node(edge.role))
    for topic in _topics(topology):
        rows[_topic_row(topic, topology, ranks)].append(topic_node(topic))
    return Flow(tuple(map(tuple, rows)), tuple(_links(topology)))


def readers(topic: Topic, topology: Sequence[Edge] = TOPOLOGY) -> list[Role]:
    """The roles that read a topic for its data, except for those that wrote it; none if the topic leaves the system."""
    is_read = topic not in (*OUTLETS, *AGREEMENTS)
    return [e.role for e in topology if is_read and topic in e.reads and topic not in e.writes]


def writers(topic: Topic, topology: Sequence[Edge] = TOPOLOGY) -> list[Role]:
    """The roles that write a topic."""
    return [e.role for e in topology if topic in e.writes]


def _topics(topology: Sequence[Edge]) -> list[Topic]:
    named = {topic for edge in topology for topic in (*edge.reads, *edge.writes)}
    return [topic for topic in Topic if topic in named and topic not in AGREEMENTS]


def _links(topology: Sequence[Edge]) -> Iterator[Link]:
    for topic in _topics(topology):
        for role in writers(topic, topology):
            yield Link(role_node(role), topic_node(topic), topic, role)
        for role in readers(topic, topology):
            yield Link(topic_node(topic), role_node(role), topic, role)


def _ranks(topology: Sequence[Edge]) -> dict[Role, int]:
    """The longest way from a first role, feedback left out."""
    feedback = _feedback(topology)
    ranks = {edge.role: 0 for edge in topology}
    for _ in topology:  # a way has at most as many steps as there are roles
        for edge in topology:
            for reader in _next(edge, topology):
                if (edge.role, reader) not in feedback:
                    ranks[reader] = max(ranks[reader], ranks[edge.role] + 1)
    return ranks


def _next(edge: Edge, topology: Sequence[Edge]) -> list[Role]:
    return [role for topic in edge.writes for role in readers(topic, topology)]


def _feedback(topology: Sequence[Edge]) -> set[tuple[Role, Role]]:
    """Steps from a role to one that leads to it: found by walking along the flow from where the inputs are read."""
    by_role = {edge.role: edge for edge in topology}
    found: set[tuple[Role, Role]] = set()
    done: set[Role] = set()

    def walk(role: Role, way: tuple[Role, ...]) -> None:
        done.add(role)
        for reader in _next(by_role[role], topology):
            if reader in (*way, role):
                found.add((role, reader))
            elif reader not in done:
                walk(reader, (*way, role))

    for edge in sorted(topology, key=lambda edge: Topic.INPUT not in edge.reads):
        if edge.role not in done:
            walk(edge.role, ())
    return found


def _topic_row(topic: Topic, topology: Sequence[Edge], ranks: dict[Role, int]) -> int:
    """Below its writers; above them where it is read further up only; above its readers where nobody here writes it."""
    written = [ranks[role] for role in writers(topic, topology)]
    read = [ranks[role] for role in readers(topic, topology)]
    if not written:
        return 2 * min(read)
    if read and max(read) < min(written):
        return 2 * min(written)
    return 2 * max(written) + 2
