"""Which process reads which setting.

The chart and `spojoin up` give each process only the settings that it reads, so a changed setting restarts no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from spojoin.protocol.topology import REGISTRY_SETTINGS, ROLES
from spojoin.runtime.settings import Settings

#: Readers other than roles: the page, and any process that several roles share.
PAGE, SHARED = "page", "shared"

#: The settings that each role and the page read, that only roles read, and that only machines read.
_ALL = (
    *("query_file", "packing", "workers_inside", "secrets_folders", "input_topics", "stall_ms_max", "log_level"),
    *("bootstrap_servers", "kafka", "kafka_username", "kafka_password", "kafka_password_file"),
    *("redis_url", "redis_username", "redis_password", "redis_password_file"),
)
_ROLES = (
    *("workers_max", "standbys", "owner", "compression", "topics", "results_bytes_max"),
    *("metrics_host", "metrics_port"),
)
_MACHINES = ("instance", "patience_ms")

_READ: Mapping[str, Collection[str]] = {
    **{each.role: (*_ALL, *_ROLES, *each.settings, *(_MACHINES if each.has_machine else ())) for each in ROLES},
    PAGE: (*_ALL, "intakes", "joiners", "workers", "logical_ands", "sinks", *REGISTRY_SETTINGS),
    SHARED: ("threads",),
}

#: The readers of each setting.
READERS: Mapping[str, tuple[str, ...]] = {
    setting: tuple(reader for reader, read in _READ.items() if setting in read) for setting in Settings.model_fields
}


def readers_of(roles: Collection[str]) -> tuple[str, ...]:
    """The readers that a process of these roles counts as."""
    return (*roles, SHARED) if len(roles) > 1 else tuple(roles)


def is_read(setting: str, readers: Collection[str]) -> bool:
    """Whether any of the readers reads a setting; all read an unknown one, so that it is refused."""
    return any(reader in readers for reader in READERS.get(setting, readers))
