"""Reads what the services of all queries reported to the store: which should run, counts, and where time went."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from spojoin.ports.interfaces import Store
from spojoin.ports.shared_state import SCHEMA_VERSION
from spojoin.protocol.packing import roles_of
from spojoin.protocol.services import in_order
from spojoin.protocol.topology import Hop, Role
from spojoin.telemetry.expected_services import NOBODY, ExpectedServices, ServiceReport, expected_of, report_of
from spojoin.telemetry.hop import IN_TURN, HopTime, hop_time
from spojoin.telemetry.waiting_input import HeldBy, held_by

_PREFIX = f"spojoin:v{SCHEMA_VERSION}:"

#: The states of a healthy service: it speaks, or waits silently for its turn.
READY, STANDBY = "ready", "standby"
FINE = (READY, STANDBY)

#: a user and a password in an address, before its host or among its parameters
_CREDENTIALS = re.compile(r"(//)\S*(?=@)|((?:password|username)=)[^\s&,;'\"]*", re.IGNORECASE)


class ServiceStatus(NamedTuple):
    """One service's latest report; `age_s` is how old it is.

    `process` is its host and process id. Latencies are over the last minute, NaN except for the sink. `cpu_s` is the
    processor time since the service's start; if the service doesn't report them, it is NaN and `rss_bytes` 0. `tuples`
    and `matches` are also counted since the start. `unanswered_ms` is the age of the oldest row that the service knows
    to have no result, NaN if every row has one; it and `result_frame` are None if the service doesn't report them.
    `hops` are those that the service times. `open_rows` are rows that wait for later partners, the oldest for
    `open_ms`; None if no rows ask, or the service doesn't report them. `held` is the input that rows wait for.
    `refusal` is why the service goes on with another query than the one it was given; empty if it doesn't.
    """

    query: str
    service: str
    role: str
    state: str
    process: str
    metrics: str
    head_frame: int
    result_frame: int | None
    lag: int
    tuples: int
    matches: int
    retries: int
    latency_ms_p50: float
    latency_ms_p99: float
    unanswered_ms: float | None
    uptime_s: float
    age_s: float
    wall_ms: int
    cpu_s: float
    rss_bytes: int
    hops: Mapping[Hop, HopTime]
    open_rows: int | None = None
    open_ms: float | None = None
    held: HeldBy | None = None
    refusal: str = ""


class QueryStatus(NamedTuple):
    """A query's services that report, those that should run, and by name the totals since its log began."""

    query: str
    services: list[ServiceStatus]
    expected: ExpectedServices
    totals: Mapping[str, int]


def read_status(store: Store, wall_ms: int) -> list[QueryStatus]:
    """All queries that are served, or were lately. Raises StoreUnavailable."""
    return statuses_of(store.scan(_PREFIX), wall_ms)


def statuses_of(entries: Mapping[str, Mapping[str, str]], wall_ms: int) -> list[QueryStatus]:
    """All queries that are served, or were lately, according to the store's `entries`."""
    by_query = _by_query(status_rows(entries, wall_ms))
    reports = reports_of(entries)
    found = [
        QueryStatus(
            query,
            by_query.get(query, []),
            expected_of(reports.get(query, {}), wall_ms),
            totals_of(entries.get(f"{_PREFIX}{query}:totals", {})),
        )
        for query in sorted(by_query.keys() | reports.keys())
    ]
    return [each for each in found if each.services or each.expected != NOBODY]


def status_rows(entries: Mapping[str, Mapping[str, str]], wall_ms: int) -> list[ServiceStatus]:
    """The services among the store's `entries`, by query and in the order of the data's flow."""
    found = {(query, name): _row(query, name, fields, wall_ms) for query, name, fields in _of_kind(entries, "status")}
    queries = sorted({query for query, _ in found})
    return [found[query, name] for query in queries for name in in_order(n for q, n in found if q == query)]


def reports_of(entries: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, ServiceReport]]:
    """The reports about which services should run, by query and reporting service."""
    found: dict[str, dict[str, ServiceReport]] = {}
    for query, service, fields in _of_kind(entries, "expected"):
        if (report := report_of(fields)) is not None:
            found.setdefault(query, {})[service] = report
    return found


def totals_of(fields: Mapping[str, str]) -> dict[str, int]:
    """The totals since the log began: rows and refused (router), answered and matches (sink).

    The two report at different moments, but a row that is answered counts as received. Each of several sinks has its
    own field of matches.
    """
    found: dict[str, int] = {}
    for field, value in fields.items():
        name = field.partition(":")[0]
        found[name] = found.get(name, 0) + int(value)
    return found | ({"rows": max(found["rows"], found.get("answered", 0))} if "rows" in found else {})


