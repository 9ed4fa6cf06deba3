"""Which of a query's services has been away for long: reported once when it is, and once when it is back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spojoin.protocol.services import service_of

#: as Kubernetes' patience with a node, so that a restart in place is no event
AWAY_MS = 30_000.0


class Change(NamedTuple):
    """A service has been away for `AWAY_MS`, or is back after at least that long. Sentences are for people."""

    service: str
    is_back: bool
    away_ms: float

    @property
    def sentence(self) -> str:
        """What happened."""
        if self.is_back:
            return f"{self.service} is back after {self.away_ms / 1000:.0f} s"
        return f"{self.service} has been away for {self.away_ms / 1000:.0f} s: results wait for it"


def marks_of(reports: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Each service's latest mark, of whichever of its instances: one of them is enough for results.

    reports: the names of instances, and when each has reported
    """
    marks: dict[str, int] = {}
    for instance, wall_ms in reports:
        service = service_of(instance)
        marks[service] = max(wall_ms, marks.get(service, wall_ms))
    return marks


class Absences:
    """Listens to services by a mark in their latest reports, such as the time: a changed mark is a new report."""

    def __init__(self) -> None:
        self._marks: dict[str, object] = {}
        self._heard_ms: dict[str, float] = {}
        self._away: set[str] = set()

    @property
    def away(self) -> frozenset[str]:
        """Services that were reported as away."""
        return frozenset(self._away)

    def take(self, expected: Iterable[str], marks: Mapping[str, object], now_ms: float) -> list[Change]:
        """Look once at the expected services; one that is new among them gets the full time."""
        names = list(expected)
        changes = [change for name in names for change in self._hear(name, marks.get(name), now_ms)]
        self._heard_ms = {name: self._heard_ms[name] for name in names}
        self._marks = {name: self._marks[name] for name in names if name in self._marks}
        self._away &= set(names)
        return changes

    def excuse(self, now_ms: float) -> None:
        """Nobody could be heard: all that are not away yet get the full time again."""
        self._heard_ms |= {name: now_ms for name in self._heard_ms if name not in self._away}

    def _hear(self, name: str, mark: object, now_ms: float) -> list[Change]:
        silent_ms = now_ms - self._heard_ms.setdefault(name, now_ms)
        if mark is not None and mark != self._marks.get(name):
            self._marks[name], self._heard_ms[name] = mark, now_ms
            if name in self._away:
                self._away.remove(name)
                return [Change(name, is_back=True, away_ms=silent_ms)]
        elif silent_ms >= AWAY_MS and name not in self._away:
            self._away.add(name)
            return [Change(name, is_back=False, away_ms=silent_ms)]
        return []
