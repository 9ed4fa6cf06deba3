"""A `TiedJoin` served on this machine under load, with a listener at its results."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loadgen.chaos.listener import Arrival, ResultListener
from loadgen.chaos.seats import UNSEATED, Seats, seated, services
from loadgen.load.connection import Connection
from loadgen.load.open_loop import OpenLoop
from spojoin.errors import ConfigurationError
from spojoin.local.cluster import LocalCluster
from spojoin.local.services import renewed
from spojoin.local.supervise import Supervisor, is_ready
from spojoin.ports.interfaces import LogUnavailable
from spojoin.protocol.packing import roles_of
from spojoin.protocol.services import service_of
from spojoin.protocol.topology import Role

#: How often a client asks a broker that starts.
ASK_S = 0.02


@dataclass(slots=True)
class LoadedServices:
    """Services that are processes of this machine, while a load runs.

    rate: rows a second; cluster: the servers; write_query: writes the query's next version into its file
    first: rows sent before `loop`
    """

    supervisor: Supervisor
    seats: Seats
    loop: OpenLoop
    listener: ResultListener
    rate: float
    cluster: LocalCluster
    write_query: Callable[[], None]
    first: int = 0
    _generation: int = 1
    _due: list[str] = field(default_factory=list)

    def services(self) -> Sequence[str]:
        """Names of the services that results wait for."""
        return services(seated(self.supervisor.pids()))

    def speaker(self, service: str) -> str:
        """The process that speaks. Raises ConfigurationError where nobody knows."""
        found = self.seats.speaker(service, self.supervisor.pids())
        if found is None:
            raise ConfigurationError(f"no instance of {service}, or more than one, says that it speaks")
        return found

    def kill(self, process: str) -> None:
        """SIGKILL; the supervisor restarts it."""
        os.kill(self.supervisor.pids()[process], signal.SIGKILL)

    def stop(self, process: str) -> None:
        """SIGSTOP."""
        os.kill(self.supervisor.pids()[process], signal.SIGSTOP)

    def resume(self, process: str) -> None:
        """SIGCONT."""
        os.kill(self.supervisor.pids()[process], signal.SIGCONT)

    def upgrade(self) -> None:
        """As the chart does: new processes start beside those of the same names, but for workers, which take turns.

        The predictor, for which nothing waits, ends first.
        """
        services = self.supervisor.services()
        self._due = [name for name in services if service_of(name).startswith(f"{Role.POJOIN}-")]
        if UNSEATED in services:
            self._end(UNSEATED)
        self._renew([name for name in seated(services) if name not in self._due], {})

    def replace_query(self) -> None:
        """As the chart does: a new router announces the query, and the others serve it where they are."""
        self.write_query()
        self._generation += 1
        named = [name for name in self.supervisor.services() if Role.ROUTER in roles_of(service_of(name))]
        self._renew(named, {"replace": "true"})

    def _end(self, process: str) -> None:
        """SIGTERM; the supervisor restarts it."""
        os.kill(self.supervisor.pids()[process], signal.SIGTERM)

    def _renew(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        services = self.supervisor.services()
        self.supervisor.renew([renewed(services[name], settings) for name in names])

    def restart_kafka(self) -> float:
        """SIGKILL and start; seconds until a new client finds where the results end."""
        broker, began_s = self.cluster.broker, time.monotonic()
        broker.kill()
        broker.start()
        with Connection(broker.bootstrap).opened() as log:
            while True:
                try:
                    log.end(self.listener.source)
                    return time.monotonic() - began_s
                except LogUnavailable:
                    time.sleep(ASK_S)

    def lose_redis(self) -> None:
        """SIGKILL, for good."""
        self.cluster.redis.kill()

    def tend(self) -> None:
        """Restart what has ended; raise what ended the load or the listening."""
        self.supervisor.tend()
        if self._due and self.supervisor.is_renewed and self._are_ready():
            self._end(self._due.pop())
        self.loop.check()
        self.listener.check()

    @property
    def unanswered(self) -> int:
        """Rows that are in and have no result."""
        return self.first + self.loop.rows - self.listener.tuples

    def are_well(self, lag_s: float) -> bool:
        """Whether all are ready, each in its place, and results keep up."""
        if self.unanswered > lag_s * self.rate or self.listener.generation < self._generation:
            return False
        is_changed = self.supervisor.is_renewed and not self._due
        return is_changed and self._are_ready() and self.seats.are_settled(self.supervisor.pids())

    def _are_ready(self) -> bool:
        services = self.supervisor.services()
        return all(is_ready(services[process].port) for process in seated(services))

    def arrivals(self) -> Sequence[Arrival]:
        """When results came."""
        return self.listener.arrivals
