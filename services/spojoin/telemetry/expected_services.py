"""Finds the services of a query that should run, according to the store, and those that have long been away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spojoin.ports.interfaces import Fields
from spojoin.protocol.grid import Grid, grid_with
from spojoin.protocol.packing import TOGETHER, roles_of
from spojoin.protocol.services import NEEDED, in_order, names, role_of, service_of
from spojoin.protocol.topology import ROLES, Role

#: if no service of a query has reported for this long, the query is over
OVER_MS = 24 * 3_600_000
#: if results don't wait for a service and it has been away for this long, it was removed on purpose
OPTIONAL_MS = 3_600_000

#: roles that know the worker count; the most trusted first, which are those whose records only one instance may write
_FOLLOWERS = [entry.role for entry in sorted(ROLES, key=lambda entry: not entry.shared_writer) if entry.follows_frames]

#: as long as Kubernetes waits for a node, so that a restart in place is not an event
AWAY_MS = 30_000.0


class ServiceReport(NamedTuple):
    """What a service reported about all services. wall_ms: when, ms since 1970.

    inside: how many of the first workers share a process with other roles
    columns: of the workers' grid; 0: all workers are one row; None before the log's first frame
    """

    wall_ms: int
    needs: tuple[str, ...]
    workers: int
    inside: int = 0
    columns: int | None = None

    def fields(self) -> Fields:
        """The fields for the store."""
        return {
            "wall_ms": self.wall_ms,
            "needs": " ".join(self.needs),
            "workers": self.workers,
            "inside": self.inside,
            **({} if self.columns is None else {"columns": self.columns}),
        }


class ExpectedServices(NamedTuple):
    """The services that should run, in the order of the data's flow. seen_ms: when each last reported, or None.

    needed: the services that results wait for
    inside: how many of the first workers share a process with other roles
    grid: of the workers; None before a service knows it
    idle: how many workers fill no row of it
    """

    seen_ms: Mapping[str, int | None]
    needed: frozenset[str]
    inside: int = 0
    grid: Grid | None = None
    idle: int = 0


NOBODY = ExpectedServices({}, frozenset())


def report_of(fields: Mapping[str, str]) -> ServiceReport | None:
    """The report in the store's fields; None if they aren't a report."""
    if not {"wall_ms", "needs", "workers"} <= fields.keys():
        return None
    needs, inside = tuple(fields["needs"].split()), int(fields.get("inside", 0))
    columns = int(fields["columns"]) if "columns" in fields else None
    return ServiceReport(int(fields["wall_ms"]), needs, int(fields["workers"]), inside, columns)


def expected_of(reports: Mapping[str, ServiceReport], wall_ms: int) -> ExpectedServices:
    """The services of one query that should run at a time, by their reports; none if the query is over."""
    if not reports or wall_ms - max(report.wall_ms for report in reports.values()) > OVER_MS:
        return NOBODY
    first = reports[min(reports, key=lambda name: (_rank(name), -reports[name].wall_ms, name))]
    needed = frozenset((*_with_joiners(first.needs, reports), *names(Role.POJOIN, first.workers)[first.inside :]))
    optional = {
        service
        for service, report in reports.items()
        if _may_be_missed(service, needed) and wall_ms - report.wall_ms <= OPTIONAL_MS
    }
    seen = {
        service: reports[service].wall_ms if service in reports else None for service in in_order(needed | optional)
    }
    grid = None if first.columns is None else grid_with(first.workers, first.columns)
    return ExpectedServices(seen, needed, first.inside, grid, 0 if grid is None else first.workers - grid.workers)


def _with_joiners(needs: tuple[str, ...], reports: Mapping[str, ServiceReport]) -> list[str]:
    """The services that results need, with the joiners in the latest joiner's report, if they are separate services."""
    named = [report for name, report in reports.items() if _is_joiner(name)]
    if not named or not any(map(_is_joiner, needs)):
        return list(needs)
    latest = max(named, key=lambda report: report.wall_ms)
    return [*(name for name in needs if not _is_joiner(name)), *filter(_is_joiner, latest.needs)]


def _is_joiner(service: str) -> bool:
    return role_of(service) == Role.MUTABLE


def _may_be_missed(service: str, needed: frozenset[str]) -> bool:
    """Whether a missing service is reported: not one of an earlier packing, nor a surplus worker or joiner."""
    return service_of(service) in needed or not set(roles_of(role_of(service))) & {*NEEDED}


def _rank(service: str) -> int:
    """The rank of a service's report, the most trusted first; if two have the same rank, the later report counts."""
    followers = [role.value for role in _FOLLOWERS]
    role = role_of(service).replace(TOGETHER, Role.ROUTER.value).split("+", maxsplit=1)[0]
    return followers.index(role) if role in followers else len(followers)


class Change(NamedTuple):
    """A service has been away for `AWAY_MS`, or is back after at least that long."""

    service: str
    is_back: bool
    away_ms: float

    @property
    def sentence(self) -> str:
        if self.is_back:
            return f"{self.service} is back after {self.away_ms / 1000:.0f} s"
        return f"{self.service} has been away for {self.away_ms / 1000:.0f} s: results wait for it"


def marks_of(reports: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The latest mark of each service, from any of its instances: results need only one of them.

    reports: instances by name, and when each reported
    """
    marks: dict[str, int] = {}
    for instance, wall_ms in reports:
        service = service_of(instance)
        marks[service] = max(wall_ms, marks.get(service, wall_ms))
    return marks


class Absences:
    """Finds absent services by a mark in their latest reports, such as the time: a new mark means a new report."""

    def __init__(self) -> None:
        self._marks: dict[str, object] = {}
        self._heard_ms: dict[str, float] = {}
        self._away: set[str] = set()

    @property
    def away(self) -> frozenset[str]:
        """Services that were reported as away."""
        return frozenset(self._away)

    def take(self, expected: Iterable[str], marks: Mapping[str, object], now_ms: float) -> list[Change]:
        """Compare the marks of the expected services with the last ones; a newly expected one gets the full time."""
        names = list(expected)
        changes = [change for name in names for change in self._hear(name, marks.get(name), now_ms)]
        self._heard_ms = {name: self._heard_ms[name] for name in names}
        self._marks = {name: self._marks[name] for name in names if name in self._marks}
        self._away &= set(names)
        return changes

    def excuse(self, now_ms: float) -> None:
        """Give all services that aren't away yet the full time again, because no report could be read."""
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
