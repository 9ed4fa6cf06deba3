"""Which processes run, and who of a service's instances speaks, as the services' own reports in the store say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.shared_state import key
from spojoin.protocol.services import service_of
from spojoin.protocol.topology import Role
from spojoin.telemetry.status import FINE, READY

#: Results never wait for it, it has no seat, and of its instances only one may have work.
UNSEATED = Role.PREDICTOR.value


class Reports(Protocol):
    """Where services report: a store."""

    def scan(self, prefix: str) -> dict[str, dict[str, str]]:
        """All keys that start with `prefix`, with their fields; raises StoreUnavailable."""
        ...


def services(processes: Iterable[str]) -> list[str]:
    """The services of some processes, each once, in order."""
    return list(dict.fromkeys(map(service_of, processes)))


def seated(processes: Iterable[str]) -> list[str]:
    """Those of some processes that results wait for."""
    return [process for process in processes if service_of(process) != UNSEATED]


class Seats:
    """Who speaks for the services of a query."""

    def __init__(self, reports: Reports, query: str) -> None:
        self._reports = reports
        self._prefix = key(query, "status", "")

    def states(self, pids: Mapping[str, int]) -> dict[str, str]:
        """The state of each process that reports it itself, not a former one of its name; none without the store."""
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
        """Whether each service has a process that speaks, and all its others wait ready to take its place."""
        states = self.states(pids)
        by_service: dict[str, list[str]] = {}
        for name in seated(pids):
            by_service.setdefault(service_of(name), []).append(states.get(name, ""))
        return all(READY in found and set(found) <= {*FINE} for found in by_service.values())

    def speaker(self, service: str, pids: Mapping[str, int]) -> str | None:
        """The process that alone speaks for a service; None where none does, or several say so."""
        states = self.states(pids)
        found = [name for name in pids if service_of(name) == service and states.get(name) == READY]
        return found[0] if len(found) == 1 else None
