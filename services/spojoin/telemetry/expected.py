"""Which services of a query should run, by what the store remembers: a lost service must be seen as missing.

Each service leaves a report that does not expire (`expected:<service>`): when it last ran, which services results need
by its settings, and the log's count of PO-Join workers. So any service that runs, or ran when the store was last whole,
names all of them. Only routers write worker counts: their report counts, else that of the next role that reads them.
Joiners alone know how many they are: the latest of their reports counts. A worker beyond the count, or a joiner beyond
the settings, is no longer expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spojoin.ports.interfaces import Fields
from spojoin.protocol.packing import TOGETHER, roles_of
from spojoin.protocol.services import NEEDED, in_order, names, role_of, service_of
from spojoin.protocol.topology import Role

#: a query of which no service has reported for this long is over
OVER_MS = 24 * 3_600_000
#: a service that nothing waits for and that has been away for this long was removed on purpose
OPTIONAL_MS = 3_600_000

#: roles that follow the log, and so its worker count, in the order in which they are believed
_FOLLOWERS = (Role.ROUTER, Role.SINK, Role.MUTABLE, Role.POJOIN, Role.LOGICAL_AND)


class ServiceReport(NamedTuple):
    """What a service reported of all services, and when, ms since 1970.

    inside: how many of the first workers are no services of their own
    """

    wall_ms: int
    needs: tuple[str, ...]
    workers: int
    inside: int = 0

    def fields(self) -> Fields:
        """As the store holds it."""
        return {
            "wall_ms": self.wall_ms,
            "needs": " ".join(self.needs),
            "workers": self.workers,
            "inside": self.inside,
        }


class ExpectedServices(NamedTuple):
    """The services that should run, in the order of the data's flow; `seen_ms` when each last reported, or None.

    needed: those of them that results wait for
    inside: how many of the first workers are no services of their own
    """

    seen_ms: Mapping[str, int | None]
    needed: frozenset[str]
    inside: int = 0


NOBODY = ExpectedServices({}, frozenset())


def report_of(fields: Mapping[str, str]) -> ServiceReport | None:
    """A report as the store holds it; None where the fields are no report."""
    if not {"wall_ms", "needs", "workers"} <= fields.keys():
        return None
    needs, inside = tuple(fields["needs"].split()), int(fields.get("inside", 0))
    return ServiceReport(int(fields["wall_ms"]), needs, int(fields["workers"]), inside)


def expected_of(reports: Mapping[str, ServiceReport], wall_ms: int) -> ExpectedServices:
    """The services that should run at a time, by the reports of one query's services; none where the query is over."""
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
    return ExpectedServices(seen, needed, first.inside)


def _with_joiners(needs: tuple[str, ...], reports: Mapping[str, ServiceReport]) -> list[str]:
    """What results need, with the joiners that the last joiner to report named; where they are processes at all."""
    named = [report for name, report in reports.items() if _is_joiner(name)]
    if not named or not any(map(_is_joiner, needs)):
        return list(needs)
    latest = max(named, key=lambda report: report.wall_ms)
    return [*(name for name in needs if not _is_joiner(name)), *filter(_is_joiner, latest.needs)]


def _is_joiner(service: str) -> bool:
    return role_of(service) == Role.MUTABLE


def _may_be_missed(service: str, needed: frozenset[str]) -> bool:
    """Not the services of an earlier packing, nor surplus workers and joiners; instances of what is needed may be."""
    return service_of(service) in needed or not set(roles_of(role_of(service))) & {*NEEDED}


def _rank(service: str) -> int:
    """How far behind others a service is believed; of two alike the later report counts, of the later packing."""
    followers = [role.value for role in _FOLLOWERS]
    role = role_of(service).replace(TOGETHER, Role.ROUTER.value).split("+", maxsplit=1)[0]
    return followers.index(role) if role in followers else len(followers)
