"""The running processes and the speaking instances, by the services' reports in the store."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import redis

from loadgen.chaos.plan import Fault, FaultKind
from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import Supervisor, is_ready
from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.shared_state import key
from spojoin.protocol.services import service_of
from spojoin.protocol.topology import Role
from spojoin.telemetry.status import FINE, READY

#: Results never wait for this service. It has no seat, and only one instance may work.
UNSEATED = Role.PREDICTOR.value


class Reports(Protocol):
    """The store that services report to."""

    def scan(self, prefix: str) -> dict[str, dict[str, str]]:
        """All keys that start with `prefix`, with their fields; raises StoreUnavailable."""
        ...


def services(processes: Iterable[str]) -> list[str]:
    """The services of the processes, each once, in order."""
    return list(dict.fromkeys(map(service_of, processes)))


def seated(processes: Iterable[str]) -> list[str]:
    """The processes that results wait for."""
    return [process for process in processes if service_of(process) != UNSEATED]


class Seats:
    """The instances that speak for the services of a query."""

    def __init__(self, reports: Reports, query: str) -> None:
        self._reports = reports
        self._prefix = key(query, "status", "")

    def states(self, pids: Mapping[str, int]) -> dict[str, str]:
        """Each process's own reported state, never that of a former process of its name; empty without the store."""
        try:
            found = self._reports.scan(self._prefix)
        except StoreUnavailable:
            return {}
        reported = {name.removeprefix(self._prefix): fields for name, fields in found.items()}
        return {
            name: reported[name].get("state", "")
            for name, pid in pids.items()
            if name in reported and reported[name].get("pid") == str(pid)
        }

    def are_settled(self, pids: Mapping[str, int]) -> bool:
        """Whether each service has a process that speaks, and its other processes are ready to replace it."""
        states = self.states(pids)
        by_service: dict[str, list[str]] = {}
        for name in seated(pids):
            by_service.setdefault(service_of(name), []).append(states.get(name, ""))
        return all(READY in found and set(found) <= {*FINE} for found in by_service.values())

    def speaker(self, service: str, pids: Mapping[str, int]) -> str | None:
        """The only process that speaks for a service; None if no process or several report that they speak."""
        states = self.states(pids)
        found = [name for name in pids if service_of(name) == service and states.get(name) == READY]
        return found[0] if len(found) == 1 else None


class Driver(Protocol):
    """Strikes services, the broker and Redis. The environment must restart ended ones.

    Any thread may call all methods except `tend`. They may last as long as the fault. They raise
    SpoJoinError if they can't do their work.
    """

    def targets(self) -> Sequence[str]:
        """The names of the running services, in order."""
        ...

    def delete(self, target: str) -> None:
        """Ask a service to end."""
        ...

    def kill(self, target: str) -> None:
        """End a service at once."""
        ...

    def pause(self, target: str) -> None:
        """Pause a service's process."""
        ...

    def resume(self, target: str) -> None:
        """Resume a paused service, if it still runs."""
        ...

    def restart_broker(self) -> None:
        """Restart Kafka and keep its data."""
        ...

    def flush_redis(self) -> None: ...

    def tend(self) -> None:
        """Restart ended processes, unless the environment does; called repeatedly."""
        ...


def strike(driver: Driver, fault: Fault, wait: Callable[[float], object]) -> None:
    """Inject a fault. A pause lasts as long as `wait(seconds)`, and the service is resumed even after an error."""
    if fault.kind is FaultKind.PAUSE:
        driver.pause(fault.target)
        try:
            wait(fault.lasts_s)
        finally:
            driver.resume(fault.target)
    elif fault.kind is FaultKind.BROKER:
        driver.restart_broker()
    elif fault.kind is FaultKind.REDIS:
        driver.flush_redis()
    else:
        (driver.delete if fault.kind is FaultKind.DELETE else driver.kill)(fault.target)


class LocalDriver:
    """Strikes services on this machine, and the cluster that they use; the supervisor restarts services."""

    def __init__(self, cluster: LocalCluster, supervisor: Supervisor) -> None:
        self.cluster = cluster
        self.supervisor = supervisor
        self._paused: dict[str, int] = {}
        self._broker = threading.Lock()

    def targets(self) -> Sequence[str]:
        """The services' names."""
        return list(self.supervisor.pids())

    def delete(self, target: str) -> None:
        """SIGTERM."""
        self._signal(target, signal.SIGTERM)

    def kill(self, target: str) -> None:
        """SIGKILL."""
        self._signal(target, signal.SIGKILL)

    def pause(self, target: str) -> None:
        """SIGSTOP."""
        self._paused[target] = self._signal(target, signal.SIGSTOP)

    def resume(self, target: str) -> None:
        """SIGCONT to the process that was paused, unless it was killed meanwhile."""
        pid = self._paused.pop(target)
        if self.supervisor.pids().get(target) == pid:
            os.kill(pid, signal.SIGCONT)

    def restart_broker(self) -> None:
        """SIGKILL, and a start with the same data."""
        with self._broker:
            self.cluster.broker.kill()
            self.cluster.broker.start()

    def flush_redis(self) -> None:
        """FLUSHALL."""
        flush(self.cluster.redis.url)

    def restart_redis(self) -> None:
        """SIGKILL, and a start with nothing."""
        self.cluster.redis.kill()
        self.cluster.redis.start()

    def lose_redis(self) -> None:
        """SIGKILL, for good."""
        self.cluster.redis.kill()

    def are_ready(self) -> bool:
        """Whether all services that results wait for are ready."""
        services = self.supervisor.services()
        return all(is_ready(services[process].port) for process in seated(services))

    def tend(self) -> None:
        """The supervisor restarts ended services."""
        self.supervisor.tend()

    def _signal(self, target: str, number: signal.Signals) -> int:
        pid = self.supervisor.pids()[target]
        # A process that has ended still exists until the supervisor collects it.
        os.kill(pid, number)
        return pid


def flush(url: str) -> None:
    """Empty a Redis."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
