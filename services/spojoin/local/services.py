"""The processes that serve one query, and their settings."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.supervise import Service
from spojoin.model import Query
from spojoin.page.settings import PAGE_PREFIX
from spojoin.protocol.key_columns import BY_KEY
from spojoin.protocol.packing import ANSWERER, APART, Group, Packing, group_name, parse_packing
from spojoin.protocol.services import (
    FIRST_INSTANCE,
    idle_roles,
    instance_name,
    joiner_count,
    names,
    names_from_one,
)
from spojoin.protocol.topology import Role, role_entry
from spojoin.runtime.setting_readers import PAGE, is_read, readers_of
from spojoin.runtime.settings import ENV_PREFIX

#: The module that runs several roles, whose names are its arguments.
_COMMAND_OF_SEVERAL = "spojoin.runtime"
#: The instances of a service with a standby.
INSTANCES = (FIRST_INSTANCE, "b")
#: The setting with a service's number, by its role.
_NUMBERED = {
    Role.INTAKE: "intake",
    Role.MUTABLE: "joiner",
    Role.POJOIN: "worker",
    Role.LOGICAL_AND: "logical_and",
    Role.SINK: "sink",
}
#: How many workers run in a process that PO-Join shares; further ones run in separate processes.
WORKERS_INSIDE = 1


@dataclass(frozen=True, slots=True)
class Deployment:
    """A query on a cluster. `extra` holds further settings by name, for all services.

    joiners: the number of mutable joiners; None for as many as predicates
    packing: which roles share a process; standbys: whether each has a second instance
    """

    query: Query
    query_file: Path
    bootstrap: str
    redis_url: str
    workers: int = 2
    extra: Mapping[str, str] = field(default_factory=dict)
    joiners: int | None = None
    packing: str = APART
    standbys: bool = False

    @property
    def replaces(self) -> bool:
        """Whether the query may replace another one, which has to end first."""
        return self.extra.get("replace", "").lower() == "true"

    @property
    def sinks(self) -> int:
        """How many sinks are started, each with its own partition of the results."""
        return int(self.extra.get("sinks", 1))

    @property
    def intakes(self) -> int:
        """How many intakes are started; 0 if the router reads the inputs itself."""
        return int(self.extra.get("intakes", 0))

    @property
    def joiner_count(self) -> int:
        """How many mutable joiners are started."""
        return joiner_count(len(self.query.predicates), self.joiners)

    @property
    def logical_ands(self) -> int:
        """How many logical ANDs are started, if these have processes of their own."""
        return int(self.extra.get("logical_ands", 1))


def services_of(deployment: Deployment) -> list[Service]:
    """A process for each role or group of roles, and as many joiners, logical ANDs and workers as the deployment has.

    Roles without work in the query's layout are left out, unless another query may have to end first. There is no
    controller: it is for Kubernetes, where workers come and go.
    """
    if deployment.standbys:
        single = replace(deployment, standbys=False)
        extra = {**deployment.extra, "standbys": "true"}
        return [
            replace(service, name=instance_name(service.name, instance))
            for instance in INSTANCES
            for service in services_of(replace(single, extra={**extra, "instance": instance}))
            if instance == FIRST_INSTANCE or service.name != Role.PREDICTOR  # nothing waits for a plan
        ]
    packing = parse_packing(deployment.packing)
    once = [group for group in packing.shared if group != ANSWERER]
    packed = [_service(deployment, group_name(group), group, {}) for group in once]
    return packed + [
        _service(
            deployment,
            name,
            ANSWERER if packing.has_answerers and role is Role.POJOIN else (role,),
            {_NUMBERED[role]: str(number)} if role in _NUMBERED else {},
        )
        for role, number, name in _instances(deployment, packing)
    ]


def _service(deployment: Deployment, name: str, roles: Group, own: Mapping[str, str]) -> Service:
    port = free_port()
    place = {"metrics_host": LOOPBACK, "metrics_port": str(port)}
    alone = f"spojoin.roles.{role_entry(roles[0]).package}"
    command = [alone] if len(roles) == 1 else [_COMMAND_OF_SEVERAL, group_name(roles)]
    environment = _environment(deployment, readers_of(roles), {**place, **own})
    return Service(name, [sys.executable, "-m", *command], port, environment)


def renewed(service: Service, settings: Mapping[str, str]) -> Service:
    """Another process of a service, beside the existing one, with further settings."""
    port = free_port()
    named = {f"{ENV_PREFIX}{name.upper()}": value for name, value in {**settings, "metrics_port": str(port)}.items()}
    return replace(service, port=port, environment={**service.environment, **named})


def page_of(deployment: Deployment) -> Service:
    """The process that serves the query's page on a free port of this machine."""
    port = free_port()
    place = {f"{PAGE_PREFIX}HOST": LOOPBACK, f"{PAGE_PREFIX}PORT": str(port)}
    return Service("page", [sys.executable, "-m", "spojoin.page"], port, {**_environment(deployment, (PAGE,)), **place})


def _instances(deployment: Deployment, packing: Packing) -> Iterator[tuple[Role, int, str]]:
    """The roles with separate processes, and the workers beside those that share one: numbers and names of each."""
    found: dict[Role, Sequence[str]] = {
        **{role: (role.value,) for role in Role},
        Role.INTAKE: names(Role.INTAKE, deployment.intakes),
        Role.MUTABLE: names(Role.MUTABLE, deployment.joiner_count),
        Role.POJOIN: names(Role.POJOIN, deployment.workers),
        Role.LOGICAL_AND: names_from_one(Role.LOGICAL_AND, deployment.logical_ands),
        Role.SINK: names_from_one(Role.SINK, deployment.sinks),
        Role.CONTROLLER: (),
    }
    uses_plans = not deployment.query.layout.has_mutable_part or deployment.extra.get("columns_by") == BY_KEY
    if not uses_plans:
        found[Role.PREDICTOR] = ()
    if not deployment.replaces:
        found |= dict.fromkeys(idle_roles(deployment.query.layout), ())
    for role, services in found.items():
        inside = len(services) if packing.is_shared(role) else 0
        if role is Role.POJOIN:
            inside = WORKERS_INSIDE if packing.has_workers_inside else 0
        yield from ((role, number, services[number]) for number in range(inside, len(services)))


def _environment(
    deployment: Deployment, readers: Collection[str], own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The settings that a process reads, including its `own`."""
    settings = {
        "query_file": str(deployment.query_file.resolve()),
        "bootstrap_servers": deployment.bootstrap,
        "redis_url": deployment.redis_url,
        "workers": str(deployment.workers),
        "joiners": str(deployment.joiner_count),
        "packing": deployment.packing,
        **own,
        **deployment.extra,
    }
    # Each service has one busy thread; pools of threads would only compete for the same cores.
    environment = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # Of the largest worker count, which all read, the worker count is the default.
    read = [name for name in settings if name == "workers" or is_read(name, readers)]
    return environment | {f"{ENV_PREFIX}{name.upper()}": settings[name] for name in read}
