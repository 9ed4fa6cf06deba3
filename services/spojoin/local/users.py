"""Adds users with their rights to a local broker with access control, as an operator does on other clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from spojoin.local.broker import LocalBroker
from spojoin.protocol.access import ResourceKind, Right

TIMEOUT_S = 30.0
ITERATIONS = 4_096
_KINDS = {
    ResourceKind.TOPIC: ResourceType.TOPIC,
    ResourceKind.GROUP: ResourceType.GROUP,
    ResourceKind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


def add_users(broker: LocalBroker, passwords: Mapping[str, str]) -> None:
    """Give users their passwords. Raises KafkaException if the broker refuses."""
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    asked: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(name, kind, text.encode()) for name, text in passwords.items()
    ]
    admin = _admin(broker)
    for done in admin.alter_user_scram_credentials(asked, request_timeout=TIMEOUT_S).values():
        done.result()


def allow(broker: LocalBroker, user: str, rights: Iterable[Right]) -> None:
    """Give a user further rights. Raises KafkaException if the broker refuses."""
    admin = _admin(broker)
    for done in admin.create_acls([_binding(user, right) for right in rights]).values():
        done.result()


def _admin(broker: LocalBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0, **broker.admin_properties})


def _binding(user: str, right: Right) -> AclBinding:
    return AclBinding(
        _KINDS[right.kind],
        right.name,
        ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[right.operation.name],
        AclPermissionType.ALLOW,
    )
