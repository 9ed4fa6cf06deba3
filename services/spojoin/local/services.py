"""The processes that serve one query: which there are, and the settings of each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.supervise import Service
from spojoin.model import Query
from spojoin.page.settings import PAGE_PREFIX
from spojoin.protocol.joiners import joiner_count
from spojoin.protocol.services import idle_roles
from spojoin.protocol.topology import Role
from spojoin.runtime.settings import ENV_PREFIX


@dataclass(frozen=True, slots=True)
class Deployment:
    """A query on a cluster. `extra` holds further settings by name, for all services.

    joiners: mutable joiners; None for as many as predicates
    """

    query: Query
    query_file: Path
    bootstrap: str
    redis_url: str
    workers: int = 2
    extra: Mapping[str, str] = field(default_factory=dict)
    joiners: int | None = None

    @property
    def replaces(self) -> bool:
        """Whether the query may take the place of another one, which has to end first."""
        return self.extra.get("replace", "").lower() == "true"

    @property
    def joiner_count(self) -> int:
        """How many mutable joiners are started."""
        return joiner_count(len(self.query.predicates), self.joiners)


def services_of(deployment: Deployment) -> list[Service]:
    """One process for each role, but for mutable joiners and PO-Join workers as many as are asked for.

    Those that the query's layout has no work for are left out, unless another query may have to end before it.
    There is no controller: it serves Kubernetes, where workers come and go.
    """
    return [
        Service(name, [sys.executable, "-m", f"spojoin.roles.{role.value.replace('-', '_')}"], port, environment)
        for role, number in _instances(deployment)
        for port in (free_port(),)
        for name, environment in (_settings_of(deployment, role, number, port),)
    ]


def page_of(deployment: Deployment) -> Service:
    """The process that serves the query's page on a free port of this machine."""
    port = free_port()
    place = {f"{PAGE_PREFIX}HOST": LOOPBACK, f"{PAGE_PREFIX}PORT": str(port)}
    return Service("page", [sys.executable, "-m", "spojoin.page"], port, {**_environment(deployment, {}), **place})


def _instances(deployment: Deployment) -> Iterator[tuple[Role, int | None]]:
    counts = {Role.MUTABLE: deployment.joiner_count, Role.POJOIN: deployment.workers, Role.CONTROLLER: 0}
    if not deployment.replaces:
        counts |= dict.fromkeys(idle_roles(deployment.query.layout), 0)
    for role in Role:
        if role in counts:
            yield from ((role, number) for number in range(counts[role]))
        else:
            yield role, None


def _settings_of(deployment: Deployment, role: Role, number: int | None, port: int) -> tuple[str, dict[str, str]]:
    """A service's name and its environment."""
    settings = {"metrics_host": LOOPBACK, "metrics_port": str(port)}
    if number is not None:
        settings["joiner" if role is Role.MUTABLE else "worker"] = str(number)
    return role.value if number is None else f"{role.value}-{number}", _environment(deployment, settings)


def _environment(deployment: Deployment, own: Mapping[str, str]) -> dict[str, str]:
    """The settings of every process, and the `own` ones of one."""
    settings = {
        "query_file": str(deployment.query_file.resolve()),
        "bootstrap_servers": deployment.bootstrap,
        "redis_url": deployment.redis_url,
        "workers": str(deployment.workers),
        "joiners": str(deployment.joiner_count),
        **own,
        **deployment.extra,
    }
    # Every service is one busy thread; pools of threads in each would only take turns on the same cores.
    environment = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return environment | {f"{ENV_PREFIX}{name.upper()}": value for name, value in settings.items()}
