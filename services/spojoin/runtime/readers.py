"""Which process reads which setting.

The chart and `spojoin up` give each process what it reads and no more, so a changed setting restarts no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spojoin.protocol.packing import PACKABLE
from spojoin.protocol.topology import Role

#: Readers besides the roles: the page, and any process that several roles share.
PAGE, SHARED = "page", "shared"

_SERVICES = tuple(Role)
_ALL = (*Role, PAGE)
_COUNTING = (Role.ROUTER, Role.CONTROLLER, PAGE)

#: Of each setting, who reads it.
READERS: Mapping[str, Sequence[str]] = {
    "query_file": _ALL,
    "joiner": (Role.MUTABLE,),
    "joiners": (Role.MUTABLE, Role.CONTROLLER, PAGE),
    "worker": (Role.POJOIN,),
    "workers": _COUNTING,
    "workers_max": _SERVICES,
    "packing": _ALL,
    "standbys": _SERVICES,
    "instance": PACKABLE,
    "patience_ms": PACKABLE,
    "workers_inside": _ALL,
    "threads": (SHARED,),
    "bootstrap_servers": _ALL,
    "kafka": _ALL,
    "kafka_username": _ALL,
    "kafka_password": _ALL,
    "kafka_password_file": _ALL,
    "redis_url": _ALL,
    "redis_username": _ALL,
    "redis_password": _ALL,
    "redis_password_file": _ALL,
    "registry_url": (Role.ROUTER, Role.SINK, PAGE),
    "registry_username": (Role.ROUTER, Role.SINK, PAGE),
    "registry_password": (Role.ROUTER, Role.SINK, PAGE),
    "registry_password_file": (Role.ROUTER, Role.SINK, PAGE),
    "registry_ca": (Role.ROUTER, Role.SINK, PAGE),
    "secrets_folders": _ALL,
    "input_topics": _ALL,
    "owner": _SERVICES,
    "adopt": (Role.ROUTER,),
    "replace": (Role.ROUTER, Role.CONTROLLER),
    "backfill": (Role.ROUTER,),
    "transactions": (Role.ROUTER, Role.SINK),
    "router_transactions": (Role.ROUTER,),
    "compression": _SERVICES,
    "results_format": (Role.SINK,),
    "topics": _SERVICES,
    "results_bytes_max": _SERVICES,
    "frame_tuples": (Role.ROUTER,),
    "linger_ms": (Role.ROUTER,),
    "batch_tuples": (Role.ROUTER,),
    "batch_frames": (Role.ROUTER,),
    "handover_frames": (Role.ROUTER,),
    "credits_frames": (Role.ROUTER,),
    "drain_ms": (Role.POJOIN,),
    "stall_ms_max": _ALL,
    "statefulset": (Role.CONTROLLER,),
    "namespace": (Role.CONTROLLER,),
    "autoscale": (Role.CONTROLLER,),
    "scale_once": (Role.CONTROLLER,),
    "scale_min": (Role.CONTROLLER,),
    "scale_max": (Role.CONTROLLER,),
    "scale_cpu_high": (Role.CONTROLLER,),
    "scale_cpu_low": (Role.CONTROLLER,),
    "scale_lag_high": (Role.CONTROLLER,),
    "scale_up_after_s": (Role.CONTROLLER,),
    "scale_down_after_s": (Role.CONTROLLER,),
    "scale_wait_s_max": (Role.CONTROLLER,),
    "metrics_host": _SERVICES,
    "metrics_port": _SERVICES,
    "log_level": _ALL,
}


def readers_of(roles: Collection[Role]) -> tuple[str, ...]:
    """As whom a process of these roles reads settings."""
    return (*roles, SHARED) if len(roles) > 1 else tuple(roles)


def is_read(setting: str, readers: Collection[str]) -> bool:
    """Whether any of the readers reads a setting. One that is unknown goes to all, so that it is refused."""
    return any(reader in readers for reader in READERS.get(setting, readers))