def unanswered_ms(services: Iterable[ServiceStatus]) -> float | None:
    """The age of the oldest row without a result, 0 if none waits; None if it is unknown.

    Only the router knows rows that no frame holds: without the router, a known age is a lower bound, and a missing age
    means nothing.
    """
    reported = [(row.role, row.unanswered_ms) for row in services if row.unanswered_ms is not None]
    oldest = max((age for _, age in reported if not math.isnan(age)), default=0.0)
    return oldest if oldest > 0 or any(Role.ROUTER in roles_of(role) for role, _ in reported) else None


def open_rows(services: Iterable[ServiceStatus]) -> tuple[int, float] | None:
    """The number of open rows, and for how many ms the oldest has been open; None if no rows ask, or if unknown."""
    known = [(row.open_rows, row.open_ms or 0.0) for row in services if row.open_rows is not None]
    return max(known, default=None, key=lambda found: found[1])


def holder_of(services: Iterable[ServiceStatus]) -> HeldBy | None:
    """The input that rows wait for, as the router reports it."""
    return next((row.held for row in services if row.held is not None), None)


def refusal_of(services: Iterable[ServiceStatus]) -> str:
    """Why another query is served than the given one, from the router that started last; empty if it isn't."""
    routers = (row for row in services if Role.ROUTER in roles_of(row.role))
    found = [(row.wall_ms - 1_000 * row.uptime_s, row.refusal) for row in routers]
    return max(found, default=(0.0, ""))[1]


def without_credentials(text: str) -> str:
    """The sentence without the user and the password of any address, so that it may be shown."""
    return _CREDENTIALS.sub(lambda found: f"{found[1] or found[2]}***", text)


def _of_kind(entries: Mapping[str, Mapping[str, str]], wanted: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """(query, service, fields) of the keys of one kind."""
    for name, fields in entries.items():
        query, kind, *service = name.removeprefix(_PREFIX).split(":")
        if kind == wanted:
            yield query, ":".join(service), fields


def _by_query(rows: Iterable[ServiceStatus]) -> dict[str, list[ServiceStatus]]:
    found: dict[str, list[ServiceStatus]] = {}
    for row in rows:
        found.setdefault(row.query, []).append(row)
    return found


def _row(query: str, service: str, fields: Mapping[str, str], wall_ms: int) -> ServiceStatus:
    def number(name: str) -> int:
        return int(fields.get(name, "0"))

    return ServiceStatus(
        query=query,
        service=service,
        role=fields.get("role", "?"),
        state=without_credentials(fields.get("state", "?")),
        process=f"{fields.get('host', '?')}/{fields.get('pid', '?')}",
        metrics=fields.get("metrics_port", "?"),
        head_frame=number("head_frame"),
        result_frame=number("result_frame") if "result_frame" in fields else None,
        lag=number("lag"),
        tuples=number("tuples"),
        matches=number("matches"),
        retries=number("retries"),
        latency_ms_p50=float(fields.get("latency_ms_p50", "nan")),
        latency_ms_p99=float(fields.get("latency_ms_p99", "nan")),
        unanswered_ms=float(fields["unanswered_ms"]) if "unanswered_ms" in fields else None,
        uptime_s=(number("wall_ms") - number("started_ms")) / 1000,
        age_s=(wall_ms - number("wall_ms")) / 1000,
        wall_ms=number("wall_ms"),
        cpu_s=float(fields.get("cpu_s", "nan")),
        rss_bytes=number("rss_bytes"),
        hops=_hops(fields),
        open_rows=number("open_rows") if "open_rows" in fields else None,
        open_ms=float(fields["open_ms"]) if "open_ms" in fields else None,
        held=held_by(fields),
        refusal=without_credentials(fields.get("refusal", "")),
    )


def _hops(fields: Mapping[str, str]) -> dict[Hop, HopTime]:
    """The times in the fields `hop:<name>`, for the hops that this version knows."""
    return {hop: hop_time(fields[name]) for hop in Hop if (name := f"hop:{hop}") in fields}


class HopRow(NamedTuple):
    """A hop as reported by the slowest of the services that time it, and the number of these services.

    share: its share of the mean time of all consecutive hops; None for a hop that overlaps others
    """

    hop: Hop
    service: str
    services: int
    took: HopTime
    share: float | None


def hop_rows(services: Iterable[ServiceStatus]) -> list[HopRow]:
    """The hops that frames made within the last minute, in the order of `Hop`."""
    found: dict[Hop, list[tuple[HopTime, str]]] = {}
    for each in services:
        for hop, took in each.hops.items():
            if not math.isnan(took.mean_ms):
                found.setdefault(hop, []).append((took, each.service))
    slowest = {hop: max(found[hop]) for hop in Hop if hop in found}
    whole_ms = sum(took.mean_ms for hop, (took, _) in slowest.items() if hop in IN_TURN)
    return [
        HopRow(hop, service, len(found[hop]), took, _share(hop, took, whole_ms))
        for hop, (took, service) in slowest.items()
    ]


def _share(hop: Hop, took: HopTime, whole_ms: float) -> float | None:
    if hop not in IN_TURN:
        return None
    return took.mean_ms / whole_ms if whole_ms else 0.0
