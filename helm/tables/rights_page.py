"""The tables of SECURITY.md: who may do what in Kafka and in Redis, from the code that grants it."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.ports.shared_state import store_rules
from spojoin.protocol.access import Operation, Person, Principal, ResourceKind, Right, rights
from spojoin.protocol.topology import Role

QUERY, INPUT = "QUERY", "INPUT"
_BEGIN = "<!-- Made by `python -m helm.tables --write` from here on -->"
_END = "<!-- to here -->"
_VERBS = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.DESCRIBE)


def with_rights(text: str) -> str:
    """The page with its tables generated again; the rest of it is written by hand."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return "\n".join([before + _BEGIN, "", *_tables(), "", _END + after])


def _tables() -> Iterator[str]:
    yield "| user | reads | writes | trims | sees | besides |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from (_row(each) for each in (*Role, *Person))
    yield ""
    yield "In Redis, all services of a query are one user with these rules:"
    yield ""
    yield f"    {store_rules(QUERY)}"


def _row(principal: Principal) -> str:
    allowed = rights(principal, QUERY, (INPUT,))
    # A right to a topic extends to the topics of later generations; the page says so once.
    topics = [right for right in allowed if right.kind is ResourceKind.TOPIC and not right.is_prefix]
    cells = [_names(topics, verb) for verb in _VERBS]
    return f"| `{principal.value}` | {' | '.join([*cells, ', '.join(_others(allowed))])} |"


def _names(topics: list[Right], operation: Operation) -> str:
    return " ".join(f"`{right.name.removeprefix(f'{QUERY}.')}`" for right in topics if right.operation is operation)


def _others(allowed: tuple[Right, ...]) -> Iterator[str]:
    if any(right.operation is Operation.CREATE and not right.is_prefix for right in allowed):
        yield "makes what it sees, adds partitions, and says how it is kept"
    for right in allowed:
        if right.kind is not ResourceKind.TOPIC:
            kind = "group" if right.kind is ResourceKind.GROUP else "transactional id"
            yield f"{right.operation.value} on {kind} `{right.name}`"
