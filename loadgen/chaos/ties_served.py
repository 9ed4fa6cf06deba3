"""A `TiedJoin` served on this machine under load, with a listener at its results."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.chaos.listener import Arrival, ResultListener
from loadgen.chaos.seats import Seats, seated, services
from loadgen.load.connection import Connection
from loadgen.load.open_loop import OpenLoop
from spojoin.errors import ConfigurationError
from spojoin.local.cluster import LocalCluster
from spojoin.local.supervise import Supervisor, is_ready
from spojoin.ports.interfaces import LogUnavailable

#: How often a client asks a broker that starts.
ASK_S = 0.02


@dataclass(slots=True)
class LoadedServices:
    """Services that are processes of this machine, while a load runs.

    ports: of the processes' health, by name; rate: rows a second; cluster: the servers; first: rows sent before `loop`
    """

    supervisor: Supervisor
    ports: dict[str, int]
    seats: Seats
    loop: OpenLoop
    listener: ResultListener
    rate: float
    cluster: LocalCluster
    first: int = 0

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
        self.loop.check()
        self.listener.check()

    @property
    def unanswered(self) -> int:
        """Rows that are in and have no result."""
        return self.first + self.loop.rows - self.listener.tuples

    def are_well(self, lag_s: float) -> bool:
        """Whether all are ready, each in its place, and results keep up."""
        if self.unanswered > lag_s * self.rate:
            return False
        pids = self.supervisor.pids()
        return all(is_ready(self.ports[process]) for process in seated(pids)) and self.seats.are_settled(pids)

    def arrivals(self) -> Sequence[Arrival]:
        """When results came."""
        return self.listener.arrivals
