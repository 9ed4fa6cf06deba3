"""The table of roles and topics for the chart, which derives topics, rights, network policies and settings from it.

The chart inserts the query's name for `{query}` in a name, and each input topic's for `{input}`.
"""

from __future__ import annotations

from typing import Any

import yaml

from spojoin.protocol.access import Person, Principal, ResourceKind, Right, rights
from spojoin.protocol.packing import ANSWERER, ANSWERER_NAME, BLOCK_TOPICS
from spojoin.protocol.topic_config import DEFAULTS, TopicKind, kind_of
from spojoin.protocol.topology import (
    PACKABLE,
    PRESENCE_PARTITIONS,
    ROLES,
    RoleEntry,
    Topic,
    dead_letter_topic,
    size,
)
from spojoin.protocol.topology import topic_name as name_of
from spojoin.runtime.setting_readers import READERS

QUERY, INPUT = "{query}", "{input}"
#: What a release must have so that a topic is needed, for topics that not every release needs.
_ONLY_WITH = {**dict.fromkeys(BLOCK_TOPICS, "intakes"), Topic.PRESENCE: "standbys"}

_HEAD = "# Made by `python -m helm.tables --write` from services/spojoin/protocol; do not edit.\n"


def packable_file() -> str:
    """The roles that may share a process, as YAML. The file is small because templates parse it a hundred times."""
    groups = {"packable": PACKABLE, ANSWERER_NAME: ANSWERER}
    return _HEAD + yaml.safe_dump({name: [role.value for role in group] for name, group in groups.items()})


def topology_file() -> str:
    """The topology file, as YAML."""
    found = {
        "roles": {entry.role.value: _role(entry) for entry in ROLES},
        "people": {person.value: {"rights": _rights(person)} for person in Person},
        "topics": [_topic(topic) for topic in Topic if topic is not Topic.INPUT],
        "configs": {
            kind.value: dict(DEFAULTS[kind]) for kind in (TopicKind.INTERNAL, TopicKind.RESULTS, TopicKind.DLQ)
        },
        "presencePartitions": PRESENCE_PARTITIONS,
        "readers": {setting: [str(reader) for reader in readers] for setting, readers in READERS.items()},
    }
    return _HEAD + yaml.safe_dump(found, sort_keys=False, width=2**16)


def _role(entry: RoleEntry) -> dict[str, Any]:
    edge, allowed = entry.edge, rights(entry.role, QUERY, (INPUT,))
    return {
        "reads": [topic.value for topic in edge.reads],
        "writes": [topic.value for topic in edge.writes],
        "trims": [topic.value for topic in edge.trims],
        "isTransactional": any(right.kind is ResourceKind.TRANSACTIONAL_ID for right in allowed),
        # Every service reports its state and health in Redis.
        "redis": True,
        "kubernetes": entry.asks_kubernetes,
        "rights": _rights(edge.role),
    }


def _rights(principal: Principal) -> list[dict[str, Any]]:
    """One entry for each resource, with all its operations."""
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
    found = {"name": name, "partitions": size(topic).value, "kind": kind_of(topic).value}
    return found | ({"onlyWith": _ONLY_WITH[topic]} if topic in _ONLY_WITH else {})
