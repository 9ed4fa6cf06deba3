"""The README's table of the processes that a changed setting restarts, made from the settings' readers."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.protocol.topology import LONE_ROLES, PACKABLE, Role
from spojoin.runtime.setting_readers import PAGE, READERS, SHARED

#: The chart's value for each setting; other settings are values under `settings`.
VALUES = {
    "intakes": "intake.replicas",
    "joiners": "mutable.replicas",
    "logical_ands": "logicalAnd.replicas",
    "workers_max": "pojoin.maxReplicas",
    "columns": "pojoin.columns",
    "sinks": "sink.replicas",
    "columns_by": "pojoin.columnsBy",
    "scale_once": "pojoin.replicas",
    "workers_inside": "pojoin.inside",
    "packing": "packing",
    "standbys": "standbys",
    "patience_ms": "patienceMs",
    "bootstrap_servers": "kafka.bootstrapServers",
    "kafka": "kafka.properties",
    "kafka_username": "kafka.users",
    "redis_url": "redis",
    "registry_url": "schemaRegistry",
    "adopt": "query.adopt",
    "topics": "topics.config",
    "replace": "query.replace",
    "backfill": "query.backfill",
    "autoscale": "controller.autoscale",
}
#: Settings that pods set themselves, that follow another value, or that the chart never sets.
_UNSAID = [
    "query_file",
    "intake",
    "joiner",
    "logical_and",
    "worker",
    "sink",
    "workers",
    "instance",
    "secrets_folders",
    "owner",
    "statefulset",
    "namespace",
    "scale_min",
    "scale_max",
    "drain_ms",
    "kafka_password",
    "kafka_password_file",
    "redis_username",
    "redis_password",
    "redis_password_file",
    "registry_username",
    "registry_password",
    "registry_password_file",
    "registry_ca",
    "metrics_host",
    "metrics_port",
]


def restarts() -> Iterator[str]:
    """The table's lines: one for each set of processes that restart."""
    by_readers: dict[tuple[str, ...], list[str]] = {}
    for setting, readers in READERS.items():
        if setting not in _UNSAID:
            value = VALUES.get(setting, f"settings.{setting}")
            by_readers.setdefault(tuple(readers), []).append(f"`{value}`")
    yield "| a changed value | restarts |"
    yield "| --- | --- |"
    for readers, values in sorted(by_readers.items(), key=lambda item: -len(item[0])):
        yield f"| {' '.join(values)} | {_named(readers)} |"


def _named(readers: tuple[str, ...]) -> str:
    if set(readers) == {*Role, PAGE}:
        return "all"
    if set(readers) == {*Role}:
        return "all but the page"
    if set(readers) == {*PACKABLE}:
        return f"all but {', '.join(LONE_ROLES)} and page"
    if readers == (SHARED,):
        return "processes of several roles"
    return ", ".join(readers)
