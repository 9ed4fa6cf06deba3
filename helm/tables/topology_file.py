"""The table of roles and topics as the chart reads it: topics, users' rights, network policies and settings follow.

Names hold `{query}` and `{input}`, where the chart inserts the query's name and each input topic's.
"""

from __future__ import annotations

from typing import Any

import yaml

from spojoin.protocol.access import Person, Principal, ResourceKind, Right, rights
from spojoin.protocol.packing import PACKABLE
from spojoin.protocol.topic_config import DEFAULTS, TopicKind, kind_of
from spojoin.protocol.topology import (
    PRESENCE_PARTITIONS,
    TOPOLOGY,
    Edge,
    Role,
    Topic,
    dead_letter_topic,
    size,
)
from spojoin.protocol.topology import topic_name as name_of
from spojoin.runtime.readers import READERS

QUERY, INPUT = "{query}", "{input}"
#: Roles that use the Kubernetes API: the controller, for the workers' pods.
ASKS_KUBERNETES = (Role.CONTROLLER,)

_HEAD = "# Made by `python -m helm.tables --write` from services/spojoin/protocol; do not edit.\n"


def topology_file() -> str:
    """The file, as YAML."""
    found = {
        "packable": [role.value for role in PACKABLE],
        "roles": {edge.role.value: _role(edge) for edge in TOPOLOGY},
        "people": {person.value: {"rights": _rights(person)} for person in Person},
        "topics": [_topic(topic) for topic in Topic if topic is not Topic.INPUT],
        "configs": {
            kind.value: dict(DEFAULTS[kind]) for kind in (TopicKind.INTERNAL, TopicKind.RESULTS, TopicKind.DLQ)
        },
        "presencePartitions": PRESENCE_PARTITIONS,
        "readers": {setting: [str(reader) for reader in readers] for setting, readers in READERS.items()},
    }
    return _HEAD + yaml.safe_dump(found, sort_keys=False, width=2**16)


def _role(edge: Edge) -> dict[str, Any]:
    allowed = rights(edge.role, QUERY, (INPUT,))
    return {
        "reads": [topic.value for topic in edge.reads],
        "writes": [topic.value for topic in edge.writes],
        "trims": [topic.value for topic in edge.trims],
        "isTransactional": any(right.kind is ResourceKind.TRANSACTIONAL_ID for right in allowed),
        # Every service shares its state in Redis and says there how it is.
        "redis": True,
        "kubernetes": edge.role in ASKS_KUBERNETES,
        "rights": _rights(edge.role),
    }


def _rights(principal: Principal) -> list[dict[str, Any]]:
    """One entry a resource, with all its operations."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for right in rights(principal, QUERY, (INPUT,)):
        found.setdefault(_resource(right), []).append(right.operation.value)
    return [
        {"type": kind, "name": name, "isPrefix": is_prefix, "operations": operations}
        for (kind, name, is_prefix), operations in found.items()
    ]


def _resource(right: Right) -> tuple[str, str, bool]:
    return right.kind.value, right.name, right.is_prefix


def _topic(topic: Topic) -> dict[str, Any]:
    name = dead_letter_topic(INPUT) if topic is Topic.DEAD else name_of(QUERY, topic)
    return {"name": name, "partitions": size(topic).value, "kind": kind_of(topic).value}
