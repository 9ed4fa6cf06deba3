"""A `TiedJoin` served on this machine under load, while a listener reads its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loadgen.chaos.driver import UNSEATED, LocalDriver, Seats, seated, services
from loadgen.chaos.listener import Arrival, ResultListener
from loadgen.load.connection import Connection
from loadgen.load.figures import reported
from loadgen.load.open_loop import OpenLoop
from spojoin.errors import ConfigurationError
from spojoin.local.services import renewed
from spojoin.ports.interfaces import LogUnavailable
from spojoin.protocol.packing import roles_of
from spojoin.protocol.services import service_of
from spojoin.protocol.topology import Role

#: The interval at which a client polls a broker that starts.
ASK_S = 0.02


@dataclass(slots=True)
class LoadedServices:
    """Services that are processes of this machine, while a load runs.

    rate: rows a second; write_query: writes the query's next version into its file
    first: rows sent before `loop`
    """

    driver: LocalDriver
    seats: Seats
    loop: OpenLoop
    listener: ResultListener
    rate: float
    write_query: Callable[[], None]
    first: int = 0
    _generation: int = 1
    _due: list[str] = field(default_factory=list)

    def services(self) -> Sequence[str]:
        """Names of the services that results wait for."""
        return services(seated(self.driver.supervisor.pids()))

    def speaker(self, service: str) -> str:
        """The process that speaks for a service. Raises ConfigurationError if no report names it."""
        found = self.seats.speaker(service, self.driver.supervisor.pids())
        if found is None:
            raise ConfigurationError(f"no instance of {service}, or more than one, says that it speaks")
        return found

    def upgrade(self) -> None:
        """Upgrade as the chart does: start new processes beside the old ones, but replace workers one by one.

        The predictor ends first, since no result waits for it.
        """
        services = self.driver.supervisor.services()
        self._due = [name for name in services if service_of(name).startswith(f"{Role.POJOIN}-")]
        if UNSEATED in services:
            self.driver.delete(UNSEATED)
        self._renew([name for name in seated(services) if name not in self._due], {})

    def replace_query(self) -> None:
        """Replace the query as the chart does: a new router announces it, and the other processes serve it."""
        self.write_query()
        self._generation += 1
        named = [name for name in self.driver.supervisor.services() if Role.ROUTER in roles_of(service_of(name))]
        self._renew(named, {"replace": "true"})

    def _renew(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        services = self.driver.supervisor.services()
        self.driver.supervisor.renew([renewed(services[name], settings) for name in names])

    def restart_kafka(self) -> float:
        """Kill and start Kafka; returns the seconds until a new client finds the end of the results."""
        began_s = time.monotonic()
        self.driver.restart_broker()
        with Connection(self.driver.cluster.broker.bootstrap).opened() as log:
            while True:
                try:
                    for source in self.listener.sources:
                        log.end(source)
                    return time.monotonic() - began_s
                except LogUnavailable:
                    time.sleep(ASK_S)

    def tend(self) -> None:
        """Restart ended processes; raise the exception that ended the load or the listener."""
        self.driver.tend()
        if self._due and self.driver.supervisor.is_renewed and self.driver.are_ready():
            self.driver.delete(self._due.pop())
        self.loop.check()
        self.listener.check()

    @property
    def unanswered(self) -> int:
        """The number of sent rows that have no result."""
        return self.first + self.loop.rows - self.listener.tuples

    def are_well(self, lag_s: float) -> bool:
        """Whether all services are ready, each with its speaker, and results keep up."""
        if self.unanswered > lag_s * self.rate or self.listener.generation < self._generation:
            return False
        is_changed = self.driver.supervisor.is_renewed and not self._due
        return is_changed and self.driver.are_ready() and self.seats.are_settled(self.driver.supervisor.pids())

    def arrivals(self) -> Sequence[Arrival]:
        """The times of results."""
        return self.listener.arrivals

    def replays(self) -> dict[tuple[str, int], int]:
        """How often each process has rebuilt its state from the log, its start included."""
        services = self.driver.supervisor.services()
        return {
            (name, pid): int(reported(services[name].port)["spojoin_replays_total"])
            for name, pid in self.driver.supervisor.pids().items()
        }
