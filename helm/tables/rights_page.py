"""The tables of SECURITY.md: rights in Kafka and Redis, from the code that grants them."""

from __future__ import annotations

from collections.abc import Iterator

from helm.tables.marked import with_table
from spojoin.ports.shared_state import store_rules
from spojoin.protocol.access import Operation, Person, Principal, ResourceKind, Right, rights
from spojoin.protocol.topology import Role

QUERY, INPUT = "QUERY", "INPUT"
_VERBS = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE)


def with_rights(text: str) -> str:
    """The page with new tables."""
    return with_table(text, "rights", _tables())


def _tables() -> Iterator[str]:
    yield "| user | reads | writes | trims | sees | other rights |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from (_row(each) for each in (*Role, *Person))
    yield ""
    yield "In Redis, all services of a query share one user with these rules:"
    yield ""
    yield f"    {store_rules(QUERY)}"


def _row(principal: Principal) -> str:
    allowed = rights(principal, QUERY, (INPUT,))
    # A right to a topic also covers the topics of later generations; the page mentions this once.
    topics = [right for right in allowed if right.kind is ResourceKind.TOPIC and not right.is_prefix]
    cells = [_names(topics, verb) for verb in _VERBS]
    return f"| `{principal.value}` | {' | '.join([*cells, ', '.join(_others(allowed))])} |"


def _names(topics: list[Right], operation: Operation) -> str:
    return " ".join(f"`{right.name.removeprefix(f'{QUERY}.')}`" for right in topics if right.operation is operation)


def _others(allowed: tuple[Right, ...]) -> Iterator[str]:
    if any(right.operation is Operation.CREATE and not right.is_prefix for right in allowed):
        yield "creates the topics that it sees, adds partitions, and configures them"
    for right in allowed:
        if right.kind is not ResourceKind.TOPIC:
            kind = "group" if right.kind is ResourceKind.GROUP else "transactional id"
            yield f"{right.operation.value} on {kind} `{right.name}`"
